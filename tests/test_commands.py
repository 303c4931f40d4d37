"""The slash commands as functions of a shell: what they print, at which widths, and what they change."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, redirect_stderr
from pathlib import Path
from typing import Any, cast

import pytest

from agent import ToolTrace, TurnTrace
from brain import BrainError, ChatModel
from config import Settings, load_settings
from history import ChatHistory, HistoryError
from memory import FactError
from terminal.commands import all_commands, run_command
from terminal.repl import Answer
from terminal.screen import Look, Screen
from terminal.shell import Printed, Shell
from tools import Tool

Make = Callable[..., Shell]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a shell with the stand-in and a window of this width; settings by their option's name."""
    made: list[Shell] = []
    (tmp_path / "no.env").touch()

    def make(width: int = 80, **settings: object) -> Shell:
        given = {name: str(value) for name, value in {"home": tmp_path / "home", **settings}.items()}
        screen = Screen(io.StringIO(), Look(tty=True), size=lambda: (width, 24))
        made.append(Shell(load_settings(given, {}, tmp_path / "no.env"), screen, screen))
        return made[-1]

    yield make
    for each in made:
        each.close()


def said(shell: Shell, line: str) -> list[str]:
    """What a line prints."""
    stream = shell.out.stream
    assert isinstance(stream, io.StringIO)
    stream.seek(0)
    stream.truncate()
    shell.handle(line)
    return stream.getvalue().splitlines()


def overfull(shell: Shell) -> None:
    """Fill the context, then lower the budget below what is in it."""
    for number in range(4):
        shell.turn(f"number {number} " + "word " * 60)
    shell.chat.context.configure(token_budget=shell.chat.context.token_count - 20)


# ---- help -------------------------------------------------------------------------------------------------


def test_help_is_two_columns_that_line_up(make: Make) -> None:
    lines = said(make(80), "/help")
    column = next(line for line in lines if line.startswith("/quit")).index("Leave the chat.")
    starts = [line for line in lines if line.startswith("/")]
    assert len(starts) == len(all_commands())
    assert all(line[column - 2 : column] == "  " and line[column] != " " for line in starts)
    assert all(line[:column].strip() == "" for line in lines if line.startswith(" "))
    assert [line for line in lines if line.isalpha()] == [
        "conversation",
        "context",
        "memory",
        "sessions",
        "settings",
    ]


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("line", ["/help", "/help pin", "/help forget", "/context", "/stats", "/sessions"])
def test_no_line_is_wider_than_the_window(make: Make, line: str, width: int) -> None:
    shell = make(width)
    shell.turn("my name is Ada")
    assert max(map(len, said(shell, line))) <= width


def test_help_of_a_command_says_all_of_it(make: Make) -> None:
    assert " ".join(" ".join(said(make(30), "/help pin")).split()) == (
        "/pin TEXT Send a message that stays in the context, whatever is dropped around it. Pinned questions "
        "may take a quarter of the budget together, and half of what instructions, tools and facts leave of "
        "it; their answers are shortened when needed."
    )


# ---- what was typed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, each in all_commands().items() if " " not in each.usage])
def test_a_message_that_begins_like_a_command_is_not_taken_for_it(make: Make, name: str) -> None:
    """ "/quit smoking, how?" neither leaves the chat nor is lost."""
    shell = make()
    shell.turn("hello")
    answer = run_command(shell, f"/{name} smoking, how?")
    assert (answer.restore, answer.leave) == (f"/{name} smoking, how?", False)
    assert f"/{name} takes no argument." in shell.out.stream.getvalue()  # type: ignore[attr-defined]
    assert shell.chat.context.turn_count == 1


@pytest.mark.parametrize("name", sorted({*all_commands(), "nonsense"} - {"rename", "remember"}))
def test_what_is_far_too_long_is_not_all_said_again(make: Make, name: str) -> None:
    shell = make()
    long = "far_too_long_" * 2000
    for line in (f"/{name} {long}", f"/{name}{long}"):
        assert sum(map(len, said(shell, line))) < 1000


def test_a_hit_is_wrapped_between_words(make: Make) -> None:
    shell = make(30)
    shell.turn("alpha " + "bravo charlie " * 6)
    lines = said(shell, "/search bravo")
    assert lines[-1].startswith("  ")
    assert {word.strip("[]…") for line in lines[-3:] for word in line.split()} <= {
        "alpha",
        "bravo",
        "charlie",
        "",
    }


