"""One turn of the agent: what it yields, what it sends, and what it leaves behind when something goes wrong.

Everything here is played by `ScriptedBrain`. Real HTTP is in `test_agent_http.py`, what random tools and
interrupts do in `test_agent_property.py`.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from conversation import MODEL, call, problems, texts, turn, words

import agent as agent_module
import context as context_module
import session as session_module
from agent import (
    Agent,
    Approve,
    Compacted,
    Done,
    Event,
    Failed,
    Notice,
    RequestStarted,
    ToolFinished,
    ToolStarted,
    Working,
)
from brain import BrainError, BrainEvent, ReasoningDelta, Reply, ScriptedBrain, TextDelta, Usage
from builtin_tools import remember_tool
from context import ContextManager
from history import ChatHistory
from memory import BaseMemoryCompactor, FactStore
from storage import database
from terminal.interrupts import InterruptShield
from tokens import count_payload
from tools import ToolRegistry, tool


@tool(needs_approval=False)
def look(at: str = "around") -> str:
    """Look at something."""
    return f"You see {at}."


@tool(needs_approval=False)
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool(needs_approval=False)
def fail(why: str = "no luck") -> str:
    """Fail."""
    raise ValueError(why)


@tool(needs_approval=False)
def long(tokens: int) -> str:
    """Give a long text."""
    return words(tokens)


def registry(*functions: Callable[..., Any]) -> ToolRegistry:
    tools = ToolRegistry()
    for function in functions or (look, add, fail, long):
        tools.register(function)
    return tools


def make(*script: Any, budget: int = 8000, tools: ToolRegistry | None = None, **options: Any) -> Agent:
    """An agent that plays this script; its context counts like the tests do."""
    context = options.pop("context", None) or ContextManager("Be brief.", budget, MODEL, 100)
    return Agent(context, ScriptedBrain(*script), registry() if tools is None else tools, **options)


def asks(*calls: dict[str, Any], text: str = "", **more: Any) -> Reply:
    return Reply(
        text, list(calls), more.get("usage"), more.get("finish", "tool_calls"), more.get("reasoning")
    )


def play(agent: Agent, question: str = "Q", **options: Any) -> list[Event]:
    with closing(agent.run_turn(question, **options)) as events:
        return rest(events)


def rest(events: Iterator[Event]) -> list[Event]:
    try:
        return list(events)
    except KeyboardInterrupt:  # pytest would end
        pytest.fail("Ctrl-C came out of a turn that was not over")


def requests(agent: Agent) -> list[Any]:
    assert isinstance(agent.brain, ScriptedBrain)
    return agent.brain.requests


def state(context: ContextManager) -> tuple[Any, ...]:
    """Everything that a turn which is taken back must leave as it was."""
    return (
        context.messages,
        list(context.transcript()),
        context.turn_count,
        context.token_count,
        context.sections,
        context.compactions,
        context.summary,
        context.correction,
    )


def done(events: list[Event]) -> Done:
    assert isinstance(events[-1], Done), events[-1]
    assert not any(isinstance(event, Done | Failed) for event in events[:-1])
    return events[-1]


def failed(events: list[Event]) -> Failed:
    assert isinstance(events[-1], Failed), events[-1]
    assert not any(isinstance(event, Done | Failed) for event in events[:-1])
    return events[-1]


def results(agent: Agent) -> list[str]:
    """What the last request shows of tool results."""
    return texts(requests(agent)[-1].payload, "tool")


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


# ---- the loop ---------------------------------------------------------------------------------------------


def test_an_answer_is_streamed_and_kept() -> None:
    agent = make(Reply("Hello there", [], Usage(20, 2), "stop", reasoning="Hm."))
    events = play(agent, "Hi")
    assert [type(event) for event in events] == [RequestStarted, ReasoningDelta, TextDelta, Done]
    assert done(events).text == "Hello there"
    assert [message["content"] for message in agent.context.messages] == ["Hi", "Hello there"]


def test_two_calls_in_one_step_get_their_results_in_order() -> None:
    agent = make(asks(call("a", "add", '{"a": 1, "b": 2}'), call("b", arguments='{"at": "it"}')), "Both.")
    events = play(agent)
    assert [event for event in events if isinstance(event, ToolStarted)] == [
        ToolStarted("a", "add", '{"a": 1, "b": 2}'),
        ToolStarted("b", "look", '{"at": "it"}'),
    ]
    assert [(e.call_id, e.result, e.ok) for e in events if isinstance(e, ToolFinished)] == [
        ("a", "3", True),
        ("b", "You see it.", True),
    ]
    payload = requests(agent)[1].payload
    assert [message["role"] for message in payload] == ["system", "user", "assistant", "tool", "tool"]
    assert [message["tool_call_id"] for message in payload[3:]] == ["a", "b"]
    assert problems(payload) == []


def test_a_call_may_follow_on_another_ones_result() -> None:
    """Each step sees everything before it; ids may come again in the next step, as servers repeat them."""
    agent = make(
        asks(call("x", "add", '{"a": 1, "b": 2}')),
        asks(call("x", "add", '{"a": 3, "b": 10}'), text="And ten more."),
        "13.",
    )
    assert done(play(agent)).text == "13."
    assert results(agent) == ["3", "13"]
    assert [len(request.payload) for request in requests(agent)] == [2, 4, 6]
    assert all(request.tools == agent.context.tools for request in requests(agent))


def test_reasoning_and_text_beside_calls_are_no_part_of_the_answer() -> None:
    agent = make(asks(call("a"), text="Let me look.", reasoning="Hm."), "It is blue.")
    assert done(play(agent)).text == "It is blue."
    step = agent.context.messages[1]
    assert (step["content"], "reasoning_content" in step) == ("Let me look.", False)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(call("a", "add", '{"a": 1}'), "add was not called: 'b' is missing", id="missing"),
        pytest.param(call("a", "add", '{"_invalid": "[1"}'), "are not a JSON object", id="no object"),
        pytest.param(call("a", "sub"), "The tools are: look, add, fail, long.", id="unknown"),
        pytest.param(call("a", "fail"), "fail failed: ValueError: no luck", id="exception"),
    ],
)
def test_a_call_that_fails_is_told_to_the_model(asked: dict[str, Any], expected: str) -> None:
    agent = make(asks(asked, call("b")), "Sorry.")
    events = play(agent)
    assert done(events)
    assert expected in results(agent)[0]
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [False, True]


def test_a_result_that_is_no_text_is_json() -> None:
    @tool(needs_approval=False)
    def table() -> list[dict[str, Any]]:
        """Give a table."""
        return [{"ä": 1, "b": None}]

    agent = make(asks(call("a", "table")), "Done.", tools=registry(table))
    play(agent)
    assert results(agent) == ['[{"ä":1,"b":null}]']


def test_calls_without_tools_are_answered_too() -> None:
    """With `--no-tools` a model that calls all the same is told so; the log stays valid."""
    agent = make(asks(call("a")), "Then I cannot.")
    agent.registry = None
    assert done(play(agent))
    assert requests(agent)[0].tools is None
    assert "no tools are on" in results(agent)[0]
    assert problems(agent.context.build_for_llm()) == []


# ---- where the loop ends ----------------------------------------------------------------------------------


def test_at_the_step_limit_an_answer_is_asked_for_without_tools() -> None:
    agent = make(*[asks(call("a"))] * 3, "As far as I got.", max_steps=3)
    events = play(agent)
    assert done(events).text == "As far as I got."
    assert [request.tools is not None for request in requests(agent)] == [True, True, True, False]
    assert notices(events) == ["3 steps are done (AGENT_MAX_STEPS); asking for an answer without tools."]


@pytest.mark.parametrize("last", ["At last.", asks(call("b")), KeyboardInterrupt()], ids=type)
def test_tools_are_offered_and_counted_again_after_the_step_limit(last: Any) -> None:
    """The meter shows the next request, which has tools; taking them away was for the last answer only."""
    agent = make(asks(call("a")), last, "Next.", max_steps=1)
    before = agent.context.tools
    play(agent)
    assert agent.context.tools == before != []
    play(agent)
    assert requests(agent)[-1].tools == before


def test_a_model_that_never_stops_calling_gets_no_turn() -> None:
    agent = make(*[asks(call("a"))] * 3, max_steps=2)
    before = state(agent.context)
    failure = failed(play(agent))
    assert failure.message.startswith("2 steps are done (AGENT_MAX_STEPS), and the model kept asking")
    assert failure.hint
    assert state(agent.context) == before


def test_text_beside_calls_that_are_not_run_any_more_is_the_answer() -> None:
    agent = make(asks(call("a")), asks(call("a"), text="Blue, I think."), max_steps=1)
    assert done(play(agent)).text == "Blue, I think."
    assert "tool_calls" not in agent.context.messages[-1]


def test_the_same_failing_call_three_times_ends_the_loop() -> None:
    agent = make(*[asks(call("a", "fail"))] * 3, "I give up.")
    events = play(agent)
    assert done(events).text == "I give up."
    assert requests(agent)[-1].tools is None
    assert notices(events) == ["The same call failed 3 times; asking for an answer without tools."]


def test_what_ended_the_loop_stays_ended() -> None:
    """A call that works later in the same step gives the tools back to no model that is stuck."""
    agent = make(*[asks(call("a", "fail"))] * 2, asks(call("a", "fail"), call("b")), "Enough.")
    assert done(play(agent))
    assert [request.tools is None for request in requests(agent)] == [False, False, False, True]
    assert results(agent)[-1] == "You see around."


@pytest.mark.parametrize(
    "third",
    [call("a", "fail", '{"why": "other"}'), call("a"), call("a", "unknown")],
    ids=["other arguments", "a success", "another tool"],
)
def test_only_the_same_call_in_a_row_counts(third: dict[str, Any]) -> None:
    steps = [call("a", "fail"), call("a", "fail"), third, call("a", "fail"), call("a", "fail")]
    agent = make(*map(asks, steps), "Done.")
    assert notices(play(agent)) == []
    assert all(request.tools for request in requests(agent))


def test_a_model_that_is_stuck_and_says_nothing_is_not_sent_to_the_step_limit() -> None:
    agent = make(*[asks(call("a", "fail"))] * 4)
    failure = failed(play(agent))
    assert failure.message.startswith("The same call failed 3 times, and the model kept asking")


def test_a_reply_that_was_cut_off_runs_no_tool() -> None:
    """`finish_reason: length`: the last call may be cut in the middle, and nobody can tell."""
    agent = make(asks(call("a"), text="I will", finish="length"))
    events = play(agent)
    assert done(events).text == "I will"
    assert notices(events) == ["The reply was cut off at its length limit."]
    assert not any(isinstance(event, ToolStarted) for event in events)
    assert len(agent.context.messages) == 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (asks(call("a"), finish="length"), "cut off at its length limit"),
        (Reply(" \n", [], None, "stop"), "answered with nothing"),
    ],
    ids=["cut off", "empty"],
)
def test_no_answer_is_a_failure_that_says_why(reply: Reply, message: str) -> None:
    agent = make(reply)
    failure = failed(play(agent))
    assert failure.kind == "empty"
    assert message in failure.message
    assert failure.hint
    assert agent.context.messages == []


# ---- the budget -------------------------------------------------------------------------------------------


def test_every_request_of_a_long_turn_is_within_the_budget() -> None:
    """Before each request the oldest steps go; the question and the newest step are always there."""
    steps = [asks(call(f"c{number}", "long", '{"tokens": 100}')) for number in range(10)]
    agent = make(*steps, "Done.", budget=700)
    events = play(agent, "the question")
    assert done(events)
    for number, request in enumerate(requests(agent)):
        assert problems(request.payload, budget=700, tools=request.tools or ()) == []
        assert request.payload[1]["content"] == "the question"
        assert number == 0 or request.payload[-1]["tool_call_id"] == f"c{number - 1}"
    told = [event.record.number for event in events if isinstance(event, Compacted)]
    assert told == [record.number for record in agent.context.compactions]
    assert told
    assert all(record.steps and not record.turns for record in agent.context.compactions)


def test_the_count_that_is_announced_is_the_count_of_what_is_sent() -> None:
    agent = make(asks(call("a", "long", '{"tokens": 900}')), asks(call("a")), "Done.", budget=700)
    turn(agent.context, "before", "it")
    events = play(agent)
    started = [event for event in events if isinstance(event, RequestStarted)]
    assert [event.number for event in started] == [1, 2, 3]
    assert [event.tokens for event in started] == [
        count_payload(request.payload, MODEL, request.tools or ()) for request in requests(agent)
    ]
    assert {event.budget for event in started} == {700}


def test_results_that_are_too_long_are_cut_to_their_share() -> None:
    """By the registry first, whatever the budget; then, beside each other, by the context."""
    agent = make(
        asks(call("a", "long", '{"tokens": 2000}'), call("b", "long", '{"tokens": 2000}'), call("c")),
        asks(call("d", "long", '{"tokens": 20000}')),
        "Done.",
        budget=2000,
    )
    play(agent)
    first, second, third = texts(requests(agent)[1].payload, "tool")
    assert "characters left out to fit the context budget]" in first
    assert len(first) == len(second)
    assert third == "You see around."
    assert problems(requests(agent)[1].payload, budget=2000, tools=agent.context.tools) == []
    entry = list(agent.context.transcript())[-2]
    assert entry["content"].endswith("of 40,000 characters are shown]".replace("40,000", "39,999"))


def test_schemas_that_leave_no_room_are_named_and_the_question_comes_back() -> None:
    agent = make("never", budget=100)
    failure = failed(play(agent))
    assert (failure.kind, failure.text) == ("context", "Q")
    assert "the largest part is the tools" in failure.message
    assert failure.hint
    assert requests(agent) == []


def test_a_question_that_is_refused_gets_no_hint_about_room() -> None:
    failure = failed(play(make("never"), " "))
    assert "A question needs text" in failure.message
    assert failure.hint == ""


# ---- failures ---------------------------------------------------------------------------------------------


def late(error: BaseException) -> list[BrainEvent | BaseException]:
    """A reply that breaks off."""
    return [TextDelta("Well, "), error]


class Bug(Exception):  # noqa: N818 (it stands for any mistake in the code)
    pass


TIMEOUT = BrainError("timeout", "Nothing came.", "Try again.")


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("how", ["error", "late error", "Ctrl-C", "late Ctrl-C", "bug", "late bug"])
def test_a_failure_takes_the_whole_turn_back(how: str, steps: int, tmp_path: Path) -> None:
    """However many steps were done: log, disk, facts, view and count are as they were."""
    error = {"error": TIMEOUT, "Ctrl-C": KeyboardInterrupt(), "bug": Bug()}[how.removeprefix("late ")]
    with closing(ChatHistory(tmp_path / "history.db")) as history:
        session, facts = history.new_session(), FactStore()
        context = ContextManager("Be brief.", 700, MODEL, 100, facts=facts, history=session)
        tools = registry()
        tools.register(remember_tool(facts, lambda: f"turn-{context.turn_count}"))
        keep = call("f", "remember", '{"key": "city", "value": "Berlin"}')
        script = [asks(keep, call("l", "long", '{"tokens": 400}'))] * steps
        agent = make(
            *["Hello."] * 3,
            *script,
            late(error) if how.startswith("late") else error,
            "Yes.",
            tools=tools,
            context=context,
            approve=lambda tool, arguments: True,
        )
        for _ in range(3):
            play(agent, words(50))
        before, on_disk = state(context), session.turns(1, 99)
        if how.endswith("bug"):
            with pytest.raises(Bug):
                play(agent, "Q", evidence=["E"])
        else:
            failure = failed(play(agent, "Q", evidence=["E"]))
            assert failure.text == "Q"
            assert failure.kind == ("timeout" if how.endswith("error") else "interrupted")
        assert state(context) == before
        assert session.turns(1, 99) == on_disk
        assert facts.all() == []
        assert done(play(agent)).text == "Yes."
        assert problems(requests(agent)[-1].payload, budget=700, tools=agent.context.tools) == []


def test_a_failed_turn_still_tells_what_its_tools_did() -> None:
    """Tools may have changed the world; `/trace` must show that, whatever became of the turn."""
    agent = make(asks(call("a")), TIMEOUT)
    trace = failed(play(agent)).trace
    assert [(each.name, each.result) for each in trace.tools] == [("look", "You see around.")]
    assert [request.finish_reason for request in trace.requests] == ["tool_calls", "timeout"]
    assert trace.failure == "timeout"


def test_ctrl_c_in_a_tool_ends_the_turn_and_runs_nothing_more() -> None:
    ran: list[str] = []

    @tool(needs_approval=False)
    def work(name: str) -> str:
        """Work."""
        ran.append(name)
        if name == "2":
            raise KeyboardInterrupt
        return "ok"

    agent = make(
        asks(*(call(name, "work", json.dumps({"name": name})) for name in "123")), tools=registry(work)
    )
    assert failed(play(agent)).kind == "interrupted"
    assert ran == ["1", "2"]
    assert agent.context.messages == []


def test_exit_in_a_tool_ends_the_call_and_not_the_program() -> None:
    @tool(needs_approval=False)
    def leave() -> None:
        """Leave."""
        sys.exit(3)

    agent = make(asks(call("a", "leave")), "Still here.", tools=registry(leave))
    assert done(play(agent))
    assert results(agent) == ["leave failed: it tried to end the program"]


def scripted_turn() -> Agent:
    """A turn with everything in it: a compaction, two steps, a failing call, an approval, an answer."""

    @tool
    def write(text: str) -> str:
        """Write."""
        return words(100)

    tools = registry()
    tools.register(write)
    agent = make(
        asks(call("a"), call("b", "write", '{"text": "x"}'), text="First."),
        asks(call("a", "fail"), call("b", "long", '{"tokens": 300}')),
        Reply("The answer.", [], Usage(900, 2), "stop"),
        "Next.",
        budget=700,
        tools=tools,
        approve=lambda tool, arguments: True,
        compactor=BaseMemoryCompactor(),
        shield=InterruptShield(),
    )
    for _ in range(3):
        turn(agent.context, words(60), words(60))
    return agent


EVENTS = len(play(scripted_turn()))


@pytest.mark.parametrize("how", ["close", "throw", "collected"])
@pytest.mark.parametrize("at", range(EVENTS - 1))
def test_a_turn_may_be_stopped_at_any_event(at: int, how: str) -> None:
    """Before the answer is complete it is as if nothing was asked; after it, as if nothing happened."""
    agent = scripted_turn()
    before = state(agent.context)
    events = agent.run_turn("Q")
    seen = list(itertools.islice(events, at + 1))
    assert len(seen) == at + 1
    last: Event | None = None
    if how == "close":
        events.close()
    elif how == "throw":
        try:
            last = events.throw(KeyboardInterrupt())
        except KeyboardInterrupt:
            pytest.fail("Ctrl-C came out of a turn that was not over")
        *_, last = [last, *rest(events)]
        assert isinstance(last, Done | Failed)
    del events
    answered = agent.context.turn_count == 4
    assert answered == any(isinstance(event, Working) for event in seen)
    assert last is None or answered == isinstance(last, Done)
    assert answered or state(agent.context) == before
    agent.brain = ScriptedBrain("Next.")
    assert done(play(agent)).text == "Next."
    assert problems(requests(agent)[0].payload, budget=700, tools=agent.context.tools) == []


WATCHED = {agent_module.__file__, context_module.__file__, sys.modules[InterruptShield.__module__].__file__}


class CtrlC:
    """Delivers a real SIGINT just before the nth line that runs in the watched files; 0 only counts lines."""

    def __init__(self, at: int, *, counting: bool = True) -> None:
        self.at, self.counting = at, counting
        self.passed = 0

    def __enter__(self) -> CtrlC:
        self.tracing, self.handler = sys.gettrace(), signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.tracing)
        signal.signal(signal.SIGINT, self.handler)

    def trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line" and self.counting:
            self.passed += 1
            if self.passed == self.at:
                signal.raise_signal(signal.SIGINT)  # what it raises ends the tracing
        return self.trace


def interrupted(agent: Agent, at: int) -> tuple[Event | None, int]:
    """Play a turn with Ctrl-C at this line: its last event, None where Ctrl-C came out; lines passed."""
    seen: list[Event] = []
    with CtrlC(at) as signals, suppress(KeyboardInterrupt), closing(agent.run_turn("Q")) as events:
        seen.extend(events)
    return seen[-1] if seen and isinstance(seen[-1], Done | Failed) else None, signals.passed


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C comes another way there")
def test_ctrl_c_at_any_line_leaves_a_conversation_that_goes_on() -> None:
    """At every line of the loop and of the context: the turn is there, or it never was."""
    _, total = interrupted(scripted_turn(), 0)
    assert total > 500
    ends = Counter[str]()
    for at in range(1, total + 1):
        agent = scripted_turn()
        before = state(agent.context)
        last, _ = interrupted(agent, at)
        ends[type(last).__name__] += 1
        answered = agent.context.turn_count == 4
        assert not agent.context.is_open, f"line {at} of {total}"
        assert answered or state(agent.context) == before, f"line {at} of {total}"
        assert last is None or answered == isinstance(last, Done), f"line {at} of {total}"
        assert problems(agent.context.build_for_llm(), budget=700, tools=agent.context.tools) == []
    assert ends["Failed"] > 500
    assert ends["Done"] > 20
    assert ends["NoneType"] < 20, (
        "Ctrl-C came out of the turn, and the loop around it must put the question back"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C comes another way there")
def test_ctrl_c_leaves_disk_and_memory_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is resumed afterwards is what was there; a sample of lines, the storage's among them."""
    for module in (session_module, database):
        monkeypatch.setattr(sys.modules[__name__], "WATCHED", WATCHED | {module.__file__})
    answers = 0
    for at in [*range(1, 160, 5), *range(160, 1600, 97)]:
        with closing(ChatHistory(tmp_path / f"{at}.db", synchronous="NORMAL")) as history:
            session, agent = history.new_session(), scripted_turn()
            agent.context = ContextManager("Be brief.", 700, MODEL, 100, history=session)
            agent.offer_tools()
            for _ in range(3):
                turn(agent.context, words(60), words(60))
            before = state(agent.context), session.turns(1, 99)
            interrupted(agent, at)
            turns = agent.context.turn_count
            answers += turns == 4
            assert turns == 4 or (state(agent.context), session.turns(1, 99)) == before, f"line {at}"
            agent.context.configure(tools=())
            payload = agent.context.build_for_llm()
            session.close()
            again = ContextManager("Be brief.", 700, MODEL, 100, history=history.open_session(session.id))
            assert (again.turn_count, again.recovered) == (turns, None), f"line {at}"
            assert again.build_for_llm() == payload, f"line {at}"
            assert again.correction == agent.context.correction, f"line {at}"
    assert 0 < answers < 10


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C comes another way there")
def test_an_impatient_second_ctrl_c_while_the_turn_is_taken_back() -> None:
    """Whoever presses it twice stops the turn once."""

    class Stopped(ScriptedBrain):
        def stream(self, *args: Any, **options: Any) -> Iterator[BrainEvent]:
            signals.counting = True
            raise KeyboardInterrupt

    at, passed = 0, 1
    while at <= passed:
        agent = scripted_turn()
        agent.brain = Stopped()
        before = state(agent.context)
        signals = CtrlC(at, counting=False)
        with signals, suppress(KeyboardInterrupt), closing(agent.run_turn("Q")) as events:
            list(events)
        assert state(agent.context) == before, f"line {at} after the first Ctrl-C"
        passed = signals.passed if at == 0 else passed
        at += 1
    assert passed > 20


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C comes another way there")
def test_ctrl_c_while_a_turn_is_closed() -> None:
    """The terminal went away, and somebody presses Ctrl-C: the turn is taken back all the same."""
    ends = Counter[str]()
    at, passed = 0, 1
    while at <= passed:
        agent = scripted_turn()
        before = state(agent.context)
        events = agent.run_turn("Q")
        assert len(list(itertools.islice(events, 8))) == 8
        signals = CtrlC(at)
        with signals:
            try:
                events.close()
                ends["in silence"] += 1
            except (KeyboardInterrupt, RuntimeError) as error:  # a generator that goes on after close()
                ends[type(error).__name__] += 1
        assert state(agent.context) == before, f"line {at} of {passed}"
        passed = signals.passed if at == 0 else passed
        at += 1
    assert ends["in silence"] > 20
    assert ends["RuntimeError"] < 5


