"""The events of a turn, shown: text, tools, compactions, what is going on meanwhile, and how it ended.

    renderer = Renderer(screen, meter=read_meter, shield=shield, toolbar=reader.toolbar)
    with closing(agent.run_turn(text)) as events:
        last = renderer.play(events)                      # Done or Failed

    one-shot:  Renderer(Screen(sys.stdout), Screen(sys.stderr), meter=..., prompt=False).play(events)

All of it goes through a `Screen`, which makes foreign text safe (`safe.py`). Not here: what the prompt does
(`prompt.py`), how the bottom rows are redrawn (`status.py`), and what a typed line does (`shell.py`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext

from agent import (
    Compacted,
    Done,
    Event,
    Failed,
    Notice,
    RequestStarted,
    ToolFinished,
    ToolStarted,
    Working,
)
from brain import ReasoningDelta, Retrying, TextDelta
from terminal.cells import Line, Span, cells, clip
from terminal.interrupts import InterruptShield, quiet_keys
from terminal.meter import Meter, compaction_line, meter_line, waiting_line
from terminal.replies import Incoming, RawReply, StyledReply
from terminal.safe import one_line, safe
from terminal.screen import Screen
from terminal.status import Bottom

__all__ = ["Renderer", "safe"]

FOLDED = 1.0
"""Seconds of thought below which nothing is said of reasoning that is not shown."""
CROWDED = 60
"""Percent of the budget still filled after a compaction above which the one-time hint is given."""


class Renderer:
    """Shows turns, one after another.

    Args:
        out: where the reply goes (stdout).
        notes: where everything else goes (stderr in one-shot mode); `out` when left out.
        meter: reads the state of the context; called in the main thread only, None while it cannot tell.
        reasoning: show the model's reasoning, dimmed, not only how long it took; may be changed at any time.
        toolbar: a toolbar shows the meter, so that no line needs to.
        prompt: there is a prompt, to which the question of a failed turn returns.
        shield: inside it a Ctrl-C waits, so that it never cuts a sequence in half.
        clock: seconds. ticking: False starts no thread, for tests.
    """

    def __init__(
        self,
        out: Screen,
        notes: Screen | None = None,
        *,
        meter: Callable[[], Meter | None],
        reasoning: bool = False,
        toolbar: bool = False,
        prompt: bool = True,
        shield: Callable[[], AbstractContextManager[object]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        ticking: bool = True,
    ) -> None:
        self.out, self.notes = out, notes or out
        self.reasoning = reasoning
        self._read_meter, self._toolbar, self._prompt = meter, toolbar, prompt
        self._shield = shield or InterruptShield()
        if out.look.tty:
            others = [self.notes] if self.notes is not out and self.notes.look.tty else []
            self._bottom = Bottom(out, *others, clock=clock, ticking=ticking)
        else:  # nobody sees `out`; what is going on is shown where somebody may look
            self._bottom = Bottom(self.notes, clock=clock, ticking=ticking)
        self._clock = clock
        self._meter: Meter | None = None
        self._reply: Incoming | None = None  # the text that is coming in
        self._thoughts: Incoming | None = None
        self._asked = 0.0  # when the last request went out
        self._thinks = False  # reasoning came, and nothing else since
        self._folded: list[str] = []  # reasoning of this turn that was not shown
        self._told_how_to_unfold = False
        self._calls: dict[str, str] = {}  # running tools, as they are shown
        self._wrote = False  # a part of the reply was shown in this turn
        self._hinted = False
        self._gives_back = True  # the question of this turn goes into the prompt if it fails

    def play(self, events: Iterator[Event], *, gives_back: bool = True) -> Done | Failed:
        """Shows the events of one turn as they come; returns the last one.

        With `gives_back` the question of a stopped turn is said to be in the prompt again.
        Ctrl-C is passed on to the turn, which then ends with `Failed`. KeyboardInterrupt comes out only when
        `events` is no generator or does not end so.
        """
        keys = quiet_keys() if self._bottom.redraws else nullcontext()
        self._wrote = False
        self._gives_back = gives_back
        self._folded.clear()
        last: Done | Failed | None = None
        try:
            with keys:
                while last is None:
                    try:
                        event = next(events)
                        with self._shield():
                            last = self._show(event)
                    except KeyboardInterrupt:
                        if last is not None:  # it came too late to stop anything
                            break
                        if not isinstance(events, Generator):
                            raise
                        with self._shield():
                            last = self._show(events.throw(KeyboardInterrupt()))
        except StopIteration:
            raise RuntimeError("the turn ended without Done or Failed") from None
        finally:
            with self._shield():
                self._end_reply()
                self._bottom.stop()
        return last

    def _show(self, event: Event) -> Done | Failed | None:
        """Shows one event; returns it if it is the last of a turn."""
        match event:
            case TextDelta(text):
                self._text(text)
            case ReasoningDelta(text):
                self._reason(text)
            case RequestStarted():
                self._asked = self._clock()
                if self._folded:
                    self._folded.append("\n\n")
                self._wait("waiting")
            case Working(what):  # which may turn out to be nothing to do
                self._end_reply()
                self._wait(f"{what}{self.notes.glyphs.more}", at_once=False)
            case Retrying(reason, delay):
                self._retry(reason, delay)
            case ToolStarted(call_id, name, arguments):
                self._tool_started(call_id, _call(name, arguments))
            case ToolFinished():
                self._tool_finished(event)
            case Compacted(record):
                self._end_reply()
                self.notes.styled(compaction_line(record, self.notes.glyphs), hang=2)
                self._hint(record.after)
            case Notice(text):
                self._end_reply()
                self.notes.say(text, "yellow")
            case Done():
                self._done()
                return event
            case Failed():
                self._failed(event)
                return event
        return None

    # -- the status line

    def _wait(self, what: str, *, again: bool = True, at_once: bool = True) -> None:
        """Says what is going on, in the status line."""
        self._status(lambda: what, again=again, at_once=at_once)

    def _status(self, what: Callable[[], str], *, again: bool, at_once: bool = True) -> None:
        self._meter = self._read_meter()
        # A pipe may well end on this very terminal (`| cat`), and where nothing is redrawn a line about
        # waiting would cut the reply in two.
        if (self._wrote and not self.out.look.tty) or (self._reply and not self._bottom.redraws):
            self._bottom.stop()
            return
        glyphs = self.notes.glyphs

        def line(seconds: float, width: int) -> Line:
            return waiting_line(what(), seconds, self._meter, width, glyphs)

        self._bottom.start(line, self._tail, again=again, at_once=at_once)

    def _tail(self) -> list[Line]:
        """The unfinished lines of what is coming in."""
        rows = max(1, min(6, self.out.height // 3))
        reply = self._reply or self._thoughts
        return reply.tail(rows) if reply is not None else []

    # -- text

    def _text(self, text: str) -> None:
        if self._reply is None:
            self._end_reply()  # the reasoning before it
            self._reply = StyledReply(self.out) if self.out.look.style else RawReply(self.out)
            self._wrote = True
            self._wait("", again=False)
        self._feed(self._reply, text)

    def _reason(self, text: str) -> None:
        if not self.reasoning:
            self._thinks |= self._reply is None
            self._folded.append(text)
            self._wait(f"thinking{self.notes.glyphs.more}", again=False)
            return
        if self._thoughts is None:
            self._end_reply()
            self._thoughts = self._shown_thoughts()
            self._wait(f"thinking{self.notes.glyphs.more}", again=False)
        self._thinks = True
        self._feed(self._thoughts, text)

    def _shown_thoughts(self) -> Incoming:
        return StyledReply(self.notes, "dim") if self.notes.look.style else RawReply(self.notes, "thinking: ")

    def _thought_ended(self, *, shown: bool) -> None:
        """Says how long the model thought: without any styles, too, one sees where its reasoning ends."""
        if not self._thinks:
            return
        self._thinks = False
        seconds = self._clock() - self._asked
        if shown:
            self.notes.say(
                f"thought for {_seconds(seconds) if seconds >= FOLDED else 'less than 1 s'}", "dim"
            )
            self.notes.print()
        elif seconds >= FOLDED:
            how = "" if self._told_how_to_unfold or not self._prompt else "/reasoning on shows it"
            self._told_how_to_unfold = True
            parts = filter(None, [f"thought for {_seconds(seconds)}", how])
            self.notes.say(self.notes.glyphs.dot.join(parts), "dim")

    def unfold(self) -> None:
        """Shows the reasoning of the last turn that was not shown when it came."""
        text, self._folded = "".join(self._folded), []
        if text.strip():
            thoughts = self._shown_thoughts()
            thoughts.feed(text)
            thoughts.close()

    def _feed(self, reply: Incoming, text: str) -> None:
        with self._bottom.lock:  # the ticker reads the tail
            reply.feed(text)
        self._bottom.refresh()

    def _end_reply(self) -> None:
        """Prints the unfinished rest of what was coming in."""
        reply, thoughts = self._reply, self._thoughts
        with self._bottom.lock:
            self._reply = self._thoughts = None
            for text in (thoughts, reply):
                if text is not None:
                    text.close()
        self._thought_ended(shown=thoughts is not None)

    # -- everything else

    def _retry(self, reason: str, delay: float) -> None:
        self._end_reply()
        # Without a wait it is the request that changed, and the reason says how.
        wait = f"retrying in {_seconds(delay)}: " if delay else ""
        self.notes.say(f"{wait}{one_line(reason)}", "yellow")

        self._asked = then = self._clock() + delay

        def what() -> str:
            left = math.ceil(then - self._clock())
            return f"retrying in {left} s{self.notes.glyphs.dot}" if left > 0 else "waiting"

        self._status(what, again=False)

    def _tool_started(self, call_id: str, call: str) -> None:
        self._end_reply()
        self._calls[call_id] = call
        if not self._bottom.redraws and self.notes.look.tty:
            self.notes.say(f"tool {clip(call, 70, self.notes.glyphs.more)}")  # as it may take a while
        self._wait(call)

    def _tool_finished(self, event: ToolFinished) -> None:
        glyphs, width = self.notes.glyphs, max(48, self.notes.width)
        took = f"{glyphs.dot}{event.seconds:.1f} s"
        # The arguments get half of the line at most, what came out of them gets the rest.
        call = clip(
            self._calls.pop(event.call_id, event.name), min(width // 2, self.notes.width - 4), glyphs.more
        )
        mark, verdict = (glyphs.bullet, glyphs.arrow) if event.ok else (glyphs.failed, "failed:")
        head = f"{mark} {call} {verdict} "
        room = max(12, width - cells(head) - cells(took))
        result = clip(one_line(event.result) or "(nothing)", room, glyphs.more)
        style = "dim" if event.ok else "red"
        line = [Span(head, style), Span(result, "" if event.ok else style), Span(took, "dim")]
        self.notes.styled(line, hang=2)
        self._wait("")

    def _hint(self, after: int) -> None:
        """Says once why compactions come so often, when what is kept nearly fills the budget."""
        meter = self._read_meter()
        if self._hinted or meter is None or after * 100 < CROWDED * meter.budget:
            return
        self._hinted = True
        self.notes.say(
            "The turns that are kept nearly fill the budget, so it will compact often. /budget raises it; "
            "a lower CONTEXT_KEEP_RECENT_TURNS keeps fewer.",
            "dim",
        )

    def _done(self) -> None:
        self._end_reply()
        self._bottom.stop()
        if not self._toolbar:
            self._print_meter()

    def _print_meter(self) -> None:
        if (meter := self._read_meter()) is not None:
            width = self.notes.width if self.notes.look.tty else 200
            self.notes.lines([meter_line(meter, width, self.notes.glyphs)])

    def _failed(self, event: Failed) -> None:
        self._end_reply()
        self._bottom.stop()
        stopped = event.kind == "interrupted"
        if stopped:
            if self.notes.look.tty and not self._bottom.redraws:
                self.notes.write("\n")  # ends the line on which the terminal echoed Ctrl-C
            says = self._prompt and self._gives_back
            self.notes.say(f"{event.message} {event.hint}" if says else event.message, "yellow")
        else:
            self.notes.error(event.message, event.hint)
        if self._wrote:
            self.notes.say("The part of the reply above is not kept.", "dim")


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"


def _call(name: str, arguments: str) -> str:
    """Returns a tool call as one would write it in Python: `name(key="value")`."""
    try:
        given = json.loads(arguments)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return f"{one_line(name)}({one_line(arguments)})"
    pairs = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in given.items())
    return f"{one_line(name)}({one_line(', '.join(pairs))})"
