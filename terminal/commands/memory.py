"""Commands about memory: facts, the rolling summary, tools and models."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from terminal.cells import clip
from terminal.commands import UsageError, command, on_or_off, quoted
from terminal.safe import one_line

if TYPE_CHECKING:
    from terminal.shell import Shell


def _switch(shell: Shell, typed: str) -> Iterable[str]:
    del shell, typed
    return ["on", "off"]


def _all(shell: Shell, typed: str) -> Iterable[tuple[str, str]]:
    del shell, typed
    return [("all", "replaced values too")]


def _keys(shell: Shell, typed: str) -> Iterable[str | tuple[str, str]]:
    facts = shell.chat.facts
    if typed.startswith("--source"):
        return [f"--source {source}" for source in facts.sources()]
    return [*((fact.key, fact.value) for fact in facts.all()), ("--source", "all from one source")]


@command("/remember KEY = VALUE", "memory")
def remember(shell: Shell, argument: str) -> None:
    """Keep a fact about you for all later conversations.

    It is in every payload from now on, as a note. What you say here is never overwritten by the model.
    """
    from memory import Fact

    key, equals, value = argument.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise UsageError("A fact has a key and a value.")
    fact = shell.chat.facts.write(Fact(key.strip(), value.strip(), "user"))
    shell.notes.say(f"Remembered: {fact.key} = {fact.value}")


@command("/facts [all]", "memory", _all)
def show_facts(shell: Shell, argument: str) -> None:
    """List the facts with their source, confidence and age; `/facts all` shows replaced values too."""
    facts = shell.chat.facts
    if argument not in {"", "all"}:
        raise UsageError(f"{quoted(argument)} is not a choice.")
    listed = facts.all(include_superseded=argument == "all")
    if not listed:
        shell.notes.say("No facts yet. /remember KEY = VALUE keeps one.")
        return
    current = {(fact.key, fact.value, fact.source) for fact in facts.all()}
    rows = [
        [
            fact.key,
            fact.value,
            fact.source,
            f"{fact.confidence}, from the {fact.origin}",
            age(fact.created_at),
            "" if (fact.key, fact.value, fact.source) in current else "replaced",
        ]
        for fact in listed
    ]
    heads = ["key", "value", "source", "confidence", "age"]
    if any(row[-1] for row in rows):
        heads.append("state")
    shell.notes.table(heads, [row[: len(heads)] for row in rows])
    shown, left_out = facts.last_render
    if left_out:
        shell.notes.say(f"facts: {shown} shown to the model, {left_out} left out for want of room", "yellow")


def age(moment: datetime) -> str:
    """How long ago a moment was, in its largest unit."""
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "now"


@command("/forget KEY | --source SOURCE", "memory", _keys)
def forget(shell: Shell, argument: str) -> None:
    """Delete a fact with all its versions, or everything that came from one source.

    `/forget --source SOURCE` also brings back what its facts had replaced, and takes a summary that may have
    drawn on the source out of the payload until it is written anew. No undo reverses it.
    """
    facts = shell.chat.facts
    if argument.startswith("--source"):
        source = argument.removeprefix("--source").strip()
        if not source:
            raise UsageError("--source needs a source; /facts lists them.")
        removed = facts.forget_source(source)
        shell.notes.say(f"Forgot {removed} {'fact' if removed == 1 else 'facts'} from {source}.")
        return
    if not argument:
        raise UsageError("There is nothing to forget.")
    if facts.forget(argument):
        shell.notes.say(f"Forgot {clip(one_line(argument), 60)}.")
    else:
        shell.notes.say(f"There is no fact {quoted(argument)}; /facts lists them.")


@command("/summary [on | off]", "memory", _switch)
def summary(shell: Shell, argument: str) -> None:
    """Show the summary of what was dropped, or switch it on or off."""
    chat = shell.chat
    if argument:
        chat.set_summary(on=on_or_off(argument, chat.summary_on))
        shell.notes.say(f"The summary is {'on' if chat.summary_on else 'off'}.")
        return
    context = chat.context
    state = "on" if chat.summary_on else "off; /summary on lets dropped turns live on in one"
    if context.summary is None:
        shell.notes.say(f"There is no summary yet. It is {state}.")
        return
    tokens = context.count(context.summary)
    covers = f"covers turns 1–{context.covered_turns}"
    shell.notes.say(f"The summary ({state}) has {tokens:,} tokens and {covers}:", "dim")
    shell.notes.print(context.summary)


@command("/summarize", "memory")
def summarize(shell: Shell, argument: str) -> None:
    """Write a summary of the whole session for you; the conversation itself is not changed."""
    del argument
    chat = shell.chat
    if not chat.context.turn_count:
        shell.notes.say("Nothing was said yet.")
        return
    from brain import BrainError
    from memory import SummaryError

    try:
        with shell.notes.progress("summarizing the session"):
            text = chat.summarizer().summarize_all(chat.context.transcript())
    except BrainError as error:
        shell.notes.error(error.message, error.hint)
        return
    except SummaryError as error:
        shell.notes.error(str(error), "/budget raises the budget.")
        return
    except KeyboardInterrupt:
        shell.notes.say("Stopped; nothing was changed.", "yellow")
        return
    shell.out.markdown(text)


@command("/tools [on | off]", "settings", _switch)
def tools(shell: Shell, argument: str) -> None:
    """List the tools with what they cost, or switch them on or off."""
    chat = shell.chat
    if argument:
        chat.set_tools(on=on_or_off(argument, chat.tools_on))
    state = "on" if chat.tools_on else "off"
    rows = []
    for name in chat.registry.names:
        tool = chat.registry.get(name)
        assert tool is not None
        description = tool.description.split("\n")[0]
        asks = "asks first" if tool.needs_approval else ""
        rows.append([name, f"{chat.context.count_tools([tool.schema]):,}", asks, description])
    shell.notes.table(["tool", "tokens", "", "what it does"], rows, align="lrll")
    shell.notes.say(f"Tools are {state}.")


def _models(shell: Shell, typed: str) -> Iterable[str]:
    del typed
    settings = shell.settings
    return dict.fromkeys(filter(None, [shell.chat.brain.model, settings.model, settings.summary_model]))


@command("/model [NAME]", "settings", _models)
def model(shell: Shell, argument: str) -> None:
    """Show or change the model that answers. The context is counted again by its encoding."""
    chat = shell.chat
    if chat.settings.offline:
        shell.notes.say(
            "The offline stand-in answers. Set OPENAI_API_KEY or OPENAI_BASE_URL in .env to talk to a model."
        )
        return
    if argument:
        if len(argument.split()) > 1:
            raise UsageError(f"{quoted(argument)} is not the name of a model.")
        chat.set_model(argument)
    shell.notes.say(f"The model is {chat.brain.model}.")


@command("/reasoning [on | off]", "settings", _switch)
def reasoning(shell: Shell, argument: str) -> None:
    """Show a model's reasoning, dimmed, or only how long it thought.

    Switching it on also shows the reasoning of the last reply, if that was not shown.
    """
    shell.reasoning = on_or_off(argument, shell.reasoning)
    shell.notes.say(f"Reasoning text is {'shown' if shell.reasoning else 'not shown'}.")
    if shell.reasoning:
        shell.unfold()