def test_arguments_complete_with_a_word_about_them(make: Make, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    shell = make()
    shell.turn("my boat")
    said(shell, "/remember home port = Bergen")
    session = shell.chat.session
    assert session is not None
    for line, choices in {
        "/resume ": [(session.id, 0, "my boat")],
        "/delete ": [(session.id, 0, "my boat")],
        "/forget h": [("home port", 1, "Bergen")],
        "/facts a": [("all", 1, "replaced values too")],
        "/tools of": [("off", 2, "")],
        "/help und": [("undo", 3, "")],
        f"/attach {tmp_path}/note": [(f"{tmp_path}/notes.md", len(f"{tmp_path}/note"), "")],
        f"/export {tmp_path}/note": [(f"{tmp_path}/notes.md", len(f"{tmp_path}/note"), "")],
        f"/import {tmp_path}/note": [(f"{tmp_path}/notes.md", len(f"{tmp_path}/note"), "")],
    }.items():
        assert [tuple(choice) for choice in shell.choices(line)] == choices, line


def test_without_a_history_there_are_no_sessions_to_complete(make: Make) -> None:
    shell = make()
    shell._keep_history = False
    assert list(shell.choices("/resume ")) == []


# ---- tables -----------------------------------------------------------------------------------------------


def test_context_in_a_narrow_window_leaves_out_what_explains(make: Make) -> None:
    lines = said(make(40), "/context")
    assert any(line.startswith("i  instructions") for line in lines)
    assert not any("SYSTEM_PROMPT" in line for line in lines)


def test_context_over_the_budget_says_so_and_shows_nothing_free(make: Make) -> None:
    shell = make()
    overfull(shell)
    lines = said(shell, "/context")
    assert "." not in lines[0]
    assert [line.split()[:2] for line in lines if "over" in line.split()] == [["!", "over"]]
    assert not any("-" in line for line in lines)


def test_tables_have_no_column_without_a_name_and_content(make: Make) -> None:
    shell = make()
    said(shell, "/remember port = Bergen")
    assert said(shell, "/facts")[0].split() == ["key", "value", "source", "confidence", "age"]
    said(shell, "/remember port = Oslo")
    assert said(shell, "/facts all")[0].split()[-1] == "state"
    assert said(shell, "/stats")[0].startswith("turns in this session")


def test_a_long_list_of_sessions_says_that_there_are_more(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from terminal.commands import sessions

    monkeypatch.setattr(sessions, "LISTED", 2)
    shell = make()
    for number in range(3):
        said(shell, "/new")
        shell.turn(f"conversation {number}")
    lines = said(shell, "/sessions")
    assert [number for number in range(3) if f"conversation {number}" in "\n".join(lines)] == [1, 2]
    assert lines[-1].startswith("These are the newest 2")


def test_the_shares_of_the_context_add_up(make: Make) -> None:
    shell = make(context_token_budget=1700)
    shell.turn("hello")
    percent = [
        int(word[:-1]) for line in said(shell, "/context") for word in line.split() if word.endswith("%")
    ]
    assert sum(percent) == 100


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        (0, "nothing was said yet"),
        (1, "the turn in the window is within the 10 to keep"),
        (2, "the 2 turns in the window are within the 10 to keep"),
    ],
)
def test_why_there_is_nothing_to_compact(make: Make, turns: int, why: str) -> None:
    shell = make()
    for number in range(turns):
        shell.turn(f"number {number}")
    assert said(shell, "/compact") == [f"Nothing to compact: {why}."]


def test_a_compaction_on_demand_is_wrapped_as_in_a_turn(make: Make) -> None:
    shell = make(40)
    overfull(shell)
    lines = said(shell, "/compact")
    assert len(lines) > 1
    assert all(line.startswith("  ") for line in lines[1:])


def test_what_is_said_to_make_the_window_smaller_does(make: Make) -> None:
    shell = make()
    for number in range(4):
        shell.turn(f"number {number}")
    said(shell, "/budget 8000 2")
    assert said(shell, "/compact")[0].startswith("compact×1 · dropped 2 turns")


def test_trace_says_in_words_that_a_call_failed(make: Make) -> None:
    shell = make()
    trace = TurnTrace((), (ToolTrace("f", "{}", "no", False, 0.1), ToolTrace("g", "{}", "yes", True, 0.2)))
    shell.chat.traces.append(trace)
    assert {"f {} (0.1 s, failed)", "g {} (0.2 s)"} <= set(said(shell, "/trace"))


