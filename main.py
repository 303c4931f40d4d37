"""mini-agent: a terminal chat that shows how an LLM agent keeps its context.

    python main.py                    chat
    python main.py "a question"       one answer on stdout
    command | python main.py "..."    the same, with the input as evidence
    command | python main.py          one turn for each line

Covered here: arguments, the choice between these, and exit codes: 0, 1 (a reply failed), 2 (usage or
configuration), 130 (interrupted). Everything heavy is imported after the prompt is on the screen.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config import Settings
    from terminal.screen import Screen
    from terminal.shell import Shell

VERSION = "0.1.0"
LARGEST_INPUT = 4 << 20
"""Bytes of piped input that are read as evidence; no budget that a person sets holds more."""
OFFLINE_PACE = 0.02
"""Seconds between the words of the stand-in, so that one sees a reply stream."""


class UserError(Exception):
    """What a person asked for cannot be done; one sentence, exit code 1."""


def session_id(text: str) -> str:
    """What --session names; a text without any characters would mean all of them."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: name an id's first characters (--sessions lists them)")
    return text.strip()


def make_parser() -> argparse.ArgumentParser:
    """The command line: our own options here, one for each setting from `config.py`."""
    from config import add_options

    parser = argparse.ArgumentParser(
        prog="main.py",
        description="A terminal chat that shows how an LLM agent keeps its context. "
        "Without a key or a base URL a built-in stand-in answers.",
        epilog="Settings also come from the environment and from .env, see .env.example.",
    )
    parser.add_argument("question", nargs="*", help="ask this and print the answer; piped input is evidence")
    parser.add_argument("--version", action="version", version=f"mini-agent {VERSION}")
    sessions = parser.add_argument_group("sessions")
    which = sessions.add_mutually_exclusive_group()
    which.add_argument("--resume", action="store_true", help="continue the last conversation")
    which.add_argument(
        "--session", metavar="ID", type=session_id, help="continue this one; its first characters are enough"
    )
    which.add_argument("--sessions", action="store_true", help="list the conversations")
    which.add_argument("--no-history", action="store_true", help="keep nothing of the conversation on disk")
    ways = parser.add_argument_group("ways of working")
    ways.add_argument("--no-tools", action="store_true", help="offer no tools to the model")
    ways.add_argument("--approve-tools", action="store_true", help="run tools without asking")
    ways.add_argument("--plain", action="store_true", help="lines only, nothing redrawn: for screen readers")
    add_options(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    try:
        options = make_parser().parse_args(arguments)
        from config import ConfigError, load_settings

        try:
            settings = load_settings(vars(options))
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        return start(options, settings)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        here = Path(__file__).parent
        if not package or (here / package).exists() or (here / f"{package}.py").exists():
            raise  # a part of ours is gone: that is no matter of installing
        python = Path(".venv", "Scripts" if os.name == "nt" else "bin", "python")
        print(
            f"error: {package} is not installed for this Python ({sys.executable}): run make chat, or "
            f"{python} main.py.",
            file=sys.stderr,
        )
        return 2


def start(options: argparse.Namespace, settings: Settings) -> int:
    """Run the program with settings that are checked already, and return its exit code."""
    from terminal.screen import Screen, look_of, quiet_pipe

    out = Screen(sys.stdout, look_of(sys.stdout, os.environ, plain=options.plain))
    notes = Screen(sys.stderr, look_of(sys.stderr, os.environ, plain=options.plain))
    with quiet_pipe(sys.stdout, sys.stderr):
        try:
            return run(options, settings, out, notes)
        except KeyboardInterrupt:
            return 130
    return 0


def run(options: argparse.Namespace, settings: Settings, out: Screen, notes: Screen) -> int:
    """Choose between a list, one answer, and a chat."""
    from terminal.screen import is_tty
    from terminal.shell import Shell

    question = " ".join(options.question).strip()
    alone = bool(question) or not is_tty(sys.stdin)
    shell = Shell(
        settings,
        out,
        notes if alone else out,
        keep_history=not options.no_history,
        session="" if options.resume else options.session,
        tools_on=not options.no_tools,
        approve_all=options.approve_tools,
        prompt=not alone,
        pace=0.0 if alone else OFFLINE_PACE,
    )
    try:
        if options.sessions:
            return list_sessions(shell)
        if question:
            return answer_one(shell, question)
        return chat(shell, options)
    except sentences() as error:
        notes.error(str(error))
        return 1
    finally:
        shell.close()


def sentences() -> tuple[type[Exception], ...]:
    """Errors whose text is written for a person."""
    from history import HistoryError
    from terminal.commands import UsageError

    return UserError, UsageError, HistoryError


def list_sessions(shell: Shell) -> int:
    """Print the conversations."""
    from terminal.commands.sessions import show_sessions

    show_sessions(shell)
    shell.say_notices()
    return 0


def answer_one(shell: Shell, question: str) -> int:
    """Print one answer; what is piped in goes with the question as evidence."""
    from agent import Failed

    evidence = read_input()
    shell.say_notices()
    last = shell.play(question, evidence=[("standard input", evidence)] if evidence else [])
    if not isinstance(last, Failed):
        return 0
    return 130 if last.kind == "interrupted" else 1


def read_input() -> str:
    """Return what is piped in, "" at a terminal or without any input."""
    from terminal.screen import is_tty

    if sys.stdin is None or is_tty(sys.stdin):
        return ""
    try:
        data = sys.stdin.buffer.read(LARGEST_INPUT + 1)
    except (OSError, ValueError):  # closed
        return ""
    if len(data) > LARGEST_INPUT:
        raise UserError(f"The input has more than {LARGEST_INPUT:,} bytes, which no budget holds.")
    text = data.decode("utf-8", "replace")
    if "\0" in text:
        raise UserError(f"The input ({len(data):,} bytes) is binary; only text can be evidence.")
    return text.strip()


def chat(shell: Shell, options: argparse.Namespace) -> int:
    """Talk until the person leaves, or until the input ends."""
    from terminal.repl import open_reader, repl

    keep = not options.no_history
    reader = open_reader(
        shell.out,
        toolbar=shell.toolbar,
        choices=shell.choices,
        history=shell.settings.home / "input_history" if keep else None,
        on_shown=shell.load_ahead,
    )
    shell.toolbar_is_shown = reader.toolbar
    restore = ""
    if options.resume or options.session:
        from terminal.commands.sessions import say_resumed

        shell.say_notices()
        restore = say_resumed(shell).restore
    elif shell.prompt:
        shell.greet()
    repl(reader, shell.handle, restore)
    return 1 if shell.failed and not shell.prompt else 0


if __name__ == "__main__":
    sys.exit(main())
