"""Commands about the conversation: send, take back, send again, attach, help, leave."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from terminal.commands import GROUPS, UsageError, all_commands, command
from terminal.repl import Answer

if TYPE_CHECKING:
    from terminal.shell import Shell

LARGEST_FILE = 4 << 20
"""Bytes of a file that is looked at for `/attach`; no budget that a person sets holds a larger one."""


def _command_names(shell: Shell, typed: str) -> Iterable[str]:
    del shell, typed
    return all_commands()


@command("/help [COMMAND]", "conversation", _command_names)
def show_help(shell: Shell, argument: str) -> None:
    """List the commands, or explain one.

    Keys: Enter sends; Alt-Enter or Ctrl-J begins a new line; Ctrl-R searches what you typed before;
    Ctrl-X Ctrl-E opens your editor; Ctrl-C stops a reply or clears the line; Ctrl-D leaves.
    """
    commands = all_commands()
    if argument:
        known = commands.get(argument.removeprefix("/").lower())
        if known is None:
            raise UsageError(f"There is no command {argument!r}.")
        shell.notes.print(known.usage, "bold")
        for line in known.help:
            shell.notes.print(f"  {line}")
        return
    width = max(len(each.usage) for each in commands.values())
    for group in GROUPS:
        shell.notes.print(group, "bold")
        for each in sorted(commands.values(), key=lambda each: each.name):
            if each.group == group:
                shell.notes.say(f"  {each.usage:<{width}}  {each.help[0]}")


@command("/quit", "conversation")
def quit_chat(shell: Shell, argument: str) -> Answer:
    """Leave the chat. Ctrl-D at an empty prompt does the same."""
    del shell, argument
    return Answer(leave=True)


@command("/pin TEXT", "conversation")
def pin(shell: Shell, argument: str) -> Answer:
    """Send a message that stays in the context, whatever is dropped around it.

    Pinned questions may take a quarter of the budget together; their answers are shortened when needed.
    """
    if not argument:
        raise UsageError("There is nothing to pin.")
    return shell.turn(argument, pinned=True)


@command("/undo", "conversation")
def undo(shell: Shell, argument: str) -> Answer:
    """Take the last turn back; its text is in the prompt again.

    What the turn brought about goes with it: compactions, the summary it led to, facts that were written
    in it. It can be repeated, turn by turn.
    """
    del argument
    with shell.shield():
        text = shell.chat.context.rollback_last_user()
    if text is None:
        shell.notes.say("There is nothing to take back.")
        return Answer()
    shell.notes.say(f"Took back the last turn; {shell.chat.context.turn_count} are left.")
    return Answer(restore=text)


@command("/retry", "conversation")
def retry(shell: Shell, argument: str) -> Answer:
    """Ask the last question again."""
    del argument
    with shell.shield():
        text = shell.chat.context.rollback_last_user()
    if text is None:
        shell.notes.say("There is nothing to ask again.")
        return Answer()
    return shell.turn(text)


@command("/edit", "conversation")
def edit(shell: Shell, argument: str) -> Answer:
    """Open the last question in your editor; it is then in the prompt, and its turn is taken back.

    Ctrl-X Ctrl-E opens what is in the prompt instead. The editor is $VISUAL or $EDITOR.
    """
    from terminal.editor import EditorError, edit_text

    context = shell.chat.context
    text = context.last_question or argument
    try:
        edited = edit_text(text)
    except EditorError as error:
        shell.notes.error(str(error))
        return Answer()
    if edited and context.last_question is not None:
        with shell.shield():
            context.rollback_last_user()
    return Answer(restore=edited)


def _files(shell: Shell, typed: str) -> Iterable[str]:
    del shell
    folder, start = os.path.split(os.path.expanduser(typed))  # noqa: PTH111 - half a path is no Path yet
    prefix = typed[: len(typed) - len(start)]
    try:
        entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        prefix + entry.name + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith("."))
    ]


@command("/attach [FILE | clear]", "conversation", _files)
def attach(shell: Shell, argument: str) -> None:
    """Send a text file along with the next question, fenced as untrusted data.

    It is there in that turn only. Several files can be attached; `/attach clear` takes them off again, and
    `/attach` alone lists them.
    """
    chat = shell.chat
    if argument == "clear":
        chat.attached.clear()
        shell.notes.say("Nothing is attached any more.")
        return
    if not argument:
        names = ", ".join(name for name, _ in chat.attached) or "nothing"
        shell.notes.say(f"Attached to the next question: {names}.")
        return
    path = Path(argument).expanduser()
    text = read_text_file(path)
    tokens = chat.context.count(text)
    fixed = sum(section.tokens for section in chat.context.sections if section.name in FIXED)
    room = chat.context.token_budget - fixed - sum(chat.context.count(each) for _, each in chat.attached)
    if tokens > room:
        raise UsageError(
            f"{path.name} has {tokens:,} tokens and there is room for {room:,}: attach a part of it, "
            "or raise the budget with /budget."
        )
    chat.attached.append((path.name, text))
    shell.notes.say(f"Attached {path.name} ({tokens:,} tokens) to the next question.")


FIXED = {"instructions", "tools", "summary", "facts", "pinned"}
"""Sections that no compaction makes smaller."""


def read_text_file(path: Path) -> str:
    """Return the text of a file.

    Raises:
        UsageError: it cannot be read, is too large, or is no text.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise UsageError(f"{path.name} has {size:,} bytes; at most {LARGEST_FILE:,} can be attached.")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path.name} ({size:,} bytes) is not UTF-8 text, which is all that fits.") from None
    if "\0" in text:
        raise UsageError(f"{path.name} is a binary file ({size:,} bytes): only text can be attached.")
    if not text.strip():
        raise UsageError(f"{path.name} is empty.")
    return text
