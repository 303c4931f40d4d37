"""Capture the screens that README shows, from real runs in a terminal: `python docs/screens.py [--check]`.

Nearly each is a list of lines typed into the program, run in a pseudo-terminal of 80 columns with the offline
stand-in, whose replies depend on nothing but what it is sent. Seconds are replaced, since they differ. The
last one is what the course says to a learner who has just begun.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pyte

DOCS = Path(__file__).parent
PROJECT = DOCS.parent
SCREENS = DOCS / "screens"
COLUMNS, ROWS = 80, 100  # tall enough for a whole session, so that nothing scrolls away
PATIENCE = 60  # seconds

SESSIONS: dict[str, tuple[list[str], list[str]]] = {
    "session": (
        ["--context-token-budget", "1000"],
        [
            "my name is Ada, and the boat leaves at 7:40",
            "write a story of 5 paragraphs",
            "when does the boat leave?",
            "write a story of 6 paragraphs",
            "when does the boat leave?",
            "/undo",
        ],
    ),
    "context": (
        ["--context-token-budget", "2000"],
        [
            "/remember home port = Bergen",
            "/pin the boat must be back by Friday",
            "what is 12 * (3 + 4), and what is 2**64?",
            "/context",
            "/facts",
        ],
    ),
    "memory": (
        ["--context-token-budget", "600", "--no-tools", "--context-summary", "on"],
        [
            "my name is Ada, and the boat leaves at 7:40",
            "write a story of 6 paragraphs",
            "write a story of 5 paragraphs",
            "/summary",
            "when does the boat leave?",
        ],
    ),
    "forgotten": (
        ["--context-token-budget", "600", "--no-tools"],
        [
            "my name is Ada, and the boat leaves at 7:40",
            "write a story of 6 paragraphs",
            "write a story of 5 paragraphs",
            "when does the boat leave?",
        ],
    ),
    "fact": (
        ["--context-token-budget", "600", "--no-tools"],
        [
            "/remember boat leaves = 7:40",
            "write a story of 6 paragraphs",
            "write a story of 5 paragraphs",
            "when does the boat leave?",
        ],
    ),
}
"""By name: arguments, and the lines that are typed."""


def shortened(text: str) -> str:
    """Leave out the inside of the long replies that only fill the window."""
    return re.sub(r"(Made up by [^\n]*\n)\n.*?\n\n(?=> )", r"\1[...]\n\n", text, flags=re.DOTALL)


def capture(arguments: list[str], lines: list[str]) -> str:
    """Run the program, type the lines, and return what stands on the screen."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    with tempfile.TemporaryDirectory() as home:
        environ = {
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "MINI_AGENT_HOME": home,
            "MINI_AGENT_ENV_FILE": os.devnull,
        }
        child = pexpect.spawn(
            sys.executable,
            ["main.py", *arguments],
            cwd=str(PROJECT),
            env=environ,
            dimensions=(ROWS, COLUMNS),
            encoding="utf-8",
            timeout=60,
        )

        def until_prompt(number: int) -> None:
            """Read until the prompt is there for the n-th time, with figures in the toolbar under it."""
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                shown = [line for line in screen.display if line.strip()]
                prompts = sum(line.startswith(">") for line in shown)
                if prompts == number and re.search(r"ctx≈ [\d,]+/.*compact", shown[-1]):
                    return
                text = child.read_nonblocking(65536, timeout=PATIENCE)
                if "\x1b[6n" in text:  # it asks where the cursor is
                    child.send(f"\x1b[{screen.cursor.y + 1};{screen.cursor.x + 1}R")
                stream.feed(text)
            raise SystemExit(f"the prompt did not come back; the screen is:\n{chr(10).join(screen.display)}")

        until_prompt(1)
        for number, line in enumerate(lines, 2):
            child.send(f"{line}\r")
            until_prompt(number)
        shown = [line.rstrip() for line in screen.display]
        child.close(force=True)
    text = "\n".join(shown).strip("\n")
    return shortened(re.sub(r"\d+\.\d s\b", "0.0 s", text)) + "\n"


def course() -> str:
    """Start the course in a folder of its own, and return what its first check says (our own commands)."""
    with tempfile.TemporaryDirectory() as folder:
        learner = Path(folder, "mini-agent-course")
        start = [sys.executable, "-m", "lessons", "start", str(learner)]
        subprocess.run(start, cwd=PROJECT, check=True, capture_output=True, timeout=PATIENCE)  # noqa: S603
        check = [str(learner / "course"), "check"]
        done = subprocess.run(check, cwd=learner, check=False, capture_output=True, timeout=PATIENCE)  # noqa: S603
    return f"$ ./course check\n{done.stdout.decode()}"


def screens() -> Iterator[tuple[str, str]]:
    """Yield each screen's name and what is on it."""
    for name, (options, lines) in SESSIONS.items():
        yield name, f"$ python main.py {' '.join(options)}\n{capture(options, lines)}"
    yield "course", course()


def main(arguments: list[str]) -> int:
    """Write the screens, or with `--check` say which are not what the program shows now."""
    SCREENS.mkdir(exist_ok=True)
    stale = []
    for name, shown in screens():
        path = SCREENS / f"{name}.txt"
        if "--check" not in arguments:
            path.write_text(shown, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != shown:
            stale.append(name)
    for name in stale:
        print(f"docs/screens/{name}.txt is not what the program shows; run python docs/screens.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
