"""Lesson 03: ask, act, ask again; and whatever happens in between, the conversation stays whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from conversation import MODEL, call, problems, texts, turn, words

from agent import Agent, Compacted, Done, Event, Failed, ToolFinished
from brain import BrainError, Reply, ScriptedBrain, TextDelta
from builtin_tools import builtin_registry
from context import ContextManager
from offline import OfflineBrain
from tools import Tool, ToolRegistry, tool


@tool(needs_approval=False)
def look(at: str = "around") -> str:
    """Look at something."""
    return f"You see {at}."


@tool(needs_approval=False)
def report(tokens: int) -> str:
    """Give a long report."""
    return words(tokens)


@tool(needs_approval=False)
def fail() -> str:
    """Fail."""
    raise OSError("no luck")


@tool
def erase(path: str) -> str:
    """Erase a file."""
    return f"{path} is gone"


def make(*script: Any, budget: int = 2000, **options: Any) -> Agent:
    tools = ToolRegistry()
    for function in (look, report, fail, erase):
        tools.register(function)
    return Agent(ContextManager("Be brief.", budget, MODEL, 50), ScriptedBrain(*script), tools, **options)


def asks(*calls: dict[str, Any], finish: str = "tool_calls", text: str = "") -> Reply:
    return Reply(text, list(calls), None, finish)


def play(agent: Agent, question: str) -> list[Event]:
    with closing(agent.run_turn(question)) as events:
        return list(events)


def answer(agent: Agent, question: str) -> str:
    last = play(agent, question)[-1]
    assert isinstance(last, Done), last
    return last.text


def sent(agent: Agent) -> list[Any]:
    assert isinstance(agent.brain, ScriptedBrain)
    return agent.brain.requests


def test_the_stand_in_chains_one_tool_on_the_result_of_another() -> None:
    """The stand-in chains one tool on the result of another: two steps, and the right number comes out."""
    rng = random.Random(13)
    a, b, c = (rng.randint(11, 99) for _ in range(3))
    agent = Agent(ContextManager("Be brief.", 2000, MODEL), OfflineBrain(), builtin_registry())
    events = play(agent, f"compute {a}*{b} and then add {c} to the result")
    results = [event.result for event in events if isinstance(event, ToolFinished)]
    assert results == [str(a * b), str(a * b + c)]
    last = events[-1]
    assert isinstance(last, Done)
    assert str(a * b + c) in last.text
    assert len(last.trace.requests) == 3


def test_calls_of_one_step_run_in_their_order() -> None:
    """The calls of one step run in order, and each gets exactly one result, whatever becomes of it."""
    agent = make(asks(call("b", "look", '{"at": "B"}'), call("a", "fail"), call("c", "nothing")), "Seen.")
    assert answer(agent, "Look!") == "Seen."
    payload = sent(agent)[1].payload
    assert problems(payload) == []
    assert [message["tool_call_id"] for message in payload[3:]] == ["b", "a", "c"]
    first, second, third = texts(payload, "tool")
    assert first == "You see B."
    assert second == "fail failed: OSError: no luck"
    assert "The tools are: look, report, fail, erase." in third


def test_the_loop_ends_at_the_step_limit() -> None:
    """At the step limit an answer is asked for with the tools off; the next turn has them again."""
    agent = make(*[asks(call("a"))] * 3, "That is all.", "Next.", max_steps=3)
    assert answer(agent, "Look!") == "That is all."
    assert [request.tools is not None for request in sent(agent)] == [True, True, True, False]
    assert answer(agent, "Again?") == "Next."
    assert sent(agent)[-1].tools is not None


def test_a_call_that_fails_three_times_in_a_row_ends_the_loop() -> None:
    """The same failing call three times in a row ends the loop: an answer is asked for without tools."""
    agent = make(*[asks(call("a", "fail"))] * 3, "It does not work.")
    assert answer(agent, "Try!") == "It does not work."
    assert sent(agent)[-1].tools is None


def test_a_reply_that_was_cut_off_runs_no_tool() -> None:
    """A reply that was cut off at its length limit runs no tool: its last call may be half a call."""
    agent = make(asks(call("a"), finish="length", text="Let me"))
    events = play(agent, "Look!")
    assert isinstance(events[-1], Done)
    assert not any(isinstance(event, ToolFinished) for event in events)


def test_every_request_of_a_long_turn_is_within_the_budget() -> None:
    """Every request of a long turn fits the budget: the oldest steps go, question and newest step stay."""
    agent = make(
        *[asks(call(f"c{n}", "report", '{"tokens": 150}')) for n in range(12)],
        "Done.",
        budget=900,
        max_steps=12,
    )
    turn(agent.context, "an older question", "and its answer")
    events = play(agent, "the question")
    for number, request in enumerate(sent(agent)):
        assert problems(request.payload, budget=900, tools=request.tools or ()) == []
        assert texts(request.payload, "user")[-1] == "the question"
        assert number == 0 or request.payload[-1]["tool_call_id"] == f"c{number - 1}"
    records = [event.record for event in events if isinstance(event, Compacted)]
    assert sum(record.steps for record in records) > 3
    assert len(records) < 12  # cut in strides, not at every step


def test_results_that_are_too_long_share_the_room() -> None:
    """Results that are too long share the room, each with a marker that says how much is missing."""
    calls = call("a", "report", '{"tokens": 1500}'), call("b", "report", '{"tokens": 1500}'), call("c")
    agent = make(asks(*calls), "Read.", budget=1200)
    assert answer(agent, "Report!") == "Read."
    payload = sent(agent)[1].payload
    assert problems(payload, budget=1200, tools=agent.context.tools) == []
    assert [message["tool_call_id"] for message in payload[3:]] == ["a", "b", "c"]
    first, second, third = texts(payload, "tool")
    assert "characters left out" in first
    assert "characters left out" in second
    assert third == "You see around."


class Bug(Exception):  # noqa: N818 (it stands for any mistake in the code)
    pass


ENDS = {
    "error": BrainError("timeout", "Nothing came.", "Try again."),
    "error after a piece": [TextDelta("Well, "), BrainError("interrupted", "Broken off.")],
    "Ctrl-C": KeyboardInterrupt(),
    "Ctrl-C after a piece": [TextDelta("Well, "), KeyboardInterrupt()],
    "bug": Bug(),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_turn_that_fails_leaves_no_trace(end: str) -> None:
    """A turn that fails after any number of steps leaves no trace, and its question comes back."""
    steps = random.Random(len(end)).randint(1, 4)
    agent = make("Hello.", *[asks(call("a"), call("b", "fail"))] * steps, ENDS[end], "Yes.")
    answer(agent, "Hi")
    before = agent.context.messages, agent.context.token_count
    if end == "bug":
        with pytest.raises(Bug):
            play(agent, "the question")
    else:
        last = play(agent, "the question")[-1]
        assert isinstance(last, Failed)
        assert last.text == "the question"
    assert (agent.context.messages, agent.context.token_count) == before
    assert answer(agent, "Still there?") == "Yes."
    assert texts(sent(agent)[-1].payload, "user") == ["Hi", "Still there?"]


def events_of(agent: Agent, count: int) -> Iterator[Event]:
    """The first events of a turn; then the terminal is closed."""
    with closing(agent.run_turn("the question")) as events:
        for _ in range(count):
            yield next(events)


def test_a_turn_can_be_stopped_at_any_event() -> None:
    """A turn that is stopped at any event leaves a conversation that the next request can use."""
    script = asks(call("a"), call("b", "fail")), asks(call("a")), "Done."
    total = len(play(make(*script), "the question"))
    assert total > 8
    for count in range(total):
        agent = make(*script)
        turn(agent.context, "before", "it")
        seen = list(events_of(agent, count))
        assert len(seen) == count
        assert texts(agent.context.build_for_llm(), "user") == ["before"]
        agent.context.append_user("after")
        assert problems(agent.context.build_for_llm()) == []


@pytest.mark.parametrize("said", [True, False, "the person is away"], ids=["yes", "no", "a reason"])
def test_a_person_is_asked_before_a_tool_that_needs_it(said: bool | str) -> None:
    """A person is asked, with name and arguments, before a tool that needs it; a no is told to the model."""
    asked = []

    def approve(tool: Tool, arguments: str) -> bool | str:
        asked.append((tool.name, arguments))
        return said

    agent = make(asks(call("a", "erase", '{"path": "a.txt"}'), call("b")), "Well.", approve=approve)
    assert answer(agent, "Erase it!") == "Well."
    assert asked == [("erase", '{"path": "a.txt"}')]
    told = texts(sent(agent)[1].payload, "tool")[0]
    if said is True:
        assert told == "a.txt is gone"
    else:
        assert "gone" not in told
        assert (said or "the person did not allow it") in told


def test_where_nobody_can_be_asked_nothing_runs() -> None:
    """Where nobody can be asked, a tool that needs it does not run, and the model is told why."""
    agent = make(asks(call("a", "erase", '{"path": "a.txt"}')), "Pity.")
    assert answer(agent, "Erase it!") == "Pity."
    assert texts(sent(agent)[1].payload, "tool")[0].startswith("erase was not called: no one is there")


def test_the_trace_tells_what_a_turn_did() -> None:
    """The trace has every request with its size, and every call with its arguments and its result."""
    agent = make(asks(call("a", "look", '{"at": "it"}'), call("b", "fail")), "Done.")
    last = play(agent, "Look!")[-1]
    assert isinstance(last, Done)
    assert [(each.name, each.arguments, each.result, each.ok) for each in last.trace.tools] == [
        ("look", '{"at": "it"}', "You see it.", True),
        ("fail", "{}", "fail failed: OSError: no luck", False),
    ]
    assert [request.finish_reason for request in last.trace.requests] == ["tool_calls", "stop"]
    assert last.trace.requests[1].estimated > last.trace.requests[0].estimated > 0