# ---- the payload ------------------------------------------------------------------------------------------


def test_a_compaction_that_payload_brings_about_is_shown(make: Make) -> None:
    shell = make()
    overfull(shell)
    assert said(shell, "/payload")[0].startswith("compact×1 · dropped")


@pytest.mark.parametrize("line", ["/payload", "/compact"])
def test_instructions_over_the_budget_are_an_error_before_anything_was_said(make: Make, line: str) -> None:
    shell = make(context_token_budget=256)
    assert said(shell, line)[0].startswith("error: The next request needs")


INVISIBLE = "a\u200bb\u202ec\U000e0041\ufeffd\x9be"


def test_payload_shows_what_a_terminal_would_not(make: Make) -> None:
    """It is what is sent, so nothing may be hidden in it; and it is still JSON of that."""
    shell = make()
    shell.turn(f"echo: {INVISIBLE}")
    shown = "\n".join(said(shell, "/payload"))
    assert r"a\u200bb\u202ec\udb40\udc41\ufeffd\u009be" in shown
    assert json.loads(shown) == shell.chat.context.build_for_llm()


def test_what_is_to_be_approved_shows_what_a_terminal_would_not(make: Make) -> None:
    shell = make()

    def send(to: str) -> str:
        """Send."""
        return to

    said(shell, "/help")
    shell._approve(Tool.of(send), json.dumps({"to": INVISIBLE}))
    assert isinstance(shell.out.stream, io.StringIO)
    assert r"a\u200bb\u202ec\udb40\udc41\ufeffd\u009be" in shell.out.stream.getvalue()


# ---- taking back, asking again ----------------------------------------------------------------------------


