"""Turns over real HTTP on loopback: the loop, the real SDK, and a server that plays a script.

Every request is checked against the published schema (`Server.problems`). The second half starts the program
itself: approval in a terminal, the options about tools, a file of one's own tools, Ctrl-C and `kill -9`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conversation import MODEL, words
from server import CUT, HOLD, Answer, Received, Server, calls, chunk, delta, error, piece, says, stream, usage

from agent import Agent, Done, Event, Failed, Notice, Retrying, ToolFinished
from brain import Brain, TextDelta
from config import load_settings
from context import ContextManager
from tokens import count_payload
from tools import ToolRegistry, tool
from wiring import Chat

ROOT = Path(__file__).parent.parent


def wants(*asked: tuple[str, Any], finish: str = "tool_calls", text: str = "", **counts: Any) -> Answer:
    """A streamed reply that calls tools, the arguments in two pieces, as OpenAI sends them.

    Arguments that are a text are sent as they are, others as JSON.
    """
    chunks = [delta(text, role="assistant")]
    for index, (name, given) in enumerate(asked):
        arguments = given if isinstance(given, str) else json.dumps(given)
        half = len(arguments) // 2
        chunks += [
            calls(piece("", index=index, id=f"call_{index}", name=name)),
            calls(piece(arguments[:half], index=index)),
            calls(piece(arguments[half:], index=index)),
        ]
    return stream(*chunks, delta(finish=finish), chunk(choices=[], usage=usage(**counts)))


def counted(request: Received) -> int:
    """The size of a prompt for a server that counts a quarter more than we do."""
    return count_payload(request.body["messages"], MODEL, request.body.get("tools", ())) * 5 // 4


def holding(
    tokens: int, then: Callable[..., Answer], refuse: Callable[[int, int], Answer]
) -> Callable[[Received], Answer]:
    """A server that holds so many tokens: it refuses a longer prompt, and bills the others."""

    def look(request: Received) -> Answer:
        size = counted(request)
        return then(prompt=size) if size <= tokens else refuse(size, tokens)

    return look


def llama(size: int, limit: int) -> Answer:
    text = "the request exceeds the available context size, try increasing it"
    return error(400, text, type="exceed_context_size_error", n_prompt_tokens=size, n_ctx=limit)


def openai(size: int, limit: int) -> Answer:
    text = f"maximum context length is {limit} tokens. However, your messages resulted in {size} tokens."
    return error(400, f"This model's {text}", code="context_length_exceeded")


def wordless(size: int = 0, limit: int = 0) -> Answer:
    return error(400, "prompt is too long")


@tool(needs_approval=False)
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool(needs_approval=False)
def table(rows: int) -> list[dict[str, int]]:
    """Give a table."""
    return [{"row": row} for row in range(rows)]


@tool(needs_approval=False)
def fail() -> str:
    """Fail."""
    raise ConnectionError("the disk\nis on fire")


def registry() -> ToolRegistry:
    tools = ToolRegistry()
    for function in (add, table, fail):
        tools.register(function)
    return tools


@contextmanager
def talking(server: Server, budget: int = 8000, **options: Any) -> Iterator[Agent]:
    brain = Brain(api_key="", base_url=server.url, model=MODEL, timeout=5, sleep=lambda _: None)
    with closing(brain):
        yield Agent(ContextManager("Be brief.", budget, MODEL, 100), brain, registry(), **options)


def play(agent: Agent, question: str = "Q") -> list[Event]:
    with closing(agent.run_turn(question)) as events:
        return list(events)


def answer(agent: Agent, question: str = "Q") -> str:
    last = play(agent, question)[-1]
    assert isinstance(last, Done), last
    return last.text


def results(server: Server, request: int = -1) -> list[str]:
    """The tool results that a request carries."""
    return [m["content"] for m in server.requests[request].body["messages"] if m["role"] == "tool"]


# ---- the loop ---------------------------------------------------------------------------------------------


def test_parallel_calls_and_a_chained_one() -> None:
    """Two in one step, then one that needs their results; each result stands under its call, in order."""
    script = [
        wants(("add", {"a": 1, "b": 2}), ("table", {"rows": 2})),
        wants(("add", {"a": 3, "b": 4}), text="And now both."),
        says("Seven."),
    ]
    with Server(*script) as server, talking(server) as agent:
        assert answer(agent, "add") == "Seven."
        assert results(server) == ["3", '[{"row":0},{"row":1}]', "7"]
        assert all(request.body["tools"] == agent.context.tools for request in server.requests)
    assert server.problems == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param(("add", {"a": 1}), "add was not called: 'b' is missing", id="missing argument"),
        pytest.param(("add", {"a": "x", "b": 1}), "'a' should be a valid integer", id="wrong type"),
        pytest.param(("add", '{"a": 1, "b"'), "the arguments are not a JSON object", id="half an object"),
        pytest.param(("add", "[1, 2]"), "the arguments are not a JSON object", id="a list"),
        pytest.param(("sub", {}), "There is no tool 'sub'. The tools are: add, table, fail.", id="unknown"),
        pytest.param(("fail", ""), "fail failed: ConnectionError: the disk is on fire", id="exception"),
        pytest.param(("table", {"rows": 9000}), "characters are shown]", id="too long"),
    ],
)
def test_whatever_becomes_of_a_call_the_model_gets_one_text(asked: tuple[str, Any], told: str) -> None:
    with Server(wants(asked, ("add", {"a": 1, "b": 1})), says("I see.")) as server, talking(server) as agent:
        assert answer(agent) == "I see."
        failed, fine = results(server)
        assert told in failed
        assert fine == "2"
    assert server.problems == []


def test_at_the_step_limit_the_last_request_offers_no_tools() -> None:
    script = [wants(("add", {"a": step, "b": 0})) for step in range(3)]
    with Server(*script, says("Three."), says("Again.")) as server, talking(server, max_steps=3) as agent:
        assert answer(agent) == "Three."
        assert answer(agent) == "Again."
        assert ["tools" in request.body for request in server.requests] == [True] * 3 + [False, True]
    assert server.problems == []


def test_a_model_that_is_stuck_is_asked_for_an_answer() -> None:
    with Server(*[wants(("fail", {}))] * 3, says("I cannot.")) as server, talking(server) as agent:
        assert answer(agent) == "I cannot."
        assert "tools" not in server.requests[-1].body
    assert server.problems == []


@pytest.mark.parametrize("text", ["Let me ", ""], ids=["with text", "without"])
def test_calls_of_a_reply_that_was_cut_off_are_not_run(text: str) -> None:
    cut_off = wants(("add", {"a": 1, "b": 2}), finish="length", text=text)
    with Server(cut_off) as server, talking(server) as agent:
        events = play(agent)
        assert not any(isinstance(event, ToolFinished) for event in events)
        assert isinstance(events[-1], Done if text else Failed)
        assert agent.context.turn_count == bool(text)


def test_every_request_fits_the_budget_however_many_steps_there_are() -> None:
    """The server counts a quarter more than we do, bills it, and refuses what is over the budget."""
    step = partial(wants, ("table", {"rows": 100}))
    with Server() as server, talking(server, budget=2000) as agent:
        server.play(*[holding(2000, each, wordless) for each in (*[step] * 8, partial(says, "Done."))])
        assert answer(agent) == "Done."
        assert len(server.requests) == 9
        assert agent.context.correction == pytest.approx(1.25, abs=0.01)
        assert agent.context.compact_count
        assert all(request.body["messages"][1]["content"] == "Q" for request in server.requests)
    assert server.problems == []


# ---- failures ---------------------------------------------------------------------------------------------


HALF_A_CALL = calls(piece('{"a": ', id="c", name="add"))


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        pytest.param([error(401, "Incorrect API key")], "auth", id="status"),
        pytest.param([error(500)] * 3, "server", id="three tries"),
        pytest.param([stream(delta("Well, "), done=False)], "interrupted", id="no end"),
        pytest.param([stream(delta("Well, "), CUT, done=False)], "connection", id="cut in the text"),
        pytest.param([stream(HALF_A_CALL, CUT, done=False)], "connection", id="cut in a call"),
        pytest.param([stream(delta(finish="content_filter"))], "filtered", id="filter"),
    ],
)
def test_an_error_after_some_steps_takes_the_whole_turn_back(answers: list[Answer], kind: str) -> None:
    """And the next request knows nothing of it."""
    step = wants(("add", {"a": 1, "b": 2}))
    with Server(says("Hello."), step, step, *answers, says("Yes.")) as server, talking(server) as agent:
        answer(agent, "Hi")
        before = agent.context.messages
        failure = play(agent, "Add!")[-1]
        assert isinstance(failure, Failed)
        assert (failure.kind, failure.text) == (kind, "Add!")
        assert [each.result for each in failure.trace.tools] == ["3", "3"]
        assert failure.trace.requests[-1].finish_reason == kind
        assert agent.context.messages == before
        assert answer(agent, "Still there?") == "Yes."
        assert [m["content"] for m in server.requests[-1].body["messages"][1:]] == [
            "Hi",
            "Hello.",
            "Still there?",
        ]
    assert server.problems == []


@pytest.mark.parametrize("how", ["close", "throw"])
def test_who_stops_a_turn_hangs_up_on_the_server(how: str) -> None:
    """The connection is closed at once, so that the server stops writing, and the turn is gone."""
    waiting = stream(delta("Well, "), HOLD, done=False)
    with Server(wants(("add", {"a": 1, "b": 2})), waiting, says("Yes.")) as server, talking(server) as agent:
        events = agent.run_turn("Q")
        while not isinstance(next(events), TextDelta):
            pass
        if how == "throw":
            failure = events.throw(KeyboardInterrupt())
            assert isinstance(failure, Failed)
        events.close()
        assert server.left.wait(10)
        assert agent.context.messages == []
        assert answer(agent) == "Yes."
    assert server.problems == []


# ---- what a server wants otherwise ------------------------------------------------------------------------


@pytest.mark.parametrize("refuse", [llama, openai, wordless])
def test_a_prompt_that_grew_too_long_in_the_middle_of_a_turn_is_cut_and_sent_again(
    refuse: Callable[[int, int], Answer],
) -> None:
    """The budget goes down to what the server holds, the person is told, and no step is done again."""
    step = partial(wants, ("table", {"rows": 150}))
    with Server() as server, talking(server) as agent:
        script = [step] * 3 + [partial(says, "Done.")] * 2  # one answer is lost to the refusal
        server.play(*[holding(2000, each, refuse) for each in script])
        events = play(agent)
        assert isinstance(events[-1], Done), events[-1]
        told = [event.text for event in events if isinstance(event, Notice)]
        assert len(told) == 1
        assert f"the budget is now {agent.context.token_budget:,} instead of 8,000 tokens" in told[0]
        assert counted(server.requests[-2]) > 2000 >= counted(server.requests[-1])
        assert [request.finish_reason for request in events[-1].trace.requests] == [
            *["tool_calls"] * 3,
            "context_length",
            "stop",
        ]
    assert server.problems == []


def test_a_prompt_that_stays_too_long_fails_after_one_more_try() -> None:
    with Server(wordless(), wordless(), says("Yes.")) as server, talking(server) as agent:
        agent.context.append_user(words(500))
        agent.context.append_assistant("ok")
        failure = play(agent)[-1]
        assert isinstance(failure, Failed)
        assert failure.kind == "context_length"
        assert answer(agent) == "Yes."
    assert server.problems == []


def test_reasoning_goes_back_to_the_server_that_demands_it() -> None:
    """DeepSeek's 400; from then on it goes along, in this turn and the next."""
    thinking = stream(
        delta(reasoning_content="Hm."),
        calls(piece('{"a": 1, "b": 2}', id="c", name="add")),
        delta(finish="tool_calls"),
    )
    wanted = error(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
    script = [thinking, wanted, says("Three."), thinking, says("Three again.")]
    with Server(*script, reasoning=True) as server, talking(server) as agent:
        assert answer(agent) == "Three."
        assert answer(agent) == "Three again."
        last_calls = [
            [m for m in request.body["messages"] if m.get("tool_calls")][-1:] for request in server.requests
        ]
        sent = [each[0].get("reasoning_content") for each in last_calls if each]
        assert sent[:2] == [None, "Hm."]
        assert sent[-1] == "Hm."
    assert server.problems == []


def test_tools_that_the_server_refuses_are_neither_sent_nor_counted_again() -> None:
    """Its bill, of a prompt without tools, is not compared with a count that had them.

    Another model may take them, so they are offered again.
    """

    def billed(request: Received) -> Answer:
        size = count_payload(request.body["messages"], MODEL, request.body.get("tools", ()))
        return says("Yes.", prompt=size)

    refused = error(400, "registry.ollama.ai/library/gemma:2b does not support tools")
    with Server(refused, billed, billed, billed) as server, talking(server) as agent:
        schemas = agent.context.tools
        events = play(agent)
        assert [event.reason for event in events if isinstance(event, Retrying)] == [
            "the server does not accept tools; asked again without"
        ]
        assert (agent.context.tools, agent.context.correction) == ([], 1.0)
        play(agent)
        assert agent.context.correction == 1.0
        agent.brain.model = "qwen3"
        play(agent)
        assert (agent.context.tools, agent.context.correction) == (schemas, 1.0)
        assert ["tools" in request.body for request in server.requests] == [True, False, False, True]
    assert server.problems == []


# ---- the program ------------------------------------------------------------------------------------------

OWN_TOOLS = '''
    import os, signal
    from tools import tool

    print("noise of a file that is loaded")

    @tool
    def write(text: str) -> str:
        """Write a text."""
        with open("written.txt", "a") as file:
            print(text, file=file)
        print("noise of a tool that runs")
        return "written"

    @tool(needs_approval=False)
    def stop(how: str) -> str:
        """Stop the program."""
        os.kill(os.getpid(), getattr(signal, how))
        return "never"
'''


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs main.py against a server, with a file of one's own tools, in a folder of its own."""
    (tmp_path / "my_tools.py").write_text(textwrap.dedent(OWN_TOOLS))

    def run(server: Server, *arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(ROOT / "main.py"), *arguments],
            env=environment(server, tmp_path),
            cwd=tmp_path,
            input=lines,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def environment(server: Server, folder: Path) -> dict[str, str]:
    ours = {"OPENAI_BASE_URL": server.url, "MINI_AGENT_TOOLS": str(folder / "my_tools.py"), "TERM": "dumb"}
    return {**os.environ, **ours}


WRITE = wants(("write", {"text": "one"}))


def test_without_a_terminal_a_tool_that_needs_approval_is_refused(program: Any, tmp_path: Path) -> None:
    """And the model is told why, and how a person allows it."""
    with Server(WRITE, says("Pity.")) as server:
        done = program(server, "write")
        assert (done.returncode, done.stdout.strip()) == (0, "Pity.")
        assert results(server)[0].startswith(
            "write was not called: no one can be asked here; --approve-tools"
        )
        assert not (tmp_path / "written.txt").exists()
    assert server.problems == []


def test_with_approve_tools_nobody_is_asked(program: Any, tmp_path: Path) -> None:
    with Server(WRITE, says("Good.")) as server:
        done = program(server, "--approve-tools", "write")
        assert (done.returncode, done.stdout.strip()) == (0, "Good.")
        assert results(server) == ["written"]
        assert (tmp_path / "written.txt").read_text() == "one\n"


def test_no_tools_offers_none(program: Any) -> None:
    with Server(says("Hello.")) as server:
        assert program(server, "--no-tools", "hi").returncode == 0
        assert "tools" not in server.requests[0].body


def test_tools_can_be_switched_off_and_on(program: Any) -> None:
    with Server(*[says("Hello.")] * 3) as server:
        done = program(server, lines="hi\n/tools off\nhi\n/tools on\nhi\n")
        assert done.returncode == 0
        assert ["tools" in request.body for request in server.requests] == [True, False, True]
        assert "Tools are off." in done.stdout + done.stderr
    assert server.problems == []


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def f(:", "my_tools.py, line 1: SyntaxError: invalid syntax."),
        ("raise SystemExit", "my_tools.py, line 1: it tried to end the program."),
        (None, "my_tools.py cannot be read: No such file or directory."),
    ],
    ids=["syntax", "exit", "missing"],
)
def test_a_broken_file_of_tools_is_one_line_and_the_chat_goes_on(
    program: Any, tmp_path: Path, source: str | None, line: str
) -> None:
    path = tmp_path / "my_tools.py"
    path.unlink()
    if source is not None:
        path.write_text(source)
    with Server(says("Hello.")) as server:
        done = program(server, "hi")
        assert (done.returncode, done.stdout.strip()) == (0, "Hello.")
        told = [each for each in done.stderr.splitlines() if "my_tools.py" in each]
        assert len(told) == 1
        assert told[0].endswith(f"{line} The chat goes on without these tools.")
        names = [each["function"]["name"] for each in server.requests[0].body["tools"]]
        assert names[:3] == ["calculator", "current_time", "remember"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_ctrl_c_in_a_tool_stops_the_turn_and_not_the_program(program: Any) -> None:
    script = [says("Hello."), wants(("stop", {"how": "SIGINT"})), says("Still here.")]
    with Server(*script) as server:
        done = program(server, lines="hi\nstop\nand now?\n")
        assert "Stopped." in done.stderr
        asked = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "user"]
        assert asked == ["hi", "and now?"]
    assert server.problems == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_after_kill_9_in_a_tool_the_conversation_goes_on(program: Any) -> None:
    """The turn that had no answer is taken back; what was answered is there; the next request is valid."""
    script = [says("Hello."), wants(("stop", {"how": "SIGKILL"})), says("Still here.")]
    with Server(*script) as server:
        assert program(server, lines="hi\nstop\n").returncode == -9
        done = program(server, "--resume", lines="and now?\n")
        assert (done.returncode, "no answer; it was taken back" in done.stderr) == (0, True)
        asked = [m["content"] for m in server.requests[-1].body["messages"][1:]]
        assert asked == ["hi", "Hello.", "and now?"]
    assert server.problems == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no ptys")
