"""The program in real terminals: tmux, which re-wraps its lines when resized, and bare ptys.

Every test starts `terminal_demo.py`, a chat with a scripted model, so that only the terminal is under test.
Without tmux, or on Windows, the tests that need it are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")
pyte = pytest.importorskip("pyte")
if sys.platform == "win32":
    pytest.skip("there are no ptys", allow_module_level=True)

DEMO = str(Path(__file__).parent / "terminal_demo.py")
PATIENCE = 30.0
"""Seconds that a machine under load may take to show something."""


class Tmux:
    """A tmux server of our own with one window, on a socket in `folder`."""

    def __init__(self, folder: Path, columns: int, rows: int, *arguments: str) -> None:
        self._tmux = ["tmux", "-u", "-S", str(folder / "tmux"), "-f", os.devnull]
        # `env -i`: nothing of the person's own terminal may decide what the program does.
        clean = [
            "env",
            "-i",
            "LANG=C.UTF-8",
            "TERM=screen-256color",
            f"PATH={os.defpath}",
            "PYTHONDONTWRITEBYTECODE=1",
        ]
        command = [*clean, sys.executable, DEMO, *arguments]
        size = ["-x", str(columns), "-y", str(rows)]
        self.run("new-session", "-d", *size, ";", "set", "-g", "history-limit", "20000")
        # The limit counts for windows made after it; the first one was only there to set it.
        self.run("new-window", "-k", "-t", ":0", *command)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], capture_output=True, text=True, check=True, encoding="utf-8"
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def screen(self) -> list[str]:
        """The visible rows, without blank ones at the end."""
        return self.run("capture-pane", "-p").rstrip("\n").split("\n")

    @property
    def everything(self) -> str:
        """The scrollback and the screen, with lines joined that were only wrapped."""
        return self.run("capture-pane", "-p", "-J", "-S", "-").rstrip()

    def until(self, seen: Callable[[], bool]) -> None:
        """Waits for what is seen."""
        deadline, pause = time.monotonic() + PATIENCE, threading.Event()
        while not seen():
            assert time.monotonic() < deadline, "\n".join(self.screen)
            pause.wait(0.05)

    def until_shows(self, text: str) -> None:
        self.until(lambda: text in "\n".join(self.screen))

    def until_prompt(self, count: int) -> None:
        """Waits for the prompt that comes after `count` messages: its toolbar is under it, nothing runs."""
        self.until(
            lambda: (
                sum(line.startswith(">") for line in self.everything.split("\n")) > count
                and "ctx≈" in self.screen[-1]
                and "Ctrl-C" not in self.screen[-1]
            )
        )

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    started: list[Tmux] = []

    def start(columns: int, rows: int, *arguments: str) -> Tmux:
        started.append(Tmux(tmp_path, columns, rows, *arguments))
        started[0].until_prompt(0)
        return started[0]

    yield start
    for each in started:
        each.close()


REPLIES = {
    "list": (r"item number (\d+) of", 300, "End of list."),
    "code": (r"x_(\d+) = ", 150, "End of code."),
    "long": (r"word(\d+)", 899, "word899."),
    "wide": (r"項目(\d+)は", 30, "End of wide."),
    "table": (r"row(\d+) ", 40, "End of table."),
}


def flowed(window: Tmux, pattern: str, count: int) -> bool:
    return len(re.findall(pattern, window.everything)) >= count


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("sizes", [[], [(50, 20), (100, 30), (33, 24)]], ids=["80x24", "resized"])
def test_a_reply_is_in_the_scrollback_exactly_once(
    tmux: Callable[..., Tmux], reply: str, sizes: list[tuple[int, int]]
) -> None:
    """Taller than the screen, with the window resized in the middle, CJK and emoji included."""
    pattern, count, end = REPLIES[reply]
    window = tmux(80, 24, "--delay", "0.002" if sizes else "0")
    window.keys(reply, "Enter")
    for number, size in enumerate(sizes, 1):
        # A table is printed whole at its end: the head of it in the tail is all there is to wait for.
        window.until(partial(flowed, window, pattern, 1 if reply == "table" else number * count // 5))
        window.resize(*size)
    window.until(lambda: end in window.everything)
    window.until_prompt(1)
    text = window.everything
    assert re.findall(pattern, text.replace("\n", " ")) == [str(n) for n in range(1, count + 1)]
    assert text.count(end) == 1
    assert "to stop" not in text  # nothing is left of the status line
    assert re.findall(r"(?m)^>.*", text) == [f"> {reply}", ">"]
    assert text.count("ctx≈") == 1


def test_a_window_resized_at_the_prompt_shows_one_prompt(tmux: Callable[..., Tmux]) -> None:
    """At the top of the screen too, where tmux would take our clearing for a person's."""
    window = tmux(80, 24)
    window.keys("hello", "Enter")
    window.until_prompt(1)
    for size, toolbar in [
        ((40, 24), "gpt-4o-mini · ctx≈ 2,034/8,000 (25%)"),
        ((100, 24), "gpt-4o-mini · ctx≈ 2,034/8,000 (25%) · compact×0"),
        ((60, 4), "gpt-4o-mini · ctx≈ 2,034/8,000 (25%) · compact×0"),
        ((20, 10), "ctx≈ 2,034/8,000"),
    ]:
        window.resize(*size)
        window.until(partial(drawn, window, toolbar))
        assert window.everything == f"> hello\nYou said: hello\n\n>\n{toolbar}"