def test_retry_asks_with_the_pin_and_the_attached_files_again(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The key is under the blue pot.\n")
    shell = make()
    said(shell, f"/attach {tmp_path / 'a.txt'}")
    said(shell, "/pin where is the key?")
    for _ in range(2):
        assert "blue pot" in "\n".join(said(shell, "/retry"))
        question = shell.chat.context.last_question
        assert question is not None
        assert (question.pinned, [name for name, _ in question.evidence]) == (True, ["a.txt"])
    assert not shell.chat.attached


def test_undo_gives_the_line_and_the_attached_files_back(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The key is under the blue pot.\n")
    shell = make()
    said(shell, f"/attach {tmp_path / 'a.txt'}")
    said(shell, "/pin where is the key?")
    shell.turn("and the lock?")
    assert run_command(shell, "/undo").restore == "and the lock?"
    assert run_command(shell, "/undo").restore == "/pin where is the key?"
    assert [name for name, _ in shell.chat.attached] == ["a.txt"]


def test_edit_keeps_the_pin(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terminal.editor.edit_text", lambda text: text + "!")
    shell = make()
    said(shell, "/pin the boat leaves at 7")
    assert run_command(shell, "/edit").restore == "/pin the boat leaves at 7!"
    assert shell.chat.context.turn_count == 0


def test_undo_counts_in_grammatical_english(make: Make) -> None:
    shell = make()
    shell.turn("one")
    shell.turn("two")
    assert said(shell, "/undo") == ["Took back the last turn; 1 is left."]


def test_what_is_taken_back_comes_back_though_its_facts_cannot_be_rewound(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = make()
    shell.turn("one")

    def fail(mark: object) -> None:
        raise FactError("The disk is full.")

    monkeypatch.setattr(shell.chat.facts, "rewind", fail)
    assert run_command(shell, "/undo").restore == "one"
    assert shell.chat.context.turn_count == 0
    assert "error: The disk is full. What the turn" in shell.out.stream.getvalue()  # type: ignore[attr-defined]


def test_ctrl_c_in_the_middle_of_an_undo_loses_no_text(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = make()
    shell.turn("one")
    monkeypatch.setattr(shell.chat.facts, "rewind", lambda mark: signal.raise_signal(signal.SIGINT))
    assert run_command(shell, "/undo").restore == "one"
    assert shell.chat.context.turn_count == 0


def test_an_undo_that_changed_nothing_is_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = make()
    shell.turn("one")

    def fail() -> None:
        raise FactError("The disk is full.")

    monkeypatch.setattr(shell.chat.context, "rollback_last_user", fail)
    assert run_command(shell, "/undo").restore == "/undo"


def test_no_editor_takes_the_lines_of_a_pipe(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terminal.editor.edit_text", lambda text: pytest.fail("it was opened"))
    shell = make()
    shell.prompt = False
    assert said(shell, "/edit")[0] == "error: There is no terminal here for an editor."


# ---- files ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there are no device files")
@pytest.mark.parametrize("name", ["/attach", "/import"])
def test_what_never_ends_is_not_read(make: Make, tmp_path: Path, name: str) -> None:
    shell = make()
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe"):
        assert "is a device or a pipe, not a file." in " ".join(said(shell, f"{name} {path}"))


@pytest.mark.parametrize("name", ["/export", "/import"])
def test_a_file_must_be_named(make: Make, name: str) -> None:
    shell = make()
    shell.turn("hello")
    assert said(shell, name)[0] == "error: There is no file name."


# ---- settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["255", "10000001", "8000 0", "8000 10001", "1e3", "-5", "8 8 8", "9" * 5000]
)
def test_a_budget_has_the_bounds_of_its_setting(make: Make, words: str) -> None:
    shell = make()
    assert said(shell, f"/budget {words}")[0].startswith("error:")
    assert (shell.chat.context.token_budget, shell.chat.context.keep_recent_turns) == (8000, 10)


def test_a_budget_is_set_with_its_turns(make: Make) -> None:
    shell = make()
    said(shell, "/budget 1,200 3")
    assert (shell.chat.context.token_budget, shell.chat.context.keep_recent_turns) == (1200, 3)


# ---- what is loaded while the prompt is there -------------------------------------------------------------


def test_a_history_that_takes_long_to_open_keeps_nobody_waiting(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toolbar says what is going on; a line that is typed meanwhile waits for it."""
    begun, may_end = threading.Event(), threading.Event()

    def slowly(settings: Settings, working: Callable[[str], AbstractContextManager[object]]) -> ChatHistory:
        with working("bringing the history up to date"):
            begun.set()
            may_end.wait()
        return ChatHistory(settings.home / "history.db")

    monkeypatch.setattr("wiring.open_history", slowly)
    shell = make()
    shell.load_ahead()
    begun.wait()
    bar = shell.toolbar()
    assert (bar.title, bar.meter.tokens) == ("bringing the history up to date…", None)
    threading.Timer(0.3, may_end.set).start()
    lines = said(shell, "hello")
    assert any(line.startswith("Hello.") for line in lines)
    assert shell.chat.history is not None
    assert shell.toolbar().title == "hello"


def test_who_leaves_before_the_first_line_leaves_a_closed_history(make: Make) -> None:
    shell = make()
    shell.load_ahead()
    shell._loaded.wait()
    assert shell._opening is not None
    assert shell._opening.done()
    shell.close()
    assert (shell.settings.home / "history.db").exists()
    assert [path.name for path in (shell.settings.home).glob("*-wal")] == []


def test_what_a_persons_own_files_print_is_said_in_its_place(make: Make, tmp_path: Path) -> None:
    """Neither in the prompt nor across the line that is redrawn, nor in a reply that is piped on."""
    (tmp_path / "own.py").write_text(
        "from tools import tool\nprint('loaded')\n@tool(needs_approval=False)\n"
        "def nap(n: int) -> str:\n    'Sleep.'\n    print('10%\\r90%\\ndone', end='')\n    return 'x'\n"
    )
    shell = make(tools_path=tmp_path / "own.py")
    assert shell.chat.notices == ["loaded"]
    with Printed(shell.notes) as printed, redirect_stderr(printed):
        shell.chat.registry.run("nap", '{"n": 1}')
    assert shell.out.stream.getvalue() == "90%\ndone\n"  # type: ignore[attr-defined]


# ---- beside the conversation ------------------------------------------------------------------------------


def test_a_request_apart_leaves_no_connection_open(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Failing:
        def __init__(self, *, model: str, **settings: object) -> None:
            self.model = model

        def chat(self, *_: object, **__: object) -> None:
            raise BrainError("server", "The server failed.")

        def close(self) -> None:
            closed.append(self.model)

    monkeypatch.setattr("wiring.Brain", Failing)
    shell = make(base_url="http://127.0.0.1:9/v1", summary_model="small")
    with pytest.raises(BrainError):
        shell.chat.ask_apart("Sum it up.", "much text", 10)
    assert closed == ["small"]


def test_an_export_that_ends_half_way_leaves_the_older_file(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a file would be neither the older conversation nor this one."""
    shell = make()
    shell.turn("hello")
    path = tmp_path / "a.md"
    path.write_text("older")
    monkeypatch.setattr(shell.notes, "ask", lambda *_: "yes")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        shown = " ".join(said(shell, f"/export {path}"))
    assert "cannot be written: No space left on device" in shown
    assert path.read_text() == "older"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.md", "home", "no.env"]
    said(shell, f"/export {path}")
    assert "hello" in path.read_text()


class Failing:
    """Fails whenever it is asked while `failing` is set; else the stand-in answers."""

    def __init__(self, brain: ChatModel, error: BaseException) -> None:
        self.brain, self.error = brain, error
        self.model, self.takes_tools, self.failing = brain.model, True, True

    def stream(self, *given: Any) -> Iterator[Any]:
        if self.failing:
            raise self.error
        yield from self.brain.stream(*given)


@pytest.mark.parametrize("error", [BrainError("server", "The server failed."), KeyboardInterrupt()])
@pytest.mark.parametrize(
    "line", ["what is 2 * 21?", "/pin what is 2 * 21?", "remember for good that my dog is Rex"]
)
def test_a_retry_that_fails_leaves_the_old_answer(make: Make, line: str, error: BaseException) -> None:
    shell = make()
    said(shell, line)
    context, agent = shell.chat.context, shell.chat.agent
    before, question = context.messages, context.last_question
    failing = Failing(agent.brain, error)
    agent.brain = cast("ChatModel", failing)
    shown = "\n".join(said(shell, "/retry"))
    assert "The old answer is back" in shown
    assert ("is not." in shown) == ("remember" in line)
    assert (context.messages, context.last_question) == (before, question)
    failing.failing = False
    said(shell, "/retry")
    assert context.turn_count == 1
    said(shell, "/undo")
    assert context.turn_count == 0


def test_a_session_that_no_request_can_sum_up_is_a_sentence(make: Make) -> None:
    shell = make(context_token_budget=400)
    said(shell, "/tools off")
    shell.turn("hello")
    shown = " ".join(said(shell, "/summarize"))
    assert "takes at least 450 tokens, and 400 are allowed" in shown
    assert "/budget" in shown


@pytest.mark.parametrize("fault", [HistoryError("The disk is full."), FactError("The facts are busy.")])
def test_a_turn_that_cannot_be_put_back_costs_no_other(
    make: Make, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = make()
    said(shell, "my name is Ada")
    said(shell, "what is 2 * 21?")
    context, agent = shell.chat.context, shell.chat.agent
    agent.brain = cast("ChatModel", Failing(agent.brain, BrainError("server", "The server failed.")))
    play = shell.turn

    def then_trouble(*given: Any, **options: Any) -> Answer:
        answer = play(*given, **options)

        def fail(*_: object, **__: object) -> None:
            raise fault

        monkeypatch.setattr(context, "append_user", fail)
        return answer

    monkeypatch.setattr(shell, "turn", then_trouble)
    answer = shell.handle("/retry")
    assert answer.restore == "what is 2 * 21?"
    assert context.turn_count == 1


def test_a_pin_that_fits_no_more_comes_back_to_the_prompt(make: Make) -> None:
    shell = make()
    said(shell, "/pin " + "word " * 60)
    context, agent = shell.chat.context, shell.chat.agent
    context.configure(token_budget=context.token_count - 60)
    agent.brain = cast("ChatModel", Failing(agent.brain, BrainError("server", "The server failed.")))
    answer = shell.handle("/retry")
    assert answer.restore.startswith("/pin word word")
    assert context.turn_count == 0


def test_what_is_attached_for_a_retry_stays_attached_when_it_fails(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The key is under the blue pot.\n")
    shell = make()
    said(shell, "where is the key?")
    said(shell, f"/attach {tmp_path / 'a.txt'}")
    agent = shell.chat.agent
    agent.brain = cast("ChatModel", Failing(agent.brain, KeyboardInterrupt()))
    shown = " ".join(said(shell, "/retry"))
    assert "The old answer is back." in shown
    assert "back in the prompt" not in shown
    assert [name for name, _ in shell.chat.attached] == ["a.txt"]
