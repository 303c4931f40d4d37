"""How a reply ends, or does not."""

from __future__ import annotations

from server import CUT, HOLD, RESET, Answer, calls, delta, piece, says, stream

from quirks.row import OK, lines, row, whole

ENDS = [
    row("length", whole(delta(OK), finish="length"), finish="length"),
    row("length by another name", whole(delta(OK), finish="MAX_TOKENS"), finish="length"),  # Gemini
    row(
        "length in mid-call",
        whole(delta(OK), calls(piece('{"a": 1', id="c1", name="look")), finish="length"),
        finish="length",
    ),
    row(
        "length after a whole call",
        whole(delta(OK), calls(piece("{}", id="c1", name="look")), finish="length"),
        finish="length",
    ),
    row(
        "length before any text",
        whole(calls(piece('{"a": 1', id="c1", name="look")), finish="length"),
        kind="empty",
        says="limit",
    ),
    row("length in the reasoning", whole(delta(reasoning="Hm"), finish="length"), kind="empty", says="limit"),
    row("content_filter", whole(delta("Well"), finish="content_filter"), kind="filtered"),
    row("content_filter at once", whole(finish="content_filter"), kind="filtered"),
    row("unknown reason", whole(delta(OK), finish="eos"), finish="eos"),
    row(
        "reason empty until the end",
        stream({**delta("Hello", finish="")}, delta(", Ada.", finish="stop")),
        finish="stop",
    ),  # old Ollama
    row(
        "a reason in every chunk",
        stream(delta("Hello", finish="stop"), delta(", Ada.", finish="stop")),
        finish="stop",
    ),  # old LiteLLM
    row("reason error", whole(delta("Hel"), finish="error"), kind="server"),  # OpenRouter
    row("no reason, but [DONE]", stream(delta(OK)), finish="stop"),
    row(
        "no reason, but [DONE], with calls",
        stream(calls(piece("{}", id="c1", name="look"))),
        text="",
        calls=[("look", {})],
        finish="tool_calls",
    ),
    row("no reason and no [DONE]", stream(delta("Hel"), done=False), kind="interrupted"),
    row(
        "call cut in silence",
        stream(calls(piece("{}", id="c1", name="look")), done=False),
        kind="interrupted",
    ),
    row("reason empty, and no [DONE]", stream(delta("Hel", finish=""), done=False), kind="interrupted"),
    row("cut off", stream(delta("Hel"), CUT), kind="connection"),
    row("cut inside an event", stream(delta("Hel"), b'data: {"choi', done=False), kind="interrupted"),
    row("reset", stream(delta("Hel"), RESET), kind="connection"),
    row("stalled", stream(delta("Hel"), HOLD), kind="timeout", timeout=0.2),
    row("stalled before anything", Answer(200, [HOLD]), kind="timeout", timeout=0.2),
    row("stalled after the end", stream(delta(OK), delta(finish="stop"), HOLD), timeout=1.0),
    row("stalled after [DONE]", stream(delta(OK), "[DONE]", HOLD), timeout=1.0),
    row("cut, then whole", stream(CUT), says(OK), retried=1),
    row("bad JSON", stream(delta("Hel"), '{"choices": [{'), kind="server"),
    row("bad JSON at once", *[stream("oops")] * 3, kind="server", retried=2),
    row("JSON that is no object", stream("7"), kind="server"),
    row("deep JSON", *[stream("[" * 100_000)] * 3, kind="server", retried=2),
    row(
        "error object",
        stream(delta("Hel"), {"error": {"message": "GPU on fire", "code": 500}}),
        kind="server",
        says="GPU on fire",
    ),
    row("error as text", stream(delta("Hel"), {"error": "GPU on fire"}), kind="server", says="GPU on fire"),
    row(
        "error without a code",
        stream({"error": {"message": "GPU on fire"}}),
        kind="server",
        says="GPU on fire",
    ),
    row(
        "error object of vLLM",
        stream({"object": "error", "message": "No such luck", "code": 400}),
        kind="bad_request",
        says="No such luck",
    ),
    row(
        "error event",
        lines('event: error\ndata: {"message": "GPU on fire"}\n\n'),
        kind="server",
        says="GPU on fire",
    ),
    row(
        "error event in words",
        lines("event: error\ndata: GPU on fire\n\n"),
        kind="server",
        says="GPU on fire",
    ),
    row(
        "error line",
        lines('error: {"code": 400, "message": "Bad grammar"}\n\n'),
        kind="bad_request",
        says="Bad grammar",
    ),  # llama.cpp
    row(
        "error that is a rate limit",
        stream({"error": {"message": "Slow down", "code": 429}}),
        says(OK),
        retried=1,
    ),
    row(
        "error that is an overload",
        stream({"error": {"type": "overloaded_error", "message": "Overloaded"}}),
        says(OK),
        retried=1,
    ),
    row(
        "error in a list", stream('[{"error": {"code": 429, "message": "Slow down"}}]'), says(OK), retried=1
    ),  # Gemini
    row(
        "context too long, in the stream",
        stream({"error": {"message": "the request exceeds the available context size", "code": 500}}),
        kind="context_length",
    ),
]
