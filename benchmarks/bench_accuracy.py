"""How right the meter is: against published bills, and against servers that count otherwise.

Run as `python benchmarks/bench_accuracy.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from conversations import Message, turns  # noqa: E402 - found by the line above
from spread import Spread  # noqa: E402

from config import DEFAULT_SYSTEM_PROMPT  # noqa: E402
from context import ContextManager  # noqa: E402
from tokens import count_payload  # noqa: E402

BILLS = HERE.parent / "tests" / "data" / "token_bills.json"
MODEL = "gpt-4o-mini"
BUDGET = 4000
TURNS = 120


def servers() -> dict[str, Callable[[list[Message]], int]]:
    """Return servers by how they count."""
    return {
        "another vocabulary (cl100k_base)": lambda payload: count_payload(payload, "gpt-4"),
        "a token for every three bytes": lambda payload: sum(
            8 + len(str(message["content"]).encode()) // 3 for message in payload
        ),
        "1.3 times ours": lambda payload: round(1.3 * count_payload(payload, MODEL)),
        "20 more tokens a message": lambda payload: count_payload(payload, MODEL) + 20 * len(payload),
    }


def errors(count: Callable[[list[Message]], int], *, learning: bool) -> tuple[list[float], int]:
    """Hold a conversation with a server that counts so.

    Returns:
        The relative error of `ctx≈` at each request after the first (which teaches the rest when `learning`
        is on), and how many of these payloads were over the budget as the server counts.
    """
    ctx = ContextManager(DEFAULT_SYSTEM_PROMPT, BUDGET, MODEL, 1000)
    found, overflows = [], 0
    for number, turn in enumerate(turns(TURNS, tools=False, seed=3)):
        ctx.append_user(turn[0]["content"])
        payload = ctx.build_for_llm()
        billed = count(payload)
        if number:
            found.append(abs(ctx.token_count - billed) / billed)
            overflows += billed > BUDGET
        ctx.append_assistant(turn[-1]["content"], usage={"prompt_tokens": billed} if learning else None)
    return found, overflows


def against(count: Callable[[list[Message]], int]) -> dict[str, Any]:
    """Return the errors of the estimate with and without learning from what the server bills."""
    before, _ = errors(count, learning=False)
    after, overflows = errors(count, learning=True)
    return {"before": Spread.of(before), "first": after[0], "after": Spread.of(after), "overflows": overflows}


def results() -> dict[str, Any]:
    """Return the agreement with published bills and the errors against each server."""
    bills = json.loads(BILLS.read_text(encoding="utf-8"))
    cases = [case for group in bills.values() if isinstance(group, list) for case in group]
    cases = [case for case in cases if isinstance(case, dict) and "messages" in case and "tokens" in case]
    plain = [case for case in cases if not case.get("tools")]
    schemas = [case for case in cases if case.get("tools")]

    def difference(case: dict[str, Any]) -> int:
        tools = [
            tool if "function" in tool else {"type": "function", "function": tool}
            for tool in case.get("tools", ())
        ]
        return count_payload(case["messages"], case.get("model", "gpt-4"), tools) - int(case["tokens"])

    over = [difference(case) for case in schemas]
    return {
        "bills": len(cases),
        "text_bills": len(plain),
        "exact": sum(difference(case) == 0 for case in plain),
        "most_over": max(over, default=0),
        "most_under": -min(over, default=0),
        "servers": [{"server": name, **against(count)} for name, count in servers().items()],
    }


if __name__ == "__main__":
    print(json.dumps(results(), indent=2, default=asdict))
