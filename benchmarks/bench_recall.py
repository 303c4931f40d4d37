"""What each mechanism buys: facts planted early, asked for late, at the same budget.

For each way to remember: the share of conversations in which the fact is somewhere in the payload of the
question, and the share in which it is in the answer. The sentences are written apart from the rules of the
stand-in. A real model answers too where one is named: LIVE=1 takes the endpoint of your settings (about
300,000 tokens), LOCAL_MODEL=1 the small model of `make chat-local`, which takes half an hour for it.

Run as `python benchmarks/bench_recall.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from conversations import text  # noqa: E402 - found by the line above

import offline  # noqa: E402
from agent import Agent, Done  # noqa: E402
from brain import Brain, ChatModel  # noqa: E402
from builtin_tools import search_history_tool  # noqa: E402
from context import ContextManager  # noqa: E402
from history import ChatHistory  # noqa: E402
from memory import Fact, FactStore  # noqa: E402
from tools import ToolRegistry  # noqa: E402

BUDGET = 1500
CONVERSATIONS = 60
FILLER_TURNS = 30
REPLY = 100
"""Tokens of an answer at most."""
MODEL = "gpt-4o-mini"

PLANTED: tuple[tuple[str, str, str], ...] = (
    (
        "The alarm of the cabin is switched off with {v}.",
        "What switches off the alarm of the cabin?",
        "cabin alarm",
    ),
    ("Our vet is called Dr. {v}.", "What is our vet called?", "vet"),
    ("I parked the van on level {v}.", "On which level did I park the van?", "van level"),
    (
        "The meeting with the architect was moved to {v}.",
        "When is the meeting with the architect?",
        "architect meeting",
    ),
    ("We agreed to paint the hall in {v}.", "In what color do we paint the hall?", "hall color"),
    ("My sister's flight number is {v}.", "What is the number of my sister's flight?", "sister's flight"),
    ("The invoice for the roof came to {v} euros.", "How much was the invoice for the roof?", "roof invoice"),
    (
        "Please remember that the spare key hangs behind the {v}.",
        "Where does the spare key hang?",
        "spare key",
    ),
    (
        "The server in the cellar has the address {v}.",
        "Which address does the server in the cellar have?",
        "server",
    ),
    ("The choir rehearses in {v} this year.", "Where does the choir rehearse this year?", "choir"),
)
VALUES = (
    "Marlow",
    "4711",
    "Thursday",
    "teal",
    "KX-204",
    "1,890",
    "boiler",
    "10.0.7.21",
    "Wexford",
    "Okafor",
    "C3",
    "ochre",
)


def conversation(seed: int) -> tuple[str, str, str, str, list[str]]:
    """Return what is planted, the question, the key, the value, and the talk between."""
    rng = random.Random(seed)
    sentence, question, key = PLANTED[seed % len(PLANTED)]
    value = f"{rng.choice(VALUES)}{rng.randrange(10, 99)}"
    talk = [f"{text(rng, 35)}." for _ in range(FILLER_TURNS)]
    return sentence.format(v=value), question, key, value, talk


def play(brain: ChatModel, way: str, seed: int, folder: Path) -> tuple[bool, bool]:
    """Play one conversation; return whether the value was in the payload, and in the answer."""
    planted, question, key, value, talk = conversation(seed)
    facts = FactStore() if way == "facts" else None
    history = (
        ChatHistory(folder / f"{way}{seed}.db", synchronous="NORMAL") if way == "search_history" else None
    )
    session = history.new_session() if history is not None else None
    ctx = ContextManager(
        "Be brief.",
        BUDGET,
        MODEL,
        10,
        summarizer=offline.summarize if way == "summary" else None,
        facts=facts,
        history=session,
    )
    registry = None
    if history is not None and session is not None:
        registry = ToolRegistry()
        seen = lambda: (session.id, ctx.first_kept_turn)  # noqa: E731 - one use, in the next line
        search = search_history_tool(lambda query: history.search(query, limit=8, hidden=seen()))
        registry.register(search, check=False)
    agent = Agent(ctx, brain, registry, max_tokens=REPLY)
    if facts is not None:
        facts.write(Fact(key, value, "user"))  # the person says /remember
    ctx.append_user(planted)
    ctx.append_assistant("Noted.")
    for said in talk:  # replies of a fixed length, so that every way has the same conversation
        ctx.append_user(said)
        ctx.build_for_llm()
        ctx.append_assistant(said[:120])
    events = list(agent.run_turn(question))
    last = events[-1]
    payload = json.dumps(ctx.build_for_llm()[:-1], ensure_ascii=False)
    if history is not None:
        history.close()
    return value in payload, isinstance(last, Done) and value in last.text


def results(conversations: int = CONVERSATIONS) -> list[dict[str, Any]]:
    """Return the shares for each way to remember, with the stand-in and with a model where one is named."""
    rows = shares("stand-in", offline.OfflineBrain, conversations)
    if os.environ.get("LIVE") == "1":
        from config import load_settings

        settings = load_settings()
        rows += shares(
            settings.model,
            lambda: Brain(
                api_key=settings.api_key or "", base_url=settings.base_url or "", model=settings.model
            ),
            conversations,
        )
    if os.environ.get("LOCAL_MODEL") == "1":
        from local.chat import LocalServer, model_file

        path = model_file()
        with LocalServer(path) as server:
            rows += shares(
                path.stem,
                lambda: Brain(api_key="", base_url=server.url, model="local"),
                conversations,
            )
    return rows


def shares(name: str, make: Callable[[], ChatModel], conversations: int) -> list[dict[str, Any]]:
    """Return the shares for each way to remember, with this model."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for way in ("window", "summary", "facts", "search_history"):
            seen = [play(make(), way, seed, Path(folder)) for seed in range(conversations)]
            rows.append(
                {
                    "model": name,
                    "way": way,
                    "present": sum(present for present, _ in seen) / len(seen),
                    "answered": sum(answered for _, answered in seen) / len(seen),
                }
            )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS, help="fewer for a slow model")
    print(json.dumps(results(parser.parse_args().conversations), indent=2))
