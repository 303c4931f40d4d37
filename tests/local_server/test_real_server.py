"""Our client against a real llama.cpp server with a real, small model: protocol and payloads, never its wit.

Runs where requirements-local.txt is installed (`make acceptance-local`); in CI with two turns, which makes
eight short requests; LOCAL_TURNS=30 is the long conversation.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conversation import problems, words

pytest.importorskip("xllamacpp", reason="needs requirements-local.txt")

from agent import Agent, Compacted, Done, Event, Failed, Notice, RequestStarted, TextDelta
from brain import Brain, BrainError
from context import ContextManager
from local.chat import LocalServer, model_file
from local.server import ALIAS

PROJECT = Path(__file__).parent.parent.parent
TURNS = int(os.environ.get("LOCAL_TURNS", "2"))
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer(model_file(), 512) as running:
        yield running


def brain(server: LocalServer) -> Brain:
    return Brain(api_key="", base_url=server.url, model=ALIAS, timeout=120, connect_timeout=10)


def agent(server: LocalServer, budget: int = 400, max_tokens: int = 24) -> Agent:
    ctx = ContextManager("Answer briefly.", budget, ALIAS)
    return Agent(ctx, brain(server), max_tokens=max_tokens)


def play(chat: Agent, text: str) -> list[Event]:
    return list(chat.run_turn(text))


def test_a_conversation_streams_is_billed_and_teaches_the_count(server: LocalServer) -> None:
    """Usage comes in the stream; the correction learned from one reply makes the next estimate right."""
    chat = agent(server)
    estimates, bills, kinds = [], [], set()
    for number in range(TURNS):
        events = play(chat, f"My name is Ada. Say hello, number {number}.")
        last = events[-1]
        assert isinstance(last, Done), last
        assert sum(isinstance(event, TextDelta) for event in events) > 1
        request = last.trace.requests[0]
        assert request.prompt_tokens
        assert request.completion_tokens
        estimates.append(request.estimated)
        bills.append(request.prompt_tokens)
        kinds.add(request.finish_reason)
        assert not problems(chat.context.build_for_llm())
        assert chat.context.token_count <= 400
    assert kinds <= {"stop", "length"}
    errors = [abs(estimate - bill) / bill for estimate, bill in zip(estimates, bills, strict=True)]
    print(f"\nerror of the estimate: {errors[0]:.1%} before, {max(errors[1:]):.1%} after the first reply")
    assert max(errors[1:]) < 0.02 or max(errors[1:]) < errors[0]
    if TURNS >= 30:
        assert chat.context.compact_count > 0


def test_a_reply_at_its_limit_is_kept_and_said(server: LocalServer) -> None:
    events = play(agent(server, max_tokens=4), "Count from one to twenty.")
    assert isinstance(events[-1], Done)
    assert events[-1].trace.requests[0].finish_reason == "length"
    assert any(isinstance(event, Notice) and "length limit" in event.text for event in events)


def test_a_stopped_reply_leaves_server_and_conversation_usable(server: LocalServer) -> None:
    chat = agent(server, max_tokens=200)
    events = chat.run_turn("Tell me a long story about a river.")
    for event in events:
        if isinstance(event, TextDelta):
            break
    failed = events.throw(KeyboardInterrupt())
    assert isinstance(failed, Failed)
    assert failed.kind == "interrupted"
    assert chat.context.messages == []
    chat.max_tokens = 8
    assert isinstance(play(chat, "Say hello.")[-1], Done)


def test_a_prompt_that_is_too_long_is_compacted_to_what_the_server_holds(server: LocalServer) -> None:
    """llama.cpp answers 400 with exceed_context_size_error, n_prompt_tokens and n_ctx."""
    with pytest.raises(BrainError) as caught:
        brain(server).chat([{"role": "user", "content": words(700)}], max_tokens=4)
    assert caught.value.kind == "context_length"
    assert caught.value.server_limit == 512
    assert caught.value.server_count is not None
    assert caught.value.server_count > 512

    chat = agent(server, budget=4000, max_tokens=8)
    chat.context.append_user(f"An old question. {words(600)}")
    chat.context.append_assistant("An old answer.")
    events = play(chat, "Say hello.")
    assert isinstance(events[-1], Done), events[-1]
    assert any(isinstance(event, Notice) and "512" in event.text for event in events)
    assert any(isinstance(event, Compacted) for event in events)
    assert chat.context.token_budget < 512
    assert next(event.number for event in events if isinstance(event, RequestStarted)) == 1


CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from local.chat import LocalServer, model_file
server = LocalServer(model_file(), 256).__enter__()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="pidfd is Linux")
def test_the_server_goes_with_a_chat_that_was_killed() -> None:
    command = [sys.executable, "-c", CHILD, str(PROJECT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
    assert child.returncode == -signal.SIGKILL
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    readable, _, _ = select.select([descriptor], [], [], 60)
    os.close(descriptor)
    assert readable, "the server still runs a minute after its chat was killed"
