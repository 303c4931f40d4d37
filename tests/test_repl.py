"""The chat loop and its readers: real keys through the real line editor, lines through a real pty."""

from __future__ import annotations

import io
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.output.vt100 import Vt100_Output

from terminal.cells import plain
from terminal.editor import EditorError, edit_text
from terminal.meter import Meter, Toolbar
from terminal.prompt import HISTORY_LIMIT, Prompt
from terminal.readers import PipeReader, PlainReader
from terminal.repl import Answer, Choice, open_reader, repl
from terminal.screen import Look, Screen

CTRL_C, CTRL_D, CTRL_J, CTRL_R, UNDO, UP, TAB = "\x03", "\x04", "\n", "\x12", "\x1f", "\x1b[A", "\t"
ALT_ENTER, EDIT = "\x1b\r", "\x18\x05"
TOOLBAR = Toolbar(Meter(1234, 8000, 2), "gpt-4o-mini", "計画 🎉")


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as keys:
        yield keys


def prompt(keys: PipeInput, **options: object) -> Prompt:
    screen = Screen(io.StringIO(), Look(tty=True, style=True, color=True, cursor=True))
    options = {"toolbar": lambda: TOOLBAR, "choices": lambda line: (), "output": DummyOutput()} | options
    return Prompt(screen, keys=keys, **options)  # type: ignore[arg-type] # a test's options


Step = tuple[Callable[[Buffer], bool], str]


def driven(keys: PipeInput, *steps: Step, **options: object) -> Prompt:
    """A prompt whose keys are pressed one step after the other, each when its condition holds.

    Completions and the history come in by themselves, so keys sent all at once may be there before them.
    """
    waiting = list(steps)
    # While there is nothing to count the prompt draws itself four times a second, and so looks again.
    reader = prompt(keys, **{"toolbar": lambda: Toolbar(Meter(None, 8000), "m")} | options)

    def look(app: Application[str]) -> None:
        if waiting and waiting[0][0](app.current_buffer):
            keys.send_text(waiting.pop(0)[1])

    reader._session.app.after_render += look
    return reader


def always(buffer: Buffer) -> bool:
    return True


# -- keys


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        pytest.param("hello\r", "hello", id="Enter sends"),
        pytest.param(f"one{CTRL_J}two\r", "one\ntwo", id="Ctrl-J is a new line"),
        pytest.param(f"one{ALT_ENTER}two\r", "one\ntwo", id="Alt-Enter is a new line"),
        pytest.param(
            "\x1b[200~one\rtwo\r\nthree\n\x1b[201~\r", "one\ntwo\nthree\n", id="a paste is one message"
        ),
        pytest.param(" /etc/hosts is a file\r", " /etc/hosts is a file", id="a blank before the slash stays"),
        pytest.param("漢字 👍🏽\r", "漢字 👍🏽", id="any script"),
        pytest.param(f"wrong{CTRL_C}right\r", "right", id="Ctrl-C clears the line"),
        pytest.param(f"back{CTRL_C}{UNDO}\r", "back", id="and undo brings it back"),
        pytest.param(f"{CTRL_C}{CTRL_C}still here\r", "still here", id="Ctrl-C does not leave"),
        pytest.param(f"ab\x1b[D{CTRL_D}\r", "a", id="Ctrl-D in a text deletes"),
    ],
)
def test_keys(keys: PipeInput, typed: str, message: str) -> None:
    keys.send_text(typed)
    assert prompt(keys).read() == message


def test_ctrl_d_at_an_empty_prompt_leaves(keys: PipeInput) -> None:
    keys.send_text(CTRL_D)
    with pytest.raises(EOFError):
        prompt(keys).read()


def test_what_is_heavy_is_loaded_when_the_prompt_is_there(keys: PipeInput) -> None:
    shown: list[str] = []
    reader = prompt(keys, on_shown=lambda: shown.append(get_app().current_buffer.text))
    for _ in range(2):
        keys.send_text("hello\r")
        reader.read()
    assert len(shown) == 1


def test_what_failed_is_back_for_editing(keys: PipeInput) -> None:
    keys.send_text("!\r")
    assert prompt(keys).read("line one\nline two") == "line one\nline two!"