# ---- approval ---------------------------------------------------------------------------------------------


class Asked:
    """Approves as it was told to, and remembers what it was asked."""

    def __init__(self, *verdicts: Any) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[tuple[str, str]] = []

    def __call__(self, tool: Any, arguments: str) -> bool | str:
        self.asked.append((tool.name, arguments))
        verdict = self.verdicts.pop(0)
        if isinstance(verdict, BaseException):
            raise verdict
        assert isinstance(verdict, bool | str)
        return verdict


def writing(written: list[str], approve: Approve | None, *script: Any) -> Agent:
    """An agent with one tool that needs approval, and one that does not."""

    @tool
    def write(text: str) -> str:
        """Write a text."""
        written.append(text)
        return "written"

    return make(*script, tools=registry(write, look), approve=approve)


def write_call(text: str, call_id: str = "a") -> dict[str, Any]:
    return call(call_id, "write", json.dumps({"text": text}))


def test_a_tool_that_needs_approval_is_asked_for_with_all_its_arguments() -> None:
    written: list[str] = []
    approve = Asked(True, False)
    long_text = words(5000)
    calls = write_call(long_text), write_call("y", "b"), call("c")
    agent = writing(written, approve, asks(*calls), "Done.")
    events = play(agent)
    assert approve.asked == [("write", json.dumps({"text": text})) for text in (long_text, "y")]
    assert written == [long_text]
    assert results(agent)[0] == "written"
    assert results(agent)[1] == "write was not called: the person did not allow it. Answer without it."
    assert [event.ok for event in events if isinstance(event, ToolFinished)] == [True, False, True]


