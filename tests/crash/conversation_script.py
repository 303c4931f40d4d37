"""The conversations that are killed through `ContextManager`: what is done, drawn from a seed.

The child does it against the disk and says so after each action; the parent does the same in memory, up to
the last action that was acknowledged. Both must then send the same bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from context import ContextError, ContextManager
from history import Session
from memory import Fact, FactStore

BUDGET, KEEP = 1500, 6
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {}}}]


class Action(NamedTuple):
    """One call on the context or on the facts.

    `name` is one of ask, call, result, answer, undo, build, compact, brief, learn, forget, died. The last one
    is the parent's: the child was killed here, and another one went on.
    """

    name: str
    text: str = ""
    ids: tuple[str, ...] = ()
    pinned: bool = False
    evidence: tuple[tuple[str, str], ...] = ()
    share: float = 0.0


def actions(seed: int) -> Iterator[Action]:
    """Endless turns with steps, builds, compactions, facts and undos. Each text is there only once."""
    rng = random.Random(seed)
    serial = 0

    def text(kind: str, most: int = 60) -> str:
        nonlocal serial
        serial += 1
        return f"{kind} {seed}-{serial}" + " word" * rng.randrange(most)

    while True:
        evidence = ((f"paper {serial}.txt", text("evidence")),) if rng.random() < 0.15 else ()
        yield Action("ask", text("question"), pinned=rng.random() < 0.08, evidence=evidence)
        yield Action("build")
        for _ in range(rng.choice((0, 0, 1, 2))):
            ids = tuple(f"c{number}" for number in range(rng.randrange(1, 4)))  # used again and again
            yield Action("call", text("thought", 5), ids)
            for call_id in rng.sample(ids, len(ids)):
                if rng.random() < 0.3:
                    yield Action("learn", text(f"fact-{rng.randrange(6)}", 2))
                yield Action("result", text("result", 200), (call_id,))
            yield Action("build")
        if rng.random() < 0.15:  # the turn fails
            yield Action("undo")
            continue
        yield Action("answer", text("answer"), share=rng.choice((0.0, 0.9, 1.1, 1.3)))
        while rng.random() < 0.15:  # second thoughts
            yield Action("undo")
        for name, chance in (("compact", 0.05), ("brief", 0.1), ("learn", 0.1), ("forget", 0.03)):
            if rng.random() < chance:
                yield Action(name, text(f"fact-{rng.randrange(6)}", 2))


def summarize(previous: str | None, dropped: Sequence[dict[str, Any]], *, max_tokens: int) -> str:
    """A brief that depends on all that it is given, and on nothing else."""
    firsts = [" ".join(str(message.get("content") or "-").split()[:2]) for message in dropped]
    return "; ".join([*(previous or "").split("; "), *firsts][-12:]) + f" ({len(dropped)} messages)"


def make_context(facts: FactStore, session: Session | None = None) -> ContextManager:
    """A context under the settings of these tests, in memory or on disk."""
    return ContextManager(
        "Be brief.",
        BUDGET,
        "gpt-4o-mini",
        KEEP,
        tools=TOOLS,
        summarizer=summarize,
        facts=facts,
        history=session,
        nonce=lambda: "nonce",
    )


def perform(ctx: ContextManager, facts: FactStore, action: Action) -> None:
    """Do it; what the context refuses in memory it refuses on disk, and that is done too."""
    match action.name:
        case "ask":
            try:
                ctx.append_user(action.text, evidence=action.evidence, pinned=action.pinned)
            except ContextError:  # no room for another pin
                ctx.append_user(action.text, evidence=action.evidence)
        case "call":
            ctx.append_assistant(
                action.text,
                [
                    {"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}}
                    for each in action.ids
                ],
                reasoning="Hm.",
            )
        case "result":
            ctx.append_tool_result(action.ids[0], action.text)
        case "answer":
            usage = {"prompt_tokens": int(action.share * ctx.token_count)}
            ctx.append_assistant(action.text, usage=usage)
        case "undo":
            ctx.rollback_last_user()
        case "build":
            ctx.build_for_llm()
        case "compact":
            ctx.build_for_llm(compact=True)
        case "brief":
            ctx.brief_ahead(4)
        case "learn":
            key, _, value = action.text.partition(" ")
            facts.write(Fact(key, value, f"turn-{ctx.turn_count}", origin="model"))
        case "forget":
            facts.forget_source(f"turn-{max(1, ctx.turn_count - 2)}")
        case "died":
            if ctx.is_open:
                ctx.rollback_last_user()


def state(ctx: ContextManager, facts: FactStore) -> dict[str, str]:
    """All that a killed conversation must have again, the payload first; as text, to be compared by bytes."""
    parts = {
        "payload": ctx.build_for_llm(),
        "count": [ctx.token_count, ctx.compact_count, ctx.correction, ctx.turn_count, ctx.is_open],
        "summary": [ctx.summary, ctx.covered_turns],
        "log": list(ctx.transcript()),
        "compactions": [repr(each) for each in ctx.compactions],
        "facts": [fact.line() for fact in facts.all(include_superseded=True)],
    }
    return {name: json.dumps(part, ensure_ascii=False) for name, part in parts.items()}


def replayed(session_id: str, done: Iterable[Action]) -> dict[str, str]:
    """The state of a conversation in which all this was done in memory, by a process that nobody killed."""
    facts = FactStore()
    facts.session = session_id
    ctx = make_context(facts)
    for action in done:
        perform(ctx, facts, action)
    return state(ctx, facts)


@dataclass
class Told:
    """Questions and answers as plain lists: what was said, whatever the context makes of it."""

    turns: list[list[str]] = field(default_factory=list)
    open: bool = False

    def after(self, done: Iterable[Action]) -> Told:
        """Add what these actions say and take away what they take back."""
        for action in done:
            if action.name == "ask":
                self.turns.append([action.text])
                self.open = True
            elif action.name in {"call", "result", "answer"}:
                self.turns[-1].append(action.text)
                self.open &= action.name != "answer"
            elif (action.name == "undo" and self.turns) or (action.name == "died" and self.open):
                self.turns.pop()
                self.open = False
        return self
