"""What happens in a turn, as values: the events that `Agent.run_turn` yields, and the trace at its end.

The chat, the one-shot mode, `/trace` and the tests all consume the same ones. Not covered: why and when they
happen (`agent.py`), and what they look like (`terminal/render.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from brain import ReasoningDelta, Retrying, TextDelta
from view import Compaction


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """A request goes out; tokens are our corrected count of its prompt."""

    number: int
    tokens: int
    budget: int


@dataclass(frozen=True, slots=True)
class Working:
    """Something takes a while that is no reply: `what` is happening, for a progress line."""

    what: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool is about to run; arguments are the JSON text that the model wrote."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool has run; the result is what the model will read."""

    call_id: str
    name: str
    result: str
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Compacted:
    """The payload was compacted."""

    record: Compaction


@dataclass(frozen=True, slots=True)
class Notice:
    """One sentence that the person should see."""

    text: str


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """One request: estimated and billed tokens (None when the server did not say), and its time.

    `finish_reason` is what the server said, or the kind of failure that ended it.
    """

    estimated: int
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    finish_reason: str


@dataclass(frozen=True, slots=True)
class ToolTrace:
    """One tool call, in full."""

    name: str
    arguments: str
    result: str
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """What one turn did and took; `failure` is the kind of what took it back, "" when it was answered."""

    requests: tuple[RequestTrace, ...] = ()
    tools: tuple[ToolTrace, ...] = ()
    seconds: float = 0.0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The turn was answered; always the last event."""

    text: str
    trace: TurnTrace


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn was taken back; always the last event. `text` is the question, for editing."""

    kind: str
    message: str
    hint: str
    text: str
    trace: TurnTrace = TurnTrace()


Event = (
    TextDelta
    | ReasoningDelta
    | Retrying
    | RequestStarted
    | Working
    | ToolStarted
    | ToolFinished
    | Compacted
    | Notice
    | Done
    | Failed
)
