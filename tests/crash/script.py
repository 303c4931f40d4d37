"""The conversations that are killed: steps drawn from a seed, and a model of what they leave behind.

The child performs the steps and says so after each; the parent knows the same steps, so it knows what
must be on the disk. To kill something else (the context, say), give it a `perform` of its own beside the
one in `talk.py`, and a reading of its state that compares with `Model`.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Message = dict[str, Any]


class Step(NamedTuple):
    """One call on a session: open, append, project or undo."""

    name: str
    turn: int
    message: Message
    parts: dict[str, str]
    log: dict[str, str]


@dataclass
class Model:
    """What a session holds: plain lists, changed as the steps say."""

    messages: list[tuple[int, Message]] = field(default_factory=list)
    values: list[tuple[int, str, str]] = field(default_factory=list)
    logged: list[tuple[int, str]] = field(default_factory=list)

    def apply(self, step: Step) -> None:
        if step.name in {"open", "undo"}:
            self.messages = [row for row in self.messages if row[0] < step.turn]
            self.values = [row for row in self.values if row[0] < step.turn]
            self.logged = [row for row in self.logged if row[0] < step.turn]
        if step.name in {"open", "append"}:
            self.messages.append((step.turn, step.message))
        self.values += [(step.turn, name, value) for name, value in step.parts.items()]
        self.logged += [(step.turn, value) for value in step.log.values()]

    @property
    def parts(self) -> dict[str, str]:
        return {name: value for _, name, value in self.values}

    @property
    def last_turn(self) -> int:
        return max((turn for turn, _ in self.messages), default=0)

    def after(self, steps: Iterator[Step], count: int) -> Model:
        """The model some steps later."""
        later = copy.deepcopy(self)
        for _ in range(count):
            later.apply(next(steps))
        return later


def steps(seed: int, last_turn: int) -> Iterator[Step]:
    """Endless turns with tool calls and answers, some of them taken back; each text is there only once."""
    rng = random.Random(seed)
    turn, serial = last_turn, 0

    def text(kind: str) -> str:
        nonlocal serial
        serial += 1
        return f"{kind} {seed}-{serial} " + "x" * rng.choice((1, 10, 300, 9000))

    def step(name: str, message: Message | None = None, parts: Mapping[str, str] = {}, **log: str) -> Step:
        return Step(name, turn, message or {}, dict(parts), log)

    while True:
        turn += 1
        yield step("open", {"role": "user", "content": text("question")}, {"view": text("view")})
        for _ in range(rng.randrange(3)):
            ids = [f"c{number}" for number in range(rng.randrange(1, 4))]
            calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
            yield step("append", {"role": "assistant", "content": None, "tool_calls": calls})
            for call_id in ids:
                yield step("append", {"role": "tool", "tool_call_id": call_id, "content": text("result")})
        if rng.random() < 0.3:
            yield step("project", None, {"summary": text("summary")}, compaction=text("compaction"))
        if rng.random() < 0.2:  # the turn fails
            yield step("undo")
            turn -= 1
            continue
        yield step("append", {"role": "assistant", "content": text("answer")}, {"correction": text("1.0")})
        while turn > 1 and rng.random() < 0.15:  # second thoughts
            yield step("undo")
            turn -= 1
