"""Commands about the conversation: send, take back, send again, attach, help, leave."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from terminal.commands import GROUPS, UsageError, all_commands, command, named_path, quoted
from terminal.repl import Answer

if TYPE_CHECKING:
    from context import Question
    from terminal.shell import Shell
    from turns import Message

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
            raise UsageError(f"There is no command {quoted(argument)}.")
        shell.notes.say(known.usage, "bold")
        for paragraph in "\n".join(known.help).split("\n\n"):
            shell.notes.say(paragraph.replace("\n", " "), indent=2)
        return
    rows, styles = [], []
    for group in GROUPS:
        rows.append([group])
        styles.append("bold")
        for each in sorted(commands.values(), key=lambda each: each.name):
            if each.group == group:
                rows.append([each.usage, each.help[0]])
                styles.append("")
    shell.notes.table([], rows, styles=styles)


@command("/quit", "conversation")
def quit_chat(shell: Shell, argument: str) -> Answer:
    """Leave the chat. Ctrl-D at an empty prompt does the same."""
    del shell, argument
    return Answer(leave=True)


@command("/pin TEXT", "conversation")
def pin(shell: Shell, argument: str) -> Answer:
    """Send a message that stays in the context, whatever is dropped around it.

    Pinned questions may take a quarter of the budget together, and half of what instructions, tools and facts
    leave of it; their answers are shortened when needed.
    """
    if not argument:
        raise UsageError("There is nothing to pin.")
    return shell.turn(argument, pinned=True)


@command("/undo", "conversation")
def undo(shell: Shell, argument: str) -> Answer:
    """Take the last turn back; its text is in the prompt again.

    What the turn brought about goes with it: compactions, the summary it led to, facts that were written
    in it. What was attached to it is attached again. It can be repeated, turn by turn.
    """
    del argument
    question = take_back(shell)
    if question is None:
        shell.notes.say("There is nothing to take back.")
        return Answer()
    left = shell.chat.context.turn_count
    shell.notes.say(f"Took back the last turn; {left:,} {'is' if left == 1 else 'are'} left.")
    return Answer(restore=as_typed(question))


def take_back(shell: Shell) -> Question | None:
    """Take the last turn back; what was attached to it is attached again. Returns its question."""
    from memory import FactError

    chat = shell.chat
    question = chat.context.last_question
    if question is not None:
        before = chat.context.turn_count
        try:
            with shell.shield():
                chat.context.rollback_last_user()
        except (KeyboardInterrupt, FactError) as error:
            if chat.context.turn_count == before:
                raise
            # The turn is gone, so its text must come back, whatever else there is to say.
            if isinstance(error, FactError):
                shell.notes.error(f"{error} What the turn wrote into the facts may still be there (/facts).")
        attached = [(name, text) for name, text in question.evidence]
        chat.attached[:0] = [each for each in attached if each not in chat.attached]
    return question


def as_typed(question: Question) -> str:
    """The line that asks this question again."""
    return f"/pin {question.text}" if question.pinned else question.text


@command("/retry", "conversation")
def retry(shell: Shell, argument: str) -> Answer:
    """Ask the last question again, with what was attached to it; if that fails, the old answer stays."""
    del argument
    attached, old = list(shell.chat.attached), shell.chat.context.last_turn
    question = take_back(shell)
    if question is None:
        shell.notes.say("There is nothing to ask again.")
        return Answer()
    answer = shell.turn(question.text, pinned=question.pinned, again=True)
    if not answer.restore or not put_back(shell, question, old):
        return answer
    shell.chat.attached[:] = attached
    return Answer()


def put_back(shell: Shell, question: Question, messages: Sequence[Message]) -> bool:
    """Say a turn again that was taken back; returns whether that worked.

    The facts that it stored, what was learned from its bill and the compactions that it led to are not in it.
    """
    from context import ContextError
    from history import HistoryError
    from memory import FactError

    context = shell.chat.context
    before = context.turn_count
    try:
        with shell.shield():
            context.append_user(question.text, evidence=question.evidence, pinned=question.pinned)
            for message in messages[1:]:
                if message["role"] == "tool":
                    context.append_tool_result(message["tool_call_id"], message["content"])
                else:
                    calls, thought = message.get("tool_calls"), message.get("reasoning")
                    context.append_assistant(message["content"], calls, reasoning=thought)
    except (ContextError, HistoryError, FactError) as error:
        shell.notes.error(f"The old answer could not be put back: {error}")
        if context.turn_count > before:
            context.rollback_last_user()
        return False
    called = {call["function"]["name"] for message in messages for call in message.get("tool_calls", ())}
    but = "; what it stored as a fact is not" if "remember" in called else ""
    shell.notes.say(f"The old answer is back{but}.")
    return True


@command("/edit", "conversation")
def edit(shell: Shell, argument: str) -> Answer:
    """Open the last question in your editor; it is then in the prompt, and its turn is taken back.

    Ctrl-X Ctrl-E opens what is in the prompt instead. The editor is $VISUAL or $EDITOR.
    """
    from terminal.editor import EditorError, edit_text

    del argument
    if not (shell.prompt and shell.out.look.tty):  # it would read the lines that are meant for the chat
        raise UsageError("There is no terminal here for an editor.")
    question = shell.chat.context.last_question
    try:
        edited = edit_text("" if question is None else as_typed(question))
    except EditorError as error:
        shell.notes.error(str(error))
        return Answer()
    if edited:
        take_back(shell)
    return Answer(restore=edited)


def files(shell: Shell, typed: str) -> Iterable[str]:
    """Complete the name of a file."""
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


def _files_or_clear(shell: Shell, typed: str) -> Iterable[str | tuple[str, str]]:
    clear = [("clear", "attach nothing")] if shell.chat.attached else []
    return [*clear, *files(shell, typed)]


@command("/attach [FILE | clear]", "conversation", _files_or_clear)
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
    path = named_path(argument)
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


def read_file(path: Path, most: int = LARGEST_FILE) -> bytes:
    """Return what is in a file.

    Raises:
        UsageError: it cannot be read, is larger than `most` bytes, or is no file: a device or a pipe may have
            no end.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UsageError(f"{path} is a device or a pipe, not a file.")
        size = path.stat().st_size
        if size <= most:
            with path.open("rb") as file:
                data = file.read(most + 1)  # some files, as those in /proc, say they have 0 bytes
            size = len(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    if size > most:
        raise UsageError(f"{path.name} has {size:,} bytes; at most {most:,} can be read.")
    return data


def read_text_file(path: Path) -> str:
    """Return the text of a file.

    Raises:
        UsageError: it cannot be read, is too large, or is no text.
    """
    data = read_file(path)
    size = len(data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path.name} ({size:,} bytes) is not UTF-8 text, which is all that fits.") from None
    if "\0" in text:
        raise UsageError(f"{path.name} is a binary file ({size:,} bytes): only text can be attached.")
    if not text.strip():
        raise UsageError(f"{path.name} is empty.")
    return text