def test_what_was_typed_ahead_is_kept_unless_a_text_comes_back(keys: PipeInput) -> None:
    """Typed during a reply it goes on; but nothing may be glued to, and sent with, a restored text."""
    reader = prompt(keys)
    keys.send_text("first\rsecond\r")
    assert reader.read() == "first"
    assert reader.read() == "second"
    keys.send_text("third\rtyped ahead\r")
    assert reader.read() == "third"

    def send() -> None:
        keys.send_text("!\r")

    reader._session.app.pre_run_callables.append(send)
    assert reader.read("restored") == "restored!"


def test_up_and_ctrl_r_find_earlier_messages(keys: PipeInput, tmp_path: Path) -> None:
    history = tmp_path / "home" / "input_history"
    for typed in ("alpha\r", f"beta{CTRL_J}two\r"):
        keys.send_text(typed)
        prompt(keys, history=history).read()

    def loaded(buffer: Buffer) -> bool:
        return len(buffer._working_lines) == 3

    another_session = driven(keys, (loaded, f"{UP}\r"), history=history)
    assert another_session.read() == "beta\ntwo"

    def says(text: str) -> Callable[[Buffer], bool]:
        return lambda buffer: buffer.text == text

    steps = [(loaded, f"{CTRL_R}alp"), (says("alp"), "\r"), (says("alpha"), "\r")]
    assert driven(keys, *steps, history=history).read() == "alpha"


def test_the_input_history_is_private_and_bounded(keys: PipeInput, tmp_path: Path) -> None:
    history = tmp_path / "input_history"
    history.write_text("\n# 2024-01-01 00:00:00\n+old entry" * (HISTORY_LIMIT // 30), encoding="utf-8")
    history.chmod(0o644)
    keys.send_text("new\r")
    prompt(keys, history=history).read()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert history.stat().st_size < 0.6 * HISTORY_LIMIT
    assert history.read_text(encoding="utf-8").startswith("\n# 2024")


def test_without_a_file_the_history_is_in_memory(keys: PipeInput, tmp_path: Path) -> None:
    reader = prompt(keys, history=tmp_path)  # a folder: it cannot be written
    keys.send_text("alpha\r")
    reader.read()
    keys.send_text(f"{UP}\r")
    assert reader.read() == "alpha"


def test_a_disk_that_fills_up_costs_the_entry_only(keys: PipeInput, tmp_path: Path) -> None:
    history = tmp_path / "gone" / "input_history"
    reader = prompt(keys, history=history)
    history.unlink()
    history.parent.rmdir()
    keys.send_text("alpha\r")
    assert reader.read() == "alpha"


# -- completion


def choices(line: str) -> Iterator[Choice]:
    """Offers more than it should: that a text is no command is the prompt's to know."""
    last = line.rpartition("\n")[2].lstrip()
    command, blank, argument = last.partition(" ")
    if not blank:
        names = [name for name in ("/compact", "/resume") if name.startswith(last)]
        yield from (Choice(name, len(last), "help\x1b[31m") for name in names)
    elif command == "/resume" and "my session".startswith(argument):
        yield Choice("my session", len(argument))


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        pytest.param("/co", "/compact", id="a command"),
        pytest.param("/resume my s", "/resume my session", id="an argument with a blank"),
        pytest.param(" /co", " /co", id="not in text"),
        pytest.param(f"/co{CTRL_J}/co", "/co\n/co", id="not in several lines"),
    ],
)
def test_tab_completes(keys: PipeInput, typed: str, message: str) -> None:
    def offered(buffer: Buffer) -> bool:
        return typed == message or buffer.complete_state is not None

    def completed(buffer: Buffer) -> bool:
        return buffer.text == message

    reader = driven(keys, (always, typed), (offered, TAB), (completed, "\r"), choices=choices)
    assert reader.read() == message


# -- the toolbar


class Window(DummyOutput):
    """A window of a given width."""

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def get_size(self) -> Size:
        return Size(rows=24, columns=self.columns)


@pytest.mark.parametrize(
    ("columns", "shown"),
    [(80, "gpt-4o-mini · ctx≈ 1,234/8,000 (15%) · compact×2 · 計画 🎉"), (20, "ctx≈ 1,234/8,000")],
)
def test_the_toolbar_fits_the_window(keys: PipeInput, columns: int, shown: str) -> None:
    seen = []

    def look(buffer: Buffer) -> bool:
        seen.append(bottom(reader))
        return True

    reader = driven(keys, (look, "\r"), toolbar=lambda: TOOLBAR, output=Window(columns))
    reader.read()
    assert seen[0] == shown


