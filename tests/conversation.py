"""What tests of the context share: tool calls, plain words of a known size, and what a valid payload is.

`problems` is written from the published request schema and the contract, not from the code under test.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from context import ContextManager
from tokens import count_payload

MODEL = "gpt-4o-mini"


def call(call_id: str, name: str = "look", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def words(tokens: int, seed: str = "a") -> str:
    """A text of this many tokens: ` a` is one token of o200k_base, and so is its repetition."""
    return seed + f" {seed}" * (tokens - 1)


def turn(ctx: ContextManager, question: str, answer: str = "ok", **options: Any) -> None:
    ctx.append_user(question, **options)
    ctx.build_for_llm()
    ctx.append_assistant(answer)


def step(ctx: ContextManager, *ids: str, result: str = "r", text: str = "") -> None:
    """One step: calls with these ids, each with the same result."""
    ctx.append_assistant(text, [call(call_id) for call_id in ids])
    for call_id in ids:
        ctx.append_tool_result(call_id, result)


def texts(payload: Sequence[dict[str, Any]], role: str) -> list[str]:
    return [message["content"] for message in payload if message["role"] == role]


def problems(
    payload: Sequence[dict[str, Any]],
    *,
    budget: int | None = None,
    tools: Sequence[dict[str, Any]] = (),
    correction: float = 1.0,
) -> list[str]:
    """Everything that is wrong with a payload; an empty list for a valid one."""
    found = []
    if not payload or payload[0]["role"] != "system":
        return ["the first message is not the system message"]
    if any(message["role"] == "system" for message in payload[1:]):
        found.append("a second system message")
    expected = {"user"}
    waiting: list[str] = []
    for index, message in enumerate(payload[1:], 1):
        role, content = message["role"], message.get("content")
        if waiting:
            if role != "tool" or message["tool_call_id"] != waiting.pop(0):
                return [*found, f"message {index} is not the result that is due"]
        elif role not in expected:
            found.append(f"message {index} is {role}, expected {sorted(expected)}")
        if role == "user":
            expected = {"assistant"}
        elif role == "assistant":
            calls = message.get("tool_calls", [])
            waiting = [item["id"] for item in calls]
            expected = {"assistant"} if calls else {"user"}
            found += [f"message {index}: bad arguments" for item in calls if not _is_object(item)]
            if content is None and not calls:
                found.append(f"message {index} says nothing")
        if content is None and role != "assistant":
            found.append(f"message {index} has no content")
        json.dumps(message, ensure_ascii=False).encode()
    if waiting:
        found.append("a call without its result")
    if budget is not None and count_payload(payload, MODEL, tools) * correction > budget + 1e-6:
        found.append(f"{count_payload(payload, MODEL, tools)} tokens are over the budget of {budget}")
    return found


def _is_object(item: dict[str, Any]) -> bool:
    return isinstance(json.loads(item["function"]["arguments"]), dict)
