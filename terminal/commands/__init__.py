"""The slash commands: their table, how one is found and run, and what completes it.

A command is a plain function in one of the modules beside this one, with its help in its docstring: the
first line for `/help`, all of it for `/help COMMAND`. The modules are loaded with the first command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from terminal.cells import clip
from terminal.repl import Answer, Choice
from terminal.safe import one_line

if TYPE_CHECKING:
    from terminal.shell import Shell

Run = Callable[["Shell", str], Answer | None]
Values = Callable[["Shell", str], Iterable[str | tuple[str, str]]]
"""What may stand there, alone or with a word about it."""
AS_TEXT = "a blank before the / sends it as text."
LONGEST_SENTENCE = 400
"""Characters of an error that are shown: what was typed may be in it, and may be long."""
GROUPS = ("conversation", "context", "memory", "sessions", "settings")


class UsageError(Exception):
    """A command was given something it cannot use; the text says what it takes."""


@dataclass(frozen=True, slots=True)
class Command:
    """One slash command.

    Attributes:
        name: without the slash.
        usage: its arguments, as `/help` shows them.
        group: the heading under which `/help` lists it.
        run: what it does.
        values: what may complete its argument.
    """

    name: str
    usage: str
    group: str
    run: Run
    values: Values | None = None

    @property
    def help(self) -> list[str]:
        """Its docstring, line by line."""
        return [line.strip() for line in (self.run.__doc__ or "").strip().splitlines()]


COMMANDS: dict[str, Command] = {}


def command(usage: str, group: str, values: Values | None = None) -> Callable[[Run], Run]:
    """Put a function into the table: `/name usage`."""
    name = usage.split(maxsplit=1)[0].removeprefix("/")

    def add(run: Run) -> Run:
        COMMANDS[name] = Command(name, usage, group, run, values)
        return run

    return add


def all_commands() -> dict[str, Command]:
    """The table, with everything in it."""
    from terminal.commands import context, memory, sessions, turns  # noqa: F401 - importing fills the table

    return COMMANDS


class Parsed(NamedTuple):
    """A command line taken apart."""

    name: str
    argument: str


def parse(line: str) -> Parsed:
    """Take `/name argument` apart; the argument keeps its inner lines and blanks."""
    name, _, rest = line[1:].partition(" ")
    head, newline, tail = name.partition("\n")
    return Parsed(head.strip().lower(), (tail + " " + rest if newline else rest).strip())


def run_command(shell: Shell, line: str) -> Answer:
    """Run a command line; what it cannot do is one sentence, and the line comes back for editing."""
    from context import ContextError
    from history import HistoryError

    name, argument = parse(line)
    known = all_commands().get(name)
    if known is None:
        near = get_close_matches(name[:64], COMMANDS, n=1, cutoff=0.5)
        meant = f"Did you mean /{near[0]}? " if near else ""
        hint = f"{meant}/help lists them; {AS_TEXT}"
        shell.notes.error(f"There is no command /{clip(one_line(name), 40)}.", hint)
        return Answer(restore=line)
    if argument and " " not in known.usage:  # it may well be a message that begins like a command
        shell.notes.error(f"/{name} takes no argument.", f"A{AS_TEXT[1:]}")
        return Answer(restore=line)
    try:
        answer = known.run(shell, argument)
    except UsageError as error:
        shell.notes.error(_shortened(str(error)), f"Usage: {known.usage}")
        return Answer(restore=line)
    except (ContextError, HistoryError, ValueError) as error:
        # Sentences for a person, all of them: FactError and JSON errors are ValueErrors too.
        shell.notes.error(_shortened(str(error)))
        return Answer(restore=line)
    return answer or Answer()


def _shortened(text: str) -> str:
    """A sentence without its middle, if it is very long: its beginning and its end say what is wrong."""
    half = LONGEST_SENTENCE // 2
    return text if len(text) <= LONGEST_SENTENCE else f"{text[:half]} ... {text[-half:]}"


def quoted(argument: str) -> str:
    """What was typed, in quotes and in one short line, to be shown in a sentence."""
    return repr(clip(one_line(argument), 60))


def complete(shell: Shell, line: str) -> Iterable[Choice]:
    """Return what may end a command line that was typed up to the cursor."""
    name, blank, typed = line[1:].partition(" ")
    commands = all_commands()
    if not blank:
        for each in commands.values():
            if each.name.startswith(name.lower()):
                yield Choice(f"/{each.name}", len(line), each.help[0])
    elif (known := commands.get(name.lower())) is not None and known.values is not None:
        for value in known.values(shell, typed):
            text, about = value if isinstance(value, tuple) else (value, "")
            if text.lower().startswith(typed.lower()):
                yield Choice(text, len(typed), about)


def on_or_off(argument: str, now: bool) -> bool:
    """Read a switch; nothing said turns it over.

    Raises:
        UsageError: it is neither on nor off.
    """
    word = argument.strip().lower()
    if word not in {"", "on", "off"}:
        raise UsageError(f"{quoted(argument)} is neither on nor off.")
    return not now if not word else word == "on"


def named_path(argument: str) -> Path:
    """The file that is meant; `~` is the home folder.

    Raises:
        UsageError: there is none, or it begins with the home of somebody who is not known.
    """
    if not argument:
        raise UsageError("There is no file name.")
    try:
        return Path(argument).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{argument} begins with the home of somebody not known here.") from error
