"""Any server: nothing an endpoint does can break the conversation.

Each row of the table in the package quirks is one turn of a conversation. Whatever comes of it, the context
is left valid, a failed turn is gone without a trace, and the server accepts the next request.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from quirks import ROWS, Row
from quirks.row import OK
from server import Server, error, says, schema_problems

from agent import Agent, Done, Event, Failed, Notice, Retrying, ToolFinished
from brain import Brain
from context import ContextManager
from history import ChatHistory
from tools import ToolRegistry, tool

AFTER = "After the tools."
BUDGET = 8000


@tool(needs_approval=False)
def look(at: str = "around", q: str = "") -> str:
    """Looks at something."""
    return f"You see {at}{q}."


@tool(needs_approval=False)
def see(n: int = 1) -> str:
    """Counts what is seen."""
    return "one, " * n


def registry() -> ToolRegistry:
    tools = ToolRegistry()
    for function in (look, see):
        tools.register(function)
    return tools


@contextlib.contextmanager
def talking(server: Server, context: ContextManager, timeout: float = 5.0) -> Iterator[Agent]:
    brain = Brain(
        api_key="sk-0123456789",
        base_url=server.url,
        model="gpt-9",
        timeout=timeout,
        sleep=lambda _: None,
    )
    with closing(brain):
        yield Agent(context, brain, registry(), max_tokens=500)


def turn(agent: Agent, question: str) -> list[Event]:
    with closing(agent.run_turn(question)) as events:  # type: ignore[type-var]  # a generator
        return list(events)


def played(row: Row) -> Row:
    """The row as the agent meets it: it asks on after tools, and again after shortening the conversation."""
    if row.calls:
        return replace(row, answers=[*row.answers, says(AFTER)], text=AFTER)
    if row.kind == "context_length":
        return replace(row, answers=[*row.answers, says(OK)], kind="")
    return row


def outcome(events: list[Event]) -> tuple[str, str]:
    """(kind of failure, answer), one of them empty."""
    last = events[-1]
    assert isinstance(last, Done | Failed)
    assert not any(isinstance(event, Done | Failed) for event in events[:-1])
    return (last.kind, "") if isinstance(last, Failed) else ("", last.text)


def filler(number: int) -> str:
    return f"Question {number}: " + "tell me about the sea, please, " * 20


def state(context: ContextManager) -> str:
    """All that a failed turn must leave as it was."""
    # Not the count: tools that the server refuses are counted no more, whatever became of the turn.
    seen = [context.messages, list(context.transcript()), context.correction, context.compact_count]
    return json.dumps([*seen, context.turn_count, context.summary])


def check(context: ContextManager, server: Server) -> None:
    """Between turns: nothing open, one more question makes a valid payload, and so was every request."""
    assert server.problems == []
    assert not context.is_open
    context.append_user("And now?")
    payload = context.build_for_llm()
    assert context.rollback_last_user() == "And now?"
    assert schema_problems({"model": "gpt-9", "messages": payload}) == []


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_row_in_a_conversation(row: Row) -> None:
    """Five turns, the row, one more turn: the row ends as it should, and the conversation goes on.

    Where it was too long for the server, the budget goes down, once, and the person is told.
    """
    before = [says(f"Answer {number}.") for number in range(5)]
    shortened = row.kind == "context_length"
    row = played(row)
    context = ContextManager("Be brief.", BUDGET, "gpt-4o-mini")
    with Server(*before) as server, talking(server, context, row.timeout) as agent:
        for number in range(5):
            assert outcome(turn(agent, filler(number))) == ("", f"Answer {number}.")
        kept = state(context)
        server.play(*row.answers)
        events = turn(agent, "Who is there?")
        assert outcome(events) == (row.kind, "" if row.kind else row.text)
        assert not server.script, "not every answer was asked for"
        assert sum(isinstance(event, Retrying) for event in events) == row.retried
        finished = [event for event in events if isinstance(event, ToolFinished)]
        assert [event.name for event in finished] == [name for name, _ in row.calls]
        for event, (name, arguments) in zip(finished, row.calls, strict=True):
            assert event.ok == (name in ("look", "see") and "_invalid" not in arguments)
        if shortened:
            assert context.token_budget < BUDGET
            notices = [event.text for event in events if isinstance(event, Notice)]
            assert [f"{context.token_budget:,}" in text for text in notices] == [True]
        if row.kind:
            assert state(context) == kept
            assert events[-1].text == "Who is there?"  # type: ignore[union-attr]  # Failed, as was checked
        check(context, server)
        server.play(says("And on."))
        assert outcome(turn(agent, "And now?")) == ("", "And on.")
        assert server.problems == []


def test_reasoning_is_sent_back_only_on_demand() -> None:
    """DeepSeek demands it with tool calls. The agent sends it along from then on, and never before."""
    thinking = next(row for row in ROWS if row.name == "reasoning, then a call")
    wanted = "The `reasoning_content` in the thinking mode must be passed back to the API."
    context = ContextManager("Be brief.", BUDGET, "gpt-4o-mini")
    with (
        Server(*thinking.answers, error(400, wanted), says(AFTER), reasoning=True) as server,
        talking(server, context) as agent,
    ):
        assert outcome(turn(agent, "Look!")) == ("", AFTER)
    sent = [
        [
            message.get("reasoning_content")
            for message in request.body["messages"]
            if message.get("tool_calls")
        ]
        for request in server.requests
    ]
    assert sent == [[], [None], ["Hm."]]
    assert server.problems == []


TURNS = 500


def test_500_turns_of_any_kind(tmp_path: Path) -> None:
    """A random mix of all rows: every answered turn is in the log, on disk too, and nothing else is."""
    draw = random.Random(3)
    rows = [played(draw.choice(ROWS)) for _ in range(TURNS)]
    acknowledged: list[tuple[str, str]] = []
    history = ChatHistory(tmp_path / "history.db", synchronous="NORMAL")
    session = history.new_session()
    context = ContextManager("Be brief.", BUDGET, "gpt-4o-mini", history=session)
    with (
        closing(history),
        Server() as server,
        contextlib.ExitStack() as stack,
    ):
        agents = {
            timeout: stack.enter_context(talking(server, context, timeout))
            for timeout in {row.timeout for row in rows}  # short for those that stall
        }
        for number, row in enumerate(rows):
            agent = agents[row.timeout]
            agent.brain.model = f"model-{number}"  # what a server refuses is remembered for each model
            context.configure(token_budget=BUDGET)
            server.play(*row.answers)
            question = filler(number)
            expected = (row.kind, "" if row.kind else row.text)
            assert outcome(turn(agent, question)) == expected, row.name
            assert not server.script, row.name
            if not row.kind:
                acknowledged.append((question, row.text))
            check(context, server)
        assert context.compact_count > 5
        assert told(context) == acknowledged
        payload = payload_of(context)
        session_id = session.id
        session.close()
        again = ContextManager("Be brief.", BUDGET, "gpt-4o-mini", history=history.open_session(session_id))
        again.configure(tools=registry().schemas())
        assert told(again) == acknowledged
        assert payload_of(again) == payload
    assert 100 < len(acknowledged) < TURNS


def told(context: ContextManager) -> list[tuple[str, str]]:
    """Questions and answers in the log, without the steps between."""
    messages: list[dict[str, Any]] = [
        message
        for message in context.transcript()
        if message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls"))
    ]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2)
    texts = [message["content"] for message in messages]
    return list(zip(texts[::2], texts[1::2], strict=True))


def payload_of(context: ContextManager) -> list[dict[str, Any]]:
    context.append_user("And now?")
    payload = context.build_for_llm()
    context.rollback_last_user()
    return payload
