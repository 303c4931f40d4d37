"""With a real model (LIVE=1): what the lessons promise, against the endpoint of your own settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conversation import problems

from agent import Agent, Done, Event, Failed, TextDelta
from config import load_settings
from context import ContextManager
from wiring import Chat

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@pytest.fixture
def chat() -> Iterator[Chat]:
    settings = load_settings({"context_token_budget": "1200", "max_tokens": "60"})
    if settings.offline:
        pytest.skip("no endpoint is set: put OPENAI_API_KEY or OPENAI_BASE_URL into .env")
    running = Chat(settings, keep_history=False, tools_on=False)
    yield running
    running.close()


def ask(agent: Agent, text: str) -> tuple[Done, list[Event]]:
    events = list(agent.run_turn(text))
    last = events[-1]
    assert isinstance(last, Done), last
    return last, events


def test_a_reply_streams_and_the_meter_is_near_the_bill(chat: Chat) -> None:
    """A reply comes in pieces; `ctx≈` is within 20 % of the bill, and within 2 % after one reply."""
    differences = []
    for text in ("Say hello to Ada in one short sentence.", "And now to Grace."):
        last, events = ask(chat.agent, text)
        assert any(isinstance(event, TextDelta) for event in events)
        request = last.trace.requests[0]
        if request.prompt_tokens is None:
            pytest.skip("this server does not say what it billed")
        differences.append((request.estimated - request.prompt_tokens) / request.prompt_tokens)
        print(f"        ctx≈ {request.estimated}, billed {request.prompt_tokens} ({differences[-1]:+.1%})")
    assert abs(differences[0]) < 0.2
    assert abs(differences[1]) < 0.02


def test_a_stopped_reply_is_taken_back(chat: Chat) -> None:
    """Ctrl-C in a reply leaves no unanswered question, and the next question works."""
    events = chat.agent.run_turn("Count slowly from one to thirty.")
    for event in events:
        if isinstance(event, TextDelta):
            break
    assert isinstance(events.throw(KeyboardInterrupt()), Failed)
    assert chat.context.messages == []
    ask(chat.agent, "Say yes.")


def test_the_window_is_what_the_model_knows(chat: Chat) -> None:
    """A fact of a kept turn is in the payload, that of a dropped turn is not; every payload is valid."""
    ctx: ContextManager = chat.context
    ctx.append_user("The code word is heron-42.")
    ctx.append_assistant("Noted.")
    assert "heron-42" in str(ctx.build_for_llm())
    while "heron-42" in str(ctx.messages):
        ctx.append_user("Some talk about the weather to fill the window. " * 12)
        ctx.append_assistant("It is fine. " * 20)
        ctx.build_for_llm()
    last, _ = ask(chat.agent, "What is the code word? Answer in five words at most.")
    assert "heron-42" not in last.text
    assert not problems(ctx.build_for_llm())
