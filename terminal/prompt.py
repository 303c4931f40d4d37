"""The prompt in a terminal: keys, toolbar, completion, input history. All of it is prompt_toolkit's.

Enter sends; Alt-Enter or Ctrl-J begins a new line; a paste is one message. Ctrl-R searches the input history,
Ctrl-X Ctrl-E opens the editor, Ctrl-C clears the line, Ctrl-D at an empty prompt leaves.

This is all that is loaded before the first prompt is on the screen; nothing else belongs here.

Known, and prompt_toolkit's own: when a window becomes narrower than what is being typed, a terminal that
re-wraps its lines keeps old rows of it above the prompt, for no program can know how many rows it has become
there. The message itself is right, and so is everything after it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory, ThreadedHistory
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.styles import Style

from terminal.cells import Line, clip
from terminal.interrupts import discard_keys
from terminal.meter import Toolbar, toolbar_line
from terminal.readers import PROMPT
from terminal.repl import Choices
from terminal.safe import one_line
from terminal.screen import COLORS, ERASE_BELOW, Screen

HISTORY_LIMIT = 1 << 20
"""Bytes of the input history file above which its older half is dropped when it is opened."""

MENU = 8
"""Rows that the line and its menu of completions may take."""

_STYLE = Style.from_dict(
    {"prompt": "bold", "bottom-toolbar": "noreverse", "bottom-toolbar.text": "noreverse"},
)


class Prompt:
    """A line editor with a toolbar under it.

    Args:
        screen: tells what the terminal can do.
        toolbar, choices, history, on_shown: see `repl.open_reader`.
        keys, output: prompt_toolkit's, for tests; the terminal when left out.
    """

    toolbar = True

    def __init__(
        self,
        screen: Screen,
        *,
        toolbar: Callable[[], Toolbar],
        choices: Choices,
        history: Path | None = None,
        on_shown: Callable[[], None] | None = None,
        keys: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._screen, self._toolbar = screen, toolbar
        self._hint = ""
        self._session: PromptSession[str] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,  # so that up and down move between lines; Enter is bound to sending below
            prompt_continuation=" " * len(PROMPT),
            key_bindings=self._keys(),
            bottom_toolbar=self._bottom,
            style=_STYLE,
            color_depth=None if screen.look.color else ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
            history=_history(history),
            completer=_Commands(choices),
            complete_while_typing=Condition(_is_command),
            search_ignore_case=True,
            enable_suspend=True,
            input=keys,
            output=output or _output(),
        )
        self._session.default_buffer.on_text_changed += self._forget_hint
        self._session.app.before_render += self._make_room
        self._session.app.after_render += self._shown
        self._on_shown = on_shown

    def read(self, restore: str = "") -> str:
        """Shows the prompt with `restore` in it, ready to be edited; returns what was sent."""
        self._hint = ""
        self._screen.gap()
        if restore:  # what was typed meanwhile was meant for another moment
            discard_keys()
            clear_typeahead(self._session.input)
        # Until the tokens can be counted the toolbar looks again by itself; then it moves with the turns.
        loading = self._toolbar().meter.tokens is None
        try:
            return self._session.prompt(default=restore, refresh_interval=0.25 if loading else 0)
        except OSError as error:  # the terminal was closed
            raise EOFError from error

    def refresh(self) -> None:
        """Draws the toolbar again; may be called from any thread."""
        self._session.app.invalidate()

    def _shown(self, app: Application[str]) -> None:
        del app
        if self._on_shown is not None:
            call, self._on_shown = self._on_shown, None
            call()

    def _forget_hint(self, buffer: Buffer) -> None:
        del buffer
        self._hint = ""

    def _make_room(self, app: Application[str]) -> None:
        """Keeps rows free for the menu of completions while there is one, and no more than it needs."""
        state = app.current_buffer.complete_state
        self._session.reserve_space_for_menu = min(MENU, 1 + len(state.completions)) if state else 0

    def _bottom(self) -> StyleAndTextTuples:
        width = get_app().output.get_size().columns
        if self._hint:
            return [("", clip(one_line(self._hint), width, self._screen.glyphs.more))]
        return _fragments(toolbar_line(self._toolbar(), width, self._screen.glyphs))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)  # and not in the search field of Ctrl-R, which has its own keys

        @keys.add("enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=typing)
        @keys.add("c-j", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", filter=typing)
        @keys.add("<sigint>", filter=typing)
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.text:
                buffer.text = ""  # not `reset`: Ctrl-_ must bring back a text that was cleared by mistake
            else:
                self._hint = "Ctrl-D leaves"

        @keys.add("c-x", "c-e", filter=typing)
        def _(event: KeyPressEvent) -> None:
            run_in_terminal(lambda: self._edit(event.current_buffer))

        return keys

    def _edit(self, buffer: Buffer) -> None:
        """Opens what was typed in the person's editor. Unlike prompt_toolkit's own key this sends nothing."""
        from terminal.editor import EditorError, edit_text

        try:
            text = edit_text(buffer.text)
        except EditorError as error:
            self._hint = str(error)
        else:
            buffer.document = Document(text, len(text))
        self._screen.write("\r\x1b[K")  # an editor may leave a line that it did not end


class _Commands(Completer):
    """Completes commands, which stand on one line and begin with a slash."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yields what may stand at the cursor."""
        del complete_event
        if not _looks_like_command(document.text):
            return
        for choice in self._choices(document.text_before_cursor):
            yield Completion(
                choice.text,
                start_position=-choice.length,
                display=one_line(choice.text),
                display_meta=one_line(choice.help),
            )


