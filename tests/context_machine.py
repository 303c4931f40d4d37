# ruff: noqa: PT017 - a rule may end in a refusal or not, and checks both
"""A Hypothesis state machine that drives a `ContextManager` beside a simple model of it.

The model is a list of turns and what a person could see before each question. After every rule the eight
invariants of the contract are checked; `FIRED` counts what the rules brought about, so that a test can
show that the rare things (step cuts, overflows, undo across a compaction ...) really happened.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conversation import MODEL, call, problems
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from context import ContextError, ContextManager, ContextOverflow
from history import ChatHistory
from memory import Fact, FactStore
from tokens import count_payload

FIRED: Counter[str] = Counter()

TEXTS = st.one_of(
    st.text(min_size=1, max_size=30).filter(str.strip),
    st.sampled_from(
        ["héllo wörld", "你好世界 " * 8, "word " * 60, "😀" * 12, "x" * 300, "<|endoftext|>", "\ud83d half"]
    ),
)
RESULTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["row " * 40, "long " * 400, '{"a": [1, 2]}', "结果" * 80])
)
TOOLS = [
    {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
]


@dataclass
class ModelTurn:
    """What the model knows of one turn."""

    question: str
    pinned: bool
    before: tuple[Any, ...]
    steps: list[list[str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    answer: str | None = None


def clean(text: str) -> str:
    """What the contract says about surrogates, in other words than the code's."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Moody:
    """A summarizer that is sometimes good, sometimes useless, always the same for the same input."""

    def __init__(self, mood: int) -> None:
        self.mood = mood

    def __call__(self, previous: str | None, dropped: list[dict[str, Any]], *, max_tokens: int) -> str:
        assert dropped, "nothing new means no call"
        mood = (self.mood + len(str(dropped)) + len(previous or "")) % 7
        if mood == 0:
            raise RuntimeError("the summarizer is down")
        if mood == 1:
            return ["", "<tool_call>{}</tool_call>", "Error: overloaded", "word " * 3000][
                len(str(dropped)) % 4
            ]
        return f"{(previous or '')[:20]} {len(dropped)} more".strip()