@pytest.mark.parametrize(
    ("approve", "told"),
    [
        (Asked("no one can be asked here"), "no one can be asked here"),
        (None, "no one is there to approve it"),
    ],
    ids=["a reason", "nobody to ask"],
)
def test_without_approval_nothing_runs_and_the_model_is_told_why(approve: Any, told: str) -> None:
    written: list[str] = []
    agent = writing(written, approve, asks(write_call("x")), "Pity.")
    assert done(play(agent))
    assert written == []
    assert told in results(agent)[0]


@pytest.mark.parametrize(
    "asked",
    [call("a", "write"), call("a", "write", '{"_invalid": "{"}'), call("a", "writes"), call("a")],
    ids=["missing argument", "no JSON", "unknown tool", "needs none"],
)
def test_nobody_is_asked_about_a_call_that_cannot_run_or_needs_no_approval(asked: dict[str, Any]) -> None:
    approve = Asked()
    agent = writing([], approve, asks(asked), "Sorry.")
    assert done(play(agent))
    assert approve.asked == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [(Bug("in approve"), None), (KeyboardInterrupt(), "interrupted")],
    ids=["bug", "Ctrl-C"],
)
def test_what_goes_wrong_while_asking_allows_nothing(error: BaseException, kind: str | None) -> None:
    """A bug shows, Ctrl-C stops; either way the tool does not run, and the turn is taken back."""
    written: list[str] = []
    agent = writing(written, Asked(error), asks(call("z"), write_call("x")), "Next.")
    before = state(agent.context)
    if kind:
        assert failed(play(agent)).kind == kind
    else:
        with pytest.raises(Bug):
            play(agent)
    assert written == []
    assert state(agent.context) == before
    assert done(play(agent))


