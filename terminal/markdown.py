"""A growing reply in Markdown, split into lines that are finished and a tail that is not.

A finished line is printed once and never drawn again, so a reply may be longer than the screen and the window
may be resized in the middle of it. When is a line finished?

    paragraph, list item   when the next word goes to the next line and no emphasis is open any more
    code                   when its newline came
    table                  when the line after it came: only then are the widths of its columns known
    heading, rule          when its newline came

Which lines come out depends on the text and the width alone, never on how the text was cut into pieces on its
way. `tail` shows the rest for the time being.

Covered: paragraphs, headings, lists, quotes, fenced and indented code, tables, rules. A newline inside a
paragraph is kept: models mean it. Not covered: headings underlined with `===` or `---`, HTML, footnotes and
reference links, which are shown as they are written. Text must be safe already (`safe.SafeStream`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from terminal.cells import Line, Span, Wrapper, split_wide, words
from terminal.highlight import Highlighter
from terminal.inline import inline, settled
from terminal.screen import Look
from terminal.tables import table_lines

DECIDED = 160
"""Characters of an unfinished line after which its kind is decided and its words begin to flow."""
TABLE_TAIL = 3
"""Rows of an unfinished table that the tail shows."""

_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})\s*([^`]*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:\s+(.*?))??(?:\s+#+)?\s*$")
_RULE = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*$")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])(?:\s+(.*)|)$", re.DOTALL)
_QUOTE = re.compile(r"(?: {0,3}> ?)+")
_DIVIDER = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_MARKER = re.compile(r"\s*(?:[-*+_#>`~|:=]+|\d{1,9}[.)]?)\s*$")  # may begin a block, or be text yet
_CELL = re.compile(r"((?:\\.|`[^`]*`|[^|\\`]|[\\`])*)\|?")


@dataclass(frozen=True, slots=True)
class _Item:
    """A list item that is open: where its marker stood in the source, where it stands on the screen."""

    source: int  # columns before the marker in the source
    column: int  # columns before the marker on the screen
    body: int  # columns before its text on the screen
    number: int = 0  # of an ordered item


@dataclass(slots=True)
class _Code:
    fence: str  # what closes it; "" for code that is only indented
    indent: int
    highlighter: Highlighter


class Markdown:
    """Feed it safe text; it returns the lines that became finished.

    `width` is asked whenever a line is filled, so that a resized window counts from then on.
    """

    def __init__(self, width: Callable[[], int], look: Look) -> None:
        self._width, self._look, self._glyphs = width, look, look.glyphs
        self._source = ""  # the line that has no newline yet
        self._flowing = False  # the beginning of that line was already given to the paragraph
        self._text = ""  # of the open paragraph: what is not settled
        self._wrapper: Wrapper | None = None  # of the open paragraph
        self._items: list[_Item] = []
        self._code: _Code | None = None
        self._held = ""  # a line that is the head of a table if the next one is its divider
        self._table: list[str] = []
        self._quote = 0  # depth of `>`
        self._blank = False  # a blank line is due before the next block
        self._started = False

    def feed(self, text: str) -> list[Line]:
        """Takes the next piece; returns the lines that it finished."""
        out: list[Line] = []
        *complete, rest = text.split("\n")
        for line in complete:
            self._complete(self._source + line, out)
            self._source = ""
        self._source += rest
        self._early(out)
        return out

    def finish(self) -> list[Line]:
        """Ends the text; returns the lines that were left."""
        out: list[Line] = []
        if self._source or self._flowing:
            self._complete(self._source, out)
            self._source = ""
        self._close(out)
        return out

    def tail(self, rows: int) -> list[Line]:
        """Returns how the last rows of the unfinished rest would look if the text ended here."""
        saved = dict(vars(self))
        # The text is ended on trial, with copies of whatever ending it would change.
        self._items = list(self._items)
        self._table = [*self._table[:2], *self._table[2:][-TABLE_TAIL:]]
        self._wrapper = self._wrapper and self._wrapper.copy()
        self._code = self._code and replace(self._code, highlighter=Highlighter(""))
        self._source = "" if _MARKER.match(self._source) and not self._flowing else self._source[-20_000:]
        lines = self.finish()
        vars(self).update(saved)
        return [piece for line in lines[-rows:] for piece in split_wide(line, self._width())][-rows:]

    # -- lines of the source

    def _early(self, out: list[Line]) -> None:
        """Lets the words of a long line flow before its newline comes."""
        if self._flowing:
            self._flow(self._source, out)
            self._source = ""
        elif len(self._source) >= DECIDED and not self._code and not self._table and self._decided(out):
            self._flowing = True
            self._source = ""

    def _decided(self, out: list[Line]) -> bool:
        """Begins a paragraph or list item with the unfinished line, if it is certain to be one."""
        quote = _QUOTE.match(self._source)
        body = self._source[quote.end() :] if quote else self._source
        head = body[:DECIDED]
        if len(body) < DECIDED or not head.strip() or "|" in head or "```" in head or _RULE.match(head):
            return False
        if head.lstrip().startswith(("#", "~~~")) or (self._held and not head.strip(":- \t")):
            return False
        if head.startswith("    ") and not self._items and not self._wrapper:
            return False
        self._begin(self._source, out)
        self._text_line(body, out)
        return True

    def _complete(self, line: str, out: list[Line]) -> None:
        """Takes one whole line of the source."""
        if self._flowing:
            self._flowing = False
            self._flow(line, out)
            return
        if self._code:
            self._code_line(line, out)
            return
        body = self._begin(line, out)
        if self._table:
            if "|" in body:
                self._table.append(body)
                return
            self._end_table(out)
        if not body.strip():
            self._end_paragraph(out)
            self._blank = True
        elif fence := _FENCE.match(body):
            self._end_paragraph(out)
            self._open_code(fence, body, out)
        elif heading := _HEADING.match(body):
            self._heading(heading, out)
        elif _RULE.match(body):
            self._end_block(out)
            self._emit([Span(self._glyphs.rule * min(self._width(), 24), "dim")], out)
        elif "|" in body[:DECIDED] and not _ITEM.match(body):
            self._held = body
        elif body.startswith("    ") and not self._items and not self._wrapper:
            self._emit([Span(body)], out)
        else:
            self._text_line(body.rstrip(), out)

    def _begin(self, line: str, out: list[Line]) -> str:
        """Strips the quote marks of a line and settles what was held for it; returns the rest of it."""
        match = _QUOTE.match(line)
        depth = match.group().count(">") if match else 0
        body = line[match.end() :] if match else line
        if self._held:
            held, self._held = self._held, ""
            if (
                depth == self._quote
                and _DIVIDER.match(body)
                and "|" in body
                and len(_cells(body)) == len(_cells(held))
            ):
                self._end_paragraph(out)
                self._table = [held]  # the divider follows, as its first row
            else:
                self._text_line(held.rstrip(), out)
        if depth != self._quote:
            self._close(out)
            self._quote = depth
        return body

    # -- blocks

    def _text_line(self, body: str, out: list[Line]) -> None:
        if item := _ITEM.match(body):
            self._item(item, out)
        elif self._wrapper is not None:
            self._flow("\n" + body.lstrip(), out)
        else:
            indent = len(body) - len(body.lstrip())
            while self._items and (indent == 0 or self._items[-1].source >= indent):
                self._items.pop()
            margin = self._items[-1].body if self._items else 0
            self._paragraph([], margin, body.lstrip(), out)

    def _item(self, match: re.Match[str], out: list[Line]) -> None:
        self._end_paragraph(out)
        source, marker, body = len(match[1].expandtabs(4)), match[2], match[3] or ""
        before: _Item | None = None
        while self._items and self._items[-1].source >= source:
            before = self._items.pop()
        column = self._items[-1].body if self._items else 0
        number = 0
        if marker[0].isdigit():
            number = int(marker[:-1])
            if before and before.source == source and number <= before.number:
                number = before.number + 1  # "1. 1. 1." is meant as 1. 2. 3.
            marker = f"{number}{marker[-1]}"
        else:
            marker = self._glyphs.bullet
        self._items.append(_Item(source, column, column + len(marker) + 1, number))
        if fence := _FENCE.match(body):
            self._emit([Span(" " * column + marker)], out)
            self._open_code(fence, body, out)
        else:
            self._paragraph([Span(f"{' ' * column}{marker} ")], column + len(marker) + 1, body, out)

    def _paragraph(self, first: Line, margin: int, text: str, out: list[Line]) -> None:
        """Begins a paragraph; its further lines are indented by `margin`."""
        self._due_blank(out)
        bars = self._bars()
        rest = [*bars, Span(" " * margin)] if margin else bars
        self._wrapper = Wrapper([*bars, *first] if first else rest, rest)
        self._flow(text, out)

    def _flow(self, text: str, out: list[Line]) -> None:
        """Gives the open paragraph more text; what is settled of it is wrapped."""
        self._text += text
        start = 0
        while (end := settled(self._text, start)) is not None:
            self._place(self._text[start:end], out)
            start = end
        self._text = self._text[start:]

    def _place(self, text: str, out: list[Line]) -> None:
        if self._wrapper is None:
            return
        for word in words(inline(text, keep_marks=not self._look.color)):
            line = self._wrapper.end() if word is None else self._wrapper.add(word, self._width())
            if line is not None:
                out.append(line)

    def _end_paragraph(self, out: list[Line]) -> None:
        self._place(self._text, out)
        self._text = ""
        if self._wrapper is not None and (line := self._wrapper.close()) is not None:
            out.append(line)
        self._wrapper = None

    def _end_block(self, out: list[Line]) -> None:
        self._end_paragraph(out)
        self._items.clear()

    def _heading(self, match: re.Match[str], out: list[Line]) -> None:
        self._end_block(out)
        self._blank = True
        style = "bold underline" if len(match[1]) == 1 else "bold"
        title = inline(match[2] or "", keep_marks=not self._look.color)
        self._emit([Span(text, f"{style} {own}".strip()) for text, own in title], out)

    def _open_code(self, match: re.Match[str], body: str, out: list[Line]) -> None:
        indent = len(match[1].expandtabs(4))
        if not indent:
            self._items.clear()
        language = (match[3].split() or [""])[0]
        self._code = _Code(match[2], indent, Highlighter(language.strip("{}.") if self._look.color else ""))
        self._emit([Span(body.rstrip(), "dim")], out)

    def _code_line(self, line: str, out: list[Line]) -> None:
        code = self._code
        if code is None:
            return
        for _ in range(self._quote):
            line = re.sub(r"^ {0,3}> ?", "", line)
        bare = line.strip()
        if bare and set(bare) == {code.fence[0]} and len(bare) >= len(code.fence):
            self._code = None
            self._emit([Span(line.rstrip(), "dim")], out)
            return
        margin = line[: code.indent] if not line[: code.indent].strip() else ""
        self._emit([Span(margin), *code.highlighter.line(line[len(margin) :])], out)

    def _end_table(self, out: list[Line]) -> None:
        head, divider, *rows = self._table
        self._table = []
        align = "".join("r" if cell.strip().endswith(":") else "l" for cell in _cells(divider))
        keep = not self._look.color
        headers = [
            [Span(text, f"bold {style}".strip()) for text, style in inline(cell, keep_marks=keep)]
            for cell in _cells(head)
        ]
        body = [[inline(cell, keep_marks=keep) for cell in _cells(row)] for row in rows]
        bars = self._bars()
        width = self._width() - 2 * self._quote
        for line in table_lines(headers, body, align, width, self._glyphs.rule):
            self._due_blank(out)
            out.append([*bars, *line])

    def _close(self, out: list[Line]) -> None:
        if self._held:
            self._text_line(self._held.rstrip(), out)
            self._held = ""
        if self._table:
            self._end_table(out)
        self._end_block(out)

    # -- what comes out

    def _bars(self) -> Line:
        return [Span(f"{self._glyphs.bar} " * self._quote, "dim")] if self._quote else []

    def _due_blank(self, out: list[Line]) -> None:
        """One blank line where the source has any number of them, none before the first block."""
        if self._blank and self._started:
            out.append([])
        self._blank, self._started = False, True

    def _emit(self, line: Line, out: list[Line]) -> None:
        self._due_blank(out)
        out.append([*self._bars(), *line])


def _cells(row: str) -> Sequence[str]:
    """Splits a row of a table at its bars, not at escaped ones nor at those inside code."""
    row = row.strip()
    row = row.removeprefix("|")
    cells = [cell.strip().replace("\\|", "|") for cell in _CELL.findall(row)]
    return cells[:-1] if len(cells) > 1 else cells
