"""What of the log is sent: the frozen `View`, a small projection of it.

The log is append-only; a compaction never touches it. It computes a new `View`, and the context
assigns that last, so nothing can be half changed and undo just puts the old one back.

Covered here: the types of the projection and the reading of a turn through it. Not covered: how a
view shrinks (`compaction.py`) and what of it a summary replaces (`summarizing.py`).
All sizes are tokens of our own count, before the learned correction, unless a name says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from log import Log
from tokens import TokenCounter
from turns import Entry, Turn, clean_text

LOW_WATER = 0.75
"""Share of the budget that a compaction leaves filled at most. Without the mark, a window near the
budget compacts on nearly every turn, and a prompt cache never hits."""
SUMMARY_SHARE, FACTS_SHARE, PINS_SHARE = 0.20, 0.10, 0.25
"""Shares of the budget that the fixed parts may take, so that they cannot starve the window."""
OWED_SHARE = 0.5
"""Share of the budget that one request to a summarizer may carry of dropped messages."""
MARGIN = 0.02
"""Share of the budget that is left free while the count is corrected by a learned ratio. The ratio is that of
the last payload, and new text may be denser: beside servers that count otherwise it was up to 1.9 % too low
(`benchmarks/bench_accuracy.py`). An exact count needs no margin."""
CORRECTION_RANGE = (0.5, 5.0)
"""Bounds of the learned ratio between the provider's count and ours, so that one absurd figure does
little harm. Non-ASCII parallel results have been billed at about five times our count
(community.openai.com, topic 538914)."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is not sent of one turn: its oldest steps, ends of results, the end of a pinned turn's answer."""

    first_step: int = 0
    results: tuple[tuple[int, int, int], ...] = ()
    """(step, position of the call, characters kept)."""
    answer: int | None = None
    """Characters kept of the answer, or None for all of it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Dropped messages that no summary speaks for yet: turns first..last, or steps of one turn.

    The first `skip` steps of the first turn are not part of it. With `stop`, only the steps
    skip..stop of that turn are.
    """

    first: int
    last: int
    tokens: int
    skip: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The projection of the log that is sent. Everything here is small; texts stay in the log."""

    first: int = 1
    """Number of the first kept turn; pinned ones before it are kept as well."""
    pins: tuple[int, ...] = ()
    cuts: tuple[tuple[int, Cut], ...] = ()
    """By turn, oldest first. A cut outlives its turn, or dropped steps would reappear."""
    summary: str | None = None
    covered: int = 0
    """The summary speaks for every turn up to this number (as far as it was given them)."""
    sources: tuple[str, ...] = ()
    """Sources of facts and evidence that the summary may have drawn on."""
    owed: tuple[Span, ...] = ()
    omitted: int = 0
    """Dropped messages that were never given to a summarizer, because they were too many at once."""
    rebuild: bool = False
    """The summary was taken out and is to be written anew from the log."""
    fruitless: int = 0
    correction: float = 1.0
    correction_model: str = ""
    compactions: int = 0
    revoked: int = 0
    """Serial of the last revocation of a source that this view has heeded."""
    tainted: tuple[str, ...] = ()
    """Revoked sources, from whose turns no summary may be written again."""

    def correction_for(self, model: str) -> float:
        """The learned ratio of the provider's count to ours; 1.0 until one was learned for this model."""
        return self.correction if self.correction_model == model else 1.0

    def cut(self, number: int) -> Cut | None:
        """Return what is cut of this turn, if anything."""
        for turn, cut in self.cuts:
            if turn == number:
                return cut
        return None

    def with_cut(self, number: int, cut: Cut) -> View:
        """Return the view with this turn's cut replaced."""
        others = [(turn, old) for turn, old in self.cuts if turn != number]
        return replace(self, cuts=tuple(sorted([*others, (number, cut)], key=lambda pair: pair[0])))

    def numbers(self, last: int) -> list[int]:
        """The turns that are sent, oldest first."""
        return [number for number in self.pins if number < self.first] + list(range(self.first, last + 1))

    def changed_parts(self, old: View) -> dict[str, str]:
        """Return, as JSON texts for the history, the parts in which this view differs from an older one.

        The summary is large and the correction may change with every reply, so each stands alone.
        """
        parts: dict[str, str] = {}
        if self is old:
            return parts
        if self.summary != old.summary:
            parts["summary"] = json.dumps(self.summary)
        if (self.correction, self.correction_model) != (old.correction, old.correction_model):
            parts["correction"] = json.dumps([self.correction, self.correction_model])
        blank = {"summary": None, "correction": 1.0, "correction_model": ""}
        state = {**asdict(self), **blank}
        if state != {**asdict(old), **blank}:
            parts["view"] = json.dumps(
                {k: v for k, v in state.items() if k not in blank}, separators=(",", ":")
            )
        return parts

    def fits(self, last: int) -> bool:
        """Whether this can be a view of a log with this many turns; every field is checked.

        A stored view may come out of a damaged file, or out of one that somebody else has written.
        """
        cut_turns = [turn for turn, _ in self.cuts]
        cuts = [cut for _, cut in self.cuts]
        counts = [self.first, self.covered, self.omitted, self.fruitless, self.compactions, self.revoked]
        counts += [*self.pins, *cut_turns, *(cut.first_step for cut in cuts)]
        counts += [number for cut in cuts for kept in cut.results for number in kept]
        counts += [number for span in self.owed for number in (span.first, span.last, span.tokens, span.skip)]
        counts += [cut.answer for cut in cuts if cut.answer is not None]
        counts += [span.stop for span in self.owed if span.stop is not None]
        return (
            all(type(number) is int and 0 <= number < 2**53 for number in counts)
            and all(len(kept) == 3 for cut in cuts for kept in cut.results)
            and all(1 <= number <= last for number in (*self.pins, *cut_turns))
            and all(list(numbers) == sorted(set(numbers)) for numbers in (self.pins, cut_turns))
            and all(1 <= span.first <= span.last <= last for span in self.owed)
            and 1 <= self.first <= last + 1
            and self.covered <= last
            and type(self.rebuild) is bool
            and all(isinstance(name, str) for name in (*self.sources, *self.tainted, self.correction_model))
            and type(self.correction) in (int, float)
            and CORRECTION_RANGE[0] <= self.correction <= CORRECTION_RANGE[1]
            and isinstance(self.summary, str | None)
        )

    @staticmethod
    def from_parts(parts: dict[str, str]) -> View:
        """Rebuild a view from its stored parts; a part that is missing has its starting value."""
        state: dict[str, Any] = json.loads(parts.get("view", "{}"))
        if state:
            cuts = (
                (turn, {**cut, "results": tuple(map(tuple, cut["results"]))}) for turn, cut in state["cuts"]
            )
            state["cuts"] = tuple((turn, Cut(**cut)) for turn, cut in cuts)
            state["owed"] = tuple(Span(**span) for span in state["owed"])
            for name in ("pins", "sources", "tainted"):
                state[name] = tuple(state[name])
        correction, model = json.loads(parts.get("correction", '[1.0, ""]'))
        summary = json.loads(parts.get("summary", "null"))
        if isinstance(summary, str):
            summary = clean_text(summary)
        return View(**state, summary=summary, correction=correction, correction_model=model)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What one compaction did, for the person. Counts are corrected tokens of the payload."""

    number: int
    outcome: str
    """`slide`, `summary`, `summary refused` or `summary resting`."""
    turns: int
    steps: int
    shortened: int
    tokens: int
    kept_turns: int
    before: int
    after: int
    summary_before: int = 0
    summary_after: int = 0
    covers: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The budget and its shares in tokens of our own count, and the number of turns to keep."""

    budget: int
    keep_turns: int
    low_water: int
    summary: int
    facts: int
    pins: int
    owed: int

    @staticmethod
    def of(token_budget: int, correction: float, keep_turns: int) -> Limits:
        """Divide the budget, less the margin, by the correction: everything below compares its own counts."""
        room = token_budget if correction == 1.0 else token_budget - int(MARGIN * token_budget)
        budget = int(room / correction)
        while budget > 0 and corrected(budget, correction) > room:
            budget -= 1
        shares = (LOW_WATER, SUMMARY_SHARE, FACTS_SHARE, PINS_SHARE, OWED_SHARE)
        return Limits(budget, keep_turns, *(int(budget * share) for share in shares))


