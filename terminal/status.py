"""The few rows at the bottom that are redrawn while a reply runs: the unfinished tail and one status line.

Everything else on the screen is printed once and never touched again. The cursor is parked at the *first* of
these rows: when a window is resized, terminals that re-wrap their lines move the cursor along with its line,
and those that do not leave it where it is. Either way "clear from the cursor to the end of the screen" takes
away exactly what was drawn here, whatever it looks like by now.

A small thread moves the seconds on, because the main thread sits in the network. Without cursor movement
(`TERM=dumb`, `--plain`) nothing is redrawn; a person at a terminal gets a line every ten seconds instead.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from terminal.cells import Line, Span, clip_line, plain
from terminal.screen import ERASE_BELOW, Screen

FRAME = 0.1
"""Seconds between two pictures of the spinner."""
PACE = 0.04
"""Seconds that pass at least between two redraws while text streams in."""
PATIENCE = 10
"""Seconds between two lines where nothing can be redrawn."""

Status = Callable[[float, int], Line]
"""`status(seconds, width)` returns the status line, without the spinner; seconds since `start`."""
Tail = Callable[[], list[Line]]
"""`tail()` returns the unfinished lines above the status line; a few at most."""


def _no_tail() -> list[Line]:
    return []


class Bottom:
    """The redrawn rows of one screen. Safe to use from two threads: this module's ticker is one of them."""

    def __init__(
        self,
        screen: Screen,
        *others: Screen,
        clock: Callable[[], float] = time.monotonic,
        ticking: bool = True,
    ) -> None:
        """`others` are screens on the same terminal (stderr): what they print goes above the rows as well.

        `ticking=False` starts no thread: a test calls `tick` itself.
        """
        self._screen, self._screens = screen, (screen, *others)
        self._clock, self._ticking = clock, ticking
        self.lock = threading.RLock()
        """Held while the rows are drawn; hold it to change what `tail` reads."""
        self._status: Status | None = None
        self._tail: Tail = _no_tail
        self._began = self._drawn_at = self._said_at = 0.0
        self._drawn = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def redraws(self) -> bool:
        """Says whether anything is ever redrawn here."""
        return self._screen.look.cursor

    def start(
        self, status: Status, tail: Tail | None = None, *, again: bool = True, at_once: bool = True
    ) -> None:
        """Shows the rows from now on. `again=False` goes on counting the seconds of the status before.

        `at_once=False` draws them with the next picture, so that what is over sooner does not flash.
        """
        with self.lock:
            if again or self._status is None:
                self._began = self._said_at = self._clock()
            self._status, self._tail = status, tail or _no_tail
            for screen in self._screens:
                screen.bottom = self
            if at_once:
                self._draw()
        if self._ticking and self._thread is None and self._screen.look.tty:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="status line", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Takes the rows away. What was printed above them stays."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self.lock:
            self._status, self._tail = None, _no_tail
            for screen in self._screens:
                screen.bottom = None
            if self._drawn:
                self._screen.write(self._cleared() + "\x1b[?25h")  # and the cursor is seen again

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Takes the rows away for a while, to ask the person something, and brings them back."""
        status, tail = self._status, self._tail
        self.stop()
        try:
            yield
        finally:
            if status is not None:
                self.start(status, tail)

    def above(self, text: str, screen: Screen) -> None:
        """Writes `text`, whole lines, on one of the screens, above the rows."""
        with self.lock:
            if screen is self._screen:  # in one write, so that nothing flickers
                screen.write(self._cleared() + text + self._picture())
            else:
                self._screen.write(self._cleared())
                screen.write(text)
                self._screen.write(self._picture())
            self._said_at = self._clock()

    def refresh(self) -> None:
        """Draws again after the tail has changed; many calls in a row make one."""
        if self._clock() - self._drawn_at >= PACE:
            with self.lock:
                self._draw()

    def tick(self) -> None:
        """Moves the spinner and the seconds on."""
        with self.lock:
            if self._status is None:
                return
            if self._screen.look.cursor:
                self._draw()
            elif self._clock() - self._said_at >= PATIENCE:
                self._said_at = self._clock()
                self._screen.write(
                    plain(self._status(self._clock() - self._began, self._screen.width)) + "\n"
                )

    def _run(self) -> None:
        while not self._stop.wait(FRAME):
            try:
                self.tick()
            except (
                OSError,
                ValueError,
            ):  # the output is gone; the main thread meets the same error by itself
                return

    # -- drawing

    def _draw(self) -> None:
        if self._screen.look.cursor:
            self._screen.write(self._cleared() + self._picture())

    def _cleared(self) -> str:
        """The sequence that removes what is drawn: the cursor stands at its beginning."""
        drawn, self._drawn = self._drawn, False
        return f"\r{ERASE_BELOW}" if drawn else ""

    def _picture(self) -> str:
        """The rows as they are now, and the way back to the first of them."""
        if self._status is None or not self._screen.look.cursor:
            return ""
        now, width = self._clock(), self._screen.width
        frames = self._screen.glyphs.spinner
        frame = Span(frames[int((now - self._began) / FRAME) % len(frames)] + " ", "cyan")
        rows = [*self._tail(), [frame, *self._status(now - self._began, width - 2)]]
        rows = rows[-max(1, self._screen.height - 1) :]
        self._drawn, self._drawn_at = True, now
        text = "\n".join(self._screen.paint(clip_line(row, width, self._screen.glyphs.more)) for row in rows)
        up = f"\x1b[{len(rows) - 1}A" if len(rows) > 1 else ""
        # Without automatic wrapping each row stays one row, also in a window that has just become narrower
        # and has not told us yet; otherwise we would not get back to the first of them.
        return f"\x1b[?25l\x1b[?7l{text}\x1b[?7h\r{up}"
