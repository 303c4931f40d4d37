"""Random tools, replies, results, failures and interrupts: no turn ever breaks a payload.

Three things are drawn: tools (their schemas, what they return or raise, whether they need approval), a
script for the model (steps of calls with any names and arguments, texts, errors at any point), and where the
person stops it. Whatever happens, every request is valid, within the budget and counted as it is sent; a turn
that was not answered leaves nothing behind; and the next one works.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from conversation import MODEL, problems, words
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from agent import Agent, Done, Event, Failed, RequestStarted, ToolFinished, ToolStarted
from brain import BrainError, BrainEvent, ReasoningDelta, Reply, Retrying, ScriptedBrain, TextDelta, Usage
from builtin_tools import remember_tool
from context import ContextManager
from memory import FactStore
from tools import Tool, ToolError, ToolRegistry


class Bug(Exception):  # noqa: N818 (it stands for any mistake in the code)
    pass


# ---- what is drawn ----------------------------------------------------------------------------------------

names = st.sampled_from(["look", "write", "read"])
texts = st.text(st.characters(), max_size=20) | st.integers(1, 400).map(words)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
types = st.sampled_from(
    [int, float, bool, str, list[int], dict[str, float], int | None, list[str] | str, Literal["a", "b"], Any]
)
failing = st.sampled_from([ValueError("no"), ToolError("\ud800"), SystemExit(1), RecursionError()])
outcomes = st.one_of(json_like, st.binary(max_size=5), st.just({1}), failing, st.just(KeyboardInterrupt()))
verdicts: st.SearchStrategy[bool | str | BaseException] = st.sampled_from(
    [True, True, False, "a reason", "", Bug(), KeyboardInterrupt()]
)


@st.composite
def tools(draw: st.DrawFn) -> list[tuple[Callable[..., Any], bool]]:
    """Functions with random parameters and outcomes, and whether each needs approval."""
    made = []
    for name in draw(st.lists(names, unique=True, max_size=3)):
        kinds = draw(st.just({}) | st.dictionaries(st.sampled_from("abc"), types, max_size=3))
        gives = draw(st.lists(outcomes, min_size=1, max_size=3))
        scope: dict[str, Any] = {"kinds": kinds, "give": giving(gives)}
        parameters = [f"{key}: kinds[{key!r}]" + (" = None" if draw(st.booleans()) else "") for key in kinds]
        star = "*, " if parameters else ""
        exec(f"def {name}({star}{', '.join(parameters)}):\n    '''Do it.'''\n    return give()", scope)
        made.append((scope[name], draw(st.booleans())))
    return made


def giving(gives: list[Any]) -> Callable[[], Any]:
    queue = list(gives)

    def give() -> Any:
        value = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(value, BaseException):
            raise value
        return value

    return give


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(names | st.just("remember") | st.just("unknown"))
    if name == "remember":
        given: Any = {"key": draw(st.sampled_from(["city", "name"])), "value": draw(st.sampled_from("xyz"))}
    else:
        keys = st.sampled_from(["a", "b", "c", "_invalid"])
        given = draw(st.just({}) | st.dictionaries(keys, json_like, max_size=3))
    arguments = json.dumps(given) if is_json(given) else "{}"
    return {"id": "", "type": "function", "function": {"name": name, "arguments": arguments}}


def is_json(value: Any) -> bool:
    try:
        return bool(json.dumps(value, allow_nan=False))
    except ValueError:
        return False


usages = st.none() | st.builds(Usage, st.integers(1, 5000), st.integers(0, 50))


@st.composite
def replies(draw: st.DrawFn, least: int = 0) -> Reply:
    """A reply with at least so many calls."""
    asked = draw(st.lists(calls(), min_size=least, max_size=3))
    for number, each in enumerate(asked):  # as a brain makes them: unique in a reply, repeated in the next
        each["id"] = f"c{number}"
    reason = "tool_calls" if least else draw(st.sampled_from(["stop", "tool_calls", "length"]))
    return Reply(draw(texts), asked, draw(usages), reason, draw(st.none() | texts))


errors = st.sampled_from(
    [
        BrainError("timeout", "Nothing came."),
        BrainError("context_length", "Too long.", server_limit=300, server_count=400),
        BrainError("context_length", "Too long."),
        BrainError("bad_request", "Reasoning!", needs_reasoning=True),
        KeyboardInterrupt(),
        Bug(),
    ]
)
events = st.builds(TextDelta, texts) | st.builds(ReasoningDelta, texts) | st.just(Retrying("busy", 1.0))
broken = st.tuples(st.lists(events, max_size=2), errors | replies()).map(lambda parts: [*parts[0], parts[1]])
ends = replies() | errors | broken
scripts = st.tuples(st.lists(replies(least=1), max_size=4), st.lists(ends, max_size=3)).map(
    lambda parts: [*parts[0], *parts[1]]
)
stops = st.none() | st.tuples(st.sampled_from(["close", "throw"]), st.integers(0, 12))


# ---- what is watched --------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Everything that was wrong with a request, at the moment when it went out."""

    agent: Agent | None = None
    found: list[str] = field(default_factory=list)

    def look(self, payload: Any, tools: Any) -> None:
        assert self.agent is not None
        context = self.agent.context
        self.found += problems(
            payload, budget=context.token_budget, tools=tools or (), correction=context.correction
        )
        if (tools or []) != context.tools:
            self.found.append("the tools that are sent are not those that are counted")
        if not json.dumps([payload, tools], ensure_ascii=False, allow_nan=False).encode():
            self.found.append("never")


