"""What one turn costs as a conversation grows: append the question, build, append the answer.

The floor is what nobody can save: encoding the new text once, and copying the messages of the payload.
Everything is measured in one run, in turn, so that a busy machine hurts all alike; only ratios count.
Peers run where their packages are installed (`requirements-bench.txt`).

Run as `python benchmarks/bench_turn.py`.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]

from conversations import Message, turns  # noqa: E402 - found by the line above

from context import ContextManager  # noqa: E402
from tokens import counter_for  # noqa: E402

BUDGET = 8000
MODEL = "gpt-4o-mini"
MEASURED = 200
"""Turns at the end of each conversation whose times are taken."""
PATIENCE = 15.0
"""Seconds after which no further turn of one who is slow is measured."""

Turn = list[Message]
Play = Callable[[Turn], list[Message]]
"""`play(turn)`: append the turn and build the payload for its question; returns that payload."""


def ours() -> Play:
    """The context engine."""
    ctx = ContextManager("Be brief.", BUDGET, MODEL, 1000)

    def play(turn: Turn) -> list[Message]:
        ctx.append_user(turn[0]["content"])
        payload = ctx.build_for_llm()
        for message in turn[1:-1]:
            if message["role"] == "tool":
                ctx.append_tool_result(message["tool_call_id"], message["content"])
            else:
                ctx.append_assistant("", message["tool_calls"])
        if len(turn) > 2:
            ctx.build_for_llm()
        ctx.append_assistant(turn[-1]["content"])
        return payload

    return play


def floor(payloads: Sequence[list[Message]]) -> Play:
    """Encode the new text once and copy a payload of the same length: what remains when all else is free."""
    counter = counter_for(MODEL)
    number = iter(range(len(payloads)))

    def copied(message: Message) -> Message:
        copy = message.copy()
        if "tool_calls" in copy:
            copy["tool_calls"] = [{**c, "function": c["function"].copy()} for c in copy["tool_calls"]]
        return copy

    def play(turn: Turn) -> list[Message]:
        for message in turn:
            counter.text(message.get("content") or "")
            for call in message.get("tool_calls", ()):
                counter.text(call["function"]["arguments"])
        payload = payloads[next(number)]
        copies = [copied(message) for message in payload]
        if len(turn) > 2:
            copies = [copied(message) for message in payload]
        return copies

    return play


def langchain(counted: str, earlier: Sequence[Turn]) -> Play:
    """LangChain's `trim_messages` over the growing list, with an exact or its approximate counter."""
    from langchain_core.messages import convert_to_messages
    from langchain_core.messages.utils import count_tokens_approximately, trim_messages

    counter = counter_for(MODEL)

    def exact(messages: list[Any]) -> int:
        return sum(3 + counter.text(str(message.content)) for message in messages)

    said = [message for turn in earlier for message in turn]
    log: list[Any] = convert_to_messages([{"role": "system", "content": "Be brief."}, *said])

    def play(turn: Turn) -> list[Any]:
        log.extend(convert_to_messages(turn[:1]))
        payload = trim_messages(
            log,
            max_tokens=BUDGET,
            token_counter=exact if counted == "exact" else count_tokens_approximately,
            strategy="last",
            include_system=True,
            start_on="human",
        )
        log.extend(convert_to_messages(turn[1:]))
        return payload

    return play


def llama_index(earlier: Sequence[Turn]) -> Play:
    """LlamaIndex's `ChatMemoryBuffer` with an exact tokenizer."""
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import ChatMemoryBuffer

    counter = counter_for(MODEL)
    memory = ChatMemoryBuffer.from_defaults(
        token_limit=BUDGET, tokenizer_fn=lambda text: [0] * counter.text(text)
    )

    def put(message: Message) -> None:
        extra = {"tool_calls": message["tool_calls"]} if "tool_calls" in message else {}
        memory.put(
            ChatMessage(role=message["role"], content=message["content"] or "", additional_kwargs=extra)
        )

    def play(turn: Turn) -> list[Any]:
        put(turn[0])
        payload: list[Any] = memory.get()
        for message in turn[1:]:
            put(message)
        return payload

    for turn in earlier:
        for message in turn:
            put(message)
    return play


