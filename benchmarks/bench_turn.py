"""What one turn costs as a conversation grows: append the question, build, append the answer.

The floor is what nobody can save: encoding the new text once, and copying the messages of the payload.
Everything is measured in one run, one after the other; only ratios count. A turn with tools has two steps of
two calls, and a payload is built for the question and, once, for the results.
Peers run where their packages are installed (`requirements-bench.txt`).

Run as `python benchmarks/bench_turn.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]

from conversations import Message, turns  # noqa: E402 - found by the line above
from spread import Spread  # noqa: E402

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
    """Encode the new text once and copy the newest payload: what remains when all else is free."""
    counter = counter_for(MODEL)

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
        payload = payloads[-1]
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
        return sum(
            3
            + counter.text(str(message.content))
            + sum(counter.text(str(call["args"])) for call in calls(message))
            for message in messages
        )

    def calls(message: Any) -> list[Any]:
        return getattr(message, "tool_calls", [])

    said = [message for turn in earlier for message in turn]
    log: list[Any] = convert_to_messages([{"role": "system", "content": "Be brief."}, *said])

    def trimmed() -> list[Any]:
        return trim_messages(
            log,
            max_tokens=BUDGET,
            token_counter=exact if counted == "exact" else count_tokens_approximately,
            strategy="last",
            include_system=True,
            start_on="human",
        )

    def play(turn: Turn) -> list[Any]:
        log.extend(convert_to_messages(turn[:1]))
        payload = trimmed()
        log.extend(convert_to_messages(turn[1:-1]))
        if len(turn) > 2:
            trimmed()
        log.extend(convert_to_messages(turn[-1:]))
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
        extra = {name: message[name] for name in ("tool_calls", "tool_call_id") if name in message}
        memory.put(
            ChatMessage(role=message["role"], content=message["content"] or "", additional_kwargs=extra)
        )

    def play(turn: Turn) -> list[Any]:
        put(turn[0])
        payload: list[Any] = memory.get()
        for message in turn[1:-1]:
            put(message)
        if len(turn) > 2:
            memory.get()
        put(turn[-1])
        return payload

    for turn in earlier:
        for message in turn:
            put(message)
    return play


def openai_agents(earlier: Sequence[Turn]) -> Play:
    """The openai-agents package's SQLite session, which keeps everything and trims nothing."""
    from agents import SQLiteSession

    session = SQLiteSession("bench")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(session.add_items([message for turn in earlier for message in turn]))

    def play(turn: Turn) -> list[Any]:
        loop.run_until_complete(session.add_items(turn[:1]))
        payload = loop.run_until_complete(session.get_items())
        if len(turn) > 2:
            loop.run_until_complete(session.add_items(turn[1:-1]))
            loop.run_until_complete(session.get_items())
        loop.run_until_complete(session.add_items(turn[-1:]))
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


def times(conversation: Sequence[Turn], *plays: Play) -> list[Spread]:
    """Return what each takes for a turn, in microseconds, over the last turns; one after the other."""
    taken: list[list[float]] = [[] for _ in plays]
    end = time.perf_counter() + PATIENCE
    for turn in conversation[-MEASURED:]:
        for play, values in zip(plays, taken, strict=True):
            start = time.perf_counter()
            play(turn)
            values.append(1e6 * (time.perf_counter() - start))
        if time.perf_counter() > end:
            break
    return [Spread.of(values) for values in taken]


def recorded(play: Play, payloads: list[list[Message]]) -> Play:
    """Play, and keep each payload for the floor to copy."""

    def played(turn: Turn) -> list[Message]:
        payloads.append(play(turn))
        return payloads[-1]

    return played


def play_on_disk(count: int) -> None:
    """Play a conversation with its history on disk; print the megabytes that the process grew by at its peak.

    In a process of its own, and its whole memory, SQLite's and tiktoken's included, as Linux counts it
    (https://man7.org/linux/man-pages/man5/proc_pid_status.5.html; writing 5 to clear_refs forgets the peak
    that loading the vocabulary made).
    """
    import tempfile

    from history import ChatHistory

    counter_for(MODEL).text("loaded")
    with tempfile.TemporaryDirectory() as folder:
        history = ChatHistory(Path(folder) / "h.db", synchronous="NORMAL")
        ctx = ContextManager("Be brief.", BUDGET, MODEL, 1000, history=history.new_session())
        give_back_memory()
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = kilobytes("VmRSS")
        for turn in turns(count, tools=False):
            ctx.append_user(turn[0]["content"])
            ctx.build_for_llm()
            ctx.append_assistant(turn[-1]["content"])
        peak = kilobytes("VmHWM")
        history.close()
    print((peak - before) / 1024)


def give_back_memory() -> None:
    """Return to the system what loading the vocabulary has freed, else a conversation fills that first."""
    with contextlib.suppress(AttributeError, OSError):  # glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def kilobytes(name: str) -> int:
    """Return a figure of this process from /proc."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{name}:")[1].split()[0])


def memory_of(count: int) -> float | None:
    """Return the megabytes that a program grows by over a conversation with its history on disk.

    None where there is no /proc to ask (outside Linux).
    """
    if not Path("/proc/self/clear_refs").exists():
        return None
    command = [sys.executable, __file__, "--memory", str(count)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def results(sizes: Sequence[int] = (100, 1000, 10_000)) -> dict[str, Any]:
    """Measure; peers that are not installed are left out."""
    rows = []
    for tools in (False, True):
        for size in sizes:
            conversation = list(turns(size + MEASURED, tools=tools))
            earlier = conversation[:-MEASURED]
            play = ours()
            for turn in earlier:
                play(turn)
            payloads: list[list[Message]] = []
            mine, base = times(conversation, recorded(play, payloads), floor(payloads))
            common = {"kind": "with tools" if tools else "chat", "turns": size, "floor": base}
            rows.append({"who": "mini-agent", "us": mine, **common})
            for name, make in PEERS.items():
                measurable = size <= LARGEST.get(name, size)
                try:
                    peer = make(earlier if measurable else [])
                except ImportError:
                    continue
                took = times(conversation, peer)[0] if measurable else None
                rows.append({"who": name, "us": took, **common})
    return {"rows": rows, "memory_mb": memory_of(max(sizes))}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        play_on_disk(int(sys.argv[2]))
    else:
        print(json.dumps(results(), indent=2, default=asdict))
