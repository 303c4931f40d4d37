"""What this terminal can do; printing lines and tables to it.

A `Screen` is one output (stdout or stderr) together with its `Look`: whether it takes colors, cursor movement
and characters outside ASCII. Everything that is printed goes through it, so this is where `NO_COLOR`, a pipe,
`TERM=dumb`, `--plain` and a locale without UTF-8 make their difference. Text is made safe here.

Not here: what is redrawn while a reply runs (`status.py`), what the events of a turn look like (`render.py`).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TextIO

from terminal.cells import Line, Span, wrap
from terminal.safe import safe
from terminal.tables import table_lines

# Select Graphic Rendition (ECMA-48, 8.3.117). The eight basic colors only: they follow the person's theme.
SGR = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9"}
COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}

ERASE_BELOW = "\x1b[K\x1b[C\x1b[J\x1b[D"
"""Clears from the first column to the end of the screen. Not `CSI J` alone: when that clears a screen from
its first cell, tmux takes it for a person's `clear` and moves a copy of it into the scrollback."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that we draw with; `ASCII` replaces them where the locale is not UTF-8."""

    about: str = "≈"
    times: str = "×"
    dot: str = " · "
    arrow: str = "→"
    more: str = "…"
    bullet: str = "•"
    bar: str = "│"
    rule: str = "─"
    failed: str = "✗"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


UNICODE = Glyphs()
_TYPEWRITER = str.maketrans({"–": "-", "—": "-", "…": "...", "“": '"', "”": '"', "‘": "'", "’": "'"})
ASCII = Glyphs("~", " x", " | ", "->", "...", "*", "|", "-", "x", "|/-\\")


@dataclass(frozen=True, slots=True)
class Look:
    """What an output can do.

    `tty`: a person looks at it. `style`: bold and the like. `color`: colors too. `cursor`: the cursor may be
    moved, so things can be redrawn. `unicode`: more than ASCII.
    """

    tty: bool = False
    style: bool = False
    color: bool = False
    cursor: bool = False
    unicode: bool = True

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return UNICODE if self.unicode else ASCII


def look_of(stream: TextIO | None, environ: Mapping[str, str], *, plain: bool = False) -> Look:
    """Finds out what `stream` can do. `plain` (the option --plain) allows lines of text and nothing else.

    Conventions: https://no-color.org (color only; bold and cursor stay), `TERM=dumb` (no sequence at all).
    """
    tty = is_tty(stream)
    unicode = _writes_unicode(stream, environ)
    able = tty and not plain and _understands_sequences(environ)
    return Look(
        tty=tty,
        style=able,
        color=able and not environ.get("NO_COLOR"),
        cursor=able,
        unicode=unicode,
    )


