"""One turn: text in, events out.

The ReAct loop (Yao et al. 2022, "ReAct: Synergizing Reasoning and Acting in Language Models"): ask the
model; if it asks for tools, run them, show it the results and ask again; else its text is the answer.
Whatever goes wrong, Ctrl-C included, the turn is taken back and its text is returned; error text never
enters the log. The chat, the one-shot mode, the trace and the tests all consume the same events.

Not covered: what is sent (`context.py`), how a server is called (`brain.py`), what a person sees
(`terminal/render.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from brain import BrainError, ChatModel, ReasoningDelta, Reply, Retrying, TextDelta
from context import Compaction, ContextError, ContextManager
from tools import Tool, ToolRegistry, ToolResult

SAME_FAILURES = 3
"""Identical failing calls in a row after which the model is asked to answer without tools."""
UNKNOWN_LIMIT_SHARE = 0.75
"""What a refused payload is cut to when the server does not say how long it may be."""
REPLY_ROOM = 1024
"""Tokens left for the reply, at most a quarter of the limit, when a server names its context size."""


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """A request goes out; tokens are our corrected count of its prompt."""

    number: int
    tokens: int
    budget: int


@dataclass(frozen=True, slots=True)
class Working:
    """Something takes a while that is no reply: `what` is happening, for a progress line."""

    what: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool is about to run; arguments are the JSON text that the model wrote."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool has run; the result is what the model will read."""

    call_id: str
    name: str
    result: str
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Compacted:
    """The payload was compacted."""

    record: Compaction


@dataclass(frozen=True, slots=True)
class Notice:
    """One sentence that the person should see."""

    text: str


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """One request: estimated and billed tokens (None when the server did not say), and its time."""

    estimated: int
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    finish_reason: str


