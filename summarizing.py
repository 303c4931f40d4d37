"""What a summary replaces: what was dropped and is owed to the summarizer, and what it may answer.

A summarizer cannot hurt: whatever it does, the view that comes back is valid. A fault leaves the old
summary, and what it was not told is still owed to the next attempt.
All sizes are tokens of our own count, before the learned correction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

from cutting import fitting_length, shares_of
from log import Log
from redaction import said_by
from tokens import TokenCounter
from turns import Entry, Message, Turn, clean_text, copy_message
from view import Limits, Span, View, marker

Summarizer = Callable[..., str]
"""`summarizer(previous: str | None, dropped: list[dict], *, max_tokens: int) -> str`."""

SUMMARY_JUNK: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), what)
    for pattern, what in (
        (r"</?\s*(tool_call|tool_response|function_call|function=|invoke)\b", "tool-call markup"),
        (r"<\|[\w ]{1,40}\|>", "a chat template's control token"),
        (r'"(tool_calls|function_call)"\s*:', "tool-call JSON"),
        (r'^\s*\{\s*"(error|name|detail|message)"\s*:', "a JSON object instead of prose"),
        (r"^\s*(\w*error|\w*exception|fatal|traceback[^:\n]*)\s*[:(]", "an error text"),
        (r"^\s*(\d{3}\s+)?(internal server error|bad gateway|service unavailable)\b", "an error text"),
        (r"^\s*(\d{3}\s+)?(too many requests|rate limit exceeded|gateway time-?out)\b", "an error text"),
        (r"^\s*<(!doctype|html)\b", "an HTML page"),
        (r"^\s*(i'?m sorry|sorry|i apologi[sz]e),? (but )?i (can ?not|can['’]t|am unable)\b", "a refusal"),
    )
)
"""What a summarizer must not return: pattern, and the words for it in the compaction's note."""


def dropped_spans(old: View, new: View, log: Log) -> list[Span]:
    """Return what `new` no longer sends of what `old` sent, oldest first."""
    spans: list[Span] = []
    for number in range(old.first, new.first):
        turn = log[number]
        skip = _first_step(old, number)
        if turn.pinned:
            spans += _steps_span(turn, skip, len(turn.steps))
        else:
            tokens = turn.tokens() - sum(step.tokens() for step in turn.steps[:skip])
            spans.append(Span(number, number, tokens, skip))
    if log.last >= new.first:
        spans += _steps_span(log[log.last], _first_step(old, log.last), _first_step(new, log.last))
    return spans


def _first_step(view: View, number: int) -> int:
    cut = view.cut(number)
    return cut.first_step if cut else 0


def _steps_span(turn: Turn, skip: int, stop: int) -> list[Span]:
    if stop <= skip:
        return []
    tokens = sum(step.tokens() for step in turn.steps[skip:stop])
    return [Span(turn.number, turn.number, tokens, skip, stop)]


def owe(view: View, dropped: Sequence[Span], limits: Limits) -> View:
    """Remember what was dropped until a summary speaks for it.

    What a brief written ahead covers is not owed again. What is owed from earlier attempts gives way, the
    oldest first, once it is more than half a budget's worth with what is new: a request carries no more. A
    rebuild keeps all, since it asks piece by piece.
    """
    old, new = list(view.owed), [span for span in dropped if span.last > view.covered]
    omitted = view.omitted
    total = sum(span.tokens for span in (*old, *new))
    while not view.rebuild and old and total > limits.owed:
        total -= old[0].tokens
        omitted += old.pop(0).tokens
    return replace(view, owed=(*old, *new), omitted=omitted)


def revoke(view: View, log: Log, sources: Sequence[str]) -> View:
    """Take the summary out if it may have drawn on a revoked source, and owe a new one.

    The new one is written from the log at the next compaction, without the turns that carried the
    source: their evidence, or the turn itself when it is the source (`turn-N`).
    """
    view = replace(view, tainted=(*view.tainted, *(name for name in sources if name not in view.tainted)))
    touched = any(name in view.sources or 0 < _turn_number(name) <= view.covered for name in sources)
    if view.summary is None or not touched:
        return view
    owed = [Span(1, view.first - 1, 0)] if view.first > 1 else []
    for number, cut in view.cuts:
        if number >= view.first:
            owed += _steps_span(log[number], 0, cut.first_step)
    return replace(
        view, summary=None, covered=0, sources=(), owed=tuple(owed), omitted=0, rebuild=True, fruitless=0
    )


def _turn_number(source: str) -> int:
    """The N of a source `turn-N`, or 0 for any other source."""
    number = source.removeprefix("turn-")
    return int(number) if number != source and number.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class _Piece:
    """Messages for one request to a summarizer, and what of the owed spans is left after it."""

    messages: list[Message]
    sources: tuple[str, ...]
    covered: int
    rest: tuple[Span, ...]


def _next_piece(view: View, log: Log, limits: Limits) -> _Piece:
    """Take as many owed turns as one request may carry, the oldest first, at least one."""
    entries: list[Entry] = []
    sources: list[str] = []
    owed = list(view.owed)
    covered = view.covered
    total = 0
    while owed:
        span = owed[0]
        turn = log[span.first]
        taken = _span_entries(span, turn) if not _is_tainted(turn, view) else []
        size = sum(entry.tokens for entry in taken)
        if view.rebuild and total and total + size > limits.owed:
            break
        total += size
        entries += taken
        sources += [item.name for item in turn.evidence]
        # Steps alone do not cover their turn: the rest of it is still sent and will be owed in its time.
        covered = max(covered, span.first if span.stop is None else span.first - 1)
        owed.pop(0)
        if span.last > span.first:
            owed.insert(0, replace(span, first=span.first + 1, skip=0))
    messages = _bounded(entries, limits.owed, log.counter, view.omitted)
    return _Piece(messages, tuple(sources), covered, tuple(owed))


