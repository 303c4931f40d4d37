"""Lesson 00: a chat loop, and what goes wrong without more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from brain import BrainError, ReasoningDelta, Reply, ScriptedBrain, TextDelta
from offline import OfflineBrain

PROJECT = Path(__file__).parent.parent.parent


def run(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONUTF8": "1"}
    command = [sys.executable, "main.py", *arguments]
    return subprocess.run(
        command,
        cwd=PROJECT,
        env=environ,
        input=typed,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_one_question_gets_one_answer() -> None:
    """`python main.py "question"` answers on stdout, says everything else on stderr, and ends with 0."""
    done = run("My name is Ada.")
    assert done.returncode == 0
    assert "Ada" in done.stdout
    assert "ctx≈" not in done.stdout
    assert "ctx≈" in done.stderr


def test_every_line_of_a_pipe_is_a_turn() -> None:
    """A conversation can be piped in, and a later line can ask for what an earlier one said."""
    done = run(typed="My name is Grace.\nWhat is my name?\n")
    assert done.returncode == 0
    assert done.stdout.count("Grace") >= 2


def test_a_reply_comes_in_pieces() -> None:
    """A reply streams: text events first, the whole reply last."""
    *pieces, reply = OfflineBrain().stream([{"role": "user", "content": "Tell me a long story."}])
    assert len(pieces) > 10
    assert isinstance(reply, Reply)
    assert (
        "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)).strip() == reply.text.strip()
    )
    assert not any(isinstance(piece, ReasoningDelta) for piece in pieces)


def test_a_model_knows_only_what_it_is_sent() -> None:
    """The list is all: without the message that said it, the stand-in cannot see the name."""
    said = [{"role": "user", "content": "My name is Hedy."}, {"role": "assistant", "content": "Noted."}]
    question = [{"role": "user", "content": "What is my name?"}]
    assert "Hedy" in OfflineBrain().chat(said + question).text
    assert "Hedy" not in OfflineBrain().chat(question).text


def test_a_failure_is_one_sentence() -> None:
    """A request that fails says what happened and what to do, without a traceback, and ends with 1."""
    done = run("hello", "--base-url", "http://127.0.0.1:9/v1", "--connect-timeout", "1")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "No connection to 127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_double_stands_for_a_model() -> None:
    """Tests and lessons script the model: a queue of replies, and a record of what it was asked."""
    brain = ScriptedBrain("first", BrainError("server", "It failed.", "Try again."))
    assert brain.chat([{"role": "user", "content": "one"}]).text == "first"
    assert brain.requests[0].payload == [{"role": "user", "content": "one"}]
