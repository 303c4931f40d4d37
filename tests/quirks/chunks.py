"""What is in a chunk: choices, deltas, content and usage."""

from __future__ import annotations

from server import chunk, delta, says, stream, usage

from brain import Usage
from quirks.row import OK, row, whole

CHUNKS = [
    row("as OpenAI sends it", says(OK, prompt=12, completion=4), usage=Usage(12, 4), finish="stop"),
    row("no choices first", whole(chunk(choices=[], prompt_filter_results=[]), delta(OK))),  # Azure
    row("no choices last", whole(delta(OK), chunk(choices=[], usage=usage(12, 4))), usage=Usage(12, 4)),
    row("choices: null", whole(chunk(choices=None), delta(OK), chunk(choices=None))),
    row("choices missing", whole(chunk(), delta(OK), chunk(ping=1))),
    row("choices is an object", whole(chunk(choices={"delta": {"content": OK}}))),
    row("choices of nonsense", whole(chunk(choices=[None, 1, "x", []]), delta(OK))),
    row("delta: null", whole(chunk(choices=[{"index": 0, "delta": None}]), delta(OK))),
    row("delta missing", whole(chunk(choices=[{"index": 0}]), delta(OK))),
    row("no index", stream(chunk(choices=[{"delta": {"content": OK}, "finish_reason": "stop"}]))),
    row(
        "two choices in one chunk",
        stream(chunk(choices=[delta("No", index=1)["choices"][0], delta(OK, finish="stop")["choices"][0]])),
    ),
    row(
        "two choices in turn",
        stream(
            delta("No", index=1),
            delta("Hello"),
            delta("pe", index=1, finish="stop"),
            delta(", Ada.", finish="stop"),
        ),
    ),
    row("usage missing", whole(delta(OK)), usage=None),
    row("usage null in every chunk", stream({**delta(OK, finish="stop"), "usage": None}), usage=None),
    row("usage zero", whole(delta(OK), chunk(choices=[], usage=usage(0, 0))), usage=None),
    row("usage negative", whole(delta(OK), chunk(choices=[], usage=usage(-7, 3))), usage=None),
    row("usage as text", whole(delta(OK), chunk(choices=[], usage=usage("many", "few"))), usage=None),
    row("usage is a list", whole(delta(OK), chunk(choices=[], usage=[1])), usage=None),
    row("usage empty", whole({**delta(OK), "usage": {}}), usage=None),  # LiteLLM
    row("usage without completion", whole(delta(OK), chunk(usage={"prompt_tokens": 8})), usage=Usage(8, 0)),
    row(
        "usage growing in every chunk",
        stream(
            {**delta("Hello"), "usage": usage(9, 1)}, {**delta(", Ada.", finish="stop"), "usage": usage(9, 4)}
        ),
        usage=Usage(9, 4),
    ),
    row(
        "usage zero after a real one",
        whole({**delta(OK), "usage": usage(9, 4)}, chunk(usage=usage(0, 0))),
        usage=Usage(9, 4),
    ),
    row(
        "usage in the choice",  # Moonshot
        stream(chunk(choices=[{**delta(OK, finish="stop")["choices"][0], "usage": usage(9, 4)}])),
        usage=Usage(9, 4),
    ),
    row(
        "content null throughout",
        whole(delta(content=None, role="assistant"), delta(content=None)),
        kind="empty",
    ),
    row("empty reply", whole(delta("")), kind="empty"),
    row("nothing but blanks", whole(delta("\n \n")), kind="empty"),
    row("error: null in a chunk", whole({**delta(OK), "error": None})),  # Foundry Local
    row("refusal", whole(delta(refusal="I can't help with that.")), text="I can't help with that."),
    row(
        "content in parts",
        whole(delta([{"type": "text", "text": "Hello"}, {"type": "text", "text": ", Ada."}])),
    ),  # type: ignore[arg-type]  # Mistral
    row("content is a number", whole(delta(7), delta(OK))),  # type: ignore[arg-type]  # nonsense, on purpose
]
