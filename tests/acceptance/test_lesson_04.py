"""Lesson 04: what was said survives, and what was dropped can be found again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conversation import MODEL, call, problems, step, turn, words

from agent import Agent, Done
from context import ContextManager
from history import ChatHistory
from offline import OfflineBrain
from wiring import Chat

PROJECT = Path(__file__).parent.parent.parent


def context(history: ChatHistory, session: str | None = None, budget: int = 400) -> ContextManager:
    kept = history.open_session(session) if session else history.new_session()
    return ContextManager("Be brief.", budget, MODEL, 10, history=kept)


def test_every_kind_of_message_comes_back_in_order(tmp_path: Path) -> None:
    """Questions, answers, parallel calls and their results come back as they were, in order of their ids."""
    with ChatHistory(tmp_path / "history.db") as history:
        session = history.new_session()
        ctx = ContextManager(model=MODEL, history=session)
        ctx.append_user("look at both")
        ctx.append_assistant("I look.", [call("a", "look", '{"x": 1}'), call("b")])
        ctx.append_tool_result("b", "second")
        ctx.append_tool_result("a", "first")
        ctx.append_assistant("seen")
        expected = ctx.build_for_llm()
        ids = [row_id for row_id, _ in session.messages_after(0)]
        assert ids == sorted(ids)
        assert [message["role"] for _, message in session.messages_after(ids[1])] == [
            "tool",
            "tool",
            "assistant",
        ]
    with ChatHistory(tmp_path / "history.db") as history:
        again = ContextManager(model=MODEL, history=history.open_session(session.id))
        assert again.build_for_llm() == expected


def test_a_resumed_session_has_the_same_payload(tmp_path: Path) -> None:
    """After compactions, a resumed session sends byte for byte what it would have sent."""
    with ChatHistory(tmp_path / "history.db") as history:
        ctx = context(history)
        for number in range(30):
            turn(ctx, f"question {number} {words(10)}", words(10))
        assert ctx.compact_count
        expected, count = json.dumps(ctx.build_for_llm()), ctx.compact_count
        session = history.sessions()[0].id
    with ChatHistory(tmp_path / "history.db") as history:
        ctx = context(history, session)
        assert json.dumps(ctx.build_for_llm()) == expected
        assert ctx.compact_count == count


CHILD = """
import os, signal, sys
from context import ContextManager
from history import ChatHistory
ctx = ContextManager(model="gpt-4o-mini", history=ChatHistory(sys.argv[1]).new_session())
ctx.append_user("kept question"); ctx.append_assistant("kept answer")
ctx.append_user("unanswered")
call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ctx.append_assistant("", [call])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """After kill -9 in a turn, the answered turns are there, and the open question is offered again."""
    path = tmp_path / "history.db"
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], cwd=PROJECT, check=False)
    assert done.returncode == -signal.SIGKILL
    with ChatHistory(path) as history:
        ctx = context(history, history.sessions()[0].id)
        assert [message["content"] for message in ctx.messages] == ["kept question", "kept answer"]
        assert ctx.recovered == "unanswered"
        turn(ctx, "unanswered", "now answered")
        assert not problems(ctx.build_for_llm())


def test_undo_is_for_good(tmp_path: Path) -> None:
    """What was taken back does not come back, neither by resuming nor by searching."""
    with ChatHistory(tmp_path / "history.db") as history:
        ctx = context(history)
        turn(ctx, "this stays: heron", "A")
        turn(ctx, "this goes: ostrich", "A")
        ctx.rollback_last_user()
        session = history.sessions()[0].id
    with ChatHistory(tmp_path / "history.db") as history:
        ctx = context(history, session)
        assert ctx.turn_count == 1
        assert history.search("heron")
        assert not history.search("ostrich")


@pytest.mark.parametrize("query", ["POL-358", "don't", "20.04", '"', "*", "", "你好", "は"])
def test_any_text_is_a_query(tmp_path: Path, query: str) -> None:
    """Search takes any text, in any script, and finds what holds it."""
    with ChatHistory(tmp_path / "history.db") as history:
        ctx = context(history)
        turn(ctx, "POL-358 and don't and 20.04 and 你好世界 and これは", "A")
        hits = history.search(query)
        assert bool(hits) == any(character.isalnum() for character in query)


def test_a_forgotten_name_is_found_again(tmp_path: Path) -> None:
    """What compaction dropped is found with `search_history`: the model asks, and answers from the result."""
    from config import load_settings

    name = random.Random(3).choice(["Ada", "Grace", "Hedy", "Radia"])
    settings = load_settings({"context_token_budget": "900", "home": str(tmp_path)}, {}, Path(os.devnull))
    chat = Chat(settings)

    def ask(text: str) -> str:
        last = list(chat.agent.run_turn(text))[-1]
        assert isinstance(last, Done)
        return last.text

    ask(f"My name is {name}.")
    while not chat.context.compact_count:
        ask(f"echo: {words(60)}")
    while name in json.dumps(chat.context.messages):
        ask(f"echo: {words(60)}")
    assert name in ask("What is my name?")
    chat.close()


def test_an_agent_turn_that_fails_leaves_nothing_on_disk(tmp_path: Path) -> None:
    """A turn that failed is not in the history either."""
    with ChatHistory(tmp_path / "history.db") as history:
        session = history.new_session()
        ctx = ContextManager(model=MODEL, history=session)
        step_then_stop = Agent(ctx, OfflineBrain()).run_turn("hello")
        next(step_then_stop)
        step_then_stop.close()
        assert session.messages_after(0) == []
        turn(ctx, "U", "A")
        assert [message["content"] for _, message in session.messages_after(0)] == ["U", "A"]


def test_steps_are_kept_with_their_turn(tmp_path: Path) -> None:
    """Undo of a turn with tool calls takes all its messages off the disk."""
    with ChatHistory(tmp_path / "history.db") as history:
        session = history.new_session()
        ctx = ContextManager(model=MODEL, history=session)
        ctx.append_user("U")
        step(ctx, "a", "b")
        ctx.append_assistant("A")
        assert len(session.messages_after(0)) == 5
        ctx.rollback_last_user()
        assert session.messages_after(0) == []
