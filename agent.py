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
from context import ContextError, ContextManager, ContextOverflow
from events import (
    Compacted,
    Done,
    Event,
    Failed,
    Notice,
    RequestStarted,
    RequestTrace,
    ToolFinished,
    ToolStarted,
    ToolTrace,
    TurnTrace,
    Working,
)
from plugins import describe
from tools import Tool, ToolRegistry, ToolResult

__all__ = [
    "Agent",
    "Approve",
    "Compacted",
    "Compactor",
    "Done",
    "Event",
    "Failed",
    "Notice",
    "ReasoningDelta",
    "RequestStarted",
    "RequestTrace",
    "Retrying",
    "TextDelta",
    "ToolFinished",
    "ToolStarted",
    "ToolTrace",
    "TurnTrace",
    "Working",
]

SAME_FAILURES = 3
"""Identical failing calls in a row after which the model is asked to answer without tools."""
UNKNOWN_LIMIT_SHARE = 0.75
"""What a refused payload is cut to when the server does not say how long it may be."""
REPLY_ROOM = 1024
"""Tokens left for the reply, at most a quarter of the limit, when a server names its context size."""


Approve = Callable[[Tool, str], "bool | str"]
"""`approve(tool, arguments)` -> True, or False, or False with its reason as text for the model."""


class Compactor(Protocol):
    """What writes a summary ahead; `memory.BaseMemoryCompactor` is one."""

    def compact_if_needed(self) -> bool:
        """Write it if it is due; tell whether it changed."""