def test_ctrl_c_at_an_empty_prompt_says_how_to_leave(keys: PipeInput) -> None:
    def told(buffer: Buffer) -> bool:
        return bottom(reader) == "Ctrl-D leaves"

    reader = driven(keys, (always, "text" + CTRL_C), (lambda buffer: not buffer.text, CTRL_C), (told, "\r"))
    assert reader.read() == ""
    keys.send_text("\r")
    reader.read()
    assert bottom(reader) != "Ctrl-D leaves"


def test_what_the_toolbar_says_for_once_goes_with_the_next_key(keys: PipeInput) -> None:
    def told(buffer: Buffer) -> bool:
        return bottom(reader) == "Ctrl-D leaves"

    reader = driven(keys, (always, CTRL_C), (told, "a"), (lambda buffer: not told(buffer), "\r"))
    assert reader.read() == "a"


def bottom(reader: Prompt) -> str:
    return "".join(fragment[1] for fragment in reader._bottom())


def test_until_tokens_can_be_counted_the_toolbar_looks_again(keys: PipeInput) -> None:
    meters = [Meter(None, 8000), Meter(5, 8000)]
    reader = prompt(keys, toolbar=lambda: Toolbar(meters[0], "m"))
    keys.send_text("a\r")
    reader.read()
    assert reader._session.app.refresh_interval
    meters.pop(0)
    keys.send_text("b\r")
    reader.read()
    assert not reader._session.app.refresh_interval


def test_the_toolbar_needs_no_answer_from_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """prompt_toolkit would ask where the cursor is and show no toolbar until told; some never tell."""
    from terminal import prompt as module

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    output = module._output()
    assert isinstance(output, Vt100_Output)
    assert output.get_rows_below_cursor_position() == 1


# -- the loop


class Script:
    """A reader that plays a list; an exception in it is raised."""

    toolbar = False

    def __init__(self, *messages: str | type[BaseException]) -> None:
        self.messages, self.restored = list(messages), []

    def read(self, restore: str = "") -> str:
        self.restored.append(restore)
        message = self.messages.pop(0) if self.messages else EOFError
        if isinstance(message, str):
            return message
        raise message


def test_the_loop_handles_each_message_until_the_end() -> None:
    handled: list[str] = []
    reader = Script("one", "", "  \n", KeyboardInterrupt, "two")
    repl(reader, lambda message: handled.append(message) or Answer())
    assert handled == ["one", "two"]
    assert reader.restored == [""] * 6


def test_what_failed_is_restored_once() -> None:
    reader = Script("one", "two")
    repl(reader, lambda message: Answer(restore="one" if message == "one" else ""))
    assert reader.restored == ["", "one", ""]


def test_ctrl_c_in_a_command_gives_the_line_back() -> None:
    def handle(message: str) -> Answer:
        raise KeyboardInterrupt

    reader = Script("/search everything")
    repl(reader, handle)
    assert reader.restored == ["", "/search everything"]


def test_leaving() -> None:
    reader = Script("/quit", "never read")
    repl(reader, lambda message: Answer(leave=True))
    assert reader.messages == ["never read"]


# -- places without a prompt


def test_a_pipe_is_one_message_per_line() -> None:
    reader = PipeReader(io.StringIO("one\r\n\ntwo"))
    assert [reader.read(), reader.read("ignored"), reader.read()] == ["one", "", "two"]
    with pytest.raises(EOFError):
        reader.read()


def test_a_missing_or_closed_stdin_is_an_empty_one() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        with pytest.raises(EOFError):
            PipeReader(stream).read()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no ptys")
def test_a_plain_terminal_reads_a_paste_as_one_message() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, encoding="utf-8") as stream:
        out = io.StringIO()
        reader = PlainReader(Screen(out, Look(tty=True)), stream)
        os.write(ours, b"one\n")
        assert reader.read() == "one"
        os.write(ours, "pasted\nzwölf\n".encode())
        assert reader.read() == "pasted\nzwölf"
        os.write(ours, b"\n")
        assert reader.read("not sent") == "not sent"
        os.write(ours, b"\x04")
        with pytest.raises(EOFError):
            reader.read()
    os.close(ours)
    assert out.getvalue() == "> > Not sent, Enter alone sends it again:\nnot sent\n> \n> \n"


