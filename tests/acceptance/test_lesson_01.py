"""Lesson 01: one object owns the messages, and a budget bounds them."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from conversation import MODEL, problems, texts

from context import ContextManager
from offline import OfflineBrain
from tokens import TokenCounter


def talk(ctx: ContextManager, turns: int) -> list[int]:
    """Play dialogue turns; return the size of each payload in tokens."""
    sizes = []
    for number in range(turns):
        ctx.append_user(f"Tell me about number {number}, please, in a sentence or two.")
        ctx.build_for_llm()
        sizes.append(ctx.token_count)
        ctx.append_assistant(f"Number {number} is {number}, and twice that is {2 * number}. " * 4)
    return sizes


@pytest.mark.parametrize("turns", [20, 2000])
def test_the_payload_does_not_grow_with_the_conversation(turns: int) -> None:
    """However long the dialogue, the payload stays within its budget."""
    sizes = talk(ContextManager("Be brief.", 1000, MODEL, 5), turns)
    assert max(sizes) <= 1000
    assert max(sizes[-10:]) <= max(sizes[:20])


class CountingCounter:
    """Counts the encoder's calls, which are what a turn costs."""

    def __init__(self, ctx: ContextManager) -> None:
        self.calls = 0
        real = ctx._log.counter

        def encode(text: str) -> list[int]:
            self.calls += 1
            return [0] * real.text(text)

        ctx._log._counter = TokenCounter(real.encoding, encode)


def test_a_turn_costs_the_same_at_the_end_as_at_the_start() -> None:
    """Operations per turn do not grow: as many encoder calls from turn 1,900 to 2,000 as from 100 to 200."""
    ctx = ContextManager("Be brief.", 1000, MODEL, 5)
    counted = CountingCounter(ctx)
    talk(ctx, 100)
    counted.calls = 0
    talk(ctx, 100)
    early, counted.calls = counted.calls, 0
    talk(ctx, 1700)
    counted.calls = 0
    talk(ctx, 100)
    assert counted.calls <= early * 1.1


def test_the_kept_turns_stay_answerable() -> None:
    """A fact from a kept turn can be asked for; one from a dropped turn cannot be seen any more."""
    rng = random.Random(7)
    names = rng.sample(["Ada", "Grace", "Edsger", "Barbara", "Niklaus", "Radia"], 2)
    ctx, brain = ContextManager("Be brief.", 400, MODEL, 4), OfflineBrain()

    def ask(text: str) -> str:
        ctx.append_user(text)
        reply = brain.chat(ctx.build_for_llm())
        ctx.append_assistant(reply.text)
        return reply.text

    ask(f"My name is {names[0]}.")
    assert names[0] in ask("What is my name?")
    for number in range(12):
        ask(f"Here is some talk about the weather, day {number}, to fill the window.")
    assert names[0] not in ask("What is my name?")
    ask(f"My name is {names[1]}.")
    assert names[1] in ask("What is my name?")


def test_a_pinned_name_is_kept() -> None:
    """A pinned turn stays in every payload, however much is said after it."""
    name = random.Random(11).choice(["Hedy", "Alan", "Margaret", "Linus"])
    ctx, brain = ContextManager("Be brief.", 500, MODEL, 4), OfflineBrain()
    ctx.append_user(f"My name is {name}.", pinned=True)
    ctx.append_assistant("Noted.")
    talk(ctx, 40)
    ctx.append_user("What is my name?")
    assert name in brain.chat(ctx.build_for_llm()).text


def test_the_meter_is_there_to_see() -> None:
    """`ctx≈` counts the next payload and `compact×` the compactions; both move."""
    ctx = ContextManager("Be brief.", 600, MODEL, 5)
    before = ctx.token_count
    talk(ctx, 3)
    assert ctx.token_count > before
    assert ctx.compact_count == 0
    talk(ctx, 20)
    assert ctx.compact_count > 0
    assert len(ctx.compactions) == ctx.compact_count


def test_a_rollback_leaves_no_unanswered_question() -> None:
    """After a failed request the question is taken back, and its text can be edited."""
    ctx = ContextManager("Be brief.", 600, MODEL, 5)
    talk(ctx, 2)
    before = ctx.build_for_llm()
    ctx.append_user("This one fails.")
    assert ctx.rollback_last_user() == "This one fails."
    assert ctx.build_for_llm() == before
    assert ctx.messages[-1]["role"] == "assistant"


def test_one_system_message_then_user_and_assistant_in_turn() -> None:
    """The payload starts with the one system message and alternates from there, also after compactions."""
    ctx = ContextManager("Be brief.", 500, MODEL, 3)
    for _ in range(30):
        talk(ctx, 1)
        ctx.append_user("Next?")
        payload = ctx.build_for_llm()
        assert not problems(payload, budget=500)
        assert Counter(message["role"] for message in payload)["system"] == 1
        assert texts(payload, "user")[-1] == "Next?"
        ctx.rollback_last_user()
