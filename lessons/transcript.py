"""Recorded sessions of a lesson: played again, they must give the same text.

    $ python main.py          starts a session; all of a file share one data folder
    you> hello                a line that is typed
    Hello.                    what the program prints
    you>                      the last prompt, bare: the end of the input

Piped, a program prints its prompt, as `input()` does, and typed lines are put in after each; or it prints
none, and it is run with one line more each time, to see what each line gives. Nothing is normalized.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lessons import CourseError
from lessons.check import sealed_environment

SECONDS = 60
"""How long one session may take."""


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a program: the command, what is typed, and the lines of the record."""

    command: str
    typed: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The record of this session."""
        return "\n".join((f"$ {self.command}", *self.lines)) + "\n"


def parse(text: str, prompt: str) -> list[Session]:
    """The sessions of a record.

    Raises:
        CourseError: it does not begin with a command.
    """
    sessions: list[Session] = []
    parts: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            parts.append([line])
        elif not parts:
            raise CourseError("transcript.txt begins with a command: `$ python main.py`.")
        else:
            parts[-1].append(line)
    for first, *lines in parts:
        typed = [line.rstrip("\n")[len(prompt) :] for line in lines if _is_prompt(line, prompt)]
        if typed and not typed[-1]:
            typed.pop()  # the end of the input
        sessions.append(Session(first.removeprefix("$ "), tuple(typed), tuple(lines)))
    return sessions


def _is_prompt(line: str, prompt: str) -> bool:
    return line.startswith(prompt) or line == prompt.rstrip()


def environment(tree: Path, home: Path, python: Path) -> dict[str, str]:
    """The environment of a recorded session: sealed, with the lessons' Python first and no way out."""
    extra = {"MINI_AGENT_HOME": str(home), "PWD": str(tree), "HOME": str(home.parent)}
    extra["PATH"] = f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Whatever asks for the network finds a closed door at once.
    extra |= dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
    return sealed_environment(extra)


def run(command: str, tree: Path, env: dict[str, str], data: str = "") -> tuple[int, str]:
    """Run a command of the shell in a tree; return its exit code and all that it printed."""
    try:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tree,
            env=env,
            input=data.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"(no end within {SECONDS} seconds)"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def record(sessions: list[Session], tree: Path, prompt: str, python: Path) -> str:
    """Play sessions through a pipe and return their record.

    Raises:
        CourseError: a program failed, or cannot be recorded.
    """
    return _play(sessions, tree, python, lambda session, once: _recorded(session, once, prompt))


def check(sessions: list[Session], tree: Path, prompt: str, python: Path) -> str:
    """As `record`, with one run for each session.

    Where the program prints no prompt, the places of the typed lines are taken from the old record.
    """

    def play(session: Session, once: Callable[[tuple[str, ...]], str]) -> Session:
        out = once(session.typed)
        if _prompts(out, prompt):
            return Session(session.command, session.typed, _interleaved(out, session.typed, prompt))
        said = [line for line in session.lines if not _is_prompt(line, prompt)]
        same = "".join(f"{line}\n" for line in said) == out
        return Session(session.command, session.typed, session.lines if same else tuple(out.splitlines()))

    return _play(sessions, tree, python, play)


Play = Callable[[Session, Callable[[tuple[str, ...]], str]], Session]


def _play(sessions: list[Session], tree: Path, python: Path, play: Play) -> str:
    """Play sessions one after another on the same data, and join their records."""
    with tempfile.TemporaryDirectory() as temporary:
        data, text = Path(temporary, "data"), ""
        data.mkdir()
        for session in sessions:
            fresh = Path(temporary, "before")
            shutil.copytree(data, fresh)

            def once(typed: tuple[str, ...], session: Session = session, fresh: Path = fresh) -> str:
                shutil.rmtree(data)
                shutil.copytree(fresh, data)
                env = environment(tree, data, python)
                code, out = run(session.command, tree, env, "".join(f"{line}\n" for line in typed))
                if code:
                    last = (out.strip().splitlines() or ["it printed nothing"])[-1]
                    raise CourseError(f"`{session.command}` ended with exit code {code}: {last}")
                return out

            text += play(session, once).text
            shutil.rmtree(fresh)
    return text


def _recorded(session: Session, once: Callable[[tuple[str, ...]], str], prompt: str) -> Session:
    out = once(session.typed)
    if _prompts(out, prompt):
        return Session(session.command, session.typed, _interleaved(out, session.typed, prompt))
    before, lines = once(()), []
    lines += before.splitlines()
    for number, line in enumerate(session.typed, 1):
        now = once(session.typed[:number])
        if not now.startswith(before):
            raise CourseError(
                f"`{session.command}`: what it prints for {line!r} changes what it printed before."
            )
        lines += [prompt + line, *now.removeprefix(before).splitlines()]
        before = now
    return Session(session.command, session.typed, tuple(lines))


def _prompts(out: str, prompt: str) -> bool:
    return f"\n{out}".find(f"\n{prompt}") >= 0


def _interleaved(out: str, typed: tuple[str, ...], prompt: str) -> tuple[str, ...]:
    """The output of a program that prints its prompt, with the typed lines after the prompts."""
    first, *rest = f"\n{out}".split(f"\n{prompt}")
    lines = first.removeprefix("\n").splitlines()
    for number, part in enumerate(rest):
        if number < len(typed):
            lines += [prompt + typed[number], *part.splitlines()]
        else:
            lines += [prompt.rstrip(), *part.removeprefix("\n").splitlines()]
    return tuple(lines)
