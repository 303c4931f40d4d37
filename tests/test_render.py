"""The events of a turn as a person sees them: whole transcripts, and the screen of an emulated terminal."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Callable, Generator, Iterator

import pyte
import pytest

from agent import (
    Compacted,
    Done,
    Event,
    Failed,
    Notice,
    RequestStarted,
    ToolFinished,
    ToolStarted,
    TurnTrace,
    Working,
)
from brain import ReasoningDelta, Retrying, TextDelta
from terminal.interrupts import InterruptShield
from terminal.meter import Meter
from terminal.render import Renderer
from terminal.screen import Look, Screen, look_of, quiet_pipe
from terminal.status import Bottom
from view import Compaction

PIPE = Look()
PLAIN = Look(tty=True)
TERMINAL = Look(tty=True, style=True, color=True, cursor=True)
METER = Meter(1234, 8000, 2)
DONE = Done("", TurnTrace())
TURN: list[Event] = [
    RequestStarted(1, 1234, 8000),
    Retrying("rate limited", 2.0),
    ReasoningDelta("I wonder"),
    TextDelta("Let me "),
    TextDelta("**see**."),
    ToolStarted("c1", "calculator", '{"expression": "6*7"}'),
    ToolFinished("c1", "calculator", "42", ok=True, seconds=0.12),
    ToolStarted("c2", "lookup", "[1,"),
    ToolFinished("c2", "lookup", "bad \x1b[31mJSON\nsend an object", ok=False, seconds=0.0),
    Compacted(Compaction(3, "slide", 8, 0, 0, 5120, 10, 7950, 2431)),
    Working("summarizing"),
    Notice("The reply was cut off."),
    RequestStarted(2, 1300, 8000),
    TextDelta("It is 42."),
    DONE,
]
NOTES = """\
retrying in 2 s: rate limited
• calculator(expression="6*7") → 42 · 0.1 s
✗ lookup([1,) failed: bad JSON send an object · 0.0 s
compact×3 · dropped 8 turns (5,120 tokens) · ctx≈ 7,950 → 2,431
The reply was cut off.
"""


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Tty(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment] # StringIO has none

    def isatty(self) -> bool:
        return True


class Terminal:
    """A screen that remembers; `width` and `height` may be changed, as a person resizes a window."""

    def __init__(self, look: Look = TERMINAL, width: int = 80, height: int = 24) -> None:
        self.stream = io.StringIO()
        self.width, self.height = width, height
        self.screen = Screen(self.stream, look, size=lambda: (self.width, self.height))

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def shown(self) -> list[str]:
        """What an emulated terminal shows, scrollback first, without blank lines at the end."""
        emulator = pyte.HistoryScreen(self.width, self.height, history=10_000)
        emulator.set_mode(pyte.modes.LNM)  # as the tty does: newline also returns to the first column
        pyte.Stream(emulator).feed(self.text)
        above = ["".join(row[x].data for x in range(self.width)).rstrip() for row in emulator.history.top]
        lines = [*above, *(row.rstrip() for row in emulator.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines


def renderer(out: Terminal, notes: Terminal | None = None, **options: object) -> Renderer:
    options = {"meter": lambda: METER, "ticking": False, "clock": Clock()} | options
    return Renderer(out.screen, notes and notes.screen, **options)  # type: ignore[arg-type] # a test's options


def play(events: list[Event], out: Terminal, notes: Terminal | None = None, **options: object) -> Event:
    return renderer(out, notes, **options).play(iter(events))


# -- transcripts


def test_one_shot_puts_the_reply_on_stdout_and_everything_else_on_stderr() -> None:
    """No ANSI on either: both are pipes here."""
    out, notes = Terminal(PIPE), Terminal(PIPE)
    assert play(TURN, out, notes, prompt=False) == DONE
    assert out.text == "Let me **see**.\nIt is 42.\n"
    assert notes.text == NOTES + "ctx≈ 1,234/8,000 (15%) · compact×2\n"


def test_a_terminal_shows_each_thing_once() -> None:
    out = Terminal()
    play(TURN, out, toolbar=True)
    head, tools = NOTES.split("\n", 1)
    assert "\n".join(out.shown()) == f"{head}\nLet me see.\n{tools}It is 42."


def test_plain_is_lines_only() -> None:
    """For screen readers: a running tool is announced, nothing is redrawn, no sequence is written."""
    out = Terminal(PLAIN)
    play(TURN, out)
    assert "\x1b" not in out.text
    assert "\r" not in out.text
    assert 'tool calculator(expression="6*7")\n• calculator' in out.text
    assert out.text.endswith("It is 42.\nctx≈ 1,234/8,000 (15%) · compact×2\n")


def test_plain_hands_out_sentences() -> None:
    """Half a word read aloud is no help; a sentence is as soon as it is complete."""
    out = Terminal(PLAIN)
    showing = renderer(out)
    showing._show(TextDelta("One sentence. And ha"))
    assert out.text == "One sentence. "
    showing._show(TextDelta("lf of one"))
    showing._show(DONE)
    assert out.text.startswith("One sentence. And half of one\n")


def test_a_narrow_window_wraps_and_loses_nothing() -> None:
    out = Terminal(width=20)
    play(TURN, out, toolbar=True)
    assert max(map(len, out.shown())) <= 20
    for word in ("calculator(", "42", "failed:", "2,431", "dropped 8"):
        assert word in " ".join(" ".join(out.shown()).split()), word


@pytest.mark.parametrize("look", [PIPE, PLAIN, TERMINAL], ids=["pipe", "plain", "terminal"])
def test_foreign_text_is_harmless(look: Look) -> None:
    """Whatever part of an event it arrives in, even cut in two."""
    evil = "\x1b]0;owned\x07\x1b[2J\u202e[bold]:smile:\x9b1m"
    events: list[Event] = [
        TextDelta("a\x1b"), TextDelta("[31mb\x1b]0;ow"), TextDelta("ned\x07c"), ReasoningDelta(evil),
        ToolStarted("1", evil, f'{{"x": "{evil}"}}'), ToolFinished("1", evil, evil, ok=True, seconds=0),
        Retrying(evil, 1), Notice(evil), Working(evil), Failed("server", evil, evil, evil),
    ]  # fmt: skip
    out = Terminal(look)
    play(events, out, reasoning=True)
    assert "abc" in out.text
    assert "[bold]:smile:" in out.text
    for trick in ("owned", "\x1b[2J", "\x1b[31mb", "\u202e", "\x9b", "\x07"):
        assert trick not in out.text


# -- failures


def test_a_failure_says_what_to_do_and_that_the_part_above_is_not_kept() -> None:
    out = Terminal(PIPE)
    failed = Failed("timeout", "No answer within 60 s.", "Raise OPENAI_TIMEOUT.", "q")
    assert play([TextDelta("Half"), failed], out) == failed
    assert out.text.splitlines() == [
        "Half",
        "error: No answer within 60 s.",
        "  Raise OPENAI_TIMEOUT.",
        "The part of the reply above is not kept.",
    ]


def test_stopping_is_no_error() -> None:
    out = Terminal(PIPE)
    play([Failed("interrupted", "Stopped.", "The question is back in the prompt.", "q")], out)
    assert out.text == "Stopped. The question is back in the prompt.\n"
    one_shot = Terminal(PIPE)
    play(
        [Failed("interrupted", "Stopped.", "The question is back in the prompt.", "q")],
        one_shot,
        prompt=False,
    )
    assert one_shot.text == "Stopped.\n"


def interrupted_while_drawing(out: Terminal) -> Generator[Event, None, None]:
    """A turn whose text is drawn when Ctrl-C comes."""
    try:
        write = out.screen.write

        def stop(text: str) -> None:
            out.screen.write = write  # type: ignore[method-assign] # once
            signal.raise_signal(signal.SIGINT)
            write(text)

        out.screen.write = stop  # type: ignore[method-assign] # Ctrl-C arrives in the middle of a write
        yield TextDelta("one\ntwo\n")
    except KeyboardInterrupt:
        yield Failed("interrupted", "Stopped.", "", "q")


def test_ctrl_c_while_drawing_finishes_the_write_and_reaches_the_turn() -> None:
    out = Terminal()
    last = renderer(out).play(interrupted_while_drawing(out))
    assert isinstance(last, Failed)
    assert out.shown() == ["one", "two", "Stopped.", "The part of the reply above is not kept."]
    assert out.text.count("\x1b[?25l") >= 1
    assert out.text.rindex("\x1b[?25h") > out.text.rindex("\x1b[?25l")  # the cursor is seen again


def test_a_turn_that_never_ends_properly_is_a_bug_and_says_so() -> None:
    with pytest.raises(RuntimeError, match="without Done or Failed"):
        play([TextDelta("x")], Terminal(PIPE))


def test_an_error_in_the_turn_leaves_a_clean_screen() -> None:
    def broken() -> Iterator[Event]:
        yield TextDelta("text")
        raise ZeroDivisionError

    out = Terminal()
    with pytest.raises(ZeroDivisionError):
        renderer(out).play(broken())
    assert out.shown() == ["text"]


# -- the bottom rows


def at_each_step(events: list[Event], look: Callable[[], object], showing: Renderer) -> list[object]:
    seen = []

    def watched() -> Iterator[Event]:
        for event in events:
            yield event
            seen.append(look())

    showing.play(watched())
    return seen


def test_the_status_line_follows_the_turn() -> None:
    clock, out = Clock(), Terminal()
    showing = renderer(out, clock=clock, toolbar=True)

    def status() -> str:
        clock.now += 3
        showing._bottom.tick()
        return out.shown()[-1][2:].split(" · ctx")[0]

    events: list[Event] = [
        RequestStarted(1, 1, 8000), ReasoningDelta("hm"), Retrying("busy", 5.0), TextDelta("hi"),
        ToolStarted("1", "f", '{"a": 1}'), ToolFinished("1", "f", "2", ok=True, seconds=3),
        Working("summarizing"),
    ]  # fmt: skip
    assert at_each_step([*events, DONE], status, showing) == [
        "waiting 3 s · Ctrl-C to stop",
        "thinking… 6 s · Ctrl-C to stop",
        "retrying in 2 s · 9 s · Ctrl-C to stop",
        "12 s · Ctrl-C to stop",
        "f(a=1) 3 s · Ctrl-C to stop",
        "3 s · Ctrl-C to stop",
        "summarizing… 3 s · Ctrl-C to stop",
    ]
    assert out.shown() == [
        "thought for 6 s · /reasoning on shows it",
        "retrying in 5 s: busy",
        "hi",
        "• f(a=1) → 2 · 3.0 s",
    ]


def test_the_meter_moves_while_tools_run() -> None:
    meters = [Meter(100 * n, 8000, n) for n in range(20)]
    out = Terminal()
    events: list[Event] = [
        RequestStarted(1, 1, 8000),
        ToolStarted("1", "f", "{}"),
        ToolFinished("1", "f", "", ok=True, seconds=0),
        DONE,
    ]
    showing = renderer(out, meter=lambda: meters.pop(0))
    seen = at_each_step(events, lambda: out.shown()[-1].split("ctx≈ ")[1], showing)
    assert seen == ["0/8,000 (0%) · compact×0", "100/8,000 (1%) · compact×1", "200/8,000 (2%) · compact×2"]


def test_the_unfinished_tail_is_seen_and_then_printed_once() -> None:
    out = Terminal()
    events: list[Event] = [
        RequestStarted(1, 1, 8000),
        TextDelta("an unfinished **li"),
        TextDelta("ne**"),
        DONE,
    ]
    clock = Clock()
    showing = renderer(out, clock=clock, toolbar=True)

    def screen() -> list[str]:
        clock.now += 1
        showing._bottom.tick()
        return out.shown()[:-1]

    assert at_each_step(events, screen, showing) == [[], ["an unfinished **li"], ["an unfinished line"]]
    assert out.shown() == ["an unfinished line"]


TALL = "".join(f"{n}. item {n} end\n" for n in range(1, 301)) + "\n```py\n" + "x = 1\n" * 150 + "```\n"


@pytest.mark.parametrize(
    "sizes", [[(80, 24)], [(80, 24), (30, 10), (50, 30), (19, 24)]], ids=["80x24", "resized"]
)
def test_a_reply_taller_than_the_screen_stands_in_the_scrollback_once(sizes: list[tuple[int, int]]) -> None:
    """300 items and 150 lines of code, in an emulated terminal that does not re-wrap when it is resized."""
    clock, out = Clock(), Terminal()
    emulator = pyte.HistoryScreen(80, 24, history=10_000)
    emulator.set_mode(pyte.modes.LNM)
    stream, fed = pyte.Stream(emulator), 0

    def turn() -> Iterator[Event]:
        nonlocal fed
        yield RequestStarted(1, 1, 8000)
        for number, start in enumerate(range(0, len(TALL), 11)):
            clock.now += 0.05
            yield TextDelta(TALL[start : start + 11])
            stream.feed(out.text[fed:])
            fed = len(out.text)
            out.width, out.height = sizes[number // 100 % len(sizes)]
            if (emulator.columns, emulator.lines) != (out.width, out.height):
                emulator.resize(columns=out.width)  # not its rows: pyte would forget what a terminal keeps
        yield DONE

    renderer(out, clock=clock, toolbar=True).play(turn())
    stream.feed(out.text[fed:])
    rows = ["".join(row[x].data for x in sorted(row)).rstrip() for row in emulator.history.top]
    rows += [row.rstrip() for row in emulator.display]
    assert [row for row in rows if row.endswith("end")] == [f"{n}. item {n} end" for n in range(1, 301)]
    assert rows.count("x = 1") == 150
    assert not [row for row in rows if "Ctrl-C" in row]


def test_the_bottom_rows_never_fill_the_window() -> None:
    """However low it is: what is taller than the screen could not be taken away again."""
    for height in (1, 2, 3, 5):
        out = Terminal(width=30, height=height)
        play([RequestStarted(1, 1, 8000), TextDelta("line one\nline two\nand *more text " * 9), DONE], out)
        assert sum("line one" in line for line in out.shown()) == 9


def test_where_nothing_can_be_redrawn_a_line_says_now_and_then_that_it_waits() -> None:
    clock, out = Clock(), Terminal(PLAIN)
    showing = renderer(out, clock=clock)
    events: list[Event] = [RequestStarted(1, 1, 8000), TextDelta("hi"), DONE]

    def wait() -> None:
        for _ in range(25):
            clock.now += 1
            showing._bottom.tick()

    at_each_step(events, wait, showing)
    waits = [line for line in out.text.splitlines() if "Ctrl-C to stop" in line]
    assert [line.split(" · ")[0] for line in waits] == ["waiting 10 s", "waiting 20 s"]  # not during the text


def test_a_pipe_that_ends_on_the_terminal_is_not_drawn_over() -> None:
    """`mini-agent question | cat`: once text flows, stderr draws no status line around it."""
    out, notes = Terminal(PIPE), Terminal()
    seen = at_each_step(
        [RequestStarted(1, 1, 8000), TextDelta("Hello "), Working("summarizing"), DONE],
        notes.shown,
        renderer(out, notes, prompt=False),
    )
    assert "waiting" in seen[0][-1]
    assert seen[1:] == [[], []]


def test_notes_on_stderr_go_above_the_rows_of_the_same_terminal() -> None:
    out = Terminal()
    notes = Screen(out.stream, TERMINAL, size=lambda: (80, 24))  # another stream, one terminal
    Renderer(out.screen, notes, meter=lambda: METER, ticking=False, clock=Clock()).play(iter(TURN))
    assert NOTES.splitlines()[1:] == [line for line in out.shown() if line in NOTES.splitlines()[1:]]
    assert "Let me see." in out.shown()
    assert not [line for line in out.shown() if "Ctrl-C" in line]


def test_a_question_in_the_middle_takes_the_rows_away(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    typed, answers = ["perhaps\n", "AL\n"], []

    class Keys(Tty):
        def readline(self, size: int = -1) -> str:
            out.stream.write(typed[0])  # the terminal's echo
            return typed.pop(0)

    monkeypatch.setattr("sys.stdin", Keys())

    def turn() -> Iterator[Event]:
        yield RequestStarted(1, 1, 8000)
        answers.append(out.screen.ask("Remember?", ["yes", "no", "always"]))
        yield DONE

    renderer(out, toolbar=True).play(turn())
    assert answers == ["always"]
    assert out.shown() == ["Remember? [yes/no/always] perhaps", "Remember? [yes/no/always] AL"]


def test_nobody_can_be_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    assert Terminal().screen.ask("Run it?", ["yes", "no"]) == ""
    monkeypatch.setattr("sys.stdin", None)
    assert Terminal().screen.ask("Run it?", ["yes", "no"]) == ""


def test_a_command_can_show_that_it_takes_a_while() -> None:
    out = Terminal()
    far = ["searching"]
    with out.screen.progress(lambda: far[0]):
        out.screen.print("found one")
        assert "searching 0 s" in out.shown()[-1]
        far[0] = "searching: message 500 of 1,000"
        assert isinstance(out.screen.bottom, Bottom)
        out.screen.bottom.tick()
        assert "searching: message 500 of 1,000 0 s" in out.shown()[-1]
    assert out.shown() == ["found one"]


def test_what_is_over_at_once_does_not_flash() -> None:
    """A summary is looked after in every turn, and nearly always there is nothing to do."""
    out = Terminal()
    with out.screen.progress("searching"):
        pass
    assert out.text == ""
    play([RequestStarted(1, 1, 8000), TextDelta("hi"), Working("summarizing"), DONE], out)
    assert "summarizing" not in out.text


def test_a_closed_output_ends_the_ticker_quietly() -> None:
    out = Terminal()
    bottom = Bottom(out.screen, ticking=False)
    bottom.start(lambda seconds, width: [])
    out.stream.close()
    bottom._stop.wait = lambda timeout: False  # type: ignore[method-assign] # tick at once
    bottom._run()  # returns instead of raising


def test_reasoning_is_shown_only_when_asked() -> None:
    events: list[Event] = [ReasoningDelta("Because so."), TextDelta("Yes."), DONE]
    hidden, shown = Terminal(), Terminal()
    play(events, hidden, toolbar=True)
    play(events, shown, toolbar=True, reasoning=True)
    assert hidden.shown() == ["Yes."]
    assert shown.shown() == ["Because so.", "thought for less than 1 s", "", "Yes."]
    assert "\x1b[2mBecause so.\x1b[0m" in shown.text  # dimmed
    out, notes = Terminal(PIPE), Terminal(PIPE)
    play(events, out, notes, reasoning=True)
    assert out.text == "Yes.\n"
    assert notes.text.startswith("thinking: Because so.\nthought for less than 1 s\n\n")


def test_reasoning_that_is_not_shown_is_one_line_and_can_be_unfolded() -> None:
    """How to see it is said once, and only where it can be typed."""
    clock, out = Clock(), Terminal()

    def thinking() -> Iterator[Event]:
        yield RequestStarted(1, 1, 8000)
        for piece in ("Because ", "*so*."):
            clock.now += 6
            yield ReasoningDelta(piece)
        yield TextDelta("Yes.")
        yield DONE

    showing = renderer(out, toolbar=True, clock=clock)
    showing.play(thinking())
    showing.play(thinking())
    assert out.shown() == ["thought for 12 s · /reasoning on shows it", "Yes.", "thought for 12 s", "Yes."]
    showing.unfold()
    showing.unfold()
    assert out.shown()[4:] == ["Because so."]
    reply, notes = Terminal(PIPE), Terminal(PIPE)
    renderer(reply, notes, toolbar=True, clock=clock, prompt=False).play(thinking())
    assert (reply.text, notes.text) == ("Yes.\n", "thought for 12 s\n")


def test_the_hint_about_a_crowded_budget_comes_once() -> None:
    crowded = Compacted(Compaction(1, "slide", 1, 0, 0, 99, 9, 8100, 5900))
    out = Terminal(PIPE)
    play([crowded, crowded, DONE], out)
    assert out.text.count("/budget raises it") == 1
    roomy = Terminal(PIPE)
    play([Compacted(Compaction(1, "slide", 9, 0, 0, 99, 9, 8100, 2000)), DONE], roomy)
    assert "/budget" not in roomy.text


# -- screens


@pytest.mark.parametrize(
    ("environ", "plain", "look"),
    [
        pytest.param({"TERM": "xterm"}, False, TERMINAL, id="a terminal"),
        pytest.param(
            {"TERM": "xterm", "NO_COLOR": "1"}, False, Look(tty=True, style=True, cursor=True), id="NO_COLOR"
        ),
        pytest.param({"TERM": "xterm", "NO_COLOR": ""}, False, TERMINAL, id="NO_COLOR empty"),
        pytest.param({"TERM": "dumb"}, False, PLAIN, id="dumb"),
        pytest.param({}, False, PLAIN, id="no TERM"),
        pytest.param({"TERM": "xterm"}, True, PLAIN, id="--plain"),
        pytest.param({"TERM": "dumb", "LC_ALL": "C"}, False, Look(tty=True, unicode=False), id="C"),
        pytest.param(
            {"TERM": "dumb", "LANG": "C", "LC_CTYPE": "C.UTF-8"},
            False,
            Look(tty=True, unicode=False),
            id="C, coerced",
        ),
        pytest.param(
            {"TERM": "dumb", "LANG": "C", "LC_CTYPE": "de_DE.UTF-8"},
            False,
            PLAIN,
            id="C but UTF-8 characters",
        ),
        pytest.param({"TERM": "dumb", "LANG": "de_DE"}, False, Look(tty=True, unicode=False), id="Latin-1"),
        pytest.param({"TERM": "dumb", "LANG": "de_DE.utf8"}, False, PLAIN, id="UTF-8"),
    ],
)
def test_what_a_terminal_can_do(environ: dict[str, str], plain: bool, look: Look) -> None:
    assert look_of(Tty(), environ, plain=plain) == look


def test_a_pipe_and_a_closed_stream_are_no_terminals() -> None:
    assert look_of(io.StringIO(), {"TERM": "xterm"}) == PIPE
    closed = Tty()
    closed.close()
    assert not Screen(closed, PIPE).look.tty


def test_an_encoding_that_lacks_characters_gets_question_marks() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1", newline="\n")
    look = look_of(stream, {})
    Screen(stream, look).print("naïve 漢字 ≈")
    assert not look.unicode
    assert raw.getvalue() == "naïve ?? ?\n".encode("latin-1")


def test_typographic_signs_have_a_plain_form_where_only_ascii_is_shown() -> None:
    out = Terminal(Look(unicode=False))
    out.screen.print("“turns 1–3” … that’s all")
    assert out.text == '"turns 1-3" ... that\'s all\n'


def test_print_keeps_what_say_wraps() -> None:
    out = Terminal(width=12)
    out.screen.print('{"a": "long line"}')
    out.screen.say("a few words here")
    assert out.text == '{"a": "long line"}\na few words\nhere\n'


def test_a_table_fits_and_keeps_its_words() -> None:
    out = Terminal(PLAIN, width=24)
    out.screen.table(["part", "tokens"], [["window", "1,234"], ["漢字 title with words", "5"]], align="lr")
    assert out.text.splitlines() == [
        "part              tokens",
        "────────────────  ──────",
        "window             1,234",
        "漢字 title with        5",
        "words",
    ]


def test_columns_that_only_explain_go_first() -> None:
    out = Terminal(PLAIN, width=16)
    out.screen.table(["part", "tokens", "why"], [["window", "12", "explanation"]], align="lr", spare=1)
    assert out.text == "part    tokens\n──────  ──────\nwindow      12\n"


def test_a_list_of_terms_is_a_table_without_a_head() -> None:
    rows = [["/budget N", "Set the budget."], ["/quit", "Leave."]]
    wide, narrow = Terminal(PLAIN, width=24), Terminal(PLAIN, width=12)
    for each in (wide, narrow):
        each.screen.table([], rows)
    assert wide.text == "/budget N  Set the\n           budget.\n/quit      Leave.\n"
    assert narrow.text == "/budget N\n  Set the\n  budget.\n/quit\n  Leave.\n"
    wide.screen.table([], [])


def test_one_blank_line_stands_between_what_belongs_to_different_messages() -> None:
    out = Terminal(PLAIN)
    for text in ("one", "", "two\n"):
        out.screen.gap()
        out.screen.print(text)
    out.screen.gap()
    out.screen.flow("three. ")
    out.screen.gap()
    assert out.text == "one\n\n\ntwo\n\nthree. \n"


def test_a_table_too_wide_for_the_window_is_stacked() -> None:
    out = Terminal(PLAIN, width=12)
    out.screen.table(["part", "tokens"], [["instructions", "1"], ["w", "2"]])
    assert out.text == "part:\n  instructions\ntokens: 1\n\npart: w\ntokens: 2\n"


def test_markdown_of_a_command() -> None:
    out, pipe = Terminal(), Terminal(PIPE)
    for each in (out, pipe):
        each.screen.markdown("# Help\n- **one**\n")
    assert out.shown() == ["Help", "• one"]
    assert pipe.text == "# Help\n- **one**\n"


def test_errors_say_so_in_words() -> None:
    out = Terminal(PIPE)
    out.screen.error("No such \x1b[31msession.", "/sessions lists them.")
    assert out.text == "error: No such session.\n  /sessions lists them.\n"


def test_a_closed_pipe_ends_with_the_code_of_sigpipe() -> None:
    def broken() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(SystemExit) as ended, quiet_pipe():
        broken()
    assert ended.value.code == 141
    with pytest.raises(PermissionError), quiet_pipe():
        raise PermissionError(13, "no")


# -- Ctrl-C


def test_a_shield_delivers_ctrl_c_when_it_is_left() -> None:
    steps = []
    shield = InterruptShield()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - what runs before it is the point
        with shield():
            with shield():
                signal.raise_signal(signal.SIGINT)
                steps.append("inner")
            steps.append("outer")
        steps.append("never")
    assert steps == ["inner", "outer"]
    with shield():
        steps.append("and is ready again")


def test_a_shield_gives_ctrl_c_back_to_whoever_had_it() -> None:
    heard = []
    previous = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with InterruptShield():
            signal.raise_signal(signal.SIGINT)
            assert not heard
        assert heard == [1]
    finally:
        signal.signal(signal.SIGINT, previous)


def test_a_shield_in_another_thread_does_nothing() -> None:
    shield, done = InterruptShield(), []

    def work() -> None:
        with shield():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