def corrected(tokens: int, correction: float) -> int:
    """Our count as the provider would count it, rounded up."""
    return tokens if correction == 1.0 else -int(-(tokens * correction) // 1)


def sent_entries(turn: Turn, view: View, counter: TokenCounter) -> Iterable[Entry]:
    """Return the messages of a turn as this view sends them."""
    cut = view.cut(turn.number) if view.cuts else None
    if cut is None:
        return turn.entries()
    entries = [turn.asked if turn.answer is None else turn.question]
    kept = {(step, position): characters for step, position, characters in cut.results}
    for index in range(cut.first_step, len(turn.steps)):
        step = turn.steps[index]
        entries.append(step.call)
        for position, result in enumerate(step.results):
            if result is not None:
                characters = kept.get((index, position))
                entries.append(
                    result
                    if characters is None
                    else _short(turn, index, position, result, characters, counter)
                )
    if turn.answer is not None:
        short = turn.answer if cut.answer is None else _short(turn, -1, 0, turn.answer, cut.answer, counter)
        entries.append(short)
    return entries


def sent_tokens(turn: Turn, view: View, counter: TokenCounter) -> int:
    """Return the size of a turn as this view sends it."""
    if not view.cuts or view.cut(turn.number) is None:
        return turn.tokens()
    return sum(entry.tokens for entry in sent_entries(turn, view, counter))


def window_tokens(view: View, log: Log) -> int:
    """Return the size of everything that is sent of the log."""
    return sum(sent_tokens(log[number], view, log.counter) for number in view.numbers(log.last))


def marker(missing: int, total: int) -> str:
    """The visible sign that a text was shortened; it says how much is missing."""
    return f"\n[… {missing:,} of {total:,} characters left out to fit the context budget]"


def _short(
    turn: Turn, step: int, position: int, entry: Entry, characters: int, counter: TokenCounter
) -> Entry:
    """Return the shortened form of a message; it is derived from the log, so it is only kept ready."""
    key = (step, position, characters)
    short = turn.shortened.get(key)
    if short is None:
        content = entry.message["content"]
        text = (content[:characters] + marker(len(content) - characters, len(content))).lstrip("\n")
        message = {**entry.message, "content": text}
        short = turn.shortened[key] = Entry(message, counter.message(message))
    return short