def test_a_person_is_asked_with_name_and_arguments_in_full(program: Any, tmp_path: Path) -> None:
    """Ctrl-C, yes, no, and always for this session; what is shown is what will run, without escapes."""
    pexpect = pytest.importorskip("pexpect")
    tricky = '{"text": "\\u0072\\u006d -rf ' + "x" * 300 + ' END"}'
    script = [WRITE]
    for text in (tricky, '{"text": "two"}', '{"text": "three"}', '{"text": "four"}'):
        script += [wants(("write", text)), says("Next.")]
    with Server(*script) as server:
        child = pexpect.spawn(
            sys.executable,
            [str(ROOT / "main.py"), "--plain"],
            env=environment(server, tmp_path),
            cwd=str(tmp_path),
            encoding="utf-8",
            timeout=30,
            dimensions=(40, 100),
        )
        with closing(child):
            child.expect("> $")
            child.sendline("write it")
            child.expect(r"Allow it\? .* ")
            child.sendintr()
            child.expect("Stopped")
            for number, key in enumerate(("y", "n", "a", "")):
                child.expect("> $")
                child.sendline(f"write {number}")
                if key:
                    child.expect("write wants to run with")
                    child.expect(r"Allow it\? \[yes/no/always this session\] ")
                    shown = "".join(child.before.split())
                    assert number or f'text="rm-rf{"x" * 300}END"' in shown
                    child.sendline(key)
                child.expect("Next")
            child.expect("> $")
            assert "Allow it" not in child.before
            child.sendeof()
            child.expect(pexpect.EOF)
        assert [results(server, request)[-1] for request in (2, 4, 6, 8)] == [
            "written",
            "write was not called: the person did not allow it. Answer without it.",
            "written",
            "written",
        ]
    assert (tmp_path / "written.txt").read_text().splitlines() == [f"rm -rf {'x' * 300} END", "three", "four"]
    assert server.problems == []


@pytest.mark.parametrize("budget", [256, 1_000, 8_000])
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4"])
def test_requests_to_the_summarizer_are_within_the_budget_too(
    tmp_path: Path, budget: int, model: str
) -> None:
    """Also after the budget and the model were changed; one that is too small for it is said once."""
    sizes: list[int] = []

    def answer(request: Received) -> Answer:
        sizes.append(count_payload(request.body["messages"], model))
        return says("A brief of what was said.", prompt=sizes[-1])

    with Server(*[answer] * 300) as server:
        settings = load_settings(
            {"home": str(tmp_path), "base_url": server.url, "model": "gpt-4o", "system_prompt": "S"}, {}, None
        )
        chat = Chat(settings, tools_on=False)
        chat.set_summary(on=True)
        chat.set_model(model)
        chat.context.configure(token_budget=budget)
        for _ in range(12):
            list(chat.agent.run_turn("ไทย ภาษา " * (budget // 60)))
        if budget > 256:
            assert chat.context.summary
            assert chat.summarizer().summarize_all(chat.context.transcript())
        else:
            assert "at least 450 tokens, and 256 are allowed" in chat.context.summary_note
        chat.close()
    assert max(sizes) <= budget
