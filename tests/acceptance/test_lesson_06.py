"""Lesson 06: facts that outlive a conversation, with their source, and how poison is taken out."""

from __future__ import annotations

import pytest
from conversation import MODEL, turn

from context import ContextManager
from memory import PROTECTED, Fact, FactStore


def test_a_fact_outlives_the_conversation() -> None:
    """A fact is in the payload of a conversation that never heard it."""
    facts = FactStore()
    facts.write(Fact("name", "Ada", "user"))
    ctx = ContextManager(model=MODEL, facts=facts)
    ctx.append_user("Who am I?")
    assert "Ada" in ctx.build_for_llm()[0]["content"]


def poisoned() -> FactStore:
    facts = FactStore()
    facts.write(Fact("name", "Ada", "user"))
    facts.write(Fact("refund period", "90 days", "evil.html", origin="document"))
    facts.write(Fact("support phone", "+1 555 0199", "evil.html", origin="document"))
    return facts


def test_one_call_takes_a_bad_source_out() -> None:
    """The poison exercise: two facts from one bad source among good ones; the good one is untouched."""
    facts = poisoned()
    assert facts.forget_source("evil.html") == 2
    assert facts.get("refund period") is None
    assert facts.get("support phone") is None
    kept = facts.get("name")
    assert kept is not None
    assert kept.value == "Ada"


def test_what_poison_had_replaced_is_back() -> None:
    """The harder sibling: the poison had replaced a good value, which comes back."""
    facts = FactStore()
    facts.write(Fact("refund period", "14 days", "policy.txt", origin="document"))
    facts.write(Fact("refund period", "90 days", "evil.html", origin="document"))
    assert facts.forget_source("evil.html") == 1
    back = facts.get("refund period")
    assert back is not None
    assert (back.value, back.source) == ("14 days", "policy.txt")


def test_a_revoked_source_leaves_the_payload_at_once() -> None:
    """The next payload does not carry it any more."""
    facts = poisoned()
    ctx = ContextManager(model=MODEL, facts=facts)
    turn(ctx, "U", "A")
    assert "90 days" in ctx.build_for_llm()[0]["content"]
    facts.forget_source("evil.html")
    assert "90 days" not in ctx.build_for_llm()[0]["content"]


@pytest.mark.parametrize(
    ("policy", "value"), [("newest", "hates coffee"), ("keep", "loves coffee"), ("reject", None)]
)
def test_a_conflict_is_decided_and_never_lost(policy: str, value: str | None) -> None:
    """Of two values one is in force, or the write is refused; never neither."""
    facts = FactStore()
    facts.write(Fact("coffee", "loves coffee", "user"))
    if value is None:
        with pytest.raises(ValueError, match="coffee"):
            facts.write(Fact("coffee", "hates coffee", "user"), on_conflict=policy)
    else:
        facts.write(Fact("coffee", "hates coffee", "user"), on_conflict=policy)
    now = facts.get("coffee")
    assert now is not None
    assert now.value == (value or "loves coffee")


@pytest.mark.parametrize("key", sorted(PROTECTED))
def test_protected_keys_are_never_written(key: str) -> None:
    """Nobody becomes an administrator by saying so, in whatever spelling."""
    facts = FactStore()
    spellings = [key, key.upper(), key.replace("_", "-"), key.replace("_", " "), f" {key} "]
    for spelling in spellings:
        with pytest.raises(ValueError, match="protected"):
            facts.write(Fact(spelling, "yes", "user"))


def test_the_model_cannot_overwrite_what_the_person_said() -> None:
    """Provenance never rises: neither a model nor a document replaces the person's word."""
    facts = FactStore()
    facts.write(Fact("city", "Oslo", "user"))
    for origin in ("model", "document"):
        with pytest.raises(ValueError, match="city"):
            facts.write(Fact("city", "Rome", "turn-3", origin=origin))
    city = facts.get("city")
    assert city is not None
    assert city.value == "Oslo"


def test_forgetting_is_a_right() -> None:
    """Every version of a fact goes, and no undo brings it back."""
    facts = FactStore()
    ctx = ContextManager(model=MODEL, facts=facts)
    ctx.append_user("I am Ada")
    facts.write(Fact("name", "Ada", "turn-1", origin="model"))
    ctx.append_assistant("Hello.")
    facts.forget("name")
    ctx.rollback_last_user()
    assert facts.get("name") is None


def test_facts_of_a_turn_that_is_taken_back_go_with_it() -> None:
    """And what they had replaced is back."""
    facts = FactStore()
    ctx = ContextManager(model=MODEL, facts=facts)
    ctx.append_user("I live in Oslo")
    facts.write(Fact("city", "Oslo", "turn-1", origin="model"))
    ctx.append_assistant("Noted.")
    ctx.append_user("no, in Rome")
    facts.write(Fact("city", "Rome", "turn-2", origin="model"))
    ctx.append_assistant("Noted.")
    ctx.rollback_last_user()
    city = facts.get("city")
    assert city is not None
    assert city.value == "Oslo"
