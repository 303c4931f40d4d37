"""The prompt where there is no terminal to speak of: a pipe, `TERM=dumb`, a screen reader."""

from __future__ import annotations

import sys
from typing import TextIO

from terminal.screen import Screen

PROMPT = "> "


class PipeReader:
    """One message per line of a file or pipe. A missing stdin is an empty one."""

    toolbar = False

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def read(self, restore: str = "") -> str:
        """Returns the next line; `restore` is dropped, as nobody is there to edit it."""
        del restore
        try:
            line = self._stream.readline() if self._stream is not None else ""
        except (OSError, ValueError):  # closed
            line = ""
        if not line:
            raise EOFError
        return line.rstrip("\r\n")


class PlainReader:
    """A terminal without cursor movement: its own line editing, no toolbar, nothing redrawn.

    Lines that arrive at once, as a paste does, are one message.
    """

    toolbar = False

    def __init__(self, screen: Screen, stream: TextIO | None = None) -> None:
        self._screen = screen
        self._stream = sys.stdin if stream is None else stream

    def read(self, restore: str = "") -> str:
        """Returns the next message; an empty line sends `restore` again."""
        self._screen.gap()
        if restore:
            self._screen.say("Not sent, Enter alone sends it again:")
            self._screen.print(restore)
        self._screen.write(PROMPT)
        try:
            line = self._line()
            message = [line]
            while line.endswith("\n") and self._more():
                line = self._line()
                message.append(line)
        except KeyboardInterrupt:
            self._screen.write("\n")
            raise
        text = "".join(message)
        if not text:
            self._screen.write("\n")
            raise EOFError
        return text.rstrip("\r\n") or restore

    def _line(self) -> str:
        if sys.platform == "win32":
            return self._stream.readline()
        import os

        # Not through the buffered stream: that would read ahead, and select() below would not see it. The
        # terminal hands out one line per read; a longer one than its own limit comes in pieces.
        data = os.read(self._stream.fileno(), 1 << 16)
        return data.decode(self._stream.encoding or "utf-8", "replace")

    def _more(self) -> bool:
        """Says whether more lines are there already."""
        if sys.platform == "win32":  # a console cannot be asked; a paste is then one message per line
            return False
        import select

        return bool(select.select([self._stream], [], [], 0.02)[0])
