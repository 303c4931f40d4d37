"""A reply while it comes in: as styled Markdown on a terminal, as its source everywhere else."""

from __future__ import annotations

import re
from typing import Protocol

from terminal.cells import Line, Span
from terminal.markdown import Markdown
from terminal.safe import SafeStream
from terminal.screen import Screen


class Incoming(Protocol):
    """What the renderer feeds with the pieces of one text."""

    def feed(self, text: str) -> None:
        """Takes the next piece and prints what became final."""

    def close(self) -> None:
        """Prints the rest, and ends the line."""

    def tail(self, rows: int) -> list[Line]:
        """Returns at most `rows` lines that are not final."""


class StyledReply:
    """Markdown with styles; each finished line is printed once. `style` is added to all of it."""

    def __init__(self, screen: Screen, style: str = "") -> None:
        self._screen, self._style = screen, style
        self._safe = SafeStream()
        self._markdown = Markdown(lambda: screen.width, screen.look)

    def feed(self, text: str) -> None:
        """Takes the next piece and prints the lines that it finished."""
        self._print(self._markdown.feed(self._safe.feed(text)))

    def close(self) -> None:
        """Prints the rest."""
        self._print(self._markdown.feed(self._safe.close()))
        self._print(self._markdown.finish())

    def tail(self, rows: int) -> list[Line]:
        """Returns how the unfinished rest looks so far."""
        return [self._styled(line) for line in self._markdown.tail(rows)]

    def _print(self, lines: list[Line]) -> None:
        self._screen.lines([self._styled(line) for line in lines])

    def _styled(self, line: Line) -> Line:
        return [Span(text, f"{self._style} {style}".strip()) for text, style in line]


class RawReply:
    """The source of the reply, as it comes; at most a sentence late where a person looks at it."""

    def __init__(self, screen: Screen, lead: str = "") -> None:
        """`lead` is written before the first text."""
        self._screen = screen
        self._safe = SafeStream()
        self._waiting = lead
        self._last = "\n"

    def feed(self, text: str) -> None:
        """Takes the next piece; a screen reader gets whole sentences, a pipe gets everything at once."""
        self._waiting += self._safe.feed(text)
        end = len(self._waiting)
        if self._screen.look.tty:
            ends = [match.end() for match in re.finditer(r"\n|[.!?:;]\s|[。！？]", self._waiting)]
            end = ends[-1] if ends else 0
        self._write(self._waiting[:end])
        self._waiting = self._waiting[end:]

    def close(self) -> None:
        """Writes the rest, and a newline if it had none."""
        self._write(self._waiting + self._safe.close())
        self._waiting = ""
        if self._last != "\n":
            self._write("\n")

    def tail(self, rows: int) -> list[Line]:
        """Returns nothing: where this is used nothing is redrawn."""
        del rows
        return []

    def _write(self, text: str) -> None:
        if text:
            self._last = text[-1]
            self._screen.flow(text)