@dataclass(frozen=True, slots=True)
class ToolTrace:
    """One tool call, in full."""

    name: str
    arguments: str
    result: str
    ok: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """What one turn did and took."""

    requests: tuple[RequestTrace, ...] = ()
    tools: tuple[ToolTrace, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """The turn was answered; always the last event."""

    text: str
    trace: TurnTrace


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn was taken back; always the last event. `text` is the question, for editing."""

    kind: str
    message: str
    hint: str
    text: str


Event = (
    TextDelta
    | ReasoningDelta
    | Retrying
    | RequestStarted
    | Working
    | ToolStarted
    | ToolFinished
    | Compacted
    | Notice
    | Done
    | Failed
)

Approve = Callable[[Tool, str], "bool | str"]
"""`approve(tool, arguments)` -> True, or False, or False with its reason as text for the model."""


class Compactor(Protocol):
    """What writes a summary ahead; `memory.BaseMemoryCompactor` is one."""

    def compact_if_needed(self) -> bool:
        """Write it if it is due; tell whether it changed."""


class EndlessToolsError(Exception):
    """The model asked for tools again after they were taken away, and said nothing."""


@dataclass(slots=True)
class _Progress:
    """What is known of the turn so far."""

    requests: list[RequestTrace] = field(default_factory=list)
    tools: list[ToolTrace] = field(default_factory=list)
    last_failure: tuple[str, str] | None = None
    failures: int = 0
    answer: str | None = None


class Agent:
    """Runs turns.

    Args:
        context: the conversation.
        brain: the model.
        registry: the tools, or None for none.
        max_steps: tool steps after which a final answer is asked for, with tools off.
        max_tokens: tokens that a reply may take, or None for the server's own limit.
        compactor: its `compact_if_needed` is called after every answered turn.
        approve: asked before a tool runs that needs it; without it such a tool is refused.
        shield: a context manager inside which Ctrl-C waits, so that a change is made whole.
        clock: seconds, for the trace.
    """

    def __init__(
        self,
        context: ContextManager,
        brain: ChatModel,
        registry: ToolRegistry | None = None,
        *,
        max_steps: int = 10,
        max_tokens: int | None = None,
        compactor: Compactor | None = None,
        approve: Approve | None = None,
        shield: Callable[[], AbstractContextManager[object]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.context = context
        self.brain = brain
        self.registry = registry
        self.max_steps = max_steps
        self.max_tokens = max_tokens
        self.compactor = compactor
        self.approve = approve
        self.shield = shield
        self.clock = clock
        self.offer_tools()

    def offer_tools(self, *, on: bool = True) -> list[dict[str, Any]]:
        """Tell the context which tools go with the next request, so that they are counted; return them."""
        schemas = self.registry.schemas() if on and self.registry is not None else []
        if schemas != self.context.tools:
            self.context.configure(tools=schemas)
        return schemas

    def run_turn(
        self, text: str, *, evidence: Sequence[str | tuple[str, str]] = (), pinned: bool = False
    ) -> Generator[Event, None, None]:
        """Ask one question and yield what happens, `Done` or `Failed` last.

        Use it in `contextlib.closing`: closing it early takes the turn back.

        Args:
            text: the question.
            evidence: untrusted texts, or (name, text) pairs, that travel with it.
            pinned: keep the question in every later payload.
        """
        started = self.clock()
        before = self.context.turn_count
        progress = _Progress()
        failure: Failed | None = None
        try:
            with self.shield():
                self.context.append_user(text, evidence=evidence, pinned=pinned)
            yield from self._react(progress)
        except KeyboardInterrupt:
            failure = Failed("interrupted", "Stopped.", "The question is back in the prompt.", text)
        except BrainError as error:
            failure = Failed(error.kind, error.message, error.hint, text)
        except ContextError as error:
            failure = Failed("context", str(error), "/context shows what takes the room.", text)
        except EndlessToolsError:
            message = "The model kept asking for tools after the step limit and gave no answer."
            failure = Failed("server", message, "Ask again in smaller parts, or raise AGENT_MAX_STEPS.", text)
        finally:
            if progress.answer is None:
                with self.shield():
                    self._take_back(before)
        if progress.answer is None:
            assert failure is not None
            yield failure
            return
        yield from self._write_ahead()
        trace = TurnTrace(tuple(progress.requests), tuple(progress.tools), self.clock() - started)
        yield Done(progress.answer, trace)

    def _take_back(self, turn_count: int) -> None:
        if self.context.turn_count > turn_count:
            self.context.rollback_last_user()

    def _react(self, progress: _Progress) -> Iterator[Event]:
        """Ask, act, ask again, until there is an answer."""
        for step in range(self.max_steps + 1):
            tools_on = step < self.max_steps and progress.failures < SAME_FAILURES
            if not tools_on and self.registry is not None and step:
                yield Notice(self._why_no_tools(progress))
            reply = yield from self._ask(self.offer_tools(on=tools_on), progress)
            calls = reply.tool_calls if tools_on and reply.finish_reason != "length" else []
            if not calls and not reply.text.strip():
                raise EndlessToolsError
            with self.shield():
                self.context.append_assistant(
                    reply.text, calls or None, reasoning=reply.reasoning, usage=reply.usage
                )
                if not calls:
                    progress.answer = reply.text
            if not calls:
                if reply.finish_reason == "length":
                    yield Notice("The reply was cut off at its length limit.")
                return
            for call in calls:
                yield from self._act(call, progress)

    def _why_no_tools(self, progress: _Progress) -> str:
        if progress.failures >= SAME_FAILURES:
            return f"The same call failed {SAME_FAILURES} times; asking for an answer without tools."
        return f"{self.max_steps} steps are done (AGENT_MAX_STEPS); asking for an answer without tools."

    def _ask(self, tools: list[dict[str, Any]], progress: _Progress) -> Generator[Event, None, Reply]:
        """Build, send, and pass the reply's pieces on; returns the reply.

        Two refusals are worth a second try with another payload: a prompt that is too long for this
        server, and reasoning text that it wants back.
        """
        shrunk = reasoning_sent = False
        while True:
            yield from self._build()
            try:
                return (yield from self._send(tools, progress))
            except BrainError as error:
                if error.kind == "context_length" and not shrunk:
                    shrunk = True
                    yield Notice(self._lower_budget(error))
                elif error.needs_reasoning and not reasoning_sent:
                    reasoning_sent = True
                    with self.shield():
                        self.context.configure(pass_reasoning=True)
                else:
                    raise

    def _build(self) -> Generator[Event, None, None]:
        """Make the payload fit, and say so when that took a compaction."""
        context = self.context
        before = context.compact_count
        if context.has_summarizer and context.token_count > context.token_budget:
            yield Working("summarizing")
        context.build_for_llm()
        if context.compact_count > before:
            yield Compacted(context.compactions[-1])

    def _send(self, tools: list[dict[str, Any]], progress: _Progress) -> Generator[Event, None, Reply]:
        payload = self.context.build_for_llm()
        estimated = self.context.token_count
        yield RequestStarted(len(progress.requests) + 1, estimated, self.context.token_budget)
        started = self.clock()
        reply: Reply | None = None
        for event in self.brain.stream(payload, tools or None, self.max_tokens):
            if isinstance(event, Reply):
                reply = event
            else:
                yield event
        assert reply is not None, "a brain ends its stream with a Reply or raises"
        usage = reply.usage
        progress.requests.append(
            RequestTrace(
                estimated,
                usage.prompt_tokens if usage else None,
                usage.completion_tokens if usage else None,
                self.clock() - started,
                reply.finish_reason,
            )
        )
        return reply

    def _lower_budget(self, error: BrainError) -> str:
        """Lower the budget to what the server allows, in our own count, and say so."""
        count, old = self.context.token_count, self.context.token_budget
        limit = error.server_limit
        if limit:
            room = self.max_tokens or min(REPLY_ROOM, limit // 4)
            allowed = max(1, limit - room)
            # The server's count of this very prompt tells how its tokens compare with ours.
            new = allowed * count // error.server_count if error.server_count else allowed
        else:
            new = int(count * UNKNOWN_LIMIT_SHARE)
        new = max(1, min(new, old - 1, count - 1))
        self.context.configure(token_budget=new)
        says = f" holds {limit:,} tokens" if limit else " is smaller than the budget"
        return f"The server's context{says}; the budget is now {new:,} instead of {old:,} tokens."

    def _act(self, call: dict[str, Any], progress: _Progress) -> Iterator[Event]:
        """Run one call and append its one result, whatever happens to it."""
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        yield ToolStarted(call["id"], name, arguments)
        started = self.clock()
        result = self._run_tool(name, arguments)
        seconds = self.clock() - started
        if result.ok:
            progress.last_failure, progress.failures = None, 0
        else:
            same = progress.last_failure == (name, arguments)
            progress.failures = progress.failures + 1 if same else 1
            progress.last_failure = (name, arguments)
        with self.shield():
            self.context.append_tool_result(call["id"], result.content)
        progress.tools.append(ToolTrace(name, arguments, result.content, result.ok, seconds))
        yield ToolFinished(call["id"], name, result.content, result.ok, seconds)

    def _run_tool(self, name: str, arguments: str) -> ToolResult:
        if self.registry is None:
            return ToolResult(f"There is no tool {name!r}: no tools are on. Answer without them.", False)
        tool = self.registry.get(name)
        if tool is not None and tool.needs_approval:
            verdict: bool | str = "no one is there to approve it; answer without it"
            if self.approve is not None:
                verdict = self.approve(tool, arguments)
            if verdict is not True:
                reason = f": {verdict}" if isinstance(verdict, str) else ""
                return ToolResult(f"The person did not allow {name}{reason}.", False)
        return self.registry.run(name, arguments)

    def _write_ahead(self) -> Iterator[Event]:
        """Let the compactor write its brief. The turn is answered and stays so, whatever happens here."""
        if self.compactor is None:
            return
        before = self.context.summary
        yield Working("summarizing")
        try:
            changed = self.compactor.compact_if_needed()
        except KeyboardInterrupt:
            yield Notice("The summary was not written; nothing was lost.")
            return
        if changed and self.context.summary != before:
            yield Notice(f"The summary now covers turns 1–{self.context.covered_turns}.")
        elif self.context.summary_note:
            yield Notice(f"The summary stays as it was: {self.context.summary_note}. Nothing was lost.")
