"""The log: every turn ever said, by number, and the form in which a turn is stored.

With a history, turns that are no longer sent leave memory and are read again when undo, a summary or
a search reaches them; without one, memory is all there is. Not covered: the storage (`history.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ports import SessionLog
from tokens import TokenCounter, counter_for
from turns import (
    ContextError,
    Entry,
    Evidence,
    Message,
    Turn,
    assistant_message,
    check_calls,
    new_step,
    tool_message,
)

UNREADABLE = "[the rest of this turn could not be read from the history]"


class Log:
    """Every turn ever said, by number from 1 on."""

    def __init__(self, model: str, history: SessionLog | None = None) -> None:
        self._model = model
        self._counter: TokenCounter | None = None
        self._history = history
        self._turns: dict[int, Turn] = {}
        self.last = 0

    @property
    def counter(self) -> TokenCounter:
        """The counter of the model in use. The first use loads its vocabulary, about half a second."""
        if self._counter is None:
            self._counter = counter_for(self._model)
        return self._counter

    def __getitem__(self, number: int) -> Turn:
        """Return a turn, from memory or from the history; KeyError when there never was one."""
        turn = self._turns.get(number)
        if turn is None:
            if self._history is None or not 1 <= number <= self.last:
                raise KeyError(number)
            self.load(number, number)
            turn = self._turns[number]
        return turn

    def live(self) -> Turn | None:
        """Return the last turn while its question has no answer."""
        turn = self._turns.get(self.last)
        return turn if turn is not None and turn.answer is None else None

    def push(self, turn: Turn) -> None:
        """Add the next turn."""
        self._turns[turn.number] = turn
        self.last = turn.number

    def pop(self) -> None:
        """Take the last turn away."""
        self._turns.pop(self.last, None)
        self.last -= 1

    def load(self, first: int, last: int) -> None:
        """Read these answered turns from the history; those already in memory stay as they are."""
        wanted = [number for number in range(first, last + 1) if number not in self._turns]
        if self._history is not None and wanted:
            rows = dict(self._history.turns(wanted[0], wanted[-1]))
            for number in wanted:
                self._turns[number] = turn_from_messages(number, rows.get(number, []), self.counter)

    def release(self, keep: Callable[[int], bool]) -> None:
        """Let turns go from memory that the history can give back."""
        if self._history is not None:
            for number in [number for number in self._turns if number != self.last and not keep(number)]:
                del self._turns[number]

    def count_for(self, model: str) -> None:
        """Count by this model's encoding from now on; what is in memory is counted again if it differs."""
        self._model = model
        if self._counter is not None and self._counter is not (counter := counter_for(model)):
            self._counter = counter
            for turn in self._turns.values():
                turn.recount(counter)


def turn_from_messages(number: int, messages: Sequence[Message], counter: TokenCounter) -> Turn:
    """Rebuild an answered turn from its stored messages.

    What is damaged on disk costs the rest of that turn and nothing else: the valid beginning stays
    and a marker stands for what is missing, because an answered turn must stay a valid one.
    """

    def entry(message: Message) -> Entry:
        return Entry(message, counter.message(message))

    first = messages[0] if messages else {}
    asked = first.get("content") if first.get("role") == "user" else None
    question = entry({"role": "user", "content": asked or UNREADABLE})
    turn = Turn(number, question, question, pinned=bool(first.get("pinned", False)))
    turn.evidence = tuple(Evidence(*pair) for pair in first.get("evidence", ()))
    for message in messages[1:]:
        role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls")
        if role == "assistant" and calls and not turn.pending():
            try:
                call = entry(assistant_message(content, check_calls(calls)))
            except (ContextError, TypeError):  # it never came in through the context: a damaged row
                break
            turn.steps.append(new_step(call, message.get("reasoning")))
        elif role == "tool" and message.get("tool_call_id") in turn.pending():
            turn.steps[-1].place(entry(tool_message(message["tool_call_id"], content or "")))
        elif role == "assistant" and content and not turn.pending():
            turn.close(entry({"role": "assistant", "content": content}))
            return turn
        else:
            break
    if turn.pending():
        turn.steps.pop()
    turn.close(entry({"role": "assistant", "content": UNREADABLE}))
    return turn


def question_row(turn: Turn) -> Message:
    """The stored form of a question: what is sent, and what is known of it beside that."""
    row: Message = {"role": "user", "content": turn.text}
    if turn.evidence:
        row["evidence"] = [list(item) for item in turn.evidence]
        row["nonce"] = turn.nonce
    if turn.pinned:
        row["pinned"] = True
    return row


def assistant_row(text: str, calls: list[Message], reasoning: str | None, usage: object | None) -> Message:
    """The stored form of an assistant message."""
    row: Message = {"role": "assistant", "content": text or None}
    if calls:
        row["tool_calls"] = calls
    if reasoning:
        row["reasoning"] = reasoning
    if prompt_tokens(usage):
        row["usage"] = {"prompt_tokens": prompt_tokens(usage)}
    return row


def is_answered(rows: Sequence[Message]) -> bool:
    """Tell whether the stored messages of a turn end with its answer."""
    return bool(rows) and rows[-1].get("role") == "assistant" and not rows[-1].get("tool_calls")


def prompt_tokens(usage: object | None) -> int:
    """What the provider billed for the prompt in tokens, 0 when it did not say; read as attribute or key."""
    value = (
        usage.get("prompt_tokens") if isinstance(usage, Mapping) else getattr(usage, "prompt_tokens", None)
    )
    return value if isinstance(value, int) and value > 0 else 0
