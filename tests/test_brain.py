"""The model client over real HTTP: requests, replies, retries, what never happens, and the double.

Where it connects to is in test_endpoint.py, the table of server quirks in test_quirks.py, the wording of
errors in test_failures.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import HELLO, KEY, TOOLS, brain, failure
from server import CUT, HOLD, RESET, Answer, Server, delta, error, event, message, plain, says, stream

from brain import BrainError, ReasoningDelta, Reply, Retrying, ScriptedBrain, TextDelta, Usage


@pytest.fixture
def server() -> Iterator[Server]:
    """A server whose every request must have been valid."""
    with Server() as server:
        yield server
    assert server.problems == []


# ------------------------------------------------------------------------------------ a reply


def test_a_streamed_reply(server: Server) -> None:
    """Text arrives in pieces, and the last event is the whole reply with its usage."""
    server.play(says("Hello, Ada.", prompt=12, completion=4))
    with brain(server) as (client, _):
        events = list(client.stream(HELLO))
    assert events == [
        TextDelta("Hello"),
        TextDelta(", Ada."),
        Reply("Hello, Ada.", [], Usage(12, 4), "stop", None),
    ]


def test_chat_is_the_same_run_to_its_reply(server: Server) -> None:
    server.play(says("Yes."))
    with brain(server) as (client, _):
        assert client.chat(HELLO).text == "Yes."


def test_the_request_has_what_is_needed_and_nothing_else(server: Server) -> None:
    server.play(says("Yes."))
    with brain(server) as (client, _):
        client.chat(HELLO)
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].body == {
        "model": "gpt-4o-mini",
        "messages": HELLO,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_tools_and_a_limit_go_along_when_they_are_given(server: Server) -> None:
    server.play(says("Yes."), says("Yes."))
    with brain(server) as (client, _):
        client.chat(HELLO, TOOLS, 100)
        client.chat(HELLO, [])  # an empty list is refused by OpenAI
    assert (server.requests[0].body["tools"], server.requests[0].body["max_tokens"]) == (TOOLS, 100)
    assert server.requests[1].body.keys() == {"model", "messages", "stream", "stream_options"}


def test_the_model_may_be_changed_at_any_time(server: Server) -> None:
    server.play(says("Yes."), says("Yes."))
    with brain(server) as (client, _):
        client.chat(HELLO)
        client.model = "another"
        client.chat(HELLO)
    assert [request.body["model"] for request in server.requests] == ["gpt-4o-mini", "another"]


def test_without_a_key_no_authorization_is_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local servers want none, and a key for another service must not slip in from the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    server.play(says("Yes."))
    with brain(server, api_key="") as (client, _):
        client.chat(HELLO)
    assert "authorization" not in server.requests[0].headers
    assert "sk-" not in str(server.requests[0].headers)


def test_a_megabyte_of_text_goes_out_whole(server: Server) -> None:
    server.play(says("Long."))
    text = "wide world " * 95_000
    with brain(server) as (client, _):
        client.chat([HELLO[0], {"role": "user", "content": text}])
    assert server.requests[0].body["messages"][1]["content"] == text


def test_every_request_has_its_own_connection(server: Server) -> None:
    """llama.cpp closes a kept one after a stream, sometimes just when the next request is on its way."""
    server.play(says("Yes."), plain(message("Yes.")), says("Yes."))
    with brain(server) as (client, _):
        for _ in range(3):
            client.chat(HELLO)
    assert server.connections == 3


# ------------------------------------------------------------------------------------ retries


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_passing_trouble_is_tried_again_in_sight(server: Server, status: int) -> None:
    server.play(error(status), error(status), says("At last."))
    with brain(server) as (client, waits):
        events = list(client.stream(HELLO))
    assert waits == [1.0, 2.0]
    assert [type(event) for event in events] == [Retrying, Retrying, TextDelta, TextDelta, Reply]
    assert [event.delay for event in events if isinstance(event, Retrying)] == waits


def test_after_three_tries_it_gives_up_and_says_so(server: Server) -> None:
    server.play(error(500), error(500), error(500))
    with brain(server) as (client, waits):
        reported = failure(client)
    assert (reported.kind, reported.status, len(waits)) == ("server", 500, 2)
    assert "3 tries" in reported.message


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 422])
def test_a_lasting_trouble_is_not_tried_again(server: Server, status: int) -> None:
    server.play(error(status))
    with brain(server) as (client, waits):
        failure(client)
    assert waits == []
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        pytest.param([("Retry-After", "7")], 7.0, id="seconds"),
        pytest.param([("Retry-After", "0.5")], 0.5, id="fraction"),
        pytest.param([("Retry-After", "0")], 0.0, id="zero"),
        pytest.param([("retry-after-ms", "1500"), ("Retry-After", "9")], 1.5, id="milliseconds"),
        pytest.param(
            [
                ("Date", "Wed, 21 Oct 2015 07:28:00 GMT"),
                ("Retry-After", "Wed, 21 Oct 2015 07:28:20 GMT"),
            ],
            20.0,
            id="date, by the clock of the server",
        ),
        pytest.param([("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT")], 0.0, id="date in the past"),
        pytest.param([("Retry-After", "-5")], 1.0, id="negative"),
        pytest.param([("Retry-After", "soon")], 1.0, id="a word"),
        pytest.param([("Retry-After", "nan")], 1.0, id="nan"),
        pytest.param([("Retry-After", "Wed, 99 Foo 2015 07:28:00 GMT")], 1.0, id="no date"),
        pytest.param([("Retry-After", "")], 1.0, id="empty"),
    ],
)
def test_retry_after_is_honored(server: Server, headers: list[tuple[str, str]], wait: float) -> None:
    server.play(error(429, headers=headers), says("Yes."))
    with brain(server) as (client, waits):
        events = list(client.stream(HELLO))
    assert waits == [wait]
    assert events[0] == Retrying("rate limited", wait)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("61", "61 s"),
        ("3600", "60 minutes"),
        ("9" * 400, "many hours"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "hours"),
    ],
    ids=["a minute and a bit", "an hour", "absurd", "date far away"],
)
def test_a_wait_that_nobody_sits_out_is_told_instead(server: Server, value: str, named: str) -> None:
    server.play(error(429, headers=[("Retry-After", value)]))
    with brain(server) as (client, waits):
        reported = failure(client)
    assert waits == []
    assert reported.kind == "rate_limit"
    assert named in reported.message


def test_the_waits_of_one_request_have_a_limit_together(server: Server) -> None:
    patient = error(503, headers=[("Retry-After", "40")])
    server.play(patient, patient)
    with brain(server) as (client, waits):
        reported = failure(client)
    assert waits == [40.0]
    assert (reported.kind, reported.status) == ("server", 503)


def test_a_used_up_quota_is_not_tried_again(server: Server) -> None:
    """A 429 like a rate limit, but waiting does not help."""
    server.play(
        error(429, "You exceeded your current quota.", code="insufficient_quota", type="insufficient_quota")
    )
    with brain(server) as (client, waits):
        assert failure(client).kind == "quota"
    assert waits == []


def test_a_wait_can_be_interrupted(server: Server) -> None:
    """Ctrl-C while it waits stops the waiting; nothing more is sent."""

    def stopped(_: float) -> None:
        raise KeyboardInterrupt

    server.play(error(429))
    with brain(server, sleep=stopped) as (client, _), pytest.raises(KeyboardInterrupt):
        client.chat(HELLO)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(delta("Hel"), id="text"),
        pytest.param(delta(reasoning_content="Hmm"), id="reasoning"),
        pytest.param(
            delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "clock"}}]), id="tool call"
        ),
    ],
)
@pytest.mark.parametrize("end", [RESET, CUT, event({"error": {"message": "Overloaded", "code": 503}})])
def test_nothing_is_sent_again_once_a_piece_has_come(server: Server, begun: Any, end: Any) -> None:
    """What was shown cannot be taken back, and it was billed."""
    server.play(stream(begun, end))
    with brain(server) as (client, waits):
        failure(client)
    assert waits == []
    assert len(server.requests) == 1


@pytest.mark.parametrize("end", [RESET, CUT, b""], ids=["reset", "cut", "ended in silence"])
def test_a_stream_that_breaks_before_the_first_piece_is_tried_again(server: Server, end: Any) -> None:
    server.play(stream(delta("", role="assistant"), end, done=False), says("Yes."))
    with brain(server) as (client, waits):
        assert client.chat(HELLO).text == "Yes."
    assert waits == [1.0]


def test_a_connection_that_breaks_after_the_end_costs_nothing(server: Server) -> None:
    """The finish reason had come: the reply is whole, usage or not."""
    server.play(stream(delta("Yes."), delta(finish="stop"), RESET))
    with brain(server) as (client, _):
        assert client.chat(HELLO).text == "Yes."


# ------------------------------------------------------------------------------------ timeouts


def test_a_server_that_says_nothing_is_a_timeout_and_not_asked_again(server: Server) -> None:
    """It may still be working on the first request; the setting to change is named."""
    server.play(Answer(200, [HOLD]))
    with brain(server, timeout=0.2) as (client, waits):
        reported = failure(client)
    assert (reported.kind, waits) == ("timeout", [])
    assert "0.2 s" in reported.message
    assert "OPENAI_TIMEOUT" in reported.hint


def test_a_stall_in_mid_stream_is_a_timeout(server: Server) -> None:
    server.play(stream(delta("Hel"), HOLD))
    with brain(server, timeout=0.2) as (client, _):
        reported = failure(client)
    assert reported.kind == "timeout"
    assert server.left.wait(10)


def test_a_slow_stream_is_no_timeout(server: Server) -> None:
    """The limit is for the time between two bytes: here the whole takes longer than it."""
    server.play(
        stream(b": thinking\n\n", 0.4, delta("Slow."), 0.4, b": thinking\n\n", 0.4, delta(finish="stop"))
    )
    with brain(server, timeout=1.0) as (client, _):
        assert client.chat(HELLO).text == "Slow."


# ------------------------------------------------------------------------------------ interrupting


def test_ctrl_c_in_mid_stream_passes_through_and_the_server_is_told(server: Server) -> None:
    """The interrupt reaches the main thread while it waits for the network, as from a terminal."""
    if not hasattr(signal, "pthread_kill") or threading.current_thread() is not threading.main_thread():
        pytest.skip("needs a signal to the main thread")
    server.play(stream(delta("Hel"), HOLD))
    main = threading.get_ident()
    shown = threading.Event()

    def interrupt() -> None:
        shown.wait(10)
        signal.pthread_kill(main, signal.SIGINT)

    # A process that was started in the background begins with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    got = []
    with brain(server) as (client, waits):
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (where in the loop it comes is up to the system)
            for item in client.stream(HELLO):
                got.append(item)
                shown.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
        assert server.left.wait(10), "the connection is still open"
        assert (got, waits) == ([TextDelta("Hel")], [])
        server.play(says("Again."))
        assert client.chat(HELLO).text == "Again."


def test_closing_the_iterator_closes_the_connection(server: Server) -> None:
    server.play(stream(delta("Hel"), HOLD))
    with brain(server) as (client, _):
        events = client.stream(HELLO)
        assert next(events) == TextDelta("Hel")
        events.close()  # type: ignore[attr-defined]  # a generator, which the protocol does not promise
        assert server.left.wait(10), "the connection is still open"


# ------------------------------------------------------------------------------------ starting


def test_importing_brain_does_not_import_the_sdk() -> None:
    """The prompt must be there before the 0.7 s that `import openai` takes."""
    code = "import brain, sys; sys.exit(' '.join({'openai', 'httpx2', 'pydantic'} & sys.modules.keys()) or 0)"
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_warming_up_needs_no_network_and_may_be_done_twice_at_once(server: Server) -> None:
    server.play(says("Warm."))
    with brain(server) as (client, _):
        threads = [threading.Thread(target=client.warm_up) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert client.chat(HELLO).text == "Warm."
        for thread in threads:
            thread.join()
    assert len(server.requests) == 1


def test_a_closed_brain_opens_again(server: Server) -> None:
    server.play(says("One."), says("Two."))
    with brain(server) as (client, _):
        client.chat(HELLO)
        client.close()
        assert client.chat(HELLO).text == "Two."


def test_the_environment_adds_nothing_to_the_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK reads OPENAI_BASE_URL by itself; the setting that was given counts."""
    monkeypatch.setitem(os.environ, "OPENAI_BASE_URL", "http://127.0.0.1:1/elsewhere")
    server.play(says("Yes."))
    with brain(server) as (client, _):
        assert client.chat(HELLO).text == "Yes."