def _looks_like_command(text: str) -> bool:
    return text.startswith("/") and "\n" not in text


def _is_command() -> bool:
    return _looks_like_command(get_app().current_buffer.text)


def _fragments(line: Line) -> StyleAndTextTuples:
    """Translates our styles into prompt_toolkit's."""
    return [
        (" ".join(f"fg:ansi{name}" if name in COLORS else name for name in style.split()), text)
        for text, style in line
    ]


def _output() -> Output:
    """Returns the terminal as prompt_toolkit writes to it, but without asking it where the cursor is.

    prompt_toolkit asks in order to stretch the prompt to the bottom of the screen, and shows no toolbar
    before the answer has come. We want the toolbar right under the prompt, at once, and also on terminals
    that never answer.
    """
    if sys.platform == "win32":
        return create_output(sys.stdout)
    from prompt_toolkit.output.vt100 import Vt100_Output

    class Terminal(Vt100_Output):
        """The terminal, with two differences."""

        def get_rows_below_cursor_position(self) -> int:
            """Claims one free row; more are made by scrolling when they are needed."""
            return 1

        def erase_down(self) -> None:
            self.write_raw(ERASE_BELOW)

    return Terminal.from_pty(sys.stdout, term=os.environ.get("TERM"))


def _history(path: Path | None) -> History:
    """Returns the input history: in a file that only its owner can read, or in memory."""
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)  # it may have been made by someone less careful
        if path.stat().st_size > HISTORY_LIMIT:
            _halve(path)
    except OSError:
        return InMemoryHistory()
    return ThreadedHistory(_FileHistory(str(path)))


def _halve(path: Path) -> None:
    """Drops the older half of the file, at the beginning of an entry."""
    data = path.read_bytes()
    begin = data.find(b"\n# ", len(data) // 2)
    path.write_bytes(data[begin:] if begin >= 0 else b"")


class _FileHistory(FileHistory):
    """Never gets in the way: a full disk costs the entry, not the message."""

    def store_string(self, string: str) -> None:
        """Appends one entry."""
        with contextlib.suppress(OSError):
            super().store_string(string.encode("utf-8", "replace").decode("utf-8"))