class WatchedBrain(ScriptedBrain):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def stream(self, payload: Any, tools: Any = None, max_tokens: Any = None) -> Iterator[BrainEvent]:
        self.watch.look(payload, tools)
        if not self.script:
            self.script.append("Enough.")
        yield from super().stream(payload, tools, max_tokens)


def state(context: ContextManager, facts: FactStore) -> list[Any]:
    """What a turn that was not answered leaves as it was; not the budget, which a server may lower."""
    return [
        list(context.transcript()),
        context.turn_count,
        context.is_open,
        context.messages,
        context.summary,
        context.compactions,
        context.correction,
        context.token_count,
        [(fact.key, fact.value) for fact in facts.all()],
    ]


def played(events: Any, stop: tuple[str, int] | None) -> tuple[list[Event], BaseException | None]:
    """Consume a turn as a person's terminal would, stopping it as it was drawn."""
    seen: list[Event] = []
    try:
        with closing(events):
            for item in events:
                seen.append(item)
                if stop is None or len(seen) != stop[1]:
                    continue
                if stop[0] == "close":
                    break
                seen.append(events.throw(KeyboardInterrupt()))
    except (Bug, KeyboardInterrupt) as error:
        return seen, error
    return seen, None


def check_events(seen: list[Event]) -> None:
    """Each call that began has ended before the next, unless the turn stopped there."""
    running: ToolStarted | None = None
    for item in seen:
        if isinstance(item, ToolStarted):
            assert running is None
            running = item
        if isinstance(item, ToolFinished):
            assert running is not None
            assert (running.call_id, running.name) == (item.call_id, item.name)
            assert item.result
            running = None
        if isinstance(item, RequestStarted):
            assert running is None
            assert item.tokens <= item.budget
    assert not any(isinstance(item, Done | Failed) for item in seen[:-1])


@pytest.mark.timeout(600)  # where it fails, it looks for the smallest example
@given(st.data())
@settings(
    phases=[phase for phase in Phase if phase is not Phase.explain],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_no_turn_breaks_the_conversation(data: st.DataObject) -> None:
    watch, facts = Watch(), FactStore()
    registry = ToolRegistry(max_result_chars=1000)
    context = ContextManager(
        "Be brief.",
        data.draw(st.integers(250, 3000), "budget"),
        MODEL,
        data.draw(st.integers(1, 5), "turns to keep"),
        facts=facts,
        nonce=lambda: "0123456789abcdef",  # what is drawn must not depend on chance
        summarizer=data.draw(st.sampled_from([None, lambda *_, max_tokens: "brief", lambda *_: 1 / 0])),
    )
    registry.register(remember_tool(facts, lambda: f"turn-{context.turn_count}"))
    for function, needs_approval in data.draw(tools(), "tools"):
        made = Tool.of(function)
        registry.register(Tool(made.signature, needs_approval, made.function))

    given_verdicts = data.draw(st.lists(verdicts, min_size=1, max_size=4), "verdicts")

    def approve(tool: Tool, arguments: str) -> bool | str:
        verdict = given_verdicts.pop(0) if len(given_verdicts) > 1 else given_verdicts[0]
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict

    brain = WatchedBrain(watch)
    agent = Agent(
        context,
        brain,
        registry if data.draw(st.booleans(), "tools are on") or data.draw(st.booleans()) else None,
        max_steps=data.draw(st.integers(0, 4), "steps"),
        approve=data.draw(st.sampled_from([approve, approve, None])),
    )
    watch.agent = agent
    offered = context.tools

    for _ in range(data.draw(st.integers(1, 4), "turns")):
        before = state(context, facts)
        brain.script.clear()
        brain.script.extend(data.draw(scripts, "script"))
        stop = data.draw(stops, "stop")
        question = data.draw(texts.filter(str.strip), "question")
        turn = agent.run_turn(question, evidence=data.draw(st.lists(texts, max_size=1)))
        seen, error = played(turn, stop)
        assert watch.found == []
        check_events(seen)
        last = seen[-1] if seen else None
        if context.turn_count == before[1] + 1:
            assert isinstance(last, Done) or stop is not None
            assert context.messages[-1]["role"] == "assistant"
            event("answered")
        else:
            assert isinstance(last, Failed) or error is not None or stop is not None
            assert state(context, facts) == before
            event(f"taken back: {last.kind if isinstance(last, Failed) else type(error).__name__}")
        assert not context.is_open
        assert context.tools == offered
        event(f"steps: {sum(isinstance(item, RequestStarted) for item in seen)}")

    context.configure(token_budget=3000)
    brain.script.clear()
    assert isinstance(played(agent.run_turn("And now?"), None)[0][-1], Done)
    assert watch.found == []
