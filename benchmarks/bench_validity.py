"""Whether what is sent is valid: the same random conversations through each library's own trimming.

A payload is invalid when a server would refuse it or it breaks a tool call apart; the check is the one of our
own tests (`tests/conversation.py`), written from the published request schema.

Run as `python benchmarks/bench_validity.py`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "tests")]

from conversation import problems  # noqa: E402 - found by the line above
from conversations import Message, turns  # noqa: E402

from context import ContextManager, ContextOverflow  # noqa: E402
from tokens import count_payload, counter_for  # noqa: E402

MODEL = "gpt-4o-mini"
BUDGETS = (300, 600, 1200, 2400)
CONVERSATIONS = 25
SYSTEM: Message = {"role": "system", "content": "Be brief."}

Trim = Callable[[list[Message], int], list[Message]]


def conversations() -> Iterator[list[list[Message]]]:
    """Yield conversations of 3 to 20 turns, about half of the turns with tool calls."""
    for seed in range(CONVERSATIONS):
        rng = random.Random(seed)
        plain, busy = (turns(20, tools=tools, seed=seed) for tools in (False, True))
        yield [next(rng.choice((plain, busy))) for _ in range(rng.randrange(3, 20))]


def langchain(exact: bool) -> Trim:
    """LangChain's `trim_messages` as its documentation recommends it for chat models."""
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages
    from langchain_core.messages.utils import count_tokens_approximately, trim_messages

    def count(messages: list[Any]) -> int:
        return count_payload(convert_to_openai_messages(messages), MODEL)

    def trim(messages: list[Message], budget: int) -> list[Message]:
        kept = trim_messages(
            convert_to_messages(messages),
            max_tokens=budget,
            token_counter=count if exact else count_tokens_approximately,
            strategy="last",
            include_system=True,
            start_on="human",
            end_on=("human", "tool"),
        )
        return convert_to_openai_messages(kept)

    return trim


def llama_index() -> Trim:
    """LlamaIndex's `ChatMemoryBuffer`, with the system message put before what it returns."""
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer

    counter = counter_for(MODEL)

    def trim(messages: list[Message], budget: int) -> list[Message]:
        memory = ChatMemoryBuffer.from_defaults(
            token_limit=budget, tokenizer_fn=lambda text: [0] * counter.text(text)
        )
        for message in messages[1:]:
            extra = {name: message[name] for name in ("tool_calls", "tool_call_id") if name in message}
            memory.put(
                ChatMessage(role=message["role"], content=message["content"] or "", additional_kwargs=extra)
            )
        kept = [
            {"role": each.role.value, "content": each.content or None, **each.additional_kwargs}
            for each in memory.get()
        ]
        return [SYSTEM, *kept]

    return trim


def ours(conversation: list[list[Message]], budget: int) -> Iterator[tuple[list[Message] | None, str]]:
    """Play a conversation through the context; yield each payload, None for a typed error."""
    ctx = ContextManager("Be brief.", budget, MODEL, 1000)
    for turn in conversation:
        question = turn[0]["content"]
        ctx.append_user(question)
        yield built(ctx), question
        for message in turn[1:-1]:
            if message["role"] == "tool":
                ctx.append_tool_result(message["tool_call_id"], message["content"])
                if not message["tool_call_id"].endswith("-1"):
                    continue
                yield built(ctx), question
            else:
                ctx.append_assistant("", message["tool_calls"])
        ctx.append_assistant(turn[-1]["content"])


def built(ctx: ContextManager) -> list[Message] | None:
    """Return the payload, or None when the budget cannot be met."""
    try:
        return ctx.build_for_llm()
    except ContextOverflow:
        return None


def theirs(
    trim: Trim, conversation: list[list[Message]], budget: int
) -> Iterator[tuple[list[Message] | None, str]]:
    """The same for a library that trims a list."""
    messages = [SYSTEM]
    for turn in conversation:
        question = turn[0]["content"]
        for index, message in enumerate(turn):
            messages.append(message)
            following = turn[index + 1]["role"] if index + 1 < len(turn) else "user"
            if message["role"] in ("user", "tool") and following == "assistant":
                try:
                    yield trim(list(messages), budget), question
                except ValueError:
                    yield None, question


def judged(plays: Iterator[tuple[list[Message] | None, str]], budget: int) -> list[str]:
    """Return what is wrong with each payload: "", "refused", "invalid", "over" or "lost"."""
    verdicts = []
    for payload, question in plays:
        if payload is None:
            verdicts.append("refused")
        elif problems(payload):
            verdicts.append("invalid")
        elif question not in [message["content"] for message in payload if message["role"] == "user"]:
            verdicts.append("lost")
        else:
            verdicts.append("over" if count_payload(payload, MODEL) > budget else "")
    return verdicts


def results() -> list[dict[str, Any]]:
    """Return, for each way to trim, the shares of payloads that are wrong."""
    players: dict[str, Callable[[], Trim] | None] = {
        "mini-agent": None,
        "LangChain trim_messages, exact": lambda: langchain(True),
        "LangChain trim_messages, approximate": lambda: langchain(False),
        "LlamaIndex ChatMemoryBuffer": llama_index,
    }
    rows = []
    for name, make in players.items():
        try:
            trim = make() if make else None
        except ImportError:
            continue
        verdicts: list[str] = []
        for conversation in conversations():
            for budget in BUDGETS:
                plays = theirs(trim, conversation, budget) if trim else ours(conversation, budget)
                verdicts += judged(plays, budget)
        sent = [verdict for verdict in verdicts if verdict != "refused"]
        shares = {what: sent.count(what) / len(sent) for what in ("invalid", "over", "lost")}
        rows.append({"who": name, "payloads": len(verdicts), "refused": verdicts.count("refused"), **shares})
    return rows


if __name__ == "__main__":
    print(json.dumps(results(), indent=2))
