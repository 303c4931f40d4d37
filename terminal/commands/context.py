"""Commands about the context: what is in it, what it costs, what was dropped."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from config import VARIABLES
from terminal.commands import UsageError, command, quoted
from terminal.meter import bar, compaction_line, shares
from terminal.safe import visible_json

if TYPE_CHECKING:
    from terminal.shell import Shell

SECTIONS = {
    "instructions": ("i", "magenta", "SYSTEM_PROMPT"),
    "tools": ("t", "blue", "/tools off"),
    "summary": ("s", "cyan", "/new; at most a fifth of the budget"),
    "facts": ("f", "green", "/forget KEY; at most a tenth of the budget"),
    "pinned": ("p", "yellow", "/undo of a pinned turn; at most a quarter of the budget"),
    "window": ("w", "white", "fewer TURNS with /budget, then /compact"),
    "live turn": ("q", "red", "a shorter question, or fewer attached files"),
}
"""By section: the letter and color of its stretch in the bar, and what makes it smaller."""


@command("/context", "context")
def show_context(shell: Shell, argument: str) -> None:
    """Show what the next request is made of: a bar and a table of its sections.

    Each section has its tokens, its share of the budget, and what can make it smaller.
    """
    del argument
    context, screen = shell.chat.context, shell.notes
    sections = context.sections
    used = sum(section.tokens for section in sections)
    parts = [(SECTIONS[section.name][0], section.tokens, SECTIONS[section.name][1]) for section in sections]
    screen.lines([bar(parts, context.token_budget, max(10, min(screen.width, 100)))])
    percent = shares([section.tokens for section in sections], context.token_budget)
    rows = [
        [
            SECTIONS[section.name][0],
            section.name,
            f"{section.tokens:,}",
            f"{share}%",
            "; ".join(filter(None, [section.note, SECTIONS[section.name][2] if section.tokens else ""])),
        ]
        for section, share in zip(sections, percent, strict=True)
    ]
    free = context.token_budget - used
    sign, name, does = (
        (".", "free", "/budget N") if free >= 0 else ("!", "over", "/compact; the next request does it")
    )
    rows.append([sign, name, f"{abs(free):,}", f"{abs(100 - sum(percent))}%", does])
    heads = ["", "section", "tokens", "share", "what it is, what makes it smaller"]
    screen.table(heads, rows, align="llrrl", spare=1)
    first, turns = context.first_kept_turn, context.turn_count
    window = f"turns {first} to {turns} of {turns}" if turns else "no turns yet"
    correction = f"; the server counts {context.correction:.2f} times ours" if context.correction != 1 else ""
    screen.say(f"The window: {window}{correction}.", "dim")


@command("/payload", "context")
def show_payload(shell: Shell, argument: str) -> None:
    """Print the messages that would be sent now, as JSON, ready to be copied."""
    del argument
    shell.out.print(visible_json(build(shell), indent=2, ascii_only=not shell.out.look.unicode))


def build(shell: Shell, *, compact: bool = False) -> list[dict[str, Any]]:
    """Build the next payload; what that compacted is shown, as it would be in a turn."""
    context = shell.chat.context
    before = context.compact_count
    slow = context.has_summarizer and (compact or context.compacts_next)
    with shell.notes.progress("summarizing") if slow else nullcontext():
        payload = context.build_for_llm(compact=compact)
    if context.compact_count > before:
        shell.notes.styled(compaction_line(context.compactions[-1], shell.notes.glyphs), hang=2)
    return payload


@command("/compact", "context")
def compact(shell: Shell, argument: str) -> None:
    """Compact now: keep the newest turns, drop or summarize the rest.

    The log keeps everything, and `/undo` of the last question takes this back too.
    """
    del argument
    context = shell.chat.context
    before = context.compact_count
    build(shell, compact=True)
    if context.compact_count > before:
        return
    kept = context.turn_count - context.first_kept_turn + 1
    why = context.summary_note or (
        "nothing was said yet"
        if not context.turn_count
        else f"{f'the {kept} turns in the window are' if kept > 1 else 'the turn in the window is'} "
        f"within the {context.keep_recent_turns} to keep"
    )
    shell.notes.say(f"Nothing to compact: {why}.")


@command("/trace", "context")
def trace(shell: Shell, argument: str) -> None:
    """Show the last turn in full: its requests, their tokens and times, and its tool calls."""
    del argument
    if not shell.chat.traces:
        shell.notes.say("No turn was answered since this conversation was opened.")
        return
    last = shell.chat.traces[-1]
    rows = [
        [
            str(number),
            f"{request.estimated:,}",
            "-" if request.prompt_tokens is None else f"{request.prompt_tokens:,}",
            "-" if request.completion_tokens is None else f"{request.completion_tokens:,}",
            f"{request.seconds:.1f}",
            request.finish_reason,
        ]
        for number, request in enumerate(last.requests, 1)
    ]
    shell.notes.table(["request", "estimated", "billed", "reply", "seconds", "ended"], rows, align="rrrrrl")
    for call in last.tools:
        failed = "" if call.ok else ", failed"
        shell.notes.say(f"{call.name} {call.arguments} ({call.seconds:.1f} s{failed})", "bold")
        shell.notes.say(call.result, "" if call.ok else "red", indent=2)
    shell.notes.say(f"The whole turn took {last.seconds:.1f} s.", "dim")


@command("/stats", "context")
def stats(shell: Shell, argument: str) -> None:
    """Show sums over this conversation, and what was asked since it was opened: requests, tokens, time."""
    del argument
    chat = shell.chat
    context, totals = chat.context, chat.totals()
    dropped = sum(record.tokens for record in context.compactions)
    rows = [
        ["turns in this session", f"{context.turn_count:,}"],
        ["of them in the window", f"{context.turn_count - context.first_kept_turn + 1:,}"],
        ["compactions", f"{context.compact_count:,}"],
        ["tokens they dropped", f"{dropped:,}"],
        ["turns answered since it was opened", f"{totals['turns']:,}"],
        ["requests", f"{totals['requests']:,}"],
        ["tool calls", f"{totals['tools']:,}"],
        ["prompt tokens, estimated", f"{totals['estimated']:,}"],
        ["prompt tokens, billed", f"{totals['billed']:,}" if totals["billed"] else "not said"],
        ["reply tokens, billed", f"{totals['completion']:,}" if totals["completion"] else "not said"],
        ["learned correction", f"{context.correction:.3f}"],
        ["seconds", f"{totals['seconds']:.1f}"],
    ]
    shell.notes.table([], rows, align="lr")


BUDGET = ("token_budget", "keep_recent_turns")
"""What /budget sets, within the bounds of the settings `context_...`."""


@command("/budget [TOKENS] [TURNS]", "settings")
def budget(shell: Shell, argument: str) -> None:
    """Show or set the token budget, and the number of turns that a compaction keeps."""
    context = shell.chat.context
    words = argument.replace(",", "").split()
    if len(words) > len(BUDGET) or not all(word.isdecimal() for word in words):
        raise UsageError(f"{quoted(argument)} is not one or two whole numbers: tokens, and turns to keep.")
    numbers: dict[str, Any] = {}
    for word, field in zip(words, BUDGET, strict=False):
        variable = next(each for each in VARIABLES if each.field == f"context_{field}")
        try:
            numbers[field] = int(variable.parse(word, variable))
        except ValueError as error:
            raise UsageError(f"{word} {error}.") from error
    context.configure(**numbers)
    shell.notes.say(
        f"The budget is {context.token_budget:,} tokens; a compaction keeps at most "
        f"{context.keep_recent_turns} turns. {context.token_count:,} tokens are in use."
    )
