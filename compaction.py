"""One compaction: from a view that is over the budget to the next view, and the record of what it did.

In order: whole turns, then steps of the live turn, then its last results, then answers of pinned
turns; what was dropped goes to the summarizer in one call. Whatever fails on the way, the caller's
view is untouched. Not covered: when a compaction is due, and storing its result (`context.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

from cutting import cut_steps, fit_pins, fit_summary, shorten_results, slide
from payload import PayloadBuilder
from summarizing import dropped_spans, owe
from turns import ContextOverflow
from view import Compaction, Limits, View, corrected, window_tokens

FRUITLESS_LIMIT = 2
"""Fruitless attempts in a row after which the summarizer rests."""
SMALLEST_SUMMARY = 16
"""Tokens below which there is no room worth asking a summarizer to fill."""

Summarize = Callable[[View, Limits, int], tuple[View, str]]
"""`summarize(view, limits, max_tokens)` -> the view with its new summary, and what was wrong, or ""."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The next view and how it came about."""

    view: View
    outcome: str
    note: str = ""


def plan(view: View, payload: PayloadBuilder, summarize: Summarize | None) -> Plan:
    """Return the view after one compaction.

    Raises:
        ContextOverflow: not even the smallest payload fits.
    """
    try:
        return _plan(view, payload, summarize)
    except ContextOverflow:
        if view.correction_for(payload.model) <= 1.0:
            raise
        # Only the correction may be at fault: one absurd usage must not lock the chat.
        return _plan(replace(view, correction=1.0, correction_model=""), payload, summarize)


def _plan(view: View, payload: PayloadBuilder, summarize: Summarize | None) -> Plan:
    limits, log = payload.limits(view), payload.log
    view = fit_summary(view, limits, log.counter)
    room = max(0, limits.summary - log.counter.text(view.summary or "")) if summarize else 0
    slid = _cut(view, payload, limits, room)
    if payload.corrected_count(slid) > payload.token_budget:  # the margin is given up before the turn is
        _overflow(slid, payload)
    dropped = dropped_spans(view, slid, log)
    slid = owe(slid, dropped, limits)
    if summarize is None or not slid.owed:
        return Plan(slid, "slide")

    starved = payload.count(slid) > limits.low_water
    if slid.fruitless >= FRUITLESS_LIMIT and (starved or not dropped):
        return Plan(slid, "summary resting")
    around = payload.fixed(replace(slid, summary="x")) + window_tokens(slid, log)
    max_tokens = min(limits.summary, limits.budget - around)
    if max_tokens < SMALLEST_SUMMARY:
        return Plan(slid, "summary resting", "no room for a summary")
    new, fault = summarize(slid, limits, max_tokens)
    if payload.count(new) > limits.budget:
        new, fault = slid, "the summary did not fit beside the live turn"
    if fault:
        return Plan(replace(new, fruitless=slid.fruitless + 1), "summary refused", fault)
    # Written, but still above the mark: writing it again every turn would not help, so that counts too.
    return Plan(replace(new, fruitless=slid.fruitless + 1 if starved else 0), "summary")


def _cut(view: View, payload: PayloadBuilder, limits: Limits, room: int) -> View:
    log, fixed = payload.log, payload.fixed(view)
    view = slide(view, log, limits, fixed=fixed, room=room)
    for shrink in (cut_steps, shorten_results):
        if log.last and fixed + window_tokens(view, log) > limits.budget:
            view = shrink(view, log, limits, fixed=fixed)
    if fixed + window_tokens(view, log) > limits.budget:
        view = fit_pins(view, log, 0)
    return view


def _overflow(view: View, payload: PayloadBuilder) -> NoReturn:
    raise ContextOverflow(payload.sections(view), payload.corrected_count(view), payload.token_budget)


def record(old: View, planned: Plan, payload: PayloadBuilder) -> Compaction | None:
    """Return what a compaction did to the payload, or None when it changed nothing that is sent."""
    new, log = planned.view, payload.log
    if (new.first, new.cuts, new.summary) == (old.first, old.cuts, old.summary):
        return None
    spans = dropped_spans(old, new, log)
    shortened = sum(len(cut.results) for _, cut in new.cuts) - sum(len(cut.results) for _, cut in old.cuts)
    kept = log.last - new.first + 1
    notes = [planned.note] if planned.note else []
    if kept < min(payload.keep_recent_turns, log.last):
        notes.append(f"kept {kept} of {payload.keep_recent_turns} turns")
    return Compaction(
        number=old.compactions + 1,
        outcome=planned.outcome,
        turns=sum(span.stop is None for span in spans),
        steps=sum(span.stop - span.skip for span in spans if span.stop is not None),
        shortened=max(0, shortened),
        tokens=corrected(sum(span.tokens for span in spans), new.correction_for(payload.model)),
        kept_turns=kept,
        before=payload.corrected_count(old),
        after=payload.corrected_count(new),
        summary_before=log.counter.text(old.summary or ""),
        summary_after=log.counter.text(new.summary or ""),
        covers=new.covered if new.summary else 0,
        note="; ".join(notes),
    )
