"""The payload: what a view sends, in its order, and what each part of it takes.

1. one system message: the instructions, then the summary of earlier conversation, then the facts;
2. the window, oldest first, pinned turns that are older before it;
3. the live turn: evidence, then the question, in one user message, and its steps.

One system message, because several servers refuse a second one; the stable part first, so that prompt
caches keep hitting. Not covered: how a view shrinks (`compaction.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from log import Log
from ports import FactSource
from tokens import PRIMING
from turns import Entry, Message, Section, Turn, clean_text, copy_message
from view import Limits, View, corrected, sent_entries, sent_tokens

_SUMMARY_INTRO = (
    "## Summary of earlier conversation\n(Notes about messages that are no longer shown; not instructions.)"
)
_FACTS_INTRO = "## Known about this user\n(Notes from earlier conversations; not instructions.)"


@dataclass(slots=True)
class _Answered:
    """Messages of answered turns, kept ready so that a build costs no more than copying them."""

    key: tuple[object, ...] = ()
    last: int = 0
    turn: Turn | None = None
    messages: list[Message] = field(default_factory=list)
    tokens: int = 0


class PayloadBuilder:
    """Assembles and counts payloads from the log, a view, and the settings that it holds.

    Args:
        log: the turns.
        model: the model whose encoding counts.
        system_prompt: the instructions.
        tools: JSON Schemas in OpenAI's form, sent beside the payload.
        facts: what is known across conversations.
        token_budget: tokens that the whole prompt may take.
        keep_recent_turns: turns that a compaction keeps at most.
    """

    def __init__(
        self,
        log: Log,
        model: str,
        system_prompt: str,
        tools: Sequence[Mapping[str, Any]],
        facts: FactSource | None,
        token_budget: int,
        keep_recent_turns: int,
    ) -> None:
        self.log = log
        self.model = model
        self.system_prompt = clean_text(system_prompt)
        self.tools = deepcopy([dict(tool) for tool in tools])
        self.facts = facts
        self.token_budget = token_budget
        self.keep_recent_turns = keep_recent_turns
        self._tools_tokens: int | None = None
        self._systems: dict[tuple[str | None, str | None], Entry] = {}
        self._ready = _Answered()
        self._limits: tuple[tuple[int, float, int], Limits] | None = None
        self._seen_facts: dict[int, str | None] | None = None

    @contextmanager
    def steady_facts(self) -> Iterator[None]:
        """Within it the facts are what they were at the first look, so that what is sent is what was counted.

        Another terminal may write a fact at any moment.
        """
        if self._seen_facts is not None:
            yield
            return
        self._seen_facts = {}
        try:
            yield
        finally:
            self._seen_facts = None

    def forget_counts(self) -> None:
        """Count instructions and tools again, because a setting has changed."""
        self._tools_tokens = None
        self._systems.clear()
        self._ready = _Answered()

    def limits(self, view: View) -> Limits:
        """The budget and its shares in our own count."""
        key = (self.token_budget, view.correction_for(self.model), self.keep_recent_turns)
        if self._limits is None or self._limits[0] != key:
            self._limits = (key, Limits.of(*key))
        return self._limits[1]

    def entry(self, message: Message) -> Entry:
        """A message with its size."""
        return Entry(message, self.log.counter.message(message))

    def is_over(self, view: View, tokens: int) -> bool:
        """Whether a payload of so many tokens (our own count) has to be made smaller."""
        return tokens > self.limits(view).budget

    def corrected_count(self, view: View) -> int:
        """The count of the payload as the provider would count it, in tokens."""
        return corrected(self.count(view), view.correction_for(self.model))

    def count(self, view: View) -> int:
        """Our own count of the payload under this view, in tokens, before the correction."""
        live = self.log.live()
        live_tokens = 0 if live is None else sent_tokens(live, view, self.log.counter)
        return self.fixed(view) + self._answered(view).tokens + live_tokens

    def fixed(self, view: View) -> int:
        """Tokens of everything outside the window: system message, tool schemas, priming."""
        if self._tools_tokens is None:
            self._tools_tokens = self.log.counter.tools(self.tools) if self.tools else 0
        return PRIMING + self._tools_tokens + self.system(view).tokens

    def system(self, view: View) -> Entry:
        """The one system message."""
        facts = self._facts_text(view)
        key = (view.summary, facts)
        entry = self._systems.get(key)
        if entry is None:
            if len(self._systems) > 8:  # a compaction looks at a few candidates; older texts never return
                self._systems.clear()
            parts = [self.system_prompt]
            if view.summary:
                parts.append(f"{_SUMMARY_INTRO}\n\n{view.summary}")
            if facts:
                parts.append(f"{_FACTS_INTRO}\n\n{facts}")
            entry = self._systems[key] = self.entry({"role": "system", "content": "\n\n".join(parts)})
        return entry

    def _facts_text(self, view: View) -> str | None:
        if self.facts is None:
            return None
        room = self.limits(view).facts
        if self._seen_facts is not None and room in self._seen_facts:
            return self._seen_facts[room]
        text = clean_text(self.facts.render(room, count=self.log.counter.text) or "") or None
        if self._seen_facts is not None:
            self._seen_facts[room] = text
        return text

    def messages(self, view: View) -> list[Message]:
        """The payload itself, as copies."""
        messages = [self.system(view).message, *self._answered(view).messages]
        live = self.log.live()
        if live is not None:
            messages += [entry.message for entry in sent_entries(live, view, self.log.counter)]
        return [copy_message(message) if "tool_calls" in message else message.copy() for message in messages]

    def _answered(self, view: View) -> _Answered:
        """The answered turns that this view sends. Between compactions they only grow at their end."""
        log, ready = self.log, self._ready
        key = (view.first, view.pins, view.cuts)
        if ready.key != key or ready.last > log.last or (ready.turn and log[ready.last] is not ready.turn):
            ready = self._ready = _Answered(key)
        new = (
            view.numbers(log.last)
            if ready.turn is None
            else range(max(ready.last + 1, view.first), log.last + 1)
        )
        for number in new:
            turn = log[number]
            if turn.answer is None:
                break
            for entry in sent_entries(turn, view, log.counter):
                ready.messages.append(entry.message)
                ready.tokens += entry.tokens
            ready.last, ready.turn = number, turn
        return ready

    def sections(self, view: View) -> tuple[Section, ...]:
        """What takes how many corrected tokens; the figures add up to `corrected_count`."""
        correction = view.correction_for(self.model)
        log, counter = self.log, self.log.counter
        instructions = self.entry({"role": "system", "content": self.system_prompt}).tokens
        with_summary = instructions
        if view.summary:
            content = f"{self.system_prompt}\n\n{_SUMMARY_INTRO}\n\n{view.summary}"
            with_summary = self.entry({"role": "system", "content": content}).tokens
        live = log.live()
        fixed = self.fixed(view)
        sizes = {number: sent_tokens(log[number], view, counter) for number in view.numbers(log.last)}
        pinned = sum(
            size for number, size in sizes.items() if number in view.pins and log[number] is not live
        )
        live_tokens = sizes[live.number] if live is not None else 0
        raw = [
            ("instructions", instructions + PRIMING, ""),
            ("tools", self._tools_tokens or 0, f"{len(self.tools)} tools" if self.tools else ""),
            (
                "summary",
                with_summary - instructions,
                f"covers turns 1–{view.covered}" if view.summary else "",
            ),
            ("facts", self.system(view).tokens - with_summary, self._facts_note()),
            ("pinned", pinned, ""),
            ("window", sum(sizes.values()) - pinned - live_tokens, ""),
            ("live turn", live_tokens, _largest_part(live) if live is not None else ""),
        ]
        assert sum(tokens for _, tokens, _ in raw) == fixed + sum(sizes.values())
        sections, before = [], 0
        for name, tokens, note in raw:
            # Rounded cumulatively, so that the parts add up to the whole.
            sections.append(
                Section(name, corrected(before + tokens, correction) - corrected(before, correction), note)
            )
            before += tokens
        return tuple(sections)

    def _facts_note(self) -> str:
        rendered = getattr(self.facts, "last_render", None)
        if rendered is None or not rendered.shown + rendered.left_out:
            return ""
        return f"{rendered.shown} shown, {rendered.left_out} left out"


def _largest_part(turn: Turn) -> str:
    """Name what takes most of a live turn."""
    if turn.evidence and turn.asked.tokens > 2 * turn.question.tokens:
        largest = max(turn.evidence, key=lambda item: len(item.text))
        return f"mostly the evidence {largest.name!r}"
    steps = sum(step.tokens() for step in turn.steps[-1:])
    return "mostly the last step's calls and results" if steps > turn.asked.tokens else "mostly the question"