def _span_entries(span: Span, turn: Turn) -> list[Entry]:
    """The messages of a span's first turn, without its evidence."""
    whole = span.stop is None and not turn.pinned
    entries = [turn.question] if whole else []
    for step in turn.steps[span.skip : span.stop]:
        entries += step.entries()
    if whole and turn.answer is not None:
        entries.append(turn.answer)
    return entries


def _is_tainted(turn: Turn, view: View) -> bool:
    names = {f"turn-{turn.number}", *(item.name for item in turn.evidence)}
    return not names.isdisjoint(view.tainted)


def _bounded(entries: Sequence[Entry], cap: int, counter: TokenCounter, omitted: int) -> list[Message]:
    """Return copies of messages that fit the cap together, behind a note of what is missing before them.

    What is too long gives way where that costs least: first the ends of long tool results, then those of
    all long messages, at last the oldest messages. Every omission is visible; `omitted` tokens were before.
    """
    if omitted:
        cap -= counter.message(_missing(omitted))
    whole = entries
    entries = _with_short_texts(entries, {"tool"}, cap, counter)
    entries = _with_short_texts(entries, {"tool", "user", "assistant"}, cap, counter)
    messages: list[Message] = []
    room = cap
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if entry.tokens > room and "tool_calls" not in entry.message:
            entry = _shortened(entry, room, counter)
        if entry.tokens > room:
            omitted += sum(entry.tokens for entry in whole[: index + 1])
            break
        messages.append(copy_message(entry.message))
        room -= entry.tokens
    return [*([_missing(omitted)] if omitted else []), *messages[::-1]]


def _missing(tokens: int) -> Message:
    return {"role": "user", "content": f"[about {tokens:,} tokens of older messages are left out here]"}


def _with_short_texts(
    entries: Sequence[Entry], roles: Container[str], cap: int, counter: TokenCounter
) -> Sequence[Entry]:
    """Shorten the texts of these roles, the long ones first, as far as that makes everything fit."""
    sizes = [
        entry.tokens if entry.message["role"] in roles and "tool_calls" not in entry.message else 0
        for entry in entries
    ]
    total = sum(entry.tokens for entry in entries)
    room = cap - (total - sum(sizes))
    if total <= cap or room <= 0:
        return entries
    shares = shares_of(sizes, room)
    return [
        _shortened(entry, share, counter) if share < size else entry
        for entry, size, share in zip(entries, sizes, shares, strict=True)
    ]


def _shortened(entry: Entry, room: int, counter: TokenCounter) -> Entry:
    """Return a message with its end left out, if its beginning fits."""
    content = entry.message["content"]
    characters = fitting_length(entry, room, counter)
    if not characters:
        return entry
    text = content[:characters] + marker(len(content) - characters, len(content))
    message = {**entry.message, "content": text}
    return Entry(message, counter.message(message))


def summarize(
    view: View, log: Log, summarizer: Summarizer, limits: Limits, *, max_tokens: int
) -> tuple[View, str]:
    """Hand what is owed to the summarizer and take its summary, if it is one.

    One request, or as many bounded ones as a rebuild takes. Whatever the summarizer does, the view
    that comes back is valid: a fault leaves the old summary, and what it was not told is still owed.

    Returns:
        The new view, and what was wrong in words for the person ("" when nothing was).
    """
    while view.owed:
        piece = _next_piece(view, log, limits)
        if piece.messages:
            given = sum(log.counter.message(message) for message in piece.messages)
            try:
                text = summarizer(view.summary, piece.messages, max_tokens=max_tokens)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - a person's own hook may raise anything, `exit()` too
                return view, f"the summarizer failed: {_one_line_error(error)}"
            text, fault = check_summary(text, view.summary, given, max_tokens, log.counter)
            if fault:
                return view, fault
            view = replace(view, summary=text)
        sources = tuple(dict.fromkeys((*view.sources, *piece.sources)))
        view = replace(view, owed=piece.rest, omitted=0, covered=piece.covered, sources=sources)
    return replace(view, rebuild=False), ""


def _one_line_error(error: BaseException) -> str:
    kind = "" if getattr(error, "is_sentence", False) else f"{type(error).__name__}: "
    text = " ".join(f"{kind}{said_by(error)}".split())
    return clean_text(text[:200]).rstrip(": ")


def check_summary(
    text: object, previous: str | None, given: int, max_tokens: int, counter: TokenCounter
) -> tuple[str, str]:
    """Return the cleaned summary, and why it is refused ("" when it is not).

    Args:
        text: what the summarizer returned.
        previous: the summary it replaces.
        given: tokens of the messages it was given beside the previous summary.
        max_tokens: its cap.
        counter: the counter of the model in use.
    """
    if not isinstance(text, str) or not text.strip():
        return "", "the summarizer returned nothing"
    text = clean_text(text).strip()
    for pattern, what in SUMMARY_JUNK:
        if pattern.search(text):
            return "", f"the summarizer returned {what}"
    tokens = counter.text(text)
    if tokens > max_tokens:
        return "", f"the summary has {tokens:,} tokens and its cap is {max_tokens:,}"
    replaced = given + (counter.text(previous) if previous else 0)
    if tokens > replaced:
        return "", f"the summary has {tokens:,} tokens and replaces only {replaced:,}"
    return text, ""
