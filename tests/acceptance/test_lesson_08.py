"""Lesson 08: the product: what was learned about the server, what a turn did, and how it holds."""

from __future__ import annotations

from conversation import MODEL, call, problems, words
from server import Server, error, says

from agent import Agent, Compacted, Done, Event, Failed, Notice
from brain import Brain, Reply, Retrying, ScriptedBrain, Usage
from builtin_tools import builtin_registry
from context import ContextManager
from tokens import count_payload


def play(agent: Agent, text: str) -> list[Event]:
    return list(agent.run_turn(text))


def brain(server: Server) -> Brain:
    waits: list[float] = []
    return Brain(
        api_key="k", base_url=server.url, model=MODEL, timeout=5, connect_timeout=5, sleep=waits.append
    )


def test_the_trace_tells_what_a_turn_did() -> None:
    """Requests with estimated and billed tokens, tool calls with their results, and times."""
    script = ScriptedBrain(
        Reply("", [call("c", "calculator", '{"expression": "6*7"}')], Usage(200, 9), "tool_calls"),
        Reply("42", [], Usage(230, 3), "stop"),
    )
    last = play(Agent(ContextManager(model=MODEL), script, builtin_registry()), "six times seven?")[-1]
    assert isinstance(last, Done)
    assert [request.prompt_tokens for request in last.trace.requests] == [200, 230]
    assert [(tool.name, tool.result) for tool in last.trace.tools] == [("calculator", "42")]


def test_the_meter_learns_how_the_server_counts() -> None:
    """After one reply the estimate is within 2 % of what a server with another tokenizer bills."""
    ctx = ContextManager(model=MODEL)
    ctx.append_user(words(400))
    raw = count_payload(ctx.build_for_llm(), MODEL)
    ctx.append_assistant("A", usage=Usage(round(1.4 * raw), 1))
    ctx.append_user(words(300))
    raw = count_payload(ctx.build_for_llm(), MODEL)
    assert abs(ctx.token_count - 1.4 * raw) < 0.02 * 1.4 * raw


def test_a_busy_server_is_asked_again_in_sight() -> None:
    """A retry is announced with its reason and its wait, and never comes after text was shown."""
    with Server(error(503, "overloaded"), says("Hello.")) as server:
        events = play(Agent(ContextManager(model=MODEL), brain(server)), "hi")
    assert isinstance(events[-1], Done)
    assert any(isinstance(event, Retrying) and event.delay > 0 for event in events)


def test_a_context_that_is_too_long_for_the_server_recovers() -> None:
    """The budget is lowered to what the server allows, the turn goes on, and the person is told."""
    refusal = error(
        400,
        "This model's maximum context length is 600 tokens. However, your messages resulted in 1400 tokens.",
        code="context_length_exceeded",
    )
    ctx = ContextManager("Be brief.", 4000, MODEL)
    for number in range(6):
        ctx.append_user(f"{number} {words(100)}")
        ctx.append_assistant(words(100))
    with Server(refusal, says("Hello.")) as server:
        events = play(Agent(ctx, brain(server)), "hi")
    assert isinstance(events[-1], Done)
    assert any(isinstance(event, Notice) and "600" in event.text for event in events)
    assert any(isinstance(event, Compacted) for event in events)
    assert ctx.token_budget < 600
    assert not problems(ctx.build_for_llm(), budget=600)


def test_whatever_fails_the_turn_comes_back() -> None:
    """A refused key is one sentence with what to do; the question is returned, and nothing of it is kept."""
    ctx = ContextManager(model=MODEL)
    with Server(error(401, "Incorrect API key provided")) as server:
        last = play(Agent(ctx, brain(server)), "hi")[-1]
    assert isinstance(last, Failed)
    assert (last.kind, last.text) == ("auth", "hi")
    assert "OPENAI_API_KEY" in last.hint
    assert ctx.messages == []