def drawn(window: Tmux, toolbar: str) -> bool:
    return window.screen[-1] == toolbar


SCREENS = {
    (80, 24): """\
> tool
Let me see.
• calculator(expression="6*7") → 42 · 0.1 s
✗ calculator(expression="1/0") failed: division by zero use another div… · 0.0 s
You said: tool

>
gpt-4o-mini · ctx≈ 2,034/8,000 (25%) · compact×0 · 計画 🎉""",
    (40, 10): """\
> tool
Let me see.
• calculator(expression="… → 42 · 0.1 s
✗ calculator(expression="… failed:
  division by… · 0.0 s
You said: tool

>
gpt-4o-mini · ctx≈ 2,034/8,000 (25%)""",
    (20, 12): """\
> tool
Let me see.
• calculator(expr… →
  42 · 0.1 s
✗ calculator(expr…
  failed: division
  by… · 0.0 s
You said: tool

>
ctx≈ 2,034/8,000""",
}


@pytest.mark.parametrize("size", SCREENS, ids=lambda size: "x".join(map(str, size)))
def test_the_screen_after_a_turn_with_tools(tmux: Callable[..., Tmux], size: tuple[int, int]) -> None:
    window = tmux(*size, "--title", "計画 🎉")
    window.keys("tool", "Enter")
    window.until_prompt(1)
    assert "\n".join(window.screen) == SCREENS[size]


def test_ctrl_c_stops_the_reply_and_gives_the_question_back(tmux: Callable[..., Tmux]) -> None:
    window = tmux(80, 24)
    window.keys("hang", "Enter")
    window.until_shows("Beginning of a **reply that")
    window.keys("typed ahead", "C-c")
    window.until_shows("Stopped.")
    window.until_prompt(1)
    assert window.screen[-2] == "> hang"  # and nothing that was typed before
    assert window.run("display-message", "-p", "#{cursor_flag}").strip() == "1"  # the cursor is seen again
    window.keys("C-c", "hello", "Enter")
    window.until_shows("You said: hello")


def test_what_is_typed_during_a_reply_is_not_echoed_into_it(tmux: Callable[..., Tmux]) -> None:
    window = tmux(80, 24, "--delay", "0.01")
    window.keys("list", "Enter")
    window.until_shows("20. item")
    window.keys("next one", "Enter")
    window.until(lambda: "You said: next one" in window.everything)
    window.until_prompt(2)
    assert window.everything.count("next one") == 2  # the message and its reply
    assert len(re.findall(r"item number (\d+) of", window.everything)) == 300


def test_a_question_before_a_tool_runs(tmux: Callable[..., Tmux]) -> None:
    window = tmux(80, 24)
    window.keys("ask", "Enter")
    window.until_shows("Remember name=Ada? [yes/no/always]")
    window.keys("a", "Enter")
    window.until_shows("You answered 'always'.")


def test_the_menu_of_commands(tmux: Callable[..., Tmux]) -> None:
    window = tmux(40, 12)
    window.keys("/co")
    window.until_shows("/context  what context does")
    window.keys("Tab", "Enter")
    window.until_shows("command /compact")


# -- bare ptys


class Pty:
    """The program on a pty that answers nothing, as a test harness or a slow line would not."""

    def __init__(self, *arguments: str, columns: int = 80, rows: int = 24, **environ: str) -> None:
        unset = {"LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR"}
        environ = (
            {name: value for name, value in os.environ.items() if name not in unset}
            | {"TERM": "xterm"}
            | environ
        )
        self.child = pexpect.spawn(
            sys.executable,
            [DEMO, *arguments],
            env=environ,
            dimensions=(rows, columns),
            encoding="utf-8",
            timeout=PATIENCE,
        )
        self.text = ""
        # prompt_toolkit moves over the blank of "> " and writes none; this it writes before each prompt.
        self.prompt = "> " if environ["TERM"] == "dumb" or "--plain" in arguments else "\x1b[?2004h"
        self.expect(self.prompt)

    def expect(self, text: str) -> None:
        self.child.expect_exact(text)
        self.text += self.child.before + self.child.after

    def turn(self, keys: str, then: str) -> None:
        """Sends keys, waits for `then` and for the next prompt."""
        self.child.send(keys)
        self.expect(then)
        self.expect(self.prompt)

    def end(self) -> str:
        """Leaves; returns everything that was written."""
        self.child.send("\x04")
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.exitstatus == 0
        return self.text + self.child.before


