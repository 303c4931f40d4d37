"""Conversations for the benchmarks: the same ones every time, in mixed English, code and Chinese."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

WORDS = (  # noqa: SIM905 - a sentence is easier to read than a list of its words
    "the river runs past an old mill where nobody works now but the wheel still turns in spring and a boy "
    "counts its turns aloud until his mother calls him home for bread and soup and the long story of the fox"
).split()
CODE = "def total(items: list[int]) -> int:\n    return sum(item * 2 for item in items if item > {0})\n"
CHINESE = "河水流过旧磨坊，春天里水轮仍在转动，孩子大声数着圈数。"


def text(rng: random.Random, size: int) -> str:
    """Return about `size` words of English, now and then with code or Chinese among them."""
    words = " ".join(rng.choices(WORDS, k=size))
    extra = rng.random()
    if extra < 0.15:
        return f"{words}\n{CODE.format(rng.randrange(100))}"
    return f"{words} {CHINESE}" if extra < 0.3 else words


def turns(count: int, *, tools: bool, seed: int = 1) -> Iterator[list[Message]]:
    """Yield turns as messages in OpenAI's form; with `tools`, each has two steps of two calls."""
    rng = random.Random(seed)
    for number in range(count):
        turn: list[Message] = [{"role": "user", "content": text(rng, rng.randrange(8, 40))}]
        for step in range(2 if tools else 0):
            calls = [
                {
                    "id": f"call-{number}-{step}-{position}",
                    "type": "function",
                    "function": {"name": "look_up", "arguments": '{"query": "the old mill", "limit": 5}'},
                }
                for position in range(2)
            ]
            turn.append({"role": "assistant", "content": None, "tool_calls": calls})
            turn += [
                {"role": "tool", "tool_call_id": call["id"], "content": text(rng, rng.randrange(20, 60))}
                for call in calls
            ]
        turn.append({"role": "assistant", "content": text(rng, rng.randrange(20, 120))})
        yield turn
