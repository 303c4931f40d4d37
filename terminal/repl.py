"""The chat loop: read a message, handle it, put back what failed.

The loop takes its reader and its handler as arguments, so a test can bring both. Keys, toolbar and completion
are the reader's (`prompt.py` in a terminal, `readers.py` elsewhere); what a message does is the handler's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple, Protocol

from terminal.interrupts import quiet_keys
from terminal.meter import Toolbar
from terminal.screen import Screen, is_tty


class Answer(NamedTuple):
    """What the loop does next: `restore` is put into the prompt for editing; `leave` ends the chat."""

    restore: str = ""
    leave: bool = False


Handler = Callable[[str], Answer]
"""`handler(message)` shows everything itself. "/" begins a command; " /" is text, as a blank says."""


class Choice(NamedTuple):
    """One completion: `text` replaces `length` characters before the cursor; `help` is shown beside it."""

    text: str
    length: int
    help: str = ""


Choices = Callable[[str], Iterable[Choice]]
"""`choices(line)` returns what may end the command `line`, which is the text up to the cursor."""


class Reader(Protocol):
    """Where messages come from."""

    toolbar: bool
    """Whether it shows the meter itself."""

    def read(self, restore: str = "") -> str:
        """Returns the next message, which may have several lines.

        `restore` is a text that was not answered, to be edited and sent again.

        Raises:
            EOFError: the person left, or there is no more input.
        """


def repl(reader: Reader, handle: Handler, restore: str = "") -> None:
    """Reads and handles messages until the person leaves; `restore` is in the first prompt.

    Ctrl-C never ends the program: it stops what is running, and the message comes back for editing.
    """
    while True:
        try:
            message = reader.read(restore)
        except EOFError:
            return
        except KeyboardInterrupt:
            restore = ""
            continue
        if not message.strip():
            restore = ""
            continue
        try:
            with quiet_keys() if reader.toolbar else nullcontext():
                answer = handle(message)
        except KeyboardInterrupt:
            answer = Answer(restore=message)
        if answer.leave:
            return
        restore = answer.restore


def open_reader(
    screen: Screen,
    *,
    toolbar: Callable[[], Toolbar],
    choices: Choices = lambda _: (),
    history: Path | None = None,
    on_shown: Callable[[], None] = lambda: None,
) -> Reader:
    """Returns the best reader for where we are: a prompt with keys, lines of a plain terminal, or a pipe.

    Args:
        screen: where the prompt is shown.
        toolbar: what stands under the prompt; asked at every redraw, so it must be quick.
        choices: completions of commands and their arguments.
        history: file of the input history, or None to keep it in memory.
        on_shown: called once, when the first prompt is on the screen: the time to load what is heavy, as a
            thread that loads it any earlier takes turns with this one and delays the prompt.
    """
    from terminal.readers import PipeReader, PlainReader

    if not (is_tty(sys.stdin) and screen.look.cursor):
        on_shown()
        return PlainReader(screen) if is_tty(sys.stdin) else PipeReader(sys.stdin)
    from terminal.prompt import Prompt  # prompt_toolkit, 0.13 s: only where there is a terminal for it

    return Prompt(screen, toolbar=toolbar, choices=choices, history=history, on_shown=on_shown)
