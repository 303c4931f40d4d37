"""What one typed line does: a command, or a turn of the chat. Also what the prompt shows beside it.

The prompt must be on the screen before the engine is loaded, so the chat is made when it is first needed:
by the first line, or by the toolbar once a thread has loaded the modules and the vocabulary.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr
from typing import TYPE_CHECKING

from config import Settings
from terminal.interrupts import InterruptShield
from terminal.meter import Meter, Toolbar
from terminal.repl import Answer, Choice
from terminal.safe import visible_json
from terminal.screen import Screen

if TYPE_CHECKING:  # heavy: loaded by the thread, or by the first line
    from concurrent.futures import Future

    from agent import Done, Failed
    from history import ChatHistory
    from terminal.render import Renderer
    from tools import Tool
    from wiring import Chat


class Printed(io.TextIOBase):
    """A stream whose lines are printed on a screen, above what is redrawn there; each when it is complete.

    Of a line that was written over and over, as a progress bar does, the last state is printed.
    """

    encoding = "utf-8"

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._line = ""

    def writable(self) -> bool:
        """It is all that can be done with it."""
        return True

    def write(self, text: str) -> int:
        """Takes a piece of text."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._screen.print(line.rstrip("\r").rpartition("\r")[2])
        return len(text)

    def __exit__(self, *_: object) -> None:
        """Prints a last line that was not ended."""
        if self._line:
            self.write("\n")


