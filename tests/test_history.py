"""The log on disk: what is stored comes back, in order, undone means undone, and erased means gone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from histories import DAY, NOW, assistant, call, connection, content, files_with, result, sql, talk, user
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import export
from history import UNDONE_DAYS, ChatHistory, HistoryError
from session import clean_title
from storage import Database, FileLock, locks
from storage.database import CHECKPOINT_ROWS

ROOT = Path(__file__).parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home with a space, 家" / "history.db"


@pytest.fixture
def history(path: Path) -> Iterator[ChatHistory]:
    with ChatHistory(path) as opened:
        yield opened


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        user("plain"),
        user("", pinned=True, nonce="x1", evidence=[["notes.md", "line\nline"], ["b", ""]]),
        user("emoji 🙂, 你好, NUL \0 and a quote '"),
        assistant(None, tool_calls=[call("c1"), call("c2")]),
        assistant("text", usage={"prompt_tokens": 1, "completion_tokens": 2}, reasoning="why"),
        {"role": "assistant", "tool_calls": [call("c1")]},
        {"role": "user", "content": [{"type": "text", "text": "parts"}]},
        result("c1", "3"),
    ],
)
def test_a_message_comes_back_equal(path: Path, message: dict[str, Any]) -> None:
    """Also after the file was closed: what a message has, and what it has not."""
    with ChatHistory(path) as history:
        session = history.new_session()
        session.open_turn(1, message)
    with ChatHistory(path) as history:
        assert content(history.open_session(session.id)) == [(1, message)]


def test_rows_are_in_the_order_of_their_ids_whatever_the_clock_does(path: Path) -> None:
    times = iter([NOW, NOW - 50, NOW - 50, NOW - 50, NOW - 99])
    last = NOW
    with ChatHistory(path, clock=lambda: next(times, last)) as history:
        session = history.new_session()
        session.open_turn(1, user("a"))
        for text in "bcd":
            session.append(1, assistant(text))
        assert [message["content"] for _, message in content(session)] == ["a", "b", "c", "d"]


def test_messages_after_gives_each_row_once_and_misses_none(history: ChatHistory) -> None:
    """Also when the last row was deleted from outside, and when a turn was taken back and asked anew."""
    session = history.new_session()
    ids = [
        session.open_turn(1, user("1")),
        session.append(1, assistant("2")),
        session.open_turn(2, user("3")),
    ]
    sql(history._database.path, "DELETE FROM messages WHERE id = ?", ids[2])
    new = session.open_turn(2, user("4"))
    assert new > ids[2]
    assert session.messages_after(ids[2]) == [(new, user("4"))]
    session.undo(2)
    session.undo(1)
    again = session.open_turn(1, user("5"))  # a lower turn than a row that was already seen
    assert session.messages_after(new) == [(again, user("5"))]


def test_a_session_reads_its_own_rows_only(history: ChatHistory) -> None:
    one, two = history.new_session(), history.new_session()
    talk(one, 2, "one")
    talk(two, 1, "two")
    talk(one, 1, "one")
    assert {message["content"] for _, message in content(two)} == {"two", "answer 1"}
    assert [row["content"] for _, row in one.messages_after(0)][::2] == ["one"] * 3
    one.undo(1)
    assert two.last_turn() == 1


def test_a_crash_between_calls_and_results_leaves_a_turn_that_is_replaced(path: Path) -> None:
    """The rows of the unanswered turn are there for editing; asking again takes them back in one step."""
    with ChatHistory(path) as history:
        session = history.new_session()
        talk(session, 1)
        session.open_turn(2, user("weather?"), {"view": "two"})
        session.append(2, assistant(None, tool_calls=[call("c1"), call("c2")]))
        session.append(2, result("c1", "rain"))
    with ChatHistory(path) as history:
        session = history.open_session(session.id)
        assert session.turns(2, 2)[0][1][0] == user("weather?")
        session.open_turn(2, user("weather in Bonn?"), {"correction": "1"})
        assert session.turns(2, 2) == [(2, [user("weather in Bonn?")])]
        assert session.parts() == {"view": '{"first": 1}', "correction": "1"}


# --- the projection -------------------------------------------------------------------------------


def test_parts_are_the_newest_of_each_name_and_undo_brings_the_older_back(path: Path) -> None:
    with ChatHistory(path) as history:
        session = history.new_session()
        session.open_turn(1, user("1"), {"view": "v1", "summary": "s1"})
        session.open_turn(2, user("2"), {"view": "v2"})
        session.project(2, {"view": "v2b"}, {"compaction": "first"})
        session.project(2, {}, {"compaction": "second"})
        session.open_turn(3, user("3"), {"summary": "s3"})
        session.project(3, {}, {"compaction": "third", "other": "x"})
    with ChatHistory(path) as history:
        session = history.open_session(session.id)
        assert session.parts() == {"view": "v2b", "summary": "s3"}
        assert session.part_log("compaction") == ["first", "second", "third"]
        session.undo(3)
        assert session.parts() == {"view": "v2b", "summary": "s1"}
        assert session.part_log("compaction") == ["first", "second"]
        session.undo(2)
        assert session.parts() == {"view": "v1", "summary": "s1"}
        assert session.part_log("compaction") == []


def test_a_part_that_did_not_change_is_not_written_again(path: Path) -> None:
    """A summary of 6 kB beside every message would make appends slow and the file large."""
    with ChatHistory(path) as history:
        session = history.new_session()
        for turn in range(1, 6):
            session.open_turn(turn, user("q"), {"summary": "long", "view": str(turn)})
            session.project(turn, {"summary": "long"})
    with ChatHistory(path) as history:
        session = history.open_session(session.id)
        session.project(6, {"summary": "long"})
    assert sql(path, "SELECT turn FROM parts WHERE name = 'summary'") == [(1,)]


def test_a_new_turn_takes_back_whatever_stands_above_it(history: ChatHistory) -> None:
    """Also what was stored without the opening of its turn."""
    session = history.new_session()
    session.open_turn(1, user("1"))
    session.project(3, {"view": "of turn 3"}, {"compaction": "of turn 3"})
    session.append(4, assistant("of turn 4"))
    session.open_turn(2, user("2"))
    assert session.parts() == {}
    assert session.part_log("compaction") == []
    assert content(session) == [(1, user("1")), (2, user("2"))]


def test_a_part_changed_and_changed_back_within_a_turn_is_the_last_one(history: ChatHistory) -> None:
    session = history.new_session()
    session.open_turn(1, user("1"), {"view": "a"})
    for value in ("b", "a", "b", "a"):
        session.open_turn(2, user("2")) if value == "b" else None
        session.project(2, {"view": value})
    session._newest = None  # white box: ask the file, not what the session remembers
    assert session.parts() == {"view": "a"}


def test_resuming_reads_the_window_and_not_the_conversation(path: Path) -> None:
    with ChatHistory(path, synchronous="NORMAL") as history:
        session = history.new_session()
        talk(session, 300)
        session.project(7, {"summary": "s"})
    with ChatHistory(path) as history:
        session = history.open_session(session.id)
        last = session.last_turn()
        assert len(session.turns(last - 9, last)) == 10
        assert session.parts() == {"summary": "s", "view": '{"first": 300}'}
        assert session.rows_read == 20 + 2
        steps = [0]
        connection(history).set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 1)
        session._newest = None  # white box: read again, and count what the database does for it
        session.parts()
        assert steps[0] < 300  # the newest of each part is found without a look at each turn


# --- undo -----------------------------------------------------------------------------------------


def test_an_undone_turn_does_not_come_back(path: Path) -> None:
    with ChatHistory(path) as history:
        session = history.new_session()
        talk(session, 3)
        session.undo(2)
        assert session.last_turn() == 1
    with ChatHistory(path) as history:
        session = history.open_session(session.id)
        assert [turn for turn, _ in session.turns(1, 99)] == [1]
        assert len(session.messages_after(0)) == 2
        assert history.sessions()[0].messages == 2


def test_undone_text_is_erased_after_its_days_and_not_before(path: Path) -> None:
    with ChatHistory(path, clock=lambda: NOW) as history:
        session = history.new_session()
        talk(session, 1, "keep-this-word")
        session.open_turn(2, user("undone-secret-word"))
        assert history.search("undone-secret-word")  # it is in the index now
        session.undo(2)
    for days, there in ((UNDONE_DAYS - 1, ["history.db"]), (UNDONE_DAYS + 1, [])):
        with ChatHistory(path, clock=lambda days=days: NOW + days * DAY) as history:
            assert [hit.turn for hit in history.search("keep-this-word")] == [1]
        assert files_with(path.parent, "undone-secret-word") == there


# --- transactions ---------------------------------------------------------------------------------


def test_a_write_that_is_interrupted_changes_nothing_and_the_next_one_works(
    history: ChatHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the message and its parts."""
    session = history.new_session()
    talk(session, 1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session, "_store_parts", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.open_turn(2, user("lost"), {"view": "x"})
    assert session.last_turn() == 1
    session.open_turn(2, user("said"), {"view": "x"})
    assert session.parts() == {"view": "x"}


def test_an_interrupt_just_after_the_commit_is_found_out_about(
    history: ChatHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is there although the caller was told otherwise: undo takes it back, and nothing is doubled."""
    session = history.new_session()
    real = Database.write

    def interrupted(self: Database, work: Any) -> Any:
        real(self, work)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.open_turn(1, user("first"), {"view": "1"})
    session.open_turn(1, user("second"), {"view": "1"})
    assert content(session) == [(1, user("second"))]
    assert session.parts() == {"view": "1"}
    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.project(1, {"view": "2"})
    session.project(1, {"view": "1"})
    assert sql(history._database.path, "SELECT value FROM parts") == [("1",)]


def test_the_write_ahead_file_does_not_grow_without_end(path: Path) -> None:
    with ChatHistory(path, synchronous="NORMAL") as history:
        session = history.new_session()
        for turn in range(1, 2 * CHECKPOINT_ROWS):
            session.open_turn(turn, user("x" * 50))
        assert Path(f"{path}-wal").stat().st_size < 16_000_000


def test_a_closed_session_and_a_closed_history_say_so(path: Path) -> None:
    history = ChatHistory(path)
    session = history.new_session()
    session.close()
    with pytest.raises(HistoryError, match="is closed: open it again"):
        session.open_turn(1, user("x"))
    history.close()
    history.close()
    with pytest.raises(HistoryError, match="is closed"):
        history.sessions()


def test_an_unknown_synchronous_mode_is_refused(path: Path) -> None:
    with pytest.raises(HistoryError, match="FULL, EXTRA or NORMAL"):
        ChatHistory(path, synchronous="OFF")
    with ChatHistory(path) as history:
        assert connection(history).execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection(history).execute("PRAGMA journal_mode").fetchone() == ("wal",)


# --- sessions -------------------------------------------------------------------------------------


def test_sessions_are_listed_with_the_newest_message_first(history: ChatHistory) -> None:
    one, two, empty = history.new_session(), history.new_session(), history.new_session("named")
    talk(one, 1, "first question")
    talk(two, 2, "second question")
    talk(one, 1, "later")
    undone = history.new_session()
    talk(undone, 1)
    undone.undo(1)
    listed = history.sessions()
    assert [(info.id, info.title, info.turns, info.messages) for info in listed] == [
        (one.id, "first question", 2, 4),
        (two.id, "second question", 2, 4),
    ]
    assert [info.id for info in history.sessions(limit=1)] == [one.id]
    assert listed[0].updated_at >= listed[0].created_at
    assert listed[0].created_at.tzinfo is not None
    assert empty.title == "named"


def test_a_session_is_found_by_the_first_characters_of_its_id(history: ChatHistory) -> None:
    ids = ["aaaa0001", "aaaa0002", "bbbb0001"]
    for number, session_id in enumerate(ids, 1):
        sql(history._database.path, "INSERT INTO sessions VALUES (?, ?, 't', 0)", number, session_id)
    assert history.open_session("BB ").id == "bbbb0001"
    assert history.open_session("aaaa0001").id == "aaaa0001"
    for prefix, sentence in (
        ("aaaa", "Several sessions begin with 'aaaa'"),
        ("c", "There is no session 'c'"),
        ("", "There is no session ''"),
        ("%", "There is no session"),
        ("a\udce4", "There is no session"),
    ):
        with pytest.raises(HistoryError, match=sentence):
            history.open_session(prefix)


def test_one_terminal_owns_a_session(path: Path) -> None:
    with ChatHistory(path) as first, ChatHistory(path) as second:
        session = first.new_session()
        talk(session, 1)
        for attempt in (second.open_session, second.delete_session):
            with pytest.raises(HistoryError, match=f"Session {session.id} is open in another terminal"):
                attempt(session.id[:6])
        with pytest.raises(HistoryError, match="another terminal"):
            first.open_session(session.id)  # not twice in one terminal either
        session.close()
        assert content(second.open_session(session.id)) == content(session)
    assert list((path.parent / "locks").iterdir()) == []


def test_a_killed_terminal_owns_nothing(path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from history import ChatHistory\n"
        "s = ChatHistory(sys.argv[2]).new_session(); s.open_turn(1, {'role': 'user', 'content': 'x'})\n"
        "print(s.id, flush=True); input()"
    )
    command = [sys.executable, "-c", program, str(ROOT), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        session_id = child.stdout.readline().strip()
        with ChatHistory(path) as history:
            with pytest.raises(HistoryError, match="another terminal"):
                history.open_session(session_id)
            child.kill()
            child.wait()
            assert history.open_session(session_id).last_turn() == 1


def test_a_lock_whose_file_its_last_owner_removed_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the file and locking it: otherwise two terminals would own one session."""
    lock, rival = FileLock(tmp_path / "x.lock"), FileLock(tmp_path / "x.lock")
    real = locks.fcntl.flock

    def slow(fd: int, operation: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(locks.fcntl, "flock", real)
            lock.path.unlink(missing_ok=True)
        monkeypatch.setattr(locks.fcntl, "flock", real)
        real(fd, operation)

    monkeypatch.setattr(locks.fcntl, "flock", slow)
    assert lock.exclusive()
    assert not rival.exclusive()
    lock.release(remove=True)
    assert rival.exclusive()
    rival.release()


def test_several_threads_can_use_one_history(history: ChatHistory) -> None:
    """The spinner, a tool and the conversation may all be threads of one program."""

    def work(number: int) -> int:
        session = history.new_session()
        talk(session, 10, f"thread {number}")
        history.search(f"{number}")
        return len(content(session))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [20] * 8


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("What is\n  a turn?\t", "What is a turn?"),
        ("\x1b[31mred\x1b[0m\x07 alert", "red alert"),
        ("a\u202eb\ud800c", "abc"),
        ("x" * 61, "x" * 59 + "…"),
        ("x" * 60, "x" * 60),
        ("字" * 30, "字" * 30),
        ("字" * 31, "字" * 29 + "…"),
        ("e\u0301" * 60, "e\u0301" * 60),
        (" \n ", ""),
    ],
)
def test_titles_are_one_clean_line_of_sixty_columns(text: str, title: str) -> None:
    assert clean_title(text) == title


def test_a_title_is_the_first_live_question_until_somebody_names_the_session(history: ChatHistory) -> None:
    session = history.new_session()
    assert session.title == ""
    session.open_turn(1, user("a typo"))
    session.undo(1)
    session.open_turn(1, user("What is\na window?"))
    assert session.title == history.sessions()[0].title == "What is a window?"
    history.rename(session.id, "Windows\x1b[2J")
    assert session.title == history.sessions()[0].title == "Windows"
    session.close()
    history.rename(session.id[:5], "")
    assert history.sessions()[0].title == "What is a window?"


def test_a_name_given_before_the_first_message_is_kept(history: ChatHistory) -> None:
    session = history.new_session("Plans")
    history.rename(session.id, "Other plans")
    session.open_turn(1, user("q"))
    assert history.sessions()[0].title == "Other plans"


# --- privacy --------------------------------------------------------------------------------------


def test_files_are_for_their_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        with ChatHistory(path) as history:
            talk(history.new_session(), 1)
            history.search("number")
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.rglob("*")}
    finally:
        os.umask(before)
    assert {"history.db", "history.db-wal", "history.db-shm", "locks"} <= set(modes)
    assert {mode for name, mode in modes.items() if name != "locks"} == {0o600}
    assert modes["locks"] == stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    ChatHistory(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("other_terminal", [False, True])
def test_deleting_a_session_takes_every_byte_of_it(path: Path, other_terminal: bool) -> None:
    """Text, tool arguments, summary, title, undone text, index: in no file of the folder, open or closed."""
    question, argument, summary, title, undone = secrets = [f"zq{n}secret" for n in ("a", "b", "c", "d", "e")]
    with ChatHistory(path) as history:
        kept = history.new_session()
        talk(kept, 30, "kept {turn}")
        doomed = history.new_session(title)
        for turn in range(1, 60):  # enough rows that pages split and rows move between them
            doomed.open_turn(
                turn, user(f"{question} {turn} " + "filler " * turn), {"summary": f"{summary} {turn}"}
            )
            doomed.append(turn, assistant(None, tool_calls=[call("c", "run", f'{{"x": "{argument}"}}')]))
            doomed.append(turn, result("c", f"{undone} {turn}"))
            if turn % 20 == 0:
                history.search(question)  # several pieces of index
        doomed.project(59, {}, {"compaction": summary})
        doomed.undo(40)
        talk(kept, 5, "kept {turn}")
    assert files_with(path.parent, question)
    size = path.stat().st_size
    with ChatHistory(path) as history:
        other = ChatHistory(path) if other_terminal else None
        if other is not None:
            own = other.open_session(kept.id)
            talk(own, 1, "kept {turn}")
        history.delete_session(doomed.id)
        assert files_with(path.parent, *secrets) == []
        words = "CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', 'search_index', 'row')"
        connection(history).execute(words)
        indexed = {word for word, *_ in connection(history).execute("SELECT term FROM temp.words")}
        assert not indexed & {*secrets, "filler"}
        assert len(history.search("kept", limit=99)) >= 35
        assert history.notices == []
        assert doomed.id not in {info.id for info in history.sessions()}
        if other is not None:
            talk(own, 1)
            other.close()
    assert files_with(path.parent, *secrets) == []
    assert path.stat().st_size < 0.8 * size


def test_erasing_that_was_cut_short_is_finished_by_the_next_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatHistory(path) as history:
        session = history.new_session()
        talk(session, 1, "zqsecret")
        with monkeypatch.context() as patch:
            patch.setattr(Database, "compact", lambda _: False)
            history.delete_session(session.id)
        assert "at the next start: another terminal was busy" in history.notices[0]
        assert history.sessions() == []
    assert files_with(path.parent, "zqsecret") == []  # deleted rows are zeros already
    compacted = []
    real = Database.compact
    monkeypatch.setattr(Database, "compact", lambda self: compacted.append(1) or real(self))
    ChatHistory(path).close()
    ChatHistory(path).close()
    assert compacted == [1]


def test_deleting_an_open_or_an_unsaid_session_closes_it(history: ChatHistory) -> None:
    session, unsaid = history.new_session(), history.new_session()
    talk(session, 1)
    history.delete_session(session.id)
    history.delete_session(unsaid.id)
    for closed in (session, unsaid):
        with pytest.raises(HistoryError, match="is closed"):
            closed.open_turn(1, user("x"))
    with pytest.raises(HistoryError, match="There is no session"):
        history.delete_session(session.id)


# --- export ---------------------------------------------------------------------------------------


def tool_session(history: ChatHistory) -> str:
    session = history.new_session("Sums & *more*")
    session.open_turn(1, user("Add ``` 2", evidence=[["notes", "````\nfenced"]], pinned=True), {"view": "v1"})
    session.append(
        1, assistant("Let me see.", tool_calls=[call("c1", "calculator", '{"expression": "1+1"}')])
    )
    session.append(1, result("c1", "2"))
    session.append(1, assistant("It is 2."), {"view": "v2"})
    session.project(1, {"summary": "s"}, {"compaction": "one"})
    session.open_turn(2, user("taken back"))
    session.undo(2)
    return session.id


def test_an_exported_session_loads_again_and_is_the_same(path: Path, tmp_path: Path) -> None:
    with ChatHistory(path) as history, ChatHistory(tmp_path / "other" / "history.db") as other:
        exported = history.export_session(tool_session(history))
        assert "taken back" not in export.to_json(exported)
        again = other.import_session(json.loads(export.to_json(exported)))
        assert {**other.export_session(again), "id": exported["id"]} == exported
        session = other.open_session(again)
        assert session.parts() == {"view": "v2", "summary": "s"}
        assert session.part_log("compaction") == ["one"]
        assert history.import_session(exported) != exported["id"]  # beside the first one, never over it


def test_a_derived_title_stays_derived_through_export_and_import(history: ChatHistory) -> None:
    session = history.new_session()
    talk(session, 1, "first")
    copy = history.open_session(history.import_session(history.export_session(session.id)))
    copy.open_turn(1, user("changed"))
    assert copy.title == "changed"


def test_the_markdown_export_can_be_read(history: ChatHistory) -> None:
    text = export.to_markdown(history.export_session(tool_session(history)))
    lines = text.splitlines()
    assert lines[0] == r"# Sums & \*more\*"
    assert "## Turn 1" in lines
    assert text.count("`````") == 2  # the fence is longer than the one inside
    assert "**Calls `calculator`**" in lines
    assert '{"expression": "1+1"}' in lines
    assert "**Result of `calculator`**" in lines
    assert lines[-1] == "It is 2."


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: [], "it is not a session"),
        (lambda d: {**d, "format": "x"}, "it is not a session"),
        (lambda d: {**d, "version": 9}, "its version is 9"),
        (lambda d: {**d, "created_at": 5}, "created_at is not a time"),
        (lambda d: {**d, "messages": None}, "messages is not a list"),
        (lambda d: {**d, "messages": [7]}, r"messages\[0\] is not an object"),
        (lambda d: {**d, "messages": d["messages"][1:]}, r"messages\[0\] is out of order"),
        (lambda d: {**d, "messages": [{**d["messages"][0], "turn": True}]}, "turn is not a number"),
        (lambda d: {**d, "messages": [{**d["messages"][0], "turn": 10**30}]}, "turn is not a number"),
        (lambda d: {**d, "messages": [{**d["messages"][0], "time": "soon"}]}, "time is not a time"),
        (
            lambda d: {**d, "messages": [{**d["messages"][0], "message": {"role": "system"}}]},
            "role is not one",
        ),
        (lambda d: {**d, "messages": d["messages"] + d["messages"][:1]}, "out of order"),
        (lambda d: {**d, "parts": [{"turn": 1, "name": "view", "value": 3}]}, r"parts\[0\] has no name"),
    ],
)
def test_what_is_not_an_exported_session_is_refused_with_its_place(
    history: ChatHistory, change: Any, complaint: str
) -> None:
    exported = history.export_session(tool_session(history))
    with pytest.raises(HistoryError, match=complaint):
        history.import_session(change(exported))
    assert len(history.sessions()) == 1


