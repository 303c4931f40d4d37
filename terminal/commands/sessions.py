"""Commands about sessions: list, resume, rename, search, export, delete."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from terminal.cells import Line, Span
from terminal.commands import UsageError, command, named_path, quoted
from terminal.commands.memory import age
from terminal.commands.turns import files, read_file
from terminal.repl import Answer
from terminal.safe import one_line

if TYPE_CHECKING:
    from history import ChatHistory, Hit
    from terminal.shell import Shell


LARGEST_IMPORT = 1 << 30
"""Bytes of a file that /import reads."""
LISTED = 50
"""Conversations that are listed."""


def _history(shell: Shell) -> ChatHistory:
    if shell.chat.history is None:
        raise UsageError(f"There is no history in this run: {shell.chat.why_no_history}")
    return shell.chat.history


def _ids(shell: Shell, typed: str) -> Iterable[tuple[str, str]]:
    del typed
    from history import HistoryError

    history = shell.chat.history
    try:
        return [(info.id, info.title) for info in history.sessions(20)] if history is not None else []
    except HistoryError:  # which a command will say; a menu just stays away
        return []


@command("/sessions", "sessions")
def list_sessions(shell: Shell, argument: str) -> None:
    """List the conversations, the newest first."""
    del argument
    show_sessions(shell)


def show_sessions(shell: Shell) -> None:
    """Print the list of sessions; the current one is marked."""
    infos = _history(shell).sessions(LISTED + 1)
    if not infos:
        shell.notes.say("No sessions yet.")
        return
    here = shell.chat.session.id if shell.chat.session is not None else ""
    rows = [
        ["*" if info.id == here else "", info.id, age(info.updated_at), f"{info.turns:,}", info.title]
        for info in infos[:LISTED]
    ]
    shell.out.table(["", "session", "age", "turns", "title"], rows, align="lllrl")
    if len(infos) > LISTED:
        shell.notes.say(f"These are the newest {LISTED}; /search finds what was said in the others.", "dim")


@command("/new", "sessions")
def new(shell: Shell, argument: str) -> None:
    """Begin a new conversation; this one stays in the history."""
    del argument
    shell.chat.go_to(None)
    shell.notes.say("A new conversation.")


@command("/resume [SESSION]", "sessions", _ids)
def resume(shell: Shell, argument: str) -> Answer:
    """Continue another conversation: the newest other one, or the one whose id begins so."""
    chat = shell.chat
    wanted = argument
    if not wanted:
        here = chat.session.id if chat.session is not None else ""
        others = [info.id for info in _history(shell).sessions(2) if info.id != here]
        if not others:
            raise UsageError("There is no other session to resume.")
        wanted = others[0]
    _history(shell)
    chat.go_to(wanted)
    shell.say_notices()
    return say_resumed(shell)


def say_resumed(shell: Shell) -> Answer:
    """Say which conversation this is; an unanswered question is offered for editing."""
    context = shell.chat.context
    turns = f"{context.turn_count:,} turn{'' if context.turn_count == 1 else 's'}"
    if context.turn_count or context.recovered:  # or else there was nothing to resume, as a notice has said
        shell.notes.say(f"Resumed: {shell.chat.title or 'untitled'} ({turns}).")
    recovered, context.recovered = context.recovered, None
    return Answer(restore=recovered or "")


@command("/rename TITLE", "sessions")
def rename(shell: Shell, argument: str) -> None:
    """Give this conversation another title."""
    session = shell.chat.session
    if session is None or not argument:
        raise UsageError("There is no title." if session is not None else "This conversation is not kept.")
    if not shell.chat.context.turn_count:
        raise UsageError("Nothing was said yet: a conversation is kept from its first message on.")
    _history(shell).rename(session.id, argument)
    shell.notes.say(f"This conversation is now called {shell.chat.title}.")


@command("/search WORDS", "sessions")
def search(shell: Shell, argument: str) -> None:
    """Search everything that was ever said, the best match first. Any text is a query."""
    history = _history(shell)
    if not argument:
        raise UsageError("There is nothing to look for.")
    what = "searching"

    def read(done: int, total: int) -> None:
        nonlocal what
        what = f"searching: reading message {done:,} of {total:,}"

    with shell.notes.progress(lambda: what):
        hits = history.search(argument, progress=read)
    if not hits:
        shell.notes.say(f"Nothing found for {quoted(argument)}.")
        return
    for hit in hits:
        title = one_line(hit.title)
        shell.notes.say(f"{hit.session}  turn {hit.turn}  {hit.role}  {age(hit.time)}  {title}", "dim")
        shell.notes.styled(marked(hit), indent=2)


def marked(hit: Hit) -> Line:
    """The snippet of a hit with its matching words in bold, and in brackets for who sees no bold."""
    line: Line = []
    end = 0
    for start, stop in hit.marks:
        line += [Span(hit.snippet[end:start]), Span(f"[{hit.snippet[start:stop]}]", "bold")]
        end = stop
    return [*line, Span(hit.snippet[end:])]


@command("/export FILE", "sessions", files)
def export(shell: Shell, argument: str) -> None:
    """Write this conversation to a file: Markdown for `.md`, JSON for `.json`, which /import loads again."""
    from export import to_json, to_markdown

    session = shell.chat.session
    history = _history(shell)
    path = named_path(argument)
    if session is None or not shell.chat.context.turn_count:
        raise UsageError("Nothing was said yet.")
    if path.suffix.lower() not in {".md", ".json"}:
        raise UsageError(f"{quoted(argument)} ends neither in .md nor in .json.")
    there = os.path.exists(path)  # noqa: PTH110 - Path.exists can raise, and then writing says why
    if there and shell.notes.ask(f"{path} exists. Overwrite it?", ["yes", "no"]) != "yes":
        shell.notes.say(f"{path} was left as it is.")
        return
    try:
        with shell.notes.progress(f"writing {path.name}"):
            data = history.export_session(session.id)
            text = to_json(data) if path.suffix.lower() == ".json" else to_markdown(data)
            write_whole(path, text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error
    shell.notes.say(f"Wrote {path}.")


def write_whole(path: Path, text: str) -> None:
    """Write a text file wholly or not at all: on a full disk an older file of this name is still there.

    Raises:
        OSError: it cannot be written.
    """
    target = path.resolve()
    descriptor, part = tempfile.mkstemp(dir=target.parent, prefix=".export-")  # for its owner's eyes only
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, target)  # noqa: PTH105 - both are names here
    except BaseException:
        with suppress(OSError):
            os.unlink(part)  # noqa: PTH108
        raise


@command("/import FILE", "sessions", files)
def import_file(shell: Shell, argument: str) -> Answer:
    """Load a conversation that /export wrote as JSON, and continue it."""
    history = _history(shell)
    path = named_path(argument)
    try:
        with shell.notes.progress(f"reading {path.name}"):
            data = json.loads(read_file(path, LARGEST_IMPORT).decode("utf-8"))
            session = history.import_session(data)
    except (ValueError, RecursionError) as error:  # the latter from a thousand brackets
        raise UsageError(f"{path.name} is not a JSON file of /export.") from error
    shell.chat.go_to(session)
    shell.say_notices()
    return say_resumed(shell)


@command("/delete [SESSION]", "sessions", _ids)
def delete(shell: Shell, argument: str) -> None:
    """Delete a conversation for good, its text in the search index included; this one when none is named."""
    chat, history = shell.chat, _history(shell)
    here = chat.session.id if chat.session is not None else ""
    wanted = argument.lower() or here
    matches = [info for info in history.sessions(1_000_000) if info.id.startswith(wanted)]
    if len(matches) != 1:
        found = f"{len(matches)} sessions begin with {quoted(wanted)}."
        raise UsageError(found if argument else "Nothing was said yet.")
    info = matches[0]
    question = f"Delete {one_line(info.title)!r} ({info.turns} turns) for good?"
    if shell.notes.ask(question, ["yes", "no"]) != "yes" and shell.prompt:  # a pipe cannot be asked
        shell.notes.say("It was kept.")
        return
    if info.id == here:
        chat.go_to(None)
    with shell.notes.progress("deleting"):
        history.delete_session(info.id)
    shell.notes.say(f"Deleted {one_line(info.title)!r}.")
    typed = shell.settings.home / "input_history"
    if typed.exists():
        shell.notes.say(
            f"What you typed is still found with the up arrow, from {typed}: delete it too, "
            "if that is to be gone.",
            "dim",
        )