class Shell:
    """One terminal.

    Args:
        settings: as checked by `config.py`.
        out: where replies go.
        notes: where everything else goes; the same as `out` in a conversation.
        keep_history: keep the conversation on disk.
        session: id of the conversation to continue, or None.
        tools_on: offer tools to the model.
        approve_all: run tools that need approval without asking.
        prompt: there is a prompt, to which the text of a failed turn returns.
        pace: seconds between the words of the offline stand-in.
    """

    def __init__(
        self,
        settings: Settings,
        out: Screen,
        notes: Screen,
        *,
        keep_history: bool = True,
        session: str | None = None,
        tools_on: bool = True,
        approve_all: bool = False,
        prompt: bool = True,
        pace: float = 0.0,
    ) -> None:
        self.settings = settings
        self.out, self.notes = out, notes
        self.shield = InterruptShield()
        self.toolbar_is_shown = False
        self.reasoning = False
        self.failed = False
        self._keep_history = keep_history
        self._session = session
        self._tools_on = tools_on
        self._approve_all = approve_all
        self._approved: set[str] = set()
        self.prompt = prompt
        self._pace = pace
        self._chat: Chat | None = None
        self._renderer: Renderer | None = None
        self._loaded = threading.Event()
        self._opening: Future[ChatHistory] | None = None  # a thread opens the history
        self._working = ""  # what it does to it that takes long
        self._asked_in: object = None  # the context of the last turn

    def greet(self) -> None:
        """Say what this is, before anything is loaded."""
        who = "the offline stand-in (no key is set)" if self.settings.offline else self.settings.model
        self.out.say(f"mini-agent: you talk to {who}. /help lists the commands, Ctrl-D leaves.", "dim")

    def load_ahead(self) -> None:
        """Load the engine, the vocabulary and the SDK in a thread, while the person reads the prompt.

        The history is opened there, too: one of an older version may take long to be brought up to
        date, and the prompt must not stand still meanwhile.
        """
        if self._keep_history and self._chat is None:
            from concurrent.futures import Future

            self._opening = Future()
        threading.Thread(target=self._load, daemon=True, name="load").start()

    def _load(self) -> None:
        import tokens
        import wiring

        if self._opening is not None:  # first: whoever waits for it waits for ever if anything else fails
            try:
                self._opening.set_result(wiring.open_history(self.settings, self._says_working))
            except BaseException as error:  # noqa: BLE001 - whoever waits for the history gets it
                self._opening.set_exception(error)
        tokens.preload(self.settings.model).join()
        self._loaded.set()
        if not self.settings.offline:
            import openai  # noqa: F401 - 0.7 s that the first question need not wait for

    @property
    def chat(self) -> Chat:
        """The chat. The first use makes it."""
        if self._chat is None:
            from wiring import Chat

            printed = io.StringIO()  # a person's own files may print, and would do so into the prompt
            with redirect_stderr(printed):
                self._chat = Chat(
                    self.settings,
                    keep_history=self._keep_history,
                    session=self._session,
                    approve=self._approve,
                    shield=self.shield,
                    tools_on=self._tools_on,
                    pace=self._pace,
                    prompt=self.prompt,
                    opened=self._opened_history,
                )
            if said := printed.getvalue().strip():
                self._chat.notices.append(said)
        return self._chat

    def _opened_history(self) -> ChatHistory:
        """The history; waits for the thread that opens it, if there is one. Ctrl-C stops the waiting."""
        from wiring import open_history

        if self._opening is None:
            return open_history(self.settings, self.notes.progress)
        with self.notes.progress(lambda: self._working or "opening the history"):
            return self._opening.result()

    @contextmanager
    def _says_working(self, what: str) -> Iterator[None]:
        self._working = what
        try:
            yield
        finally:
            self._working = ""

    def close(self) -> None:
        """Close files and connections."""
        if self._chat is not None:
            self._chat.close()
        elif self._opening is not None and self._opening.done() and self._opening.exception() is None:
            self._opening.result().close()

    # What a line does

    def handle(self, line: str) -> Answer:
        """Do what a line says; "/" begins a command, a blank before it makes it text."""
        from terminal.commands import run_command

        chat = self.chat
        self.say_notices()
        if line.startswith("/"):
            answer = run_command(self, line)
            self.say_notices()  # a search may have met damage, say; the person may leave now
            return answer
        if chat.context.recovered == line:
            chat.context.recovered = None
        return self.turn(line[1:] if line.startswith(" /") else line)

    def say_notices(self) -> None:
        """Show what came up while the parts were made."""
        for text in self.chat.take_notices():
            self.notes.say(text, "yellow")

    def turn(
        self,
        text: str,
        *,
        pinned: bool = False,
        evidence: Sequence[tuple[str, str]] = (),
        again: bool = False,
    ) -> Answer:
        """Ask a question and show what happens. The text of a failed turn comes back for editing.

        Args:
            text: the question.
            pinned: it stays in the context.
            evidence: (name, text) pairs that go with it, beside what is attached.
            again: it was answered before; what becomes of it when this fails is said elsewhere.
        """
        last = self.play(text, pinned=pinned, evidence=evidence, again=again)
        from agent import Done

        if isinstance(last, Done):
            return Answer()
        return Answer(restore=f"/pin {text}" if pinned else text)

    def play(
        self,
        text: str,
        *,
        pinned: bool = False,
        evidence: Sequence[tuple[str, str]] = (),
        again: bool = False,
    ) -> Done | Failed:
        """Run one turn; returns its last event. Attached files go with it and stay attached if it fails."""
        from agent import Done, Failed, TurnTrace
        from history import HistoryError
        from memory import FactError

        chat = self.chat
        self._asked_in = chat.context
        evidence = [*chat.attached, *evidence]
        try:
            with (
                closing(chat.agent.run_turn(text, evidence=evidence, pinned=pinned)) as events,
                Printed(self.notes) as printed,
                redirect_stderr(printed),  # to which a person's own tools print
            ):
                last = self.renderer.play(events, gives_back=not again)
        except (HistoryError, FactError) as error:  # nothing is said that cannot be kept
            self.notes.error(str(error))
            last = Failed("storage", str(error), "", text, TurnTrace(failure="storage"))
        self.failed = self.failed or not isinstance(last, Done)
        chat.traces.append(last.trace)
        if isinstance(last, Done):
            chat.attached.clear()
        self.say_notices()
        return last

    @property
    def renderer(self) -> Renderer:
        """What shows the events of a turn."""
        if self._renderer is None:
            from terminal.render import Renderer

            self._renderer = Renderer(
                self.out,
                self.notes,
                meter=self.meter,
                shield=self.shield,
                toolbar=self.toolbar_is_shown,
                prompt=self.prompt,
            )
        self._renderer.reasoning = self.reasoning
        return self._renderer

    def _approve(self, tool: Tool, arguments: str) -> bool | str:
        if self._approve_all or tool.name in self._approved:
            return True
        given = json.loads(arguments)
        self.notes.say(f"{tool.name} wants to run{' with' if given else ', without arguments'}", "yellow")
        for name, value in given.items():  # in full, and without the escapes that could hide what it says
            self.notes.say(f"{visible_json(name)[1:-1]} = {visible_json(value)}", indent=2)
        answer = self.notes.ask("Allow it?", ["yes", "no", "always this session"])
        if answer.startswith("always"):
            self._approved.add(tool.name)
        if not answer:
            return "no one can be asked here; --approve-tools allows tools without asking"
        return answer != "no"

    # What the prompt shows

    def meter(self) -> Meter | None:
        """How full the context is; no figures before they can be had without waiting."""
        if self._chat is None and not self._loaded.is_set():
            return Meter(None, self.settings.context_token_budget)
        context = self.chat.context
        from tokens import ready

        tokens = context.token_count if ready(context.model) else None
        over = tokens is not None and context.compacts_next
        return Meter(tokens, context.token_budget, context.compact_count, over)

    def toolbar(self) -> Toolbar:
        """What stands under the prompt."""
        meter = self.meter() or Meter(None, self.settings.context_token_budget)
        if self._chat is None:
            model = "offline" if self.settings.offline else self.settings.model
            more = self.out.glyphs.more
            return Toolbar(meter, model, f"{self._working}{more}" if self._working else "")
        return Toolbar(
            meter, self._chat.model_name, self._chat.title, [name for name, _ in self._chat.attached]
        )

    def choices(self, line: str) -> Iterable[Choice]:
        """What may complete a command."""
        from terminal.commands import complete

        if self._chat is None and not self._loaded.is_set() and " " in line:
            return ()  # arguments ask the chat, and the keys would stand still until it is there
        return complete(self, line)

    def unfold(self) -> None:
        """Show the reasoning of the last turn, if it was one of this conversation and was not shown."""
        if self._asked_in is self.chat.context:
            self.renderer.unfold()
