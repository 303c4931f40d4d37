"""The words and numbers of `ctx≈ 1,234/8,000 (15%) · compact×2`: the meter, the toolbar, the compaction line.

Everything here returns text that fits a given number of columns, and says by a word or a sign what it also
says by color. Where the numbers come from is not decided here: the caller reads them from the context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from terminal.cells import Line, Span, cells, clip, line_cells, merged
from terminal.safe import one_line
from terminal.screen import UNICODE, Glyphs

if TYPE_CHECKING:
    from view import Compaction  # the type alone: the meter must be there before the engine is loaded

NEARLY_FULL, FILLING = 90, 70  # percent of the budget


@dataclass(frozen=True, slots=True)
class Meter:
    """How full the context is.

    `tokens`: of the next payload, None until they can be counted. `over`: the next request begins with a
    compaction, which may be so below the whole budget.
    """

    tokens: int | None
    budget: int
    compactions: int = 0
    over: bool = False

    @property
    def percent(self) -> int:
        """Tokens in percent of the budget, rounded down: 100 means full, never nearly full."""
        return 100 * (self.tokens or 0) // self.budget if self.budget > 0 else 0

    @property
    def style(self) -> str:
        """The color of the level; `word` and `sign` say the same without it."""
        return "red" if self.percent >= NEARLY_FULL else "yellow" if self.percent >= FILLING else ""

    @property
    def word(self) -> str:
        """The level in words."""
        if self.over or self.percent >= 100:
            return " over: compacts next"
        return (
            " nearly full" if self.percent >= NEARLY_FULL else " filling" if self.percent >= FILLING else ""
        )

    @property
    def sign(self) -> str:
        """The level where there is no room for words."""
        return "!!" if self.percent >= NEARLY_FULL else "!" if self.percent >= FILLING else ""


@dataclass(frozen=True, slots=True)
class Toolbar:
    """What stands under the prompt. `model`: "offline" for the built-in stand-in; `files`: to be attached."""

    meter: Meter
    model: str
    title: str = ""
    files: Sequence[str] = field(default=())


def meter_line(meter: Meter, width: int, glyphs: Glyphs = UNICODE) -> Line:
    """Returns the longest form of the meter that fits into `width` columns."""
    for line in _meter_forms(meter, glyphs):
        if line_cells(line) <= width:
            return line
    return [Span(clip(_count(meter, glyphs, short=True), width, ""), meter.style)]


def _meter_forms(meter: Meter, glyphs: Glyphs) -> Iterator[Line]:
    """The meter from its longest to its shortest form."""
    count, short = _count(meter, glyphs), _count(meter, glyphs, short=True)
    percent = f" ({meter.percent}%)" if meter.tokens is not None else ""
    compactions = [Span(f"{glyphs.dot}compact{glyphs.times}{meter.compactions}")]
    for text, rest in (
        (count + percent + meter.word, compactions),
        (count + percent + meter.sign, compactions),
        (count + percent + meter.sign, []),
        (count + meter.sign, []),
        (short + meter.sign, []),
    ):
        yield [Span(text, meter.style), *rest]


def _count(meter: Meter, glyphs: Glyphs, *, short: bool = False) -> str:
    if meter.tokens is None:
        return f"ctx{glyphs.about} {glyphs.more}"
    if short:
        return f"ctx{glyphs.about} {_short(meter.tokens)}/{_short(meter.budget)}"
    return f"ctx{glyphs.about} {meter.tokens:,}/{meter.budget:,}"


def _short(number: int) -> str:
    return f"{number / 1000:.0f}k" if number >= 1000 else str(number)


def toolbar_line(bar: Toolbar, width: int, glyphs: Glyphs = UNICODE) -> Line:
    """Returns the toolbar in at most `width` columns.

    What gives way first: the title, the names of attached files, the model, then the parts of the meter.
    """
    model, title = one_line(bar.model), one_line(bar.title)
    files = _files(bar.files, glyphs)
    for model_text, files_text in ((model, files), (model, _files(bar.files, glyphs, short=True)), ("", "")):
        for form in list(_meter_forms(bar.meter, glyphs))[:3]:
            parts = [[Span(model_text, "bold")], form, [Span(files_text)]]
            room = width - line_cells(_joined(parts, glyphs))
            if room < 0:
                continue
            room -= cells(glyphs.dot)
            if title and room >= 8:  # less of a title says nothing
                parts.insert(2, [Span(clip(title, room, glyphs.more), "italic")])
            return _joined(parts, glyphs)
    return meter_line(bar.meter, width, glyphs)


def _files(files: Sequence[str], glyphs: Glyphs, *, short: bool = False) -> str:
    if not files:
        return ""
    if short or len(files) > 2:
        return f"+{len(files)} {'file' if len(files) == 1 else 'files'}"
    return "+" + ", ".join(clip(one_line(name), 24, glyphs.more) for name in files)


def _joined(parts: Sequence[Line], glyphs: Glyphs) -> Line:
    line: Line = []
    for part in parts:
        if line_cells(part):
            line += [Span(glyphs.dot), *part] if line else part
    return merged(line)


def waiting_line(
    what: str, seconds: float, meter: Meter | None, width: int, glyphs: Glyphs = UNICODE
) -> Line:
    """Returns `what 3 s · Ctrl-C to stop · ctx≈ …`, without what does not fit into `width` columns."""
    clock = f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    what = one_line(what)
    forms = [clock + stop for stop in (f"{glyphs.dot}Ctrl-C to stop", f"{glyphs.dot}Ctrl-C", "")]
    # What is going on may be cut, but not to a few letters; then the seconds and the key matter more.
    room = width - cells(forms[0]) - 1
    named = [f"{clip(what, room, glyphs.more)} {forms[0]}"] if what and room >= 12 else []
    text = next(form for form in [*named, *forms, ""] if cells(form) <= width)
    room = width - cells(text) - cells(glyphs.dot)
    if meter is None or room < cells(_count(meter, glyphs)) + 2:
        return [Span(text, "dim")]
    return [Span(text + glyphs.dot, "dim"), *meter_line(meter, room, glyphs)]


def compaction_line(record: Compaction, glyphs: Glyphs = UNICODE) -> Line:
    """Returns what one compaction did, in one line: what was dropped, what the summary did, what is left."""
    parts = [f"compact{glyphs.times}{record.number}", _dropped(record)]
    if record.shortened:
        parts.append(f"shortened {_number(record.shortened, 'result')}")
    if record.outcome in {"summary refused", "summary resting"}:
        parts.append(record.outcome)
    elif record.outcome == "summary" and record.summary_before:
        parts.append(f"summary {record.summary_before:,} {glyphs.arrow} {record.summary_after:,} tokens")
    elif record.outcome == "summary":
        parts.append(f"summary {_number(record.summary_after, 'token')}")
    parts.append(f"ctx{glyphs.about} {record.before:,} {glyphs.arrow} {record.after:,}")
    if record.note:
        parts.append(one_line(record.note))
    return [Span(glyphs.dot.join(parts), "cyan")]


def _dropped(record: Compaction) -> str:
    dropped = [
        _number(count, name) for count, name in ((record.turns, "turn"), (record.steps, "step")) if count
    ]
    if not dropped:
        return "dropped nothing"
    return f"dropped {' and '.join(dropped)} ({_number(record.tokens, 'token')})"


def _number(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def shares(amounts: Sequence[int], total: int) -> list[int]:
    """Returns the percent of `total` that each amount is, so rounded that they add up to those of their sum.

    The sum is rounded down, as the meter does; the parts by the largest remainder.
    """
    exact = [100 * amount / total for amount in amounts]
    whole = [int(share) for share in exact]
    missing = 100 * sum(amounts) // total - sum(whole)
    for index in sorted(range(len(exact)), key=lambda index: whole[index] - exact[index])[:missing]:
        whole[index] += 1
    return whole


def bar(parts: Sequence[tuple[str, int, str]], total: int, width: int) -> Line:
    """Returns a bar of `width` columns, as for /context: each (character, tokens, style) gets its share.

    Shares are of `total`; every part that is more than nothing gets at least one column. A part's stretch of
    the bar repeats its character, so that parts are told apart without color; what is free is dots.
    """
    amounts = [max(0, amount) for _, amount, _ in parts]
    whole = max(total, sum(amounts), 1)
    sizes = [max(1, amount * width // whole) if amount else 0 for amount in amounts]
    while sum(sizes) > width and max(sizes) > 1:
        sizes[sizes.index(max(sizes))] -= 1
    if sum(amounts) >= total > 0:  # nothing is free: what rounding left over is not, either
        sizes[sizes.index(max(sizes))] += max(0, width - sum(sizes))
    line = [
        Span(one_line(char)[:1] * size, style) for (char, _, style), size in zip(parts, sizes, strict=True)
    ]
    return merged([*line, Span("." * (width - sum(sizes)), "dim")])
