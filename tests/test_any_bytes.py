"""Whatever bytes a server sends, what comes out is a reply that fits the contract, or one `BrainError`.

Hypothesis plays the server: bytes split anywhere, and chunks with every field of every type.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from server import schema_problems

import server_errors
import wire
from assembly import Assembly, ReasoningDelta, Reply, TextDelta
from failures import BrainError, where

TEXTS = st.sampled_from(
    [
        "",
        " ",
        "\n",
        "Hi",
        "<think>",
        "</think>",
        "<thi",
        "nk>",
        "\ud83d",
        "\ude00",
        "é",
        "{}",
        '{"a":',
        "1}",
        "null",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.just(1.5) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["text", "name"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these fields, each mostly of its own type and now and then of any other."""
    return st.fixed_dictionaries({}, optional={name: mostly(field) for name, field in fields.items()})


def mostly(field: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(field, field, field, field, ANYTHING)


IDS = st.sampled_from(["", "c1", "c2"])
CALLS = st.lists(
    maybe(
        index=st.integers(0, 2),
        id=IDS,
        function=maybe(name=st.sampled_from(["look", "see", "lo ok", ""]), arguments=TEXTS),
    ),
    max_size=2,
)
DELTAS = maybe(
    content=TEXTS,
    reasoning=TEXTS,
    reasoning_content=TEXTS,
    tool_calls=CALLS,
    function_call=maybe(name=st.just("look"), arguments=TEXTS),
)
FINISH = st.sampled_from(["", "", "stop", "length", "tool_calls", "eos"])
CHOICES = st.lists(
    st.builds(dict, maybe(index=st.just(0), finish_reason=FINISH), delta=mostly(DELTAS)),
    min_size=1,
    max_size=2,
)
USAGE = maybe(prompt_tokens=st.integers(), completion_tokens=st.integers())
CHUNKS = st.lists(st.builds(dict, maybe(usage=USAGE), choices=mostly(CHOICES)), min_size=1, max_size=6)


@given(CHUNKS)
def test_any_chunks_make_a_reply_that_fits_or_a_failure(chunks: list[dict[str, Any]]) -> None:
    """The events add up to the reply, and the reply can be part of the next payload."""
    assembly = Assembly()
    events = [event for chunk in chunks for event in assembly.add(chunk)]
    assembly.complete = True
    events += assembly.close()
    try:
        reply = assembly.reply()
    except BrainError:
        return
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == reply.text
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == (reply.reasoning or "")
    assert assembly.started
    assert schema_problems(next_payload(reply)) == []


def next_payload(reply: Reply) -> dict[str, Any]:
    """What is sent after this reply."""
    said: dict[str, Any] = {"role": "assistant", "content": reply.text}
    after: list[dict[str, Any]] = [{"role": "user", "content": "And now?"}]
    if reply.tool_calls:
        said["tool_calls"] = reply.tool_calls
        after = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in reply.tool_calls]
    start = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
    return {"model": "gpt-9", "messages": [*start, said, *after]}


LINES = st.sampled_from(
    [
        "data: ",
        'data: {"choices": []}',
        '{"a": "ü\u2028😀"}',
        "data: [DONE]",
        "event: error",
        "error: x",
        ": hm",
        "{",
        "<html>",
        "\ufeff",
        "",
    ]
)
BODIES = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\r\n\r\n", ""])), max_size=6)


def read(pieces: list[bytes]) -> list[Any]:
    """The events, and at the end the failure if there is one."""
    found: list[Any] = []
    try:
        for event in wire.events(pieces):
            found.append(event)  # noqa: PERF402 (those before a failure count, too)
    except BrainError as error:
        found.append((error.kind, error.message))
    return found


@given(BODIES, st.lists(st.integers(0, 200)))
def test_how_a_body_is_split_changes_nothing(body: list[tuple[str, str]], cuts: list[int]) -> None:
    whole = "".join(line + end for line, end in body).encode()
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    split = [whole[start:end] for start, end in pairwise(places)]
    assert read(split) == read([whole])


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    read([body])
    read([b"data: ", body, b"\n\n"])


@given(st.sampled_from([200, 302, 400, 401, 404, 413, 422, 429, 500, 503]), ANYTHING | st.binary(max_size=40))
def test_any_error_body_is_explained(status: int, body: object) -> None:
    """In one sentence, whatever the server wrote; as JSON, too."""
    at = where("http://127.0.0.1:1/v1", "gpt-9", 60, 10, has_key=True)
    for content in (
        body,
        {"error": body},
        json.dumps(body).encode() if not isinstance(body, bytes) else body,
    ):
        error = server_errors.from_response(status, {}, content, at)
        assert error.message.strip()
        assert "\n" not in error.message
        assert "None" not in error.message