def test_the_time_of_a_tool_is_not_the_time_of_the_question() -> None:
    now = 0.0

    def approve(tool: Any, arguments: str) -> bool:
        nonlocal now
        now += 60
        return True

    agent = writing([], approve, asks(write_call("x")), "Done.")
    agent.clock = lambda: now
    trace = done(play(agent)).trace
    assert (trace.tools[0].seconds, trace.seconds) == (0.0, 60.0)


# ---- recovery ---------------------------------------------------------------------------------------------


def too_long(limit: int | None = None, count: int | None = None) -> BrainError:
    return BrainError(
        "context_length", "Too long.", "Lower it.", status=400, server_limit=limit, server_count=count
    )


@pytest.mark.parametrize(
    ("limit", "counted", "budget"),
    [
        pytest.param(2000, 1.25, 1200, id="limit and count"),  # (2000 - a quarter) / 1.25
        pytest.param(1200, None, 900, id="limit alone"),
        pytest.param(None, None, None, id="neither"),
    ],
)
def test_a_prompt_that_is_too_long_lowers_the_budget_and_is_sent_again(
    limit: int | None, counted: float | None, budget: int | None
) -> None:
    """To what the server allows, by our count and with room for the reply; else to three quarters."""
    agent = make("never", asks(call("a")), "Done.", budget=4000)
    for _ in range(20):
        turn(agent.context, words(50), words(50))
    agent.context.append_user("Q")
    sent = agent.context.token_count
    agent.context.rollback_last_user()
    assert isinstance(agent.brain, ScriptedBrain)
    agent.brain.script[0] = too_long(limit, round(sent * counted) if counted else None)
    events = play(agent)
    assert done(events)
    assert agent.context.token_budget == pytest.approx(budget or sent * 3 // 4, abs=2)
    assert f"{agent.context.token_budget:,} instead of 4,000 tokens" in notices(events)[0]
    for request in requests(agent)[1:]:
        found = problems(request.payload, budget=agent.context.token_budget, tools=agent.context.tools)
        assert found == []
    assert [request.finish_reason for request in done(events).trace.requests] == [
        "context_length",
        "tool_calls",
        "stop",
    ]


def test_a_prompt_that_is_still_too_long_is_a_failure() -> None:
    agent = make(too_long(), too_long())
    turn(agent.context, words(500))
    before = agent.context.messages
    assert failed(play(agent)).kind == "context_length"
    assert agent.context.messages == before


@pytest.mark.parametrize("limit", [None, 60])
def test_a_limit_that_not_even_the_question_fits_changes_no_budget(limit: int | None) -> None:
    """Or every later question would be refused here, also when it goes to another model."""
    agent = make(too_long(limit), "Done.", budget=4000)
    agent.context.configure(system_prompt=words(400))
    assert failed(play(agent)).kind == "context_length"
    assert agent.context.token_budget == 4000
    assert done(play(agent))


def test_ctrl_c_while_the_smaller_payload_is_made_leaves_the_budget() -> None:
    """Nobody was told of a lower one."""
    agent = make(too_long(2000), "Done.", budget=4000)

    def stopped(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    agent.context.configure(summarizer=stopped)
    for _ in range(25):
        turn(agent.context, words(50), words(50))
    assert failed(play(agent)).kind == "interrupted"
    assert agent.context.token_budget == 4000


def test_nothing_is_asked_again_once_a_person_has_read_a_piece_of_the_reply() -> None:
    agent = make(late(too_long()), "never")
    turn(agent.context, words(500))
    assert failed(play(agent)).kind == "context_length"
    assert len(requests(agent)) == 1


def test_reasoning_goes_back_to_a_server_that_demands_it() -> None:
    wants = BrainError("bad_request", "Send it back.", needs_reasoning=True)
    agent = make(asks(call("a"), reasoning="Hm."), wants, "Done.")
    assert done(play(agent))
    sent = [request.payload[2].get("reasoning_content") for request in requests(agent)[1:]]
    assert sent == [None, "Hm."]


def test_a_server_that_never_has_enough_reasoning_is_a_failure() -> None:
    wants = BrainError("bad_request", "Send it back.", needs_reasoning=True)
    assert failed(play(make(wants, wants))).kind == "bad_request"


class Refusing(ScriptedBrain):
    """A model whose server refuses tools: the first request finds out, and it is remembered."""

    takes_tools = True

    def stream(self, *args: Any, **options: Any) -> Iterator[BrainEvent]:
        self.takes_tools = False
        yield from super().stream(*args, **options)


def test_tools_that_a_server_refuses_are_counted_no_more() -> None:
    """Neither in the budget nor in what is learned from the bill of the request that found it out."""
    agent = make()
    agent.brain = Refusing(Reply("One.", [], Usage(20, 1), "stop"), "Two.")
    with_tools = agent.context.token_count
    play(agent)
    assert agent.context.tools == []
    assert agent.context.correction == 1.0
    assert agent.context.token_count < with_tools
    play(agent)
    assert requests(agent)[1].tools is None


def test_the_bill_of_a_request_is_compared_with_the_count_of_that_request() -> None:
    """Also where the tools come and go within a turn: with exact bills nothing is learned."""

    class Billing(ScriptedBrain):
        def stream(self, payload: Any, tools: Any = None, max_tokens: Any = None) -> Iterator[BrainEvent]:
            *_, reply = super().stream(payload, tools, max_tokens)
            assert isinstance(reply, Reply)
            yield replace(reply, usage=Usage(count_payload(payload, MODEL, tools or ()), 1))

    agent = make(max_steps=1)
    agent.brain = Billing(asks(call("a")), "One.", asks(call("a")), "Two.")
    for _ in range(2):
        play(agent)
        assert agent.context.correction == 1.0


def test_the_stream_is_closed_when_the_turn_stops() -> None:
    """So that the server stops writing; nobody waits until the garbage is collected."""
    closed: list[str] = []

    class Streaming(ScriptedBrain):
        def stream(self, *args: Any, **options: Any) -> Iterator[BrainEvent]:
            try:
                yield TextDelta("Well, ")
                yield TextDelta("never read")
            finally:
                closed.append("closed")

    agent = make()
    agent.brain = Streaming()
    error = KeyboardInterrupt()
    events = agent.run_turn("Q")
    while not isinstance(next(events), TextDelta):
        pass
    assert isinstance(events.throw(error), Failed)
    assert error.__traceback__ is not None, "the frames are still held"
    assert closed == ["closed"]


# ---- the summary that is written ahead --------------------------------------------------------------------


class Compactor(BaseMemoryCompactor):
    """Raises, or tells what it was told to."""

    def __init__(self, outcome: bool | BaseException) -> None:
        super().__init__()
        self.outcome = outcome

    def compact_if_needed(self) -> bool:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (ValueError("a\nbug"), "The summary was not written (ValueError: a bug). Nothing was lost."),
        (KeyboardInterrupt(), "The summary was not written. Nothing was lost."),
        (False, None),
    ],
    ids=["exception", "Ctrl-C", "not due"],
)
def test_a_compactor_cannot_hurt_an_answered_turn(outcome: Any, said: str | None) -> None:
    """It is a person's own code, and runs after the answer: that stays, and is reported."""
    agent = make("The answer.", "Next.", compactor=Compactor(outcome))
    events = play(agent)
    assert done(events).text == "The answer."
    assert notices(events) == ([said] if said else [])
    assert agent.context.turn_count == 1
    assert done(play(agent))


