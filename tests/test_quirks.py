"""Any server: each row of the table in the package quirks, against the model client alone."""

from __future__ import annotations

import contextlib
import json

import pytest
from quirks import ROWS, Row
from server import Server, error, says

from brain import Brain, BrainError, ReasoningDelta, Reply, Retrying, TextDelta

QUESTION = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who is there?"}]
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": "A tool.", "parameters": {"type": "object"}},
    }
    for name in ("look", "see")
]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_row(row: Row) -> None:
    """The reply or the kind of failure, the events before it, and a valid request each time."""
    events, error = [], None
    with Server(*row.answers) as server:
        client = Brain(
            api_key="sk-0123456789",
            base_url=server.url,
            model="gpt-9",
            timeout=row.timeout,
            sleep=lambda _: None,
        )
        with contextlib.closing(client):
            try:
                for event in client.stream(QUESTION, TOOLS, 500):
                    events.append(event)  # noqa: PERF402 (those before a failure count, too)
            except BrainError as caught:
                error = caught
    assert server.problems == []
    assert not server.script, "not every answer was asked for"
    assert sum(isinstance(event, Retrying) for event in events) == row.retried
    if row.without:
        assert row.without in server.requests[0].body or row.without == "max_completion_tokens"
        assert row.without not in server.requests[-1].body
    if row.kind:
        assert error is not None, f"no failure, but {events[-1]}"
        assert (error.kind, error.server_limit, error.server_count) == (row.kind, row.limit, row.count)
        assert row.says in error.message
        assert error.message.strip()
        assert error.hint.strip()
        assert not any(isinstance(event, Reply) for event in events)
        return
    assert error is None, f"{error.kind}: {error.message}" if error else ""
    reply = events[-1]
    assert isinstance(reply, Reply)
    check_reply(row, reply)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == reply.text
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == (reply.reasoning or "")
    assert all(event.text for event in events if isinstance(event, TextDelta | ReasoningDelta))


def check_reply(row: Row, reply: Reply) -> None:
    """The contents the row promises, and what every reply promises the context."""
    called = [
        (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in reply.tool_calls
    ]
    assert (reply.text, called, reply.reasoning) == (row.text, list(row.calls), row.reasoning)
    assert row.usage == "any" or reply.usage == row.usage
    assert row.finish in ("", reply.finish_reason)
    ids = [call["id"] for call in reply.tool_calls]
    assert len(set(ids)) == len(ids)
    for call in reply.tool_calls:
        assert call.keys() == {"id", "type", "function"}
        assert isinstance(call["id"], str)
        assert call["id"].strip()
    json.dumps([reply.text, reply.reasoning, reply.tool_calls], ensure_ascii=False).encode()


def test_what_a_server_refuses_is_remembered_for_it_and_its_model() -> None:
    """Asked again without, once; later requests leave it out at once; another model gets it again."""
    row = next(row for row in ROWS if row.name == "tools: Ollama")
    with Server(*row.answers, row.answers[-1], row.answers[-1]) as server:
        client = Brain(api_key="", base_url=server.url, model="gemma:2b")
        with contextlib.closing(client):
            told = [event for event in client.stream(QUESTION, TOOLS) if isinstance(event, Retrying)]
            client.chat(QUESTION, TOOLS)
            client.model = "qwen3"
            client.chat(QUESTION, TOOLS)
    assert told == [Retrying("the server does not accept tools; asked again without", 0.0)]
    assert ["tools" in request.body for request in server.requests] == [True, False, False, True]
    assert server.problems == []


REASONED = [
    *QUESTION,
    {"role": "assistant", "content": "Ada.", "reasoning_content": "Who else?"},
    {"role": "user", "content": "And now?"},
]


def test_a_server_that_wants_reasoning_back_is_recognized() -> None:
    """DeepSeek: the agent then sends it along. The wording is its own."""
    wanted = error(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
    with Server(wanted, error(400, "Bad grammar")) as server:
        client = Brain(api_key="", base_url=server.url, model="deepseek-v4")
        with contextlib.closing(client):
            for needs in (True, False):
                with pytest.raises(BrainError) as caught:
                    client.chat(QUESTION)
                assert (caught.value.kind, caught.value.needs_reasoning) == ("bad_request", needs)


def test_reasoning_goes_back_to_a_server_that_takes_it_and_to_no_other() -> None:
    """After /model, the next server may refuse the field that the last one demanded."""
    refused = error(
        400, "'messages.2' : for 'role:assistant' the property 'reasoning_content' is unsupported"
    )
    with Server(says("Yes."), refused, says("Yes."), says("Yes."), reasoning=True) as server:
        client = Brain(api_key="", base_url=server.url, model="deepseek-v4")
        with contextlib.closing(client):
            client.chat(REASONED)
            client.model = "llama-3"
            client.chat(REASONED)
            client.chat(REASONED)
    assert ["reasoning_content" in request.body["messages"][2] for request in server.requests] == [
        *[True, True],
        *[False, False],
    ]
    assert server.problems == []


def test_a_limit_goes_by_the_other_name_from_then_on() -> None:
    row = next(row for row in ROWS if row.name == "max_tokens")
    with Server(*row.answers, row.answers[-1]) as server:
        client = Brain(api_key="", base_url=server.url, model="o3")
        with contextlib.closing(client):
            client.chat(QUESTION, max_tokens=77)
            client.chat(QUESTION, max_tokens=77)
    limits = [
        {key: value for key, value in request.body.items() if key.startswith("max")}
        for request in server.requests
    ]
    assert limits == [{"max_tokens": 77}, {"max_completion_tokens": 77}, {"max_completion_tokens": 77}]