# ------------------------------------------------------------------------------------ the double

CALL = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}


def test_the_double_plays_its_script_and_remembers_what_it_was_asked() -> None:
    payload = [dict(message) for message in HELLO]
    asked = ScriptedBrain(
        Reply("Yes.", [CALL], Usage(1, 2), "stop", "Hmm."),
        "Short.",
        [TextDelta("Hel"), Retrying("server busy", 1.0), BrainError("server", "It failed.", "Wait.")],
        BrainError("auth", "No key.", "Set one."),
        [TextDelta("Hel"), KeyboardInterrupt()],
    )
    events = list(asked.stream(payload, TOOLS, 50))
    assert events == [
        ReasoningDelta("Hmm."),
        TextDelta("Yes."),
        Reply("Yes.", [CALL], Usage(1, 2), "stop", "Hmm."),
    ]
    payload[1]["content"] = "changed later"
    assert asked.requests[0] == (HELLO, TOOLS, 50)
    assert asked.chat(payload) == Reply("Short.", [], None, "stop")
    played = asked.stream(payload)
    assert [next(played), next(played)] == [TextDelta("Hel"), Retrying("server busy", 1.0)]
    with pytest.raises(BrainError, match="It failed"):
        next(played)
    with pytest.raises(BrainError, match="No key"):
        asked.chat(payload)
    with pytest.raises(KeyboardInterrupt):
        asked.chat(payload)
    with pytest.raises(AssertionError, match="request 6"):
        asked.chat(payload)