class ContextMachine(RuleBasedStateMachine):
    """Every legal and illegal call, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[ModelTurn] = []
        self.ids = 0

    @initialize(
        budget=st.integers(120, 700),
        keep=st.integers(1, 8),
        mood=st.none() | st.integers(0, 6),
        tools=st.booleans(),
    )
    def start(self, budget: int, keep: int, mood: int | None, tools: bool) -> None:
        self.ctx = self.make(
            token_budget=budget,
            keep_recent_turns=keep,
            tools=TOOLS if tools else (),
            summarizer=None if mood is None else Moody(mood),
        )

    def make(self, **options: Any) -> ContextManager:
        self.options = options
        return ContextManager("Be brief.", model=MODEL, nonce=lambda: "nonce", **options)

    # What can be seen of a state; equal states must look equal

    def seen(self) -> tuple[Any, ...]:
        ctx = self.ctx
        return (ctx.messages, ctx.summary, ctx.compactions, ctx.correction, ctx.turn_count, ctx._view)

    def built(self, *, compact: bool = False) -> list[dict[str, Any]] | None:
        """Build twice; check everything that holds for a payload."""
        ctx, before = self.ctx, self.seen()
        count = ctx.compact_count
        try:
            payload = ctx.build_for_llm(compact=compact)
        except ContextOverflow as error:
            FIRED["overflow"] += 1
            assert self.seen() == before
            assert error.needed > error.budget == ctx.token_budget
            assert sum(section.tokens for section in error.table) == error.needed
            return None
        assert ctx.compact_count - count in (0, 1)
        self.note_compaction(count)
        again = ctx.build_for_llm()
        assert again == payload
        assert ctx.compact_count - count in (0, 1)
        assert not problems(payload)
        raw = count_payload(payload, MODEL, ctx.tools)
        assert raw * ctx.correction <= ctx.token_budget + 1e-6
        assert abs(ctx.token_count - raw * ctx.correction) < 1
        assert sum(section.tokens for section in ctx.sections) == ctx.token_count
        self.check_content(payload)
        payload[0]["content"] = "mutated"
        for message in payload[1:]:
            message["content"] = "mutated"
            for item in message.get("tool_calls", ()):
                item["function"]["arguments"] = "mutated"
        assert ctx.build_for_llm() == again
        return again

    def note_compaction(self, count: int) -> None:
        if self.ctx.compact_count > count:
            record = self.ctx.compactions[-1]
            assert record.number == self.ctx.compact_count == len(self.ctx.compactions)
            assert record.after == self.ctx.token_count
            FIRED["compaction"] += 1
            FIRED["step cut"] += record.steps > 0
            FIRED["shortened result"] += record.shortened > 0
            FIRED[record.outcome] += 1

    def check_content(self, payload: list[dict[str, Any]]) -> None:
        """The newest is whole, the pinned are there, and what is missing is the oldest."""
        questions = [message["content"] for message in payload if message["role"] == "user"]
        if not self.turns:
            assert not questions
            return
        if self.turns[-1].answer is None:
            assert questions
            assert questions[-1].endswith(clean(self.turns[-1].question))
        window = self.ctx.first_kept_turn - 1
        shown = [turn for index, turn in enumerate(self.turns) if index >= window or turn.pinned]
        assert len(questions) == len(shown)
        for turn, question in zip(shown, questions, strict=True):
            assert question == clean(turn.question) or (turn is self.turns[-1] and turn.answer is None)
        for turn, messages in zip(shown, _by_turn(payload), strict=True):
            self.check_turn(turn, messages)

    def check_turn(self, turn: ModelTurn, messages: list[dict[str, Any]]) -> None:
        steps = [[item["id"] for item in m["tool_calls"]] for m in messages if m.get("tool_calls")]
        assert steps == turn.steps[len(turn.steps) - len(steps) :], "the steps that are left are the newest"
        if turn.answer is None and turn.steps:
            assert steps, "the last step of an open turn is never dropped"
        if turn.answer is not None:
            last = messages[-1]["content"]
            assert last == clean(turn.answer) or (turn.pinned and "left out" in last)

    # The rules

    def is_open(self) -> bool:
        return bool(self.turns) and self.turns[-1].answer is None

    @rule(text=TEXTS, pinned=st.booleans(), evidence=st.lists(TEXTS, max_size=2))
    def ask(self, text: str, pinned: bool, evidence: list[str]) -> None:
        before = self.seen()
        pinned = pinned and len(text) % 3 == 0
        if self.is_open():
            self.refused("append_user", text)
            return
        try:
            self.ctx.append_user(text, pinned=pinned, evidence=evidence)
        except ContextError as error:
            assert pinned
            assert "a quarter of the budget" in str(error) or "half of what the rest leaves" in str(error)
            assert self.seen() == before
            FIRED["pin refused"] += 1
            return
        self.turns.append(ModelTurn(text, pinned, before))
        FIRED["evidence"] += bool(evidence)
        FIRED["pin"] += pinned

    @rule(text=TEXTS, billed=st.none() | st.floats(0.3, 8.0))
    def answer(self, text: str, billed: float | None) -> None:
        if not self.is_open() or self.turns[-1].waiting:
            self.refused("append_assistant", text)
            return
        payload = self.built()
        usage = None
        if billed and payload and text.isascii():
            usage = {"prompt_tokens": int(billed * count_payload(payload, MODEL, self.ctx.tools))}
            FIRED["usage"] += 1
        self.ctx.append_assistant(text, usage=usage)
        self.turns[-1].answer = text

    @precondition(lambda self: self.is_open() and not self.turns[-1].waiting)
    @rule(count=st.integers(1, 3), text=st.sampled_from(["", "let me look"]), fresh=st.booleans())
    def act(self, count: int, text: str, fresh: bool) -> None:
        """Ask for tools; servers reuse ids, so half of the steps do."""
        if self.built() is None and self.turns[-1].steps:
            return
        self.ids += fresh
        ids = [f"call-{self.ids if fresh else 0}-{index}" for index in range(count)]
        self.ctx.append_assistant(text, [call(call_id) for call_id in ids])
        self.turns[-1].steps.append(ids)
        self.turns[-1].waiting = list(ids)

    @precondition(lambda self: self.is_open() and self.turns[-1].waiting)
    @rule(data=st.data(), content=RESULTS)
    def result(self, data: st.DataObject, content: str) -> None:
        call_id = data.draw(st.sampled_from(self.turns[-1].waiting))
        self.ctx.append_tool_result(call_id, content)
        self.turns[-1].waiting.remove(call_id)
        self.refused("append_tool_result", call_id, content)

    @rule(questions=st.lists(TEXTS, min_size=2, max_size=8), answer=TEXTS, every=st.integers(0, 3))
    def talk(self, questions: list[str], answer: str, every: int) -> None:
        """Whole turns in a row: what fills a window."""
        for question in questions:
            if self.is_open():
                if self.turns[-1].waiting:
                    return
                self.answer(answer, None)
            self.ask(question, False, [])
            self.built()
        if every:
            self.answer(answer, None)
            self.write_ahead(every)

    @precondition(lambda self: self.is_open() and not self.turns[-1].waiting)
    @rule(results=st.lists(RESULTS, min_size=1, max_size=4), count=st.integers(1, 3))
    def work(self, results: list[str], count: int) -> None:
        """Whole steps in a row: what fills a turn."""
        for content in results:
            self.act(count, "", False)
            for call_id in list(self.turns[-1].waiting):
                self.ctx.append_tool_result(call_id, content)
                self.turns[-1].waiting.remove(call_id)
            self.built()

    @precondition(lambda self: len(self.turns) > 1)
    @rule(count=st.integers(2, 8))
    def undo_many(self, count: int) -> None:
        for _ in range(min(count, len(self.turns))):
            self.undo()

    @precondition(lambda self: self.turns)
    @rule()
    def undo(self) -> None:
        turn = self.turns.pop()
        FIRED["undo"] += 1
        FIRED["undo across a compaction"] += self.ctx.compact_count > len(turn.before[2])
        FIRED["undo of an open turn"] += turn.answer is None
        assert self.ctx.rollback_last_user() == clean(turn.question)
        assert self.seen() == turn.before

    @rule(compact=st.booleans())
    def build(self, compact: bool) -> None:
        if self.is_open() and self.turns[-1].waiting:
            self.refused("build_for_llm")
        else:
            self.built(compact=compact)

    @rule(every=st.integers(0, 4))
    def write_ahead(self, every: int) -> None:
        before = self.seen()
        if self.ctx.brief_ahead(every):
            FIRED["brief ahead"] += 1
            assert not self.is_open()
            assert self.ctx.covered_turns == self.ctx.turn_count or self.ctx.summary_note
        else:
            assert self.ctx.messages == before[0]

    @rule(budget=st.none() | st.integers(80, 1200), keep=st.none() | st.integers(1, 8))
    def set(self, budget: int | None, keep: int | None) -> None:
        if budget:
            self.ctx.configure(token_budget=budget)
        if keep:
            self.ctx.configure(keep_recent_turns=keep)

    @rule()
    def undo_nothing(self) -> None:
        if not self.turns:
            assert self.ctx.rollback_last_user() is None

    @rule(data=st.data())
    def misuse(self, data: st.DataObject) -> None:
        self.refused("append_tool_result", "nobody's", "r")
        self.refused("append_user", "  \n")
        self.refused("append_assistant", "", [])
        bad = data.draw(st.sampled_from(["[]", "{", '"x"', "null", '{"a": NaN}', ""]))
        self.refused("append_assistant", "", [call("c", "look", bad)])
        self.refused("append_assistant", "", [call("c"), call("c")])
        self.refused("append_assistant", "", [call("")])

    def refused(self, method: str, *arguments: Any) -> None:
        before = self.seen()
        try:
            getattr(self.ctx, method)(*arguments)
        except ContextError as error:
            assert str(error)
        else:
            raise AssertionError(f"{method}{arguments} was not refused")
        assert self.seen() == before
        FIRED["refusal"] += 1

    @invariant()
    def views_are_sealed(self) -> None:
        if not hasattr(self, "ctx"):
            return
        assert self.ctx.turn_count == len(self.turns)
        assert self.ctx.is_open == self.is_open()
        for message in self.ctx.messages:
            message.clear()
        assert all(self.ctx.messages) or not self.turns


def _by_turn(payload: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    turns: list[list[dict[str, Any]]] = []
    for message in payload[1:]:
        if message["role"] == "user":
            turns.append([])
        turns[-1].append(message)
    return turns


class KeptMachine(ContextMachine):
    """The same conversations kept on disk, with facts, and with a restart at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.history = ChatHistory(Path(self.folder.name) / "history.db", synchronous="NORMAL")
        self.facts = FactStore()
        self.session = self.history.new_session()
        self.facts.session = self.session.id

    def make(self, **options: Any) -> ContextManager:
        return super().make(**options, history=self.session, facts=self.facts)

    def seen(self) -> tuple[Any, ...]:
        return (*super().seen()[:-1], [(fact.key, fact.value, fact.source) for fact in self.facts.all()])

    @precondition(lambda self: self.is_open())
    @rule(key=st.sampled_from(["name", "city", "pet"]), value=st.integers(0, 9))
    def learn(self, key: str, value: int) -> None:
        """The model keeps a fact, which belongs to its turn."""
        self.facts.write(Fact(key, f"value {value}", f"turn-{len(self.turns)}", origin="model"))
        FIRED["fact"] += 1

    @rule()
    def restart(self) -> None:
        """Close everything and come back: the payload is the one that was there."""
        turn = self.turns.pop() if self.is_open() else None
        before = turn.before if turn else self.seen()
        count = None if turn else self.ctx.token_count
        self.session.close()
        stored = any(info.id == self.session.id for info in self.history.sessions())
        self.session = self.history.open_session(self.session.id) if stored else self.history.new_session()
        self.facts.session = self.session.id
        self.facts.end_turn()
        settings = {
            "token_budget": self.ctx.token_budget,
            "keep_recent_turns": self.ctx.keep_recent_turns,
            "tools": self.ctx.tools,
            "summarizer": self.ctx._summarizer,
        }
        self.ctx = self.make(**settings)
        assert self.ctx.recovered == (clean(turn.question) if turn else None)
        assert self.seen() == before
        assert count is None or self.ctx.token_count == count
        FIRED["restart"] += 1
        FIRED["restart in an open turn"] += turn is not None

    def teardown(self) -> None:
        self.history.close()
        self.facts.close()
        self.folder.cleanup()