def openai_agents(earlier: Sequence[Turn]) -> Play:
    """The openai-agents package's SQLite session, which keeps everything and trims nothing."""
    import asyncio

    from agents import SQLiteSession

    session = SQLiteSession("bench")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(session.add_items([message for turn in earlier for message in turn]))

    def play(turn: Turn) -> list[Any]:
        loop.run_until_complete(session.add_items(turn[:1]))
        payload = loop.run_until_complete(session.get_items())
        loop.run_until_complete(session.add_items(turn[1:]))
        return payload

    return play


PEERS: dict[str, Callable[[Sequence[Turn]], Play]] = {
    "LangChain trim_messages, exact": lambda earlier: langchain("exact", earlier),
    "LangChain trim_messages, approximate": lambda earlier: langchain("approximate", earlier),
    "LlamaIndex ChatMemoryBuffer": llama_index,
    "openai-agents SQLiteSession (trims nothing)": openai_agents,
}

LARGEST = {"LlamaIndex ChatMemoryBuffer": 100}
"""Turns above which one turn of a peer takes minutes: this one counts its whole list again for each message
that it leaves out."""


def median_time(play: Play, conversation: Sequence[Turn]) -> tuple[float, float]:
    """Return the median and the 90th percentile of a turn's time, in microseconds, over the last turns."""
    times: list[float] = []
    end = time.perf_counter() + PATIENCE
    for turn in conversation[-MEASURED:]:
        start = time.perf_counter()
        play(turn)
        times.append(1e6 * (time.perf_counter() - start))
        if start > end:
            break
    return statistics.median(times), sorted(times)[int(0.9 * len(times))]


def recorded(play: Play, payloads: list[list[Message]]) -> Play:
    """Play, and keep each payload for the floor to copy."""

    def played(turn: Turn) -> list[Message]:
        payloads.append(play(turn))
        return payloads[-1]

    return played


def memory_of(count: int) -> float:
    """Return the peak memory of a conversation with its history on disk, in MB above where it began."""
    import tempfile

    from history import ChatHistory

    conversation = list(turns(count, tools=False))
    counter_for(MODEL).text("loaded")
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as folder:
        history = ChatHistory(Path(folder) / "h.db", synchronous="NORMAL")
        ctx = ContextManager("Be brief.", BUDGET, MODEL, 1000, history=history.new_session())
        for turn in conversation:
            ctx.append_user(turn[0]["content"])
            ctx.build_for_llm()
            ctx.append_assistant(turn[-1]["content"])
        peak = tracemalloc.get_traced_memory()[1]
        history.close()
    tracemalloc.stop()
    return peak / 1e6


def results(sizes: Sequence[int] = (100, 1000, 10_000)) -> dict[str, Any]:
    """Measure; peers that are not installed are left out."""
    rows = []
    for tools in (False, True):
        for size in sizes:
            conversation = list(turns(size + MEASURED, tools=tools))
            play = ours()
            for turn in conversation[:-MEASURED]:
                play(turn)
            payloads: list[list[Message]] = []
            mine, spread = median_time(recorded(play, payloads), conversation)
            base, _ = median_time(floor(payloads), conversation)
            kind = "with tools" if tools else "chat"
            common = {"kind": kind, "turns": size, "floor": base}
            rows.append({"who": "mini-agent", "us": mine, "p90": spread, **common})
            for name, make in PEERS.items():
                if tools:
                    continue
                took = None
                if size <= LARGEST.get(name, size):
                    try:
                        peer = make(conversation[:-MEASURED])
                    except ImportError:
                        continue
                    took = median_time(peer, conversation)[0]
                rows.append({"who": name, "us": took, "p90": None, **common})
    return {"rows": rows, "memory_mb": memory_of(max(sizes))}


if __name__ == "__main__":
    print(json.dumps(results(), indent=2))