def test_the_toolbar_is_there_without_any_answer_from_the_terminal() -> None:
    pty = Pty()
    pty.expect("ctx≈ 1,234/8,000 (15%)")
    pty.turn("hello\r", "You said: hello")
    pty.expect("ctx≈ 2,034/8,000 (25%)")
    text = pty.end()
    assert "\x1b[6n" not in text
    assert "WARNING" not in text


def test_a_paste_is_one_message() -> None:
    pty = Pty()
    pty.turn("\x1b[200~one\rtwo\rthree\x1b[201~\r", "You said: one")
    assert pty.end().count("You said") == 1


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        pytest.param([], {"TERM": "dumb"}, id="TERM=dumb"),
        pytest.param(["--plain"], {}, id="--plain"),
        pytest.param([], {"TERM": "dumb", "LC_ALL": "C"}, id="TERM=dumb, LC_ALL=C"),
    ],
)
def test_plain_places_get_lines_and_nothing_else(arguments: list[str], environ: dict[str, str]) -> None:
    pty = Pty(*arguments, **environ)
    about = "ctx~" if "LC_ALL" in environ else "ctx≈"
    pty.turn("tool\r", f"{about} 2,034/8,000 (25%)")
    pty.turn("evil\r", f"{about} 2,834/8,000 (35%)")
    pty.turn("one\rtwo\r", f"{about} 3,634/8,000 (45%)")  # at once, as a paste comes: one message
    text = pty.end()
    assert "\x1b" not in text
    assert "\r" not in text.replace("\r\n", "")
    assert text.isascii() == ("LC_ALL" in environ)
    assert "You said: one\r\ntwo\r\n" in text


def test_no_color_moves_the_cursor_but_colors_nothing() -> None:
    pty = Pty(NO_COLOR="1")
    for message in ("code", "tool", "fail", "compact"):
        pty.turn(f"{message}\r", "")
    text = pty.end()
    codes = {code for group in re.findall(r"\x1b\[([\d;]*)m", text) for code in group.split(";")}
    assert codes <= {"", "0", "1", "2", "3", "4"}


def test_a_c_locale_gets_ascii_from_us() -> None:
    pty = Pty(LC_ALL="C")
    for message in ("tool", "compact", "list"):
        pty.turn(f"{message}\r", "")
    assert pty.end().isascii()


def test_an_emulated_terminal_shows_a_long_list_once() -> None:
    """Without tmux too: pyte, which does not re-wrap."""
    pty = Pty()
    pty.turn("list\r", "End of list.")
    emulator = pyte.HistoryScreen(80, 24, history=10_000)
    pyte.Stream(emulator).feed(pty.end())
    rows = ["".join(row[x].data for x in range(80)).rstrip() for row in emulator.history.top]
    rows += [row.rstrip() for row in emulator.display]
    assert [row for row in rows if "item" in row] == [
        f"{n}. item number {n} of three hundred" for n in range(1, 301)
    ]


# -- pipes


def shell(command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell command in which `demo` is the program; both outputs are captured."""
    script = f'demo() {{ "{sys.executable}" "{DEMO}" "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | environ,
        timeout=PATIENCE,
    )


def test_one_answer_is_all_that_stdout_gets() -> None:
    done = shell("demo tool", TERM="xterm")
    assert (done.returncode, done.stdout) == (0, "Let me see.\nYou said: tool\n")
    assert done.stderr.endswith("ctx≈ 2,034/8,000 (25%) · compact×0\n")
    assert "\x1b" not in done.stderr


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    done = shell('demo long --delay 0.001 | head -c 20; echo " ${PIPESTATUS[0]}"')
    assert done.stdout == "word1 word2 word3 wo 141\n"
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    done = shell("demo hello > /dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: The output cannot be written: No space left on device."
    assert "Traceback" not in done.stderr


def test_piped_lines_are_messages() -> None:
    done = shell("printf 'one\\n\\ntwo' | demo")
    assert re.findall("You said: (.*)", done.stdout) == ["one", "two"]
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("closed", ["<&-", "</dev/null"])
def test_no_stdin_is_no_input(closed: str) -> None:
    done = shell(f"demo {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_stdout_is_no_crash() -> None:
    done = shell("demo hello >&-")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
