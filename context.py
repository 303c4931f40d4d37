"""`ContextManager`: the one object that owns the list of messages a model is sent.

A model remembers nothing; what it knows is the list we send it. Four methods change that list
(`append_user`, `append_assistant`, `append_tool_result`, `rollback_last_user`), one lets it out
(`build_for_llm`), and that one applies the token budget.

Covered here: the state, who may append what when, the payload and its order, undo, and what is
learned about the provider's counting. Not covered: how a view shrinks (`compaction.py`,
`summarizing.py`), and any network, disk or terminal.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from compaction import FRUITLESS_LIMIT, plan, record
from log import Log, assistant_row, is_answered, prompt_tokens, question_row
from payload import PayloadBuilder
from ports import FactSource, SessionLog
from projection import Projection
from summarizing import Summarizer, revoke, summarize
from turns import (
    ContextError,
    ContextOverflow,
    Evidence,
    Message,
    Question,
    Section,
    Turn,
    assistant_message,
    check_calls,
    clean_text,
    copy_message,
    fence,
    new_step,
    tool_message,
)
from view import CORRECTION_RANGE, Compaction, Limits, Span, View

__all__ = [
    "Compaction",
    "ContextError",
    "ContextManager",
    "ContextOverflow",
    "Evidence",
    "Question",
    "Section",
]

_UNSET: Any = object()


class ContextManager:
    """Owns the conversation and decides what of it is sent.

    Args:
        system_prompt: the instructions; always sent, always first.
        token_budget: tokens that the whole prompt may take, tool schemas included.
        model: the model whose encoding counts the tokens.
        keep_recent_turns: turns that a compaction keeps at most, the live one included.
        tools: JSON Schemas in OpenAI's form; they are counted, since they are sent beside the payload.
        summarizer: `summarizer(previous, dropped, *, max_tokens) -> str`, or None for a plain slide.
        facts: what is known across conversations.
        history: where the log is kept on disk. A session that has messages is resumed.
        nonce: makes the nonce of a fence; tests pass a predictable one.

    Attributes:
        recovered: the unanswered question that was taken back when a session was resumed, or None.
        summary_note: why the last attempt to write a summary was fruitless, or "".
    """

    def __init__(
        self,
        system_prompt: str = "You are a helpful assistant.",
        token_budget: int = 8000,
        model: str = "gpt-4o-mini",
        keep_recent_turns: int = 10,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        summarizer: Summarizer | None = None,
        facts: FactSource | None = None,
        history: SessionLog | None = None,
        nonce: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._log = Log(model, history)
        self._payload = PayloadBuilder(
            self._log,
            model,
            system_prompt,
            tools,
            facts,
            _at_least_one("token_budget", token_budget),
            _at_least_one("keep_recent_turns", keep_recent_turns),
        )
        self._summarizer = summarizer
        self._facts = facts
        self._history = history
        self._nonce = nonce
        self._pass_reasoning = False
        self._summarizing = False

        self._projection = Projection(history)
        self._built: int | None = (
            None  # our count of the payload that was built last, while it is the current one
        )
        self.recovered: str | None = None
        self.summary_note = ""
        if history is not None:
            self._resume(history)

    # The four methods that change the conversation

    def append_user(
        self, text: str, *, evidence: Sequence[str | tuple[str, str]] = (), pinned: bool = False
    ) -> None:
        """Open a turn with a question.

        Args:
            text: the question, sent verbatim.
            evidence: retrieved texts, or (name, text) pairs; they are fenced and travel with this turn only.
            pinned: keep the question in every later payload, on every path.

        Raises:
            ContextError: the last question has no answer yet, the text is empty, or the pin is over its cap.
        """
        self._refuse_while_summarizing()
        if self._log.live() is not None:
            raise ContextError(
                "The last question has no answer yet: call append_assistant, "
                "or take it back with rollback_last_user."
            )
        if not isinstance(text, str) or not text.strip():
            raise ContextError("A question needs text: call append_user with something to say.")
        turn = self._new_turn(clean_text(text), evidence, pinned)
        view = self._pinning(turn) if pinned else self._view
        if turn.number == 1 and self._facts is not None:
            # Sources that were revoked before this conversation began cannot be in its summary.
            view = replace(view, revoked=self._facts.revocation_serial)
        if self._history is not None:
            self._history.open_turn(turn.number, question_row(turn), view.changed_parts(self._view))
        if self._facts is not None:
            self._open_facts(self._facts, turn)
        self._log.push(turn)
        self._built = None
        self._projection.assign(view, turn.number)

    def append_assistant(
        self,
        text: str | None,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
        *,
        reasoning: str | None = None,
        usage: object | None = None,
    ) -> None:
        """Answer the open question, or ask for tools.

        Args:
            text: the reply; may be empty beside tool calls.
            tool_calls: OpenAI's `tool_calls` dictionaries, kept in their order.
            reasoning: the model's reasoning text; kept in the log, never counted as the answer.
            usage: what the provider billed for the payload that was built last (`prompt_tokens`).

        Raises:
            ContextError: no open question, results are missing, nothing was said, or a call is malformed.
        """
        self._refuse_while_summarizing()
        turn = self._open_turn()
        self._refuse_while_pending(turn)
        text = clean_text(text or "")
        calls = check_calls(tool_calls) if tool_calls else []
        if not text.strip() and not calls:
            raise ContextError("An assistant message needs text or tool calls; roll the turn back instead.")
        reasoning = clean_text(reasoning) if reasoning else None
        if calls:
            sent = reasoning if self._pass_reasoning else None
            entry = self._payload.entry(assistant_message(text, calls, sent))
        else:
            entry = self._payload.entry({"role": "assistant", "content": text})
        view = self._learned(usage)
        if self._history is not None:
            row = assistant_row(text, calls, reasoning, usage)
            self._history.append(turn.number, row, view.changed_parts(self._view))
        if calls:
            turn.steps.append(new_step(entry, reasoning))
        else:
            turn.close(entry)
            if self._facts is not None:
                self._facts.end_turn()
        self._built = None
        self._projection.assign(view, turn.number)

    def append_tool_result(self, tool_call_id: str, content: str) -> None:
        """Give the result of one requested call. Results may arrive in any order.

        Raises:
            ContextError: no call with this id is waiting, in this step, for a result.
        """
        self._refuse_while_summarizing()
        turn = self._open_turn()
        if isinstance(tool_call_id, str):
            tool_call_id = clean_text(tool_call_id)  # as the id of the call was
        pending = turn.pending()
        if tool_call_id not in pending:
            waiting = (
                f"waiting are {', '.join(pending)}"
                if pending
                else "no call is waiting; call append_assistant first"
            )
            raise ContextError(f"No tool call {tool_call_id!r} waits for a result: {waiting}.")
        if not isinstance(content, str):
            raise ContextError("A tool result is text: pass the JSON text of other values.")
        entry = self._payload.entry(tool_message(tool_call_id, clean_text(content)))
        if self._history is not None:
            self._history.append(turn.number, entry.message)
        turn.steps[-1].place(entry)

    def rollback_last_user(self) -> str | None:
        """Take the whole last turn back, answered or not, and everything that it brought about.

        Returns:
            Its text, for editing, or None when there is nothing to take back.
        """
        self._refuse_while_summarizing()
        number = self._log.last
        if number == 0:
            return None
        turn = self._log[number]
        self._undo_on_disk(turn)
        self._log.pop()
        self._built = None
        self._projection.restore(number)
        if self._facts is not None:
            self._facts.end_turn()
            self._facts.rewind(self._facts.mark_for(number))
        return turn.text

    # The one way out

    def build_for_llm(self, *, compact: bool = False) -> list[Message]:
        """Return the messages to send: valid, and within the budget.

        Args:
            compact: compact even if the budget does not ask for it.

        Raises:
            ContextOverflow: the budget cannot be met; nothing was changed.
            ContextError: tool results are missing.
        """
        self._refuse_while_summarizing()
        live = self._log.live()
        if live is not None:
            self._refuse_while_pending(live)
        view = self._without_revoked(self._view)
        with self._payload.steady_facts():
            tokens = self._payload.count(view)
            if compact or self._payload.is_over(view, tokens):
                self._compact(view)
                tokens = self._payload.count(self._view)
            elif view is not self._view:
                self._projection.store(view, self._log.last)
            self._built = tokens
            return self._payload.messages(self._view)

    # Settings, not conversation: undo leaves them alone

    def configure(
        self,
        *,
        token_budget: int = _UNSET,
        keep_recent_turns: int = _UNSET,
        model: str = _UNSET,
        tools: Sequence[Mapping[str, Any]] = _UNSET,
        summarizer: Summarizer | None = _UNSET,
        system_prompt: str = _UNSET,
        pass_reasoning: bool = _UNSET,
    ) -> None:
        """Change settings; what is not named stays.

        A new model counts everything again and forgets the learned correction. With `pass_reasoning`
        the reasoning text of the live turn's steps is sent back beside their calls.
        """
        self._refuse_while_summarizing()
        payload = self._payload
        # Everything is checked before anything is changed.
        budget = (
            payload.token_budget if token_budget is _UNSET else _at_least_one("token_budget", token_budget)
        )
        if keep_recent_turns is not _UNSET:
            _at_least_one("keep_recent_turns", keep_recent_turns)
        schemas = payload.tools if tools is _UNSET else deepcopy([dict(tool) for tool in tools])
        prompt = payload.system_prompt if system_prompt is _UNSET else clean_text(system_prompt)
        payload.token_budget, payload.tools, payload.system_prompt = budget, schemas, prompt
        if keep_recent_turns is not _UNSET:
            payload.keep_recent_turns = keep_recent_turns
        if summarizer is not _UNSET:
            self._summarizer = summarizer
        if model is not _UNSET and model != payload.model:
            payload.model = model
            self._log.count_for(model)
            if self._view.correction != 1.0:
                plain = replace(self._view, correction=1.0, correction_model="")
                self._projection.store(plain, self._log.last)
        payload.forget_counts()
        if pass_reasoning is not _UNSET:
            self._pass_reasoning = pass_reasoning
            self._resend_reasoning()
        self._built = None

    def brief_ahead(self, every_turns: int) -> bool:
        """Let the summarizer write its brief before anything has to be dropped.

        Args:
            every_turns: write once this many answered turns are not covered by the summary; 0 for never.

        Returns:
            Whether the summary changed. What it covers needs no new call when it is dropped.
        """
        self._refuse_while_summarizing()
        view = self._without_revoked(self._view)
        due = every_turns > 0 and self._log.last - view.covered >= every_turns
        if self._summarizer is None or not due or self._log.live() or view.fruitless >= FRUITLESS_LIMIT:
            return False
        first = max(view.first, view.covered + 1)
        window = tuple(self._whole_span(number, view) for number in range(first, self._log.last + 1))
        limits = self._payload.limits(view)
        # Piece by piece, like a rebuild: nothing is dropped yet, so nothing may be left out.
        ahead = replace(view, owed=view.owed + window, rebuild=True)
        new, fault = self._summarized(ahead, limits, limits.summary)
        new = replace(new, rebuild=view.rebuild and new.rebuild, fruitless=view.fruitless + 1 if fault else 0)
        # What is still in the window is owed when it is dropped, not before.
        new = replace(new, owed=tuple(span for span in new.owed if span not in window))
        self._projection.store(new, self._log.last)
        return new.summary != view.summary

    # Read-only views

    @property
    def messages(self) -> list[Message]:
        """The window: what is sent of the log, without the system message."""
        return self._payload.messages(self._view)[1:]

    @property
    def token_count(self) -> int:
        """Corrected count of the next payload in tokens, tool schemas and priming included."""
        return self._payload.corrected_count(self._view)

    @property
    def compacts_next(self) -> bool:
        """Whether the next build begins with a compaction."""
        return self._payload.is_over(self._view, self._payload.count(self._view))

    @property
    def compact_count(self) -> int:
        """Compactions that changed the payload."""
        return self._view.compactions

    @property
    def compactions(self) -> tuple[Compaction, ...]:
        """What each compaction did, oldest first."""
        return tuple(self._projection.records())

    @property
    def summary(self) -> str | None:
        """The summary that is sent now."""
        return self._view.summary

    @property
    def sections(self) -> tuple[Section, ...]:
        """What takes how many tokens of the next payload; the figures add up to `token_count`."""
        with self._payload.steady_facts():
            return self._payload.sections(self._view)

    @property
    def token_budget(self) -> int:
        """Tokens that the whole prompt may take."""
        return self._payload.token_budget

    @property
    def keep_recent_turns(self) -> int:
        """Turns that a compaction keeps at most."""
        return self._payload.keep_recent_turns

    @property
    def model(self) -> str:
        """The model whose encoding counts."""
        return self._payload.model

    @property
    def correction(self) -> float:
        """The learned ratio of the provider's count to ours; 1.0 until one was learned for this model."""
        return self._view.correction_for(self.model)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tool schemas that are counted."""
        return deepcopy(self._payload.tools)

    @property
    def has_summarizer(self) -> bool:
        """Whether a compaction asks a summarizer."""
        return self._summarizer is not None

    @property
    def last_question(self) -> Question | None:
        """What the last turn asked, None before the first."""
        if not self._log.last:
            return None
        turn = self._log[self._log.last]
        return Question(turn.text, turn.evidence, turn.pinned)

    @property
    def last_turn(self) -> list[Message]:
        """The messages of the last turn as they were said, [] before the first.

        Its evidence is not in them, and a step's reasoning stands beside its calls as `reasoning`.
        """
        if not self._log.last:
            return []
        turn = self._log[self._log.last]
        messages = [turn.question.message.copy()]
        for step in turn.steps:
            call, *results = (copy_message(entry.message) for entry in step.entries())
            messages += [{**call, "reasoning": step.reasoning}, *results]
        return messages + ([] if turn.answer is None else [turn.answer.message.copy()])

    def count(self, text: str) -> int:
        """Return the tokens of a text by our own count."""
        return self._log.counter.text(text)

    def count_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens that these schemas take by our own count."""
        return self._log.counter.tools(tools)

    @property
    def turn_count(self) -> int:
        """Turns in the log."""
        return self._log.last

    @property
    def is_open(self) -> bool:
        """Whether the last question waits for its answer."""
        return self._log.live() is not None

    @property
    def first_kept_turn(self) -> int:
        """Number of the first turn of the window."""
        return self._view.first

    @property
    def covered_turns(self) -> int:
        """The summary speaks for turns 1 to this number."""
        return self._view.covered if self._view.summary else 0

    def transcript(self) -> Iterator[Message]:
        """Yield every message of the log, oldest first, whether or not it is still sent."""
        for number in range(1, self._log.last + 1):
            for entry in self._log[number].entries():
                yield copy_message(entry.message)
            self._release()

    @property
    def _view(self) -> View:
        return self._projection.view

    # Checks

    def _refuse_while_summarizing(self) -> None:
        if self._summarizing:
            raise ContextError(
                "A summarizer may not touch the context while it runs; return the summary instead."
            )

    def _refuse_while_pending(self, turn: Turn) -> None:
        pending = turn.pending()
        if pending:
            raise ContextError(
                f"Results are missing for {', '.join(pending)}: call append_tool_result for each."
            )

    def _open_turn(self) -> Turn:
        turn = self._log.live()
        if turn is None:
            raise ContextError("There is no open question: call append_user first.")
        return turn

    # Making turns

    def _new_turn(self, text: str, evidence: Sequence[str | tuple[str, str]], pinned: bool) -> Turn:
        question = asked = self._payload.entry({"role": "user", "content": text})
        items = tuple(_evidence(item, index) for index, item in enumerate(evidence, 1))
        nonce = ""
        if items:
            nonce = self._nonce()
            fenced = [fence(item.name, item.text, nonce=nonce) for item in items]
            asked = self._payload.entry({"role": "user", "content": "\n\n".join([*fenced, text])})
        return Turn(self._log.last + 1, question, asked, items, nonce, pinned)

    def _pinning(self, turn: Turn) -> View:
        """Return the view with this turn pinned, if all pinned questions together fit their share.

        A pin is never dropped. So beside what is never dropped either, instructions, tools and facts, there
        must be as much room again for the question that is asked next.
        """
        limits = self._payload.limits(self._view)
        left = limits.budget - self._payload.fixed(replace(self._view, summary=None))
        cap = min(limits.pins, max(0, left // 2))
        pinned = turn.question.tokens + sum(self._log[number].question.tokens for number in self._view.pins)
        if pinned > cap:
            share = "a quarter of the budget" if cap == limits.pins else "half of what the rest leaves"
            raise ContextError(
                f"Pinned questions would take {pinned:,} tokens and may take {cap:,}, {share}: shorten it, "
                "take an older pinned turn back, or raise CONTEXT_TOKEN_BUDGET."
            )
        return replace(self._view, pins=(*self._view.pins, turn.number))

    def _open_facts(self, facts: FactSource, turn: Turn) -> None:
        try:
            facts.mark(turn.number, evidence=tuple(item.name for item in turn.evidence))
        except BaseException:
            # A turn whose facts could not be stamped could not be undone exactly: it never opened.
            if self._history is not None:
                self._history.undo(turn.number)
            raise

    def _resend_reasoning(self) -> None:
        live = self._log.live()
        for step in live.steps if live is not None else ():
            message = step.call.message
            reasoning = clean_text(step.reasoning) if self._pass_reasoning and step.reasoning else None
            step.call = self._payload.entry(
                assistant_message(message["content"], message["tool_calls"], reasoning)
            )

    def _undo_on_disk(self, turn: Turn) -> None:
        if self._history is None:
            return
        try:
            self._history.undo(turn.number)
        except Exception:
            # On a full disk not even an undo can be written. An unanswered turn may go all the same: the
            # next question takes its place on disk, and so does the next resume. An answered one may not,
            # it would come back.
            if turn.answer is not None:
                raise

    def _resume(self, history: SessionLog) -> None:
        """Continue a stored session: its projection is read now, its turns when they are needed."""
        last = history.last_turn()
        rows = [row for _, rows in history.turns(last, last) for row in rows] if last else []
        if last and not is_answered(rows):
            self.recovered = next((row["content"] for row in rows if row.get("role") == "user"), None)
            history.undo(last)
            last -= 1
        if self._facts is not None:
            # A crash may have come between undoing a turn and taking its facts back.
            self._facts.rewind(self._facts.mark_for(last + 1))
        self._log.last = last
        self._projection.load(last)

    # What a reply teaches about counting

    def _learned(self, usage: object | None) -> View:
        """Return the view with the correction that this usage teaches, if it teaches any."""
        billed = prompt_tokens(usage)
        if not billed or not self._built:
            return self._view
        low, high = CORRECTION_RANGE
        ratio = min(high, max(low, billed / self._built))
        if ratio == self.correction:
            return self._view
        return replace(self._view, correction=ratio, correction_model=self.model)

    # Compaction

    def _compact(self, view: View) -> None:
        """Compute a smaller view and store it with its record; ContextOverflow changes nothing."""
        self.summary_note = ""
        planned = plan(view, self._payload, self._summarized if self._summarizer else None)
        self.summary_note = planned.note
        done = record(self._view, planned, self._payload)
        counted = replace(planned.view, compactions=self._view.compactions + bool(done))
        self._projection.store(counted, self._log.last, done)
        self._release()

    def _summarized(self, view: View, limits: Limits, max_tokens: int) -> tuple[View, str]:
        """Hand what is owed to the summarizer, which may not touch the context meanwhile."""
        assert self._summarizer is not None
        self._summarizing = True
        try:
            new, fault = summarize(view, self._log, self._summarizer, limits, max_tokens=max_tokens)
        finally:
            self._summarizing = False
        known = self._facts.sources() if self._facts is not None and not fault else ()
        self.summary_note = fault
        return replace(new, sources=tuple(dict.fromkeys((*new.sources, *known)))), fault

    def _without_revoked(self, view: View) -> View:
        """Heed sources that were revoked since this view was made, here or in another terminal."""
        if self._facts is None or self._facts.revocation_serial == view.revoked or not self._log.last:
            return view
        revoked = self._facts.revoked(view.revoked)
        if not revoked:
            return view
        view = revoke(view, self._log, [source for _, source in revoked])
        return replace(view, revoked=revoked[-1][0])

    def _whole_span(self, number: int, view: View) -> Span:
        cut = view.cut(number)
        return Span(number, number, self._log[number].tokens(), cut.first_step if cut else 0)

    def _release(self) -> None:
        view = self._view
        self._log.release(lambda number: number >= view.first or number in view.pins)


def _at_least_one(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ContextError(f"{name} is {value!r}; it must be a whole number of at least 1.")
    return value


def _evidence(item: str | tuple[str, str], index: int) -> Evidence:
    name, text = (f"evidence {index}", item) if isinstance(item, str) else item
    return Evidence(clean_text(name), clean_text(text))
