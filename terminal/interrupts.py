"""Ctrl-C and the keyboard while a reply runs.

A turn runs in the main thread, where Ctrl-C arrives as `KeyboardInterrupt` between any two instructions.
That is what stops a reply that blocks on the network; but a write to the disk or an escape sequence must not
be cut in two. `InterruptShield` moves the exception to the end of such a section. `quiet_keys` keeps what is
typed meanwhile off the screen and saves it for the prompt.

Not here: Ctrl-C at the prompt, which is a key like any other there (`repl.py`).
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any, TextIO


class InterruptShield:
    """`with shield():` a Ctrl-C inside is remembered, and delivered when the outermost block is left.

    Blocks may be nested. In other threads, which Ctrl-C never interrupts, it does nothing. Keep the blocks
    short: nothing in them can be stopped.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._pending = False
        self._previous: Any = None  # whatever signal.signal returned: a function, a constant or None

    def __call__(self) -> InterruptShield:
        """Returns itself, so that one shield can be handed out and used as `with shield():`."""
        return self

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if self._depth == 0:
            self._previous = signal.signal(signal.SIGINT, self._remember)
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth:
            return
        # None means that the handler was not installed from Python; the default is the best we can restore.
        signal.signal(signal.SIGINT, self._previous or signal.default_int_handler)
        if self._pending:
            self._pending = False
            # Raised again as a signal, so that whoever handled Ctrl-C before still decides what it means.
            signal.raise_signal(signal.SIGINT)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._pending = True


def quiet_keys(stream: TextIO | None = None) -> AbstractContextManager[None]:
    """While a reply runs: keys are not echoed, and stay in the terminal's queue for the next prompt.

    Ctrl-C still interrupts. Ctrl-Z does nothing, because a stopped program would leave its half-drawn
    status line and its silent keyboard to the shell. Without a POSIX terminal on `stream` (stdin) nothing
    is changed.
    """

    def change(mode: list[Any], termios: Any) -> None:
        mode[0] &= ~termios.ICRNL  # Enter must reach the next prompt as Enter, not as Ctrl-J
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        # VMIN and VTIME share their slots with other keys on some systems: set them along with ICANON.
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        mode[6][termios.VSUSP] = b"\0"

    return _changed(stream, change)


def loud_keys(stream: TextIO | None = None) -> AbstractContextManager[None]:
    """For a question in the middle of a reply: echo and line editing are back, earlier keys are dropped.

    Otherwise something typed ahead would answer, say, whether a tool may run.
    """

    def change(mode: list[Any], termios: Any) -> None:
        mode[0] |= termios.ICRNL
        mode[3] |= termios.ECHO | termios.ICANON
        mode[6][termios.VEOF] = b"\x04"

    discard_keys(stream)
    return _changed(stream, change)


def discard_keys(stream: TextIO | None = None) -> None:
    """Throws away what was typed and not yet read."""
    descriptor = _terminal(stream)
    if descriptor is not None and sys.platform != "win32":
        import termios  # POSIX only, so never at import time

        with contextlib.suppress(termios.error):
            termios.tcflush(descriptor, termios.TCIFLUSH)


@contextlib.contextmanager
def _changed(stream: TextIO | None, change: Callable[[list[Any], Any], None]) -> Iterator[None]:
    """Applies `change` to the modes of the terminal (see termios(3)) and puts the old ones back."""
    descriptor = _terminal(stream)
    if descriptor is None or sys.platform == "win32":
        yield
        return
    import termios

    try:
        saved, mode = termios.tcgetattr(descriptor), termios.tcgetattr(descriptor)
        change(mode, termios)
        termios.tcsetattr(descriptor, termios.TCSANOW, mode)
    except termios.error:  # the terminal went away
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, saved)


def _terminal(stream: TextIO | None) -> int | None:
    """The descriptor of the terminal that keys come from, or None where there is none to control."""
    stream = sys.stdin if stream is None else stream
    try:
        return stream.fileno() if stream.isatty() else None
    except (AttributeError, OSError, ValueError):  # no stdin at all, a closed one, or a test's StringIO
        return None