@dataclass(slots=True)
class _Progress:
    """What is known of the turn so far."""

    started: float
    requests: list[RequestTrace] = field(default_factory=list)
    tools: list[ToolTrace] = field(default_factory=list)
    why_no_tools: str = ""
    spoke: bool = False
    """A piece of the reply that is coming in has been shown."""
    answer: str | None = None

    def trace(self, now: float, failure: str = "") -> TurnTrace:
        """What the turn did until now."""
        return TurnTrace(tuple(self.requests), tuple(self.tools), now - self.started, failure)

    def is_stuck(self) -> bool:
        """Whether the last calls were one and the same, and failed every time."""
        last = self.tools[-SAME_FAILURES:]
        all_failed = len(last) == SAME_FAILURES and not any(each.ok for each in last)
        return all_failed and len({(each.name, each.arguments) for each in last}) == 1


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
        # A model client that found out that its server takes no tools sends none.
        on = on and getattr(self.brain, "takes_tools", True)
        schemas = self.registry.schemas() if on and self.registry is not None else []
        if schemas != self.context.tools:
            self.context.configure(tools=schemas)
        return schemas

    def run_turn(
        self, text: str, *, evidence: Sequence[str | tuple[str, str]] = (), pinned: bool = False
    ) -> Generator[Event, None, None]:
        """Ask one question and yield what happens, `Done` or `Failed` last.

        Use it in `contextlib.closing`: closing it early takes the turn back. Any other exception is a bug;
        it takes the turn back and is raised.

        Args:
            text: the question.
            evidence: untrusted texts, or (name, text) pairs, that travel with it.
            pinned: keep the question in every later payload.
        """
        before = self.context.turn_count
        progress = _Progress(self.clock())
        failure = ("", "", "")
        try:
            try:
                with self.shield():
                    self.context.append_user(text, evidence=evidence, pinned=pinned)
                yield from self._react(progress)
            finally:
                self._settle(before, progress)
        except KeyboardInterrupt:
            self._settle(before, progress)  # a second one may have come just before the first was settled
            failure = ("interrupted", "Stopped.", "The question is back in the prompt.")
        except BrainError as error:
            failure = (error.kind, error.message, error.hint)
        except ContextOverflow as error:
            failure = (
                "context",
                str(error),
                "/context shows what takes the room; /budget raises the budget.",
            )
        except ContextError as error:
            failure = ("context", str(error), "")
        if progress.answer is None:
            yield Failed(*failure, text, progress.trace(self.clock(), failure[0]))
            return
        try:
            yield from self._write_ahead()
        except KeyboardInterrupt:
            yield Notice("The summary was not written. Nothing was lost.")
        yield Done(progress.answer, progress.trace(self.clock()))

    def _settle(self, before: int, progress: _Progress) -> None:
        """Leave a conversation that the next turn can use, and the count of what it will send."""
        try:
            with self.shield():
                if progress.answer is None and self.context.turn_count > before:
                    self.context.rollback_last_user()
                self.offer_tools()
        except KeyboardInterrupt:
            self._settle(before, progress)  # to stop twice is to stop once

    def _react(self, progress: _Progress) -> Iterator[Event]:
        """Ask, act, ask again, until there is an answer."""
        for step in range(self.max_steps + 1):
            if step == self.max_steps:
                progress.why_no_tools = f"{self.max_steps} steps are done (AGENT_MAX_STEPS)"
            if step and progress.why_no_tools:
                yield Notice(f"{progress.why_no_tools}; asking for an answer without tools.")
            reply = yield from self._ask(progress)
            cut_off = reply.finish_reason == "length"
            calls = [] if cut_off or progress.why_no_tools else reply.tool_calls
            if not calls and not reply.text.strip():
                raise _no_answer(reply, progress.why_no_tools)
            with self.shield():
                self.context.append_assistant(
                    reply.text, calls or None, reasoning=reply.reasoning, usage=reply.usage
                )
                if not calls:
                    progress.answer = reply.text
            if not calls:
                if cut_off:
                    yield Notice("The reply was cut off at its length limit.")
                return
            for call in calls:
                yield from self._act(call, progress)

    def _ask(self, progress: _Progress) -> Generator[Event, None, Reply]:
        """Send the conversation and pass the reply's pieces on; returns the reply.

        Two refusals are worth a second try with another payload: a prompt that is too long for this
        server, and reasoning text that it wants back. Not once a piece of the reply was read, though.
        """
        shrunk = reasoning_sent = False
        while True:
            try:
                return (yield from self._send(progress))
            except BrainError as error:
                if error.kind == "context_length" and not (shrunk or progress.spoke):
                    shrunk = True
                    yield from self._lower_budget(error)
                elif error.needs_reasoning and not (reasoning_sent or progress.spoke):
                    reasoning_sent = True
                    with self.shield():
                        self.context.configure(pass_reasoning=True)
                else:
                    raise

    def _send(self, progress: _Progress) -> Generator[Event, None, Reply]:
        tools = self.offer_tools(on=not progress.why_no_tools)
        payload = yield from self._build()
        estimated = self.context.token_count
        yield RequestStarted(len(progress.requests) + 1, estimated, self.context.token_budget)
        started, progress.spoke = self.clock(), False
        reply: Reply | None = None
        ended = "interrupted"
        try:
            for event in self.brain.stream(payload, tools or None, self.max_tokens):
                if isinstance(event, Reply):
                    reply, ended = event, event.finish_reason
                else:
                    progress.spoke |= isinstance(event, TextDelta)
                    yield event
        except BrainError as error:
            ended = error.kind
            raise
        finally:
            bill = reply.usage if reply else None
            prompt, completion = (bill.prompt_tokens, bill.completion_tokens) if bill else (None, None)
            seconds = self.clock() - started
            progress.requests.append(RequestTrace(estimated, prompt, completion, seconds, ended))
        assert reply is not None, "a brain ends its stream with a Reply or raises"
        # Where the server refused the tools just now, the bill must not be compared with a count of them.
        self.offer_tools(on=not progress.why_no_tools)
        return reply

    def _build(self) -> Generator[Event, None, list[dict[str, Any]]]:
        """Make the payload, and say so when it took a compaction to make it fit."""
        context = self.context
        before = context.compact_count
        if context.has_summarizer and context.compacts_next:
            yield Working("summarizing")
        payload = context.build_for_llm()
        if context.compact_count > before:
            yield Compacted(context.compactions[-1])
        return payload

    def _lower_budget(self, error: BrainError) -> Iterator[Event]:
        """Lower the budget to what the server allows, in our own count, and say so.

        Raises:
            BrainError: the same, when not even this question would fit then: the budget stays as it was, or
                every later question would be refused here, whatever model it goes to.
        """
        count, old = self.context.token_count, self.context.token_budget
        limit = error.server_limit
        if limit:
            allowed = max(limit - (self.max_tokens or min(REPLY_ROOM, limit // 4)), limit // 4)
            # The server's count of this very prompt tells how its tokens compare with ours.
            new = allowed * count // error.server_count if error.server_count else allowed
        else:
            new = int(count * UNKNOWN_LIMIT_SHARE)
        new = max(1, min(new, old - 1, count - 1))
        self.context.configure(token_budget=new)
        try:
            yield from self._build()
        except BaseException as why:
            self.context.configure(token_budget=old)  # Ctrl-C came, or it does not fit
            if isinstance(why, ContextOverflow):
                raise error from None
            raise
        says = f" holds {limit:,} tokens" if limit else " is smaller than the budget"
        yield Notice(f"The server's context{says}; the budget is now {new:,} instead of {old:,} tokens.")

    def _act(self, call: dict[str, Any], progress: _Progress) -> Iterator[Event]:
        """Run one call and append its one result, whatever happens to it."""
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        yield ToolStarted(call["id"], name, arguments)
        refusal = self._refusal(name, arguments)
        started = self.clock()
        result = ToolResult("(stopped)", ok=False)
        try:
            result = refusal or self._run(name, arguments)
        finally:
            progress.tools.append(ToolTrace(name, arguments, *result, self.clock() - started))
        if progress.is_stuck():
            progress.why_no_tools = f"The same call failed {SAME_FAILURES} times"
        with self.shield():
            self.context.append_tool_result(call["id"], result.content)
        yield ToolFinished(call["id"], name, *result, progress.tools[-1].seconds)

    def _refusal(self, name: str, arguments: str) -> ToolResult | None:
        """Ask the person, where a call needs that; return what the model is told if it may not run."""
        tool = self.registry.get(name) if self.registry is not None else None
        if tool is None or not tool.needs_approval or not tool.accepts(arguments):
            return None  # nothing to ask: what is wrong with a call shows when it is run
        verdict: bool | str = "no one is there to approve it"
        if self.approve is not None:
            verdict = self.approve(tool, arguments)
        if verdict is True:
            return None
        reason = verdict or "the person did not allow it"
        return ToolResult(f"{name} was not called: {reason}. Answer without it.", False)

    def _run(self, name: str, arguments: str) -> ToolResult:
        if self.registry is None:
            return ToolResult(f"There is no tool {name!r}: no tools are on. Answer without them.", False)
        return self.registry.run(name, arguments)

    def _write_ahead(self) -> Iterator[Event]:
        """Let the compactor write its brief. The turn is answered and stays so, whatever happens here."""
        if self.compactor is None:
            return
        context = self.context
        summary, note = context.summary, context.summary_note
        yield Working("summarizing")
        try:
            self.compactor.compact_if_needed()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a person's own compactor may raise anything, `exit()` too
            yield Notice(f"The summary was not written ({describe(error)}). Nothing was lost.")
            return
        if context.summary != summary:
            yield Notice(f"The summary now covers turns 1–{context.covered_turns}.")
        elif context.summary_note not in ("", note):
            yield Notice(f"The summary stays as it was: {context.summary_note}. Nothing was lost.")


def _no_answer(reply: Reply, why_no_tools: str) -> BrainError:
    """The failure of a reply that says nothing and may call nothing."""
    if reply.finish_reason == "length":
        message = "The reply was cut off at its length limit before there was an answer."
        return BrainError("empty", message, "Ask for something shorter.")
    if not reply.tool_calls:
        return BrainError("empty", "The model answered with nothing.", "Send it again.")
    message = f"{why_no_tools}, and the model kept asking for tools instead of answering."
    return BrainError("server", message, "Ask in smaller parts, or in other words.")