def is_tty(stream: TextIO | None) -> bool:
    """Says whether a person is at `stream`; a missing or closed one counts as no."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, OSError, ValueError):
        return False


def _writes_unicode(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "")
    if not encoding.startswith("utf"):
        return False
    # Python itself writes UTF-8 in the C locale (PEP 538, 540). A person who names that locale means it all
    # the same; where nothing is named, as in most containers, the terminal is a modern one.
    named = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "UTF-8"
    if environ.get("LANG") in {"C", "POSIX"} and named in {"C.UTF-8", "C.utf8", "UTF-8"}:
        named = environ["LANG"]  # Python put that LC_CTYPE there, not the person
    return "utf" in named.lower() or sys.platform == "win32"


def _understands_sequences(environ: Mapping[str, str]) -> bool:
    if sys.platform == "win32":  # a console obeys sequences once it was told to (Windows 10 and later)
        from ctypes import byref, windll, wintypes

        console, mode = windll.kernel32.GetStdHandle(-11), wintypes.DWORD()  # STD_OUTPUT_HANDLE
        if not windll.kernel32.GetConsoleMode(console, byref(mode)):
            return False
        # ENABLE_VIRTUAL_TERMINAL_PROCESSING
        return bool(windll.kernel32.SetConsoleMode(console, mode.value | 4))
    return environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}


class Above(Protocol):
    """What is drawn at the bottom of a screen and must step aside while something is printed above it."""

    def above(self, text: str, screen: Screen) -> None:
        """Writes `text`, whole lines, on `screen` above what is drawn."""

    def aside(self) -> AbstractContextManager[None]:
        """Takes away what is drawn for a while."""


class Screen:
    """One output. All methods make their text safe; `style` is a set of names such as "bold red"."""

    def __init__(
        self,
        stream: TextIO | None,
        look: Look | None = None,
        *,
        size: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        """`size` returns columns and rows; without it the terminal is asked at every use.

        A `stream` that is None, as `sys.stdout` is when it was closed (`>&-`), takes everything in silence.
        """
        self.stream = stream if stream is not None else io.StringIO()
        self.look = look_of(self.stream, os.environ) if look is None else look
        self.bottom: Above | None = None
        self._size = size
        self._gap = True  # nothing was printed yet, or a blank line was the last

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return self.look.glyphs

    @property
    def width(self) -> int:
        """Columns, now: the window may have been resized. 80 where nobody looks."""
        return max(1, self._dimensions()[0])

    @property
    def height(self) -> int:
        """Rows, now."""
        return max(1, self._dimensions()[1])

    def _dimensions(self) -> tuple[int, int]:
        if self._size is not None:
            return self._size()
        try:
            columns, rows = os.get_terminal_size(self.stream.fileno())
        except (AttributeError, OSError, ValueError):
            return 80, 24
        return columns or 80, rows or 24  # a terminal that was never told its size says 0

    # -- writing

    def write(self, text: str) -> None:
        """Writes `text` as it is, at once. Characters that the output cannot encode become `?`."""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(text.encode(encoding, "replace").decode(encoding))
        self.stream.flush()

    def paint(self, line: Line) -> str:
        """Returns a styled line as text with the sequences this output takes; each piece is made safe."""
        return "".join(self._painted(safe(text).replace("\n", " "), style) for text, style in line)

    def _painted(self, text: str, style: str) -> str:
        text = text if self.look.unicode else text.translate(_TYPEWRITER)
        codes = [SGR[name] for name in style.split() if name in SGR and self.look.style]
        codes += [COLORS[name] for name in style.split() if name in COLORS and self.look.color]
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and text else text

    def lines(self, lines: Sequence[Line]) -> None:
        """Prints styled lines. They stay: nothing ever draws over them."""
        text = "".join(self.paint(line) + "\n" for line in lines)
        if not text:
            return
        self._gap = text == "\n" or text.endswith("\n\n")
        if self.bottom is not None:
            self.bottom.above(text, self)
        else:
            self.write(text)

    def flow(self, text: str) -> None:
        """Writes safe text that need not end with its line, where nothing is redrawn."""
        if text:
            self._gap = text.endswith("\n\n")
            self.write(text)

    def gap(self) -> None:
        """Prints a blank line, unless there is one already: what came before ends here."""
        if not self._gap:
            self.lines([[]])

    def print(self, text: str = "", style: str = "") -> None:
        """Prints `text` line by line, unwrapped: what a person may want to copy comes out as it is."""
        self.lines([[Span(line, style)] for line in safe(text).split("\n")])

    def say(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Prints sentences: wrapped between words where a person looks at a terminal."""
        for paragraph in safe(text).split("\n"):
            self.styled([Span(paragraph, style)], indent=indent)

    def styled(self, line: Line, *, indent: int = 0, hang: int = 0) -> None:
        """Prints one styled line: wrapped between words where a person looks at a terminal.

        `hang`: blanks before the lines that a line is wrapped to, beside the `indent` of all.
        """
        blank = [Span(" " * indent)] if indent else []
        rest = [Span(" " * (indent + hang))] if indent + hang else []
        self.lines(wrap(line, self.width, blank, rest) or [[]] if self.look.tty else [[*blank, *line]])

    def error(self, message: str, hint: str = "") -> None:
        """Prints what went wrong and what to do about it."""
        self.say(f"error: {message}", "red")
        if hint:
            self.say(hint, indent=2)

    def markdown(self, text: str) -> None:
        """Prints a whole Markdown text, as a reply would look; its source where styles cannot be shown."""
        if not self.look.style:
            self.print(text.rstrip("\n"))
            return
        from terminal.markdown import Markdown  # with markdown-it: not needed before the first prompt

        document = Markdown(lambda: self.width, self.look)
        self.lines([*document.feed(safe(text)), *document.finish()])

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        align: str = "",
        styles: Sequence[str] = (),
        spare: int = 0,
    ) -> None:
        """Prints a table that fits the width. `align`: `l` or `r` for each column; `styles`: one per row.

        Without `headers` it is a list of terms and what they mean. The last `spare` columns only explain, and
        are left out where there is no room for them.

        Where the columns do not fit side by side, each row becomes a few lines `header: value`.
        """
        table = [
            [[Span(safe(cell), styles[number] if number < len(styles) else "")] for cell in row]
            for number, row in enumerate(rows)
        ]
        heads: list[Line] = [[Span(safe(head), "bold")] for head in headers]
        width = self.width if self.look.tty else 200
        self.lines(table_lines(heads, table, align, width, self.glyphs.rule, spare))

    # -- while something runs

    @contextlib.contextmanager
    def progress(self, what: str | Callable[[], str]) -> Iterator[None]:
        """Shows that something takes a while ("searching"), with its seconds, until the block is left.

        A function is asked at every redraw how far it has come.
        """
        from terminal.meter import waiting_line  # both import this module
        from terminal.status import Bottom

        def line(seconds: float, width: int) -> Line:
            return waiting_line(what if isinstance(what, str) else what(), seconds, None, width, self.glyphs)

        bottom = Bottom(self)
        bottom.start(line, at_once=False)
        try:
            yield
        finally:
            bottom.stop()

    def ask(self, question: str, answers: Sequence[str]) -> str:
        """Asks the person; returns one of `answers`, given by its first letters, or "" if nobody can answer.

        Nobody can where stdin is not a terminal, and at Ctrl-D. What was typed before the question is
        not taken for an answer. Ctrl-C raises KeyboardInterrupt.
        """
        from terminal.interrupts import loud_keys

        if not (self.look.tty and is_tty(sys.stdin)):
            return ""
        with self.bottom.aside() if self.bottom else contextlib.nullcontext(), loud_keys():
            while True:
                self.write(self.paint([Span(f"{question} [{'/'.join(answers)}] ", "bold")]))
                line = sys.stdin.readline()
                if not line:
                    self.write("\n")
                    return ""
                given = line.strip().lower()
                chosen = [answer for answer in answers if given and answer.lower().startswith(given)]
                if chosen:
                    return chosen[0]


@contextlib.contextmanager
def quiet_pipe(*streams: TextIO | None) -> Iterator[None]:
    """Ends quietly when the reader of our output has gone (`| head -1`): what is still unwritten is dropped.

    Raises SystemExit: 141, as a shell reports a program that a closed pipe has ended (128 + SIGPIPE), or 1
    when the file that we write to cannot grow.
    """
    try:
        yield
        for stream in filter(None, streams):
            stream.flush()
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
        if not full and error.errno not in {errno.EPIPE, errno.EIO}:  # EIO: the terminal itself was closed
            raise
        # The interpreter flushes stdout once more on its way out and would report the error after all.
        void = os.open(os.devnull, os.O_WRONLY)
        for stream in filter(None, streams):
            with contextlib.suppress(OSError, ValueError):
                if full and stream is sys.stderr:
                    print(f"error: The output cannot be written: {error.strerror}.", file=stream)
                os.dup2(void, stream.fileno())
        raise SystemExit(1 if full else 141) from None