def test_the_reader_suits_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    def kind(stdin: io.StringIO | None, look: Look) -> str:
        monkeypatch.setattr(sys, "stdin", stdin)
        return type(open_reader(Screen(io.StringIO(), look), toolbar=lambda: TOOLBAR)).__name__

    assert kind(io.StringIO(), Look(tty=True, style=True, cursor=True)) == "PipeReader"
    assert kind(None, Look()) == "PipeReader"
    assert kind(Tty(), Look(tty=True)) == "PlainReader"


# -- the editor


def editor(tmp_path: Path, body: str) -> dict[str, str]:
    script = tmp_path / "my editor.py"
    script.write_text(f"import pathlib, sys\npath = pathlib.Path(sys.argv[-1])\n{body}\n", encoding="utf-8")
    return {"EDITOR": f'"{sys.executable}" "{script}" --wait', "VISUAL": ""}


def test_the_editor_gets_the_text_and_gives_it_back(tmp_path: Path) -> None:
    environ = editor(tmp_path, "path.write_text(path.read_text('utf-8').upper() + '\\n', 'utf-8')")
    assert edit_text("zwei\nzeilen 漢", environ) == "ZWEI\nZEILEN 漢"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"EDITOR": "no-such-editor-here"}, "^Cannot run no-such-editor-here: No such file or directory.$"),
        ({"VISUAL": "'unclosed"}, '^VISUAL cannot be read as a command: "\'unclosed".$'),
        ({"EDITOR": "false"}, "^false ended with code 1; the text is unchanged.$"),
    ],
)
def test_an_editor_that_fails_is_one_sentence(environ: dict[str, str], message: str) -> None:
    with pytest.raises(EditorError, match=message):
        edit_text("x", environ)


def test_ctrl_x_ctrl_e_brings_the_text_back_into_the_prompt(
    keys: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the editor made of it is still to be sent."""
    environ = editor(tmp_path, "path.write_text(path.read_text('utf-8').upper() + '\\n', 'utf-8')")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    reader = driven(keys, (always, "hello" + EDIT), (lambda buffer: buffer.text == "HELLO", "!\r"))
    assert reader.read() == "HELLO!"


def test_an_editor_that_fails_is_said_under_the_prompt(
    keys: PipeInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor-here")

    def told(buffer: Buffer) -> bool:
        return bottom(reader).startswith("Cannot run no-such-editor-here")

    reader = driven(keys, (always, "hello" + EDIT), (told, "!\r"))
    assert reader.read() == "hello!"


@pytest.mark.skipif(sys.platform == "win32", reason="a signal there ends the program")
def test_ctrl_c_in_the_editor_belongs_to_the_editor(tmp_path: Path) -> None:
    """The prompt's event loop, which would clear the line, does not hear of it either."""
    ends_with_ctrl_c = editor(tmp_path, "import os, signal\nos.kill(os.getppid(), signal.SIGINT)")
    ear, mouth = socket.socketpair()
    with ear, mouth:
        ear.setblocking(False)
        mouth.setblocking(False)
        before = signal.set_wakeup_fd(mouth.fileno())
        try:
            assert edit_text("hello", ends_with_ctrl_c) == "hello"
        finally:
            signal.set_wakeup_fd(before)
        with pytest.raises(BlockingIOError):
            ear.recv(1)


def test_no_editor_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EditorError, match="set EDITOR"):
        edit_text("x", {})


def test_the_toolbar_has_the_colors_of_the_meter() -> None:
    from terminal.meter import toolbar_line
    from terminal.prompt import _fragments

    toolbar = Toolbar(Meter(7900, 8000, 2), "m")
    fragments = _fragments(toolbar_line(toolbar, 80))
    assert "".join(text for _, text, *_ in fragments) == plain(
        toolbar_line(Toolbar(Meter(7900, 8000, 2), "m"), 80)
    )
    assert ("fg:ansired", "ctx≈ 7,900/8,000 (98%) nearly full") in fragments
