"""How a view shrinks: the sliding window, the step-wise cut, the shortening of results and pins.

Pure functions `View -> View`. What goes is always the oldest, turns and steps go whole, and the
live question is never touched.
All sizes are tokens of our own count, before the learned correction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from log import Log
from tokens import TokenCounter
from turns import Entry, Turn
from view import Cut, Limits, View, marker, sent_tokens, window_tokens


def fitting_length(entry: Entry, room: int, counter: TokenCounter) -> int:
    """How many characters of a message can stay if it may take `room` tokens, marker included."""
    content = entry.message["content"]
    empty = counter.message({**entry.message, "content": marker(len(content), len(content))})
    return len(counter.clip(content, room - empty)) if room > empty else 0


def shares_of(sizes: Sequence[int], room: int) -> list[int]:
    """Divide room among texts: the small ones whole, the large ones an equal share each."""
    shares = [0] * len(sizes)
    left = room
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for done, index in enumerate(by_size):
        shares[index] = min(sizes[index], max(0, left) // (len(sizes) - done))
        left -= shares[index]
    return shares


def slide(view: View, log: Log, limits: Limits, *, fixed: int, room: int = 0) -> View:
    """Drop the oldest turns: down to the number to keep, then down to the low-water mark.

    Args:
        view: the view to start from.
        log: the turns.
        limits: the budget and its shares.
        fixed: tokens of everything outside the window.
        room: tokens to leave free below the mark, for a summary that is about to be written.

    The last turn stays, whatever it takes; pinned turns stay without their tool steps.
    """
    target = max(view.first, log.last - limits.keep_turns + 1)
    mark = limits.low_water - room
    total = fixed + window_tokens(view, log)
    first = view.first
    while first < log.last and (first < target or total > mark):
        turn = log[first]
        first += 1
        if turn.pinned:
            view = fit_pins(_starting_at(_bare(view, turn), first), log, limits.pins)
            total = fixed + window_tokens(view, log)
        else:
            total -= sent_tokens(turn, view, log.counter)
    return view if first == view.first else _starting_at(view, first)


def _starting_at(view: View, first: int) -> View:
    """Move the window's first turn; cuts of turns that are no longer sent are of no use."""
    cuts = tuple((number, cut) for number, cut in view.cuts if number >= first or number in view.pins)
    return replace(view, first=first, cuts=cuts)


def _bare(view: View, turn: Turn) -> View:
    """Keep only question and answer of a pinned turn."""
    if not turn.steps:
        return view
    cut = view.cut(turn.number) or Cut()
    return view.with_cut(turn.number, replace(cut, first_step=len(turn.steps), results=()))


def fit_pins(view: View, log: Log, cap: int) -> View:
    """Shorten the answers of pinned turns that are older than the window until they fit their share.

    The questions stay verbatim whatever they take; `append_user` has checked that they fit.
    """
    turns = [log[number] for number in view.pins if number < view.first]
    if not turns or sum(sent_tokens(turn, view, log.counter) for turn in turns) <= cap:
        return view
    answers = [turn.answer for turn in turns if turn.answer is not None]
    room = cap - sum(turn.question.tokens for turn in turns)
    for turn, answer, share in zip(
        turns, answers, shares_of([answer.tokens for answer in answers], room), strict=True
    ):
        if share < answer.tokens:
            cut = view.cut(turn.number) or Cut(first_step=len(turn.steps))
            kept = fitting_length(answer, share, log.counter)
            shorter = view.with_cut(turn.number, replace(cut, answer=kept))
            # The marker alone may take more than a short answer.
            if sent_tokens(turn, shorter, log.counter) < sent_tokens(turn, view, log.counter):
                view = shorter
    return view


def cut_steps(view: View, log: Log, limits: Limits, *, fixed: int) -> View:
    """Drop the oldest steps of the last turn down to the low-water mark.

    The question stays, and so does the last step while the model has not seen its results.
    """
    turn = log[log.last]
    droppable = len(turn.steps) - (1 if turn.answer is None else 0)
    cut = view.cut(turn.number) or Cut()
    total = fixed + window_tokens(view, log)
    first = cut.first_step
    while first < droppable and total > limits.low_water:
        total -= turn.steps[first].tokens()
        first += 1
    if first == cut.first_step:
        return view
    results = tuple(result for result in cut.results if result[0] >= first)
    return view.with_cut(turn.number, replace(cut, first_step=first, results=results))


def shorten_results(view: View, log: Log, limits: Limits, *, fixed: int) -> View:
    """Shorten the results of the live turn's last step, each to its share, ids kept.

    Down to the low-water mark where that is possible, otherwise as far as it goes.
    """
    turn = log[log.last]
    if not turn.steps or turn.answer is not None:
        return view
    index = len(turn.steps) - 1
    results = [result for result in turn.steps[index].results if result is not None]
    cut = view.cut(turn.number) or Cut()
    bare = replace(cut, results=tuple((index, position, 0) for position in range(len(results))))
    smallest = fixed + window_tokens(view.with_cut(turn.number, bare), log)
    target = limits.low_water if smallest <= limits.low_water else limits.budget
    rest = fixed + window_tokens(view, log) - sum(result.tokens for result in results)
    room = target - rest
    while room > 0:
        shares = shares_of([result.tokens for result in results], room)
        short = tuple(
            (index, position, fitting_length(result, share, log.counter))
            for position, (result, share) in enumerate(zip(results, shares, strict=True))
            if share < result.tokens
        )
        shortened = view.with_cut(turn.number, replace(cut, results=short))
        over = fixed + window_tokens(shortened, log) - target
        if over <= 0:
            return shortened
        room -= over
    return view.with_cut(turn.number, bare)


def fit_summary(view: View, limits: Limits, counter: TokenCounter) -> View:
    """Shorten a summary that is over its cap because the budget was lowered after it was written."""
    if view.summary is None or counter.text(view.summary) <= limits.summary:
        return view
    note = "\n[the summary was shortened to fit the context budget]"
    kept = counter.clip(view.summary, max(0, limits.summary - counter.text(note)))
    return replace(view, summary=(kept + note).strip() if kept else None)