@given(st.text(), st.text())
@settings(max_examples=30)
def test_any_text_can_be_said_named_and_looked_for(text: str, title: str) -> None:
    with Scratch() as history:
        session = history.new_session(title)
        session.open_turn(1, user(text), {"view": text})
        history.rename(session.id, title)
        history.search(text)
        clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert content(session) == [(1, user(clean))]
        assert history.export_session(history.import_session(history.export_session(session.id)))["messages"]


# --- against a simple model -----------------------------------------------------------------------


class Scratch(ChatHistory):
    """A history in a folder of its own that goes when it is closed."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        super().__init__(Path(self.folder.name) / "history.db", synchronous="NORMAL")

    def close(self) -> None:
        super().close()
        self.folder.cleanup()


class SessionMachine(RuleBasedStateMachine):
    """Any sequence of calls, closing and opening included, agrees with lists and dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.history: ChatHistory = Scratch()
        self.messages: list[tuple[int, dict[str, Any]]] = []
        self.values: list[tuple[int, str, str]] = []
        self.logged: list[tuple[int, str]] = []
        self.turn = 0

    @initialize()
    def begin(self) -> None:
        self.session = self.history.new_session()

    @rule(ahead=st.booleans(), parts=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xyz")))
    def open_turn(self, ahead: bool, parts: dict[str, str]) -> None:
        turn = self.turn + 1 if ahead or not self.turn else self.turn
        self.forget(turn)
        message = user(f"q{len(self.messages)}")
        self.session.open_turn(turn, message, parts)
        self.remember(turn, message, parts)

    @precondition(lambda self: self.turn)
    @rule(parts=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xyz")))
    def append(self, parts: dict[str, str]) -> None:
        message = assistant(f"a{len(self.messages)}")
        self.session.append(self.turn, message, parts)
        self.remember(self.turn, message, parts)

    @precondition(lambda self: self.turn)
    @rule(part=st.sampled_from("xyz"), log=st.booleans())
    def project(self, part: str, log: bool) -> None:
        self.session.project(self.turn, {"a": part}, {"log": part} if log else {})
        self.values.append((self.turn, "a", part))
        if log:
            self.logged.append((self.turn, part))

    @precondition(lambda self: self.turn)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        turn = data.draw(st.integers(1, self.turn))
        self.session.undo(turn)
        self.forget(turn)

    @precondition(lambda self: self.messages)
    @rule()
    def close_and_open(self) -> None:
        self.session.close()
        self.session = self.history.open_session(self.session.id)

    def remember(self, turn: int, message: dict[str, Any], parts: dict[str, str]) -> None:
        self.turn = turn
        self.messages.append((turn, message))
        self.values += [(turn, name, value) for name, value in parts.items()]

    def forget(self, turn: int) -> None:
        self.messages = [row for row in self.messages if row[0] < turn]
        self.values = [row for row in self.values if row[0] < turn]
        self.logged = [row for row in self.logged if row[0] < turn]
        self.turn = max((row[0] for row in self.messages), default=0)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "session"):
            return
        assert content(self.session) == self.messages
        assert [message for _, message in self.session.messages_after(0)] == [m for _, m in self.messages]
        assert self.session.last_turn() == self.turn
        assert self.session.parts() == {name: value for _, name, value in self.values}
        assert self.session.part_log("log") == [value for _, value in self.logged]

    def teardown(self) -> None:
        self.history.close()


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be deleted there")
@pytest.mark.parametrize("then", ["deleted", "replaced", "folder moved"])
def test_a_file_that_is_gone_takes_no_further_question(path: Path, then: str) -> None:
    """SQLite would go on writing to what has no name any more, and all of it would be gone at the end."""
    with ChatHistory(path) as history:
        session = history.new_session()
        session.open_turn(1, user("kept"))
        session.append(1, assistant("yes"))
        if then == "folder moved":
            path.parent.rename(path.parent.with_name("elsewhere"))
        else:
            path.unlink()
        if then == "replaced":
            path.write_bytes(b"")
        with pytest.raises(HistoryError, match="moved or deleted while it was in use"):
            session.open_turn(2, user("lost"))