def test_what_was_wrong_with_a_summary_is_said_once() -> None:
    def broken(previous: str | None, dropped: list[dict[str, Any]], *, max_tokens: int) -> str:
        raise ValueError("down")

    context = ContextManager("Be brief.", 8000, MODEL, 100, summarizer=broken)
    ahead = BaseMemoryCompactor(every_turns=2)
    ahead.bind(context)
    agent = make(*["Yes."] * 6, context=context, compactor=ahead)
    said = [notices(play(agent, words(20))) for _ in range(6)]
    assert [len(each) for each in said] == [0, 1, 0, 0, 0, 0]
    assert "ValueError: down" in said[1][0]


def test_a_summary_that_was_written_ahead_is_announced() -> None:
    context = ContextManager("Be brief.", 8000, MODEL, 100, summarizer=lambda *_, max_tokens: "Brief.")
    ahead = BaseMemoryCompactor(every_turns=2)
    ahead.bind(context)
    agent = make(*["Yes."] * 3, context=context, compactor=ahead)
    said = [notices(play(agent, words(20))) for _ in range(3)]
    assert said == [[], ["The summary now covers turns 1–2."], []]


# ---- the trace --------------------------------------------------------------------------------------------


def test_the_trace_has_every_request_and_every_call_in_full() -> None:
    ticks = itertools.count()
    arguments = json.dumps({"at": words(2000)})
    agent = make(
        asks(call("a", arguments=arguments), call("b", "fail"), usage=Usage(100, 7)),
        Reply("Done.", [], Usage(200, 3), "stop"),
        clock=lambda: float(next(ticks)),
    )
    trace = done(play(agent)).trace
    assert [(r.prompt_tokens, r.completion_tokens, r.finish_reason) for r in trace.requests] == [
        (100, 7, "tool_calls"),
        (200, 3, "stop"),
    ]
    sizes = [count_payload(each.payload, MODEL, each.tools or ()) for each in requests(agent)]
    assert trace.requests[0].estimated == sizes[0]
    assert trace.requests[1].estimated == pytest.approx(sizes[1] * 100 / sizes[0], abs=1)
    look_call, fail_call = trace.tools
    assert (look_call.arguments, look_call.result) == (arguments, f"You see {words(2000)}.")
    assert (fail_call.name, fail_call.ok, fail_call.result) == (
        "fail",
        False,
        "fail failed: ValueError: no luck",
    )
    parts = [request.seconds for request in trace.requests] + [tool.seconds for tool in trace.tools]
    assert all(part > 0 for part in parts)
    assert trace.seconds > sum(parts)
    assert trace.failure == ""
