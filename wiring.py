"""The parts of a running chat, made from the settings and handed to each other. Nothing else knows them all.

`Chat` keeps them together and swaps what belongs to one conversation when a person goes to another.
Not covered: arguments and exit codes (`main.py`), keys and screen (`terminal/`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from agent import Agent, Approve, RequestTrace, TurnTrace
from brain import Brain, ChatModel
from builtin_tools import builtin_registry, remember_tool, search_history_tool
from config import Settings
from context import ContextManager
from history import ChatHistory, HistoryError, Hit, Session
from memory import (
    SMALLEST_INPUT,
    BaseMemoryCompactor,
    FactError,
    FactStore,
    RollingSummary,
    load_compactor,
)
from plugins import PluginError
from storage import Working
from tokens import notice
from tools import ToolFileError

SEARCH_SHARE = 8
"""A search of the history may give back this part of the budget: 1/8."""
LEAST_FOUND = 256
"""Tokens that a search may give back in any case: less would cut off what was found."""
SUMMARY_INPUT = 6_000
"""Tokens that a request to the summarizer may take at most."""
SUMMARY_FRAME = 256
"""Tokens beside its input that a request to the summarizer needs: the frame of two messages."""


def open_history(settings: Settings, working: Working = nullcontext) -> ChatHistory:
    """Open the history; an older one is brought up to date, a damaged one made anew, and that takes time.

    Raises:
        HistoryError: it cannot be used.
    """
    return ChatHistory(settings.home / "history.db", working=working)


class Chat:
    """A conversation with everything that it needs.

    Args:
        settings: as checked by `config.py`.
        keep_history: keep the conversation on disk.
        session: id, or its first characters, of the conversation to continue; "" for the newest, None for
            a new one.
        approve: asks the person whether a tool may run.
        shield: a context manager inside which Ctrl-C waits.
        pace: seconds between the words of the offline stand-in.
        prompt: an unanswered question of the session is offered in a prompt, or else a notice repeats it.
        opened: returns the history, opened; without it the file is opened here.

    Raises:
        HistoryError: the session to continue cannot be opened.

    Attributes:
        why_no_history: why there is no history in this run; "" when there is one.
        notices: sentences for the person that came up while the parts were made.
        attached: (name, text) pairs that go with the next question.
        traces: what each turn of this run did, oldest first, failed ones included.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        keep_history: bool = True,
        session: str | None = None,
        approve: Approve | None = None,
        shield: Callable[[], AbstractContextManager[object]] = nullcontext,
        tools_on: bool = True,
        pace: float = 0.0,
        prompt: bool = True,
        opened: Callable[[], ChatHistory] | None = None,
    ) -> None:
        self.settings = settings
        self.prompt = prompt
        self.notices: list[str] = []
        self.attached: list[tuple[str, str]] = []
        self.traces: list[TurnTrace] = []
        self.why_no_history = "" if keep_history else "it was started with --no-history."
        opened = opened or (lambda: open_history(settings))
        self.history = self._open_history(opened, must=session is not None) if keep_history else None
        self.facts = self._open_facts()
        self.brain: ChatModel = self._new_brain(settings.model, settings.timeout, pace)
        self.registry = builtin_registry()
        self.compactor = self._new_compactor()
        self.summary_on = settings.context_summary
        self.tools_on = tools_on
        self.session: Session | None = None
        self.context: ContextManager
        self.agent = self._first_agent(session, approve, shield)
        self._add_tools()

    # Making the parts

    def _open_history(self, opened: Callable[[], ChatHistory], *, must: bool) -> ChatHistory | None:
        try:
            history = opened()
        except HistoryError as error:
            if must:
                raise
            self._do_without_history(error)
            return None
        self.notices += history.notices
        return history

    def _do_without_history(self, error: HistoryError) -> None:
        self.why_no_history = str(error)
        self.notices.append(f"{error} This conversation is not kept.")

    def _open_facts(self) -> FactStore:
        home = self.settings.home
        try:
            return FactStore(home / "facts.db")
        except FactError as error:
            if self.why_no_history and self.notices and not os.access(home, os.W_OK | os.X_OK):
                self.notices[-1] = f"{self.why_no_history} Neither this conversation nor any facts are kept."
            else:
                self.notices.append(f"{error} Facts are kept for this run only.")
            return FactStore()

    def _new_brain(self, model: str, timeout: float, pace: float = 0.0) -> ChatModel:
        settings = self.settings
        if settings.offline:
            from offline import OfflineBrain  # its rules are many, and whoever has a server needs none

            return OfflineBrain(pace=pace)
        return Brain(
            api_key=settings.api_key or "",
            base_url=settings.base_url or "",
            model=model,
            timeout=timeout,
            connect_timeout=settings.connect_timeout,
        )

    def _new_compactor(self) -> BaseMemoryCompactor:
        settings = self.settings
        if settings.compactor_path is not None:
            try:
                compactor = load_compactor(settings.compactor_path, self.ask_apart)
                compactor.every_turns = settings.context_summary_every_turns
                return compactor
            except PluginError as error:
                self.notices.append(f"{error} The rolling summary is used instead.")
        return RollingSummary(
            self.ask_apart,
            every_turns=settings.context_summary_every_turns,
            input_tokens=self._summary_input,
            model=self._summary_model,
        )

    def _first_agent(
        self,
        session: str | None,
        approve: Approve | None,
        shield: Callable[[], AbstractContextManager[object]],
    ) -> Agent:
        try:
            self._begin(self._session(session))
        except HistoryError as error:
            if session is not None or self.history is None:
                raise
            self.history.close()
            self.history = None
            self._do_without_history(error)
            self._begin(None)
        return Agent(
            self.context,
            self.brain,
            self.registry if self.tools_on else None,
            max_steps=self.settings.agent_max_steps,
            max_tokens=self.settings.max_tokens or None,
            approve=approve,
            shield=shield,
            compactor=self.compactor if self.summary_on else None,
        )

    def _add_tools(self) -> None:
        self.registry.register(
            remember_tool(self.facts, lambda: f"turn-{self.context.turn_count}"), check=False
        )
        if self.history is not None:
            search = search_history_tool(
                self.search_dropped,
                max_tokens=lambda: max(LEAST_FOUND, self.context.token_budget // SEARCH_SHARE),
            )
            self.registry.register(search, check=False)
        if self.settings.tools_path is not None:
            try:
                self.registry.load_file(self.settings.tools_path)
            except ToolFileError as error:
                self.notices.append(f"{error} The chat goes on without these tools.")
        self.agent.offer_tools()

    # One conversation and another

    def _session(self, session: str | None) -> Session | None:
        if self.history is None:
            return None
        if session == "":
            newest = self.history.sessions(1)
            if not newest:
                self.notices.append("There is no conversation to resume yet; this is a new one.")
            session = newest[0].id if newest else None
        return self.history.new_session() if session is None else self.history.open_session(session)

    def _begin(self, session: Session | None) -> None:
        """Make the context of a conversation. The facts stamp what is written in its turns."""
        self.facts.session = session.id if session is not None else secrets.token_hex(4)
        context = ContextManager(
            self.settings.system_prompt,
            self.settings.context_token_budget,
            self.brain.model if not self.settings.offline else self.settings.model,
            self.settings.context_keep_recent_turns,
            summarizer=self.compactor if self.summary_on else None,
            facts=self.facts,
            history=session,
        )
        self.compactor.bind(context)
        self.session, self.context = session, context
        if context.recovered:
            says = " and can be sent again." if self.prompt else f": {context.recovered}"
            self.notices.append(f"The last question had no answer; it was taken back{says}")

    def go_to(self, session: str | None) -> None:
        """Leave this conversation for another one, or for a new one.

        Raises:
            HistoryError: it cannot be opened; this conversation goes on.
        """
        old = self.session
        if session is not None and old is not None and old.id.startswith(session.strip().lower()):
            return
        new = self._session(session)
        old_context = self.context
        budget, keep = old_context.token_budget, old_context.keep_recent_turns
        facts_of = self.facts.session
        try:
            self._begin(new)
        except BaseException:
            self.facts.session = facts_of
            self.compactor.bind(old_context)
            if new is not None:
                new.close()
            raise
        self.context.configure(token_budget=budget, keep_recent_turns=keep)
        self.agent.context = self.context
        self.agent.offer_tools(on=self.tools_on)
        self.traces.clear()
        if old is not None:
            old.close()

    def set_tools(self, *, on: bool) -> None:
        """Offer tools to the model, or none."""
        self.tools_on = on
        self.agent.registry = self.registry if on else None
        self.agent.offer_tools()

    def set_summary(self, *, on: bool) -> None:
        """Let dropped turns live on in a summary, or only in the log."""
        self.summary_on = on
        self.context.configure(summarizer=self.compactor if on else None)
        self.agent.compactor = self.compactor if on else None

    def set_model(self, model: str) -> None:
        """Ask another model from now on."""
        self.brain.model = model
        self.context.configure(model=model)
        self.agent.offer_tools()  # what the last model refused, this one may take

    def close(self) -> None:
        """Close files and connections."""
        if self.history is not None:
            self.history.close()
        self.facts.close()
        if isinstance(self.brain, Brain):
            self.brain.close()

    # What the parts need of each other

    def ask_apart(self, instructions: str, text: str, max_tokens: int) -> str:
        """Ask the model something apart from the conversation; budget and validity hold here too.

        Raises:
            BrainError: the request failed.
            ContextOverflow: the text is too long.
        """
        model = self._summary_model()
        budget = min(SUMMARY_INPUT + SUMMARY_FRAME, self._plain_budget())
        scratch = ContextManager(instructions, budget, model)
        scratch.append_user(text)
        brain = self._new_brain(model, self.settings.summary_timeout)
        try:
            # Twice the cap: a model that reasons spends tokens before it writes; what is too long is refused.
            return brain.chat(scratch.build_for_llm(), max_tokens=2 * max_tokens).text
        finally:
            if isinstance(brain, Brain):
                brain.close()

    def summarizer(self) -> RollingSummary:
        """What writes a summary for the person; a compactor of their own is not asked for that."""
        if isinstance(self.compactor, RollingSummary):
            return self.compactor
        return RollingSummary(self.ask_apart, input_tokens=self._summary_input, model=self._summary_model)

    def _summary_model(self) -> str:
        return self.settings.summary_model or self.brain.model

    def _plain_budget(self) -> int:
        """The budget of this moment in tokens of our own count, by what is known of the server's."""
        return int(self.context.token_budget / max(1.0, self.context.correction))

    def _summary_input(self) -> int:
        """Tokens of a request to the summarizer: like any other it must be within the budget."""
        budget = self._plain_budget()
        return min(SUMMARY_INPUT, max(budget * 3 // 4, min(budget, SMALLEST_INPUT)))

    def search_dropped(self, query: str) -> Sequence[Hit]:
        """Search all sessions for what the model does not see anyway."""
        if self.history is None:
            return []
        seen = (self.facts.session, self.context.first_kept_turn)
        return self.history.search(query, limit=8, hidden=seen)

    def take_notices(self) -> list[str]:
        """Return the sentences that came up since the last call."""
        notices, self.notices = self.notices, []
        if self.history is not None:
            notices += [text for text in self.history.notices if text not in notices]
            self.history.notices.clear()
        counting = notice()
        return notices + ([counting] if counting else [])

    @property
    def title(self) -> str:
        """What the conversation is called."""
        return self.session.title if self.session is not None else ""

    @property
    def model_name(self) -> str:
        """The model for the toolbar: `offline` for the stand-in."""
        return self.brain.model

    def totals(self) -> dict[str, Any]:
        """Sums over the turns of this run: requests, tool calls, estimated and billed tokens, seconds."""
        requests: list[RequestTrace] = [request for trace in self.traces for request in trace.requests]
        return {
            "turns": sum(not trace.failure for trace in self.traces),
            "requests": len(requests),
            "tools": sum(len(trace.tools) for trace in self.traces),
            "estimated": sum(request.estimated for request in requests),
            "billed": sum(request.prompt_tokens or 0 for request in requests),
            "completion": sum(request.completion_tokens or 0 for request in requests),
            "seconds": sum(trace.seconds for trace in self.traces),
        }
