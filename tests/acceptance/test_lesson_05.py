"""Lesson 05: a rolling summary, and how a lossy summary is made safe."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conversation import MODEL, problems, turn, words

import offline
from context import ContextManager
from memory import SUMMARY_HEADING, SUMMARY_PROMPT, RollingSummary
from tokens import count_payload


class Model:
    """Stands for the model that writes briefs: answers as it is told to, and records what it was asked."""

    def __init__(self, answer: str = "The brief.") -> None:
        self.answer = answer
        self.asked: list[str] = []

    def __call__(self, instructions: str, text: str, max_tokens: int) -> str:
        self.asked.append(instructions + text)
        return self.answer


def context(summarizer: Any, budget: int = 600) -> ContextManager:
    ctx = ContextManager("Be brief.", budget, MODEL, 50, summarizer=summarizer)
    if isinstance(summarizer, RollingSummary):
        summarizer.bind(ctx)
    return ctx


def fill(ctx: ContextManager, turns: int) -> None:
    for _ in range(turns):
        turn(ctx, f"turn {ctx.turn_count + 1}: {words(20)}", words(15))


def test_dropped_turns_live_on_in_the_summary() -> None:
    """A name from a dropped turn is in the payload, under the heading of the summary."""
    name = random.Random(5).choice(["Ada", "Grace", "Hedy"])
    ctx = context(offline.summarize, 900)
    turn(ctx, f"My name is {name} and the deadline is 3 May.", "Noted.")
    fill(ctx, 30)
    system = ctx.build_for_llm()[0]["content"]
    assert all(name not in message["content"] for message in ctx.messages)
    assert SUMMARY_HEADING in system
    assert name in system
    assert "3 May" in system


def test_without_a_summarizer_information_is_destroyed() -> None:
    """That is the price of a plain slide: the name is gone from the payload."""
    ctx = context(None)
    turn(ctx, "My name is Ada.", "Noted.")
    fill(ctx, 30)
    assert "Ada" not in str(ctx.build_for_llm())


@pytest.mark.parametrize("survivor", ["decisions", "commitments", "identifiers", "open questions"])
def test_what_must_survive_is_decided_and_not_left_to_taste(survivor: str) -> None:
    """The prompt names what a brief must keep, and forbids inference."""
    assert survivor in SUMMARY_PROMPT
    assert "not infer" in SUMMARY_PROMPT


def test_the_cost_of_a_summary_does_not_grow() -> None:
    """Each request holds the old brief and only what is new: over 200 turns its size is bounded."""
    model = Model()
    ctx = context(RollingSummary(model, every_turns=0, input_tokens=1000))
    fill(ctx, 200)
    sizes = [count_payload([{"role": "user", "content": text}], MODEL) for text in model.asked]
    assert len(sizes) > 20
    assert max(sizes) <= 1000
    assert max(sizes[-5:]) <= max(sizes[:5]) * 1.2


@pytest.mark.parametrize(
    "answer",
    ["", "Error: overloaded", "<tool_call>{}</tool_call>", words(400)],
    ids=["nothing", "an error text", "tool markup", "too long"],
)
def test_a_failed_summary_falls_back_to_a_plain_slide(answer: str) -> None:
    """Whatever the summarizer returns, the payload is valid and the old brief stays."""
    model = Model()
    ctx = context(RollingSummary(model, every_turns=0))
    fill(ctx, 20)
    assert ctx.summary == "The brief."
    model.answer = answer
    fill(ctx, 20)
    assert ctx.summary == "The brief."
    assert not problems(ctx.build_for_llm(), budget=600)


def test_the_brief_can_be_written_ahead() -> None:
    """With every_turns=10 it is written after ten answered turns, before anything has to be dropped."""
    model = Model()
    summary = RollingSummary(model, every_turns=10)
    ctx = context(summary, 8000)
    fill(ctx, 9)
    assert not summary.compact_if_needed()
    fill(ctx, 1)
    assert summary.compact_if_needed()
    assert ctx.compact_count == 0
    assert summary.get_summary() == ctx.summary == "The brief."
    assert not summary.compact_if_needed()
    assert len(model.asked) == 1


def test_undo_takes_the_summary_back() -> None:
    """The brief belongs to the turns that it came from."""
    model = Model()
    summary = RollingSummary(model, every_turns=2)
    ctx = context(summary, 8000)
    fill(ctx, 2)
    summary.compact_if_needed()
    assert ctx.summary
    ctx.rollback_last_user()
    assert ctx.summary is None


def test_nothing_new_means_no_call() -> None:
    """A summary of nothing is not asked for."""
    model = Model()
    summary = RollingSummary(model)
    assert summary.update([]) is None
    assert model.asked == []
