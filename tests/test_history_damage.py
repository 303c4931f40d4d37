"""Whatever is wrong with the file is one clear sentence, what is readable is loaded, nothing is destroyed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from histories import assistant, call, connection, content, result, sql, talk, user, without_root

from history import ChatHistory, HistoryError
from storage import repair, schema

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a home, 家" / "history.db"


def filled(path: Path, turns: int = 40) -> str:
    """A closed history with one session of this many turns, long enough for several pages; its id."""
    with ChatHistory(path, synchronous="NORMAL") as history:  # quicker; the file is the same
        session = history.new_session()
        talk(session, turns, "number {turn} " + "filler " * 40)
        return session.id


def smash(path: Path, text: str, replacement: bytes | None = None) -> None:
    """Overwrite this text in the file, or the whole page that holds it."""
    data = bytearray(path.read_bytes())
    place = data.index(text.encode())
    if replacement is None:
        page = place // PAGE * PAGE
        data[page : page + PAGE] = b"\xff" * PAGE
    else:
        data[place : place + len(replacement)] = replacement
    path.write_bytes(data)


def kept_files(path: Path) -> list[str]:
    return sorted(
        p.name for p in path.parent.iterdir() if p.name not in {"history.db", "history.db.lock", "locks"}
    )


def check(path: Path) -> str:
    found: str = sql(path, "PRAGMA integrity_check")[0][0]
    return found


# --- one bad row ----------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["text", "json", "role"])
def test_a_bad_row_costs_the_rest_of_its_turn(path: Path, damage: str) -> None:
    with ChatHistory(path) as history:
        session = history.new_session()
        talk(session, 1)
        session.open_turn(2, user("sum?"))
        session.append(2, assistant("wrong-place", tool_calls=[call("c1")]))
        session.append(2, result("c1", "3"))
        talk(session, 1)
    if damage == "text":
        smash(path, "wrong-place", b"\xff\xfe")
    elif damage == "json":
        sql(path, "UPDATE messages SET extra = '{\"tool' WHERE content = 'wrong-place'")
    else:
        sql(path, "UPDATE messages SET role = 'wizard' WHERE content = 'wrong-place'")
    before = path.read_bytes()
    with ChatHistory(path) as history:
        session = history.open_session(session.id)
        turns = dict(session.turns(1, 3))
        assert turns[2] == [user("sum?")]
        assert [len(turns[turn]) for turn in (1, 3)] == [2, 2]
        assert session.last_turn() == 3
        assert session.turns(2, 2) == [(2, [user("sum?")])]
        assert len(session.messages_after(0)) == 6
        (notice,) = history.notices
        assert notice.startswith(
            f"Session {session.id} has damaged messages (turn 2); the rest of such a turn"
        )
        assert len(history.export_session(session.id)["messages"]) == 6
    assert path.read_bytes() == before
    with ChatHistory(path) as history:
        assert history.search("sum")
        history.delete_session(session.id)
        assert history.sessions() == []


# --- bad pages ------------------------------------------------------------------------------------


def test_a_bad_page_is_stepped_over_and_the_damaged_file_kept(path: Path) -> None:
    """While the program runs, without its noticing more than a sentence; ids stay and go on."""
    session_id = filled(path)
    smash(path, "number 20 filler")
    damaged = path.read_bytes()
    with ChatHistory(path) as history:
        session = history.open_session(session_id)
        turns = dict(session.turns(1, 40))
        read = sum(map(len, turns.values()))
        assert 50 <= read < 80  # one page of long questions and short answers is gone, no more
        assert turns[1][0]["content"].startswith("number 1 ")
        assert turns[40][1] == assistant("answer 40")
        (notice,) = history.notices
        assert notice.startswith(f"The history was damaged: {80 - read} of 80 messages could not be read;")
        assert notice.endswith(f"the damaged file is kept as {path}.damaged.")
        assert session.open_turn(41, user("on we go")) == 81
        assert history.search("filler")
        assert session.parts() == {"view": '{"first": 40}'}
    assert Path(f"{path}.damaged").read_bytes() == damaged
    assert check(path) == "ok"
    assert kept_files(path) == ["history.db.damaged"]


def test_rows_in_the_write_ahead_file_are_saved_too(path: Path) -> None:
    session_id = filled(path)
    writer = ChatHistory(path)
    session = writer.open_session(session_id)
    talk(session, 1, "only in the write-ahead file")
    copy = path.parent.parent / "copy" / "history.db"
    copy.parent.mkdir()
    for suffix in ("", "-wal"):  # as a crash would leave it
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    writer.close()
    smash(copy, "number 20 filler")
    with ChatHistory(copy) as history:
        session = history.open_session(session_id)
        assert session.turns(41, 41)[0][1][0] == user("only in the write-ahead file")
        session.turns(1, 41)
        assert len(history.notices) == 1
    assert check(copy) == "ok"


def test_damage_is_not_repaired_while_another_terminal_has_the_file_open(path: Path) -> None:
    session_id = filled(path)
    smash(path, "number 20 filler")
    with ChatHistory(path) as history, ChatHistory(path) as other:
        session = history.open_session(session_id)
        with pytest.raises(HistoryError, match="another terminal has it open: close all terminals"):
            session.turns(1, 40)
        assert session.turns(40, 40)  # what is sound can still be read
        talk(other.new_session(), 1)
    assert kept_files(path) == []
    with ChatHistory(path) as history:
        assert len(history.open_session(session_id).turns(1, 40)) >= 25
        assert len(history.sessions()) == 2
    assert b"\xff" * PAGE in Path(f"{path}.damaged").read_bytes()


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
def test_a_truncated_file_gives_what_is_left_of_it(path: Path, share: float) -> None:
    session_id = filled(path, 200)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with ChatHistory(path) as history:
        assert "The history was damaged" in history.notices[0]
        session = history.open_session(session_id)
        rows = content(session)
        assert 0 < len(rows) < 400
        assert rows[0][1]["content"].startswith("number 1 ")
        last = session.last_turn()
        view = session.parts().get("view", '{"first": 0}')
        assert json.loads(view)["first"] <= last  # no view of turns that are lost
        talk(session, 1)
    assert check(path) == "ok"
    assert Path(f"{path}.damaged").read_bytes() == whole[: int(len(whole) * share)]


def test_a_session_whose_own_row_is_lost_is_found_under_a_new_id(path: Path) -> None:
    filled(path, 10)
    smash_table(path, "sessions")
    with ChatHistory(path) as history:
        history.sessions()
        (info,) = history.sessions()
        assert info.turns == 10
        assert info.title.startswith("number 1 ")
        assert content(history.open_session(info.id))


def test_parts_around_a_bad_page_are_saved(path: Path) -> None:
    with ChatHistory(path, synchronous="NORMAL") as history:
        session = history.new_session()
        for turn in range(1, 61):
            session.open_turn(turn, user("q"), {"view": f"view {turn} " + "x" * 300})
    smash(path, "view 30 xxx")
    with ChatHistory(path) as history:
        session = history.open_session(session.id)
        assert session.parts()["view"].startswith("view 60 ")
        session.undo(50)
        assert session.parts()["view"].startswith("view 49 ")
        session.undo(4)
        assert session.parts()["view"].startswith("view 3 ")
        assert len(history.notices) == 1


def smash_table(path: Path, table: str) -> None:
    ((page,),) = sql(path, "SELECT rootpage FROM sqlite_master WHERE name = ?", table)
    data = bytearray(path.read_bytes())
    data[(page - 1) * PAGE : page * PAGE] = b"\xff" * PAGE
    path.write_bytes(data)


def test_a_damaged_index_is_made_anew(path: Path) -> None:
    session_id = filled(path)
    with ChatHistory(path) as history:
        history.search("filler")
    smash_table(path, "search_index_data")
    with ChatHistory(path) as history:
        assert len(history.search("filler", limit=99)) == 40
        assert "0 of 80 messages could not be read" in history.notices[0]
        assert len(content(history.open_session(session_id))) == 80


def test_damage_met_while_writing_does_not_lose_the_message(path: Path) -> None:
    session_id = filled(path)
    smash_table(path, "part_log")
    with ChatHistory(path) as history:
        session = history.open_session(session_id)
        session.append(40, assistant("more"), {"view": "new", "other": "1"})
        assert content(session)[-1] == (40, assistant("more"))
        session.project(40, {}, {"compaction": "x"})
        assert session.parts() == {"view": "new", "other": "1"}
        assert session.part_log("compaction") == ["x"]
        assert len(history.notices) == 1


@pytest.mark.parametrize("moved", [[], [""], ["", "-wal"]])
def test_a_repair_that_was_cut_short_is_finished(path: Path, moved: list[str]) -> None:
    """The new file was ready, and the crash came before, between or after the renames of the old one."""
    session_id = filled(path)
    path.with_name("history.db-wal").write_bytes(b"left over")
    rebuilt = Path(f"{path}.repaired.history.db.damaged")
    shutil.copy(path, rebuilt)
    path.write_bytes(b"the damaged file")
    for suffix in moved:
        Path(f"{path}{suffix}").rename(f"{path}.damaged{suffix}")
    with ChatHistory(path) as history:
        assert len(content(history.open_session(session_id))) == 80
    assert Path(f"{path}.damaged").read_bytes() == b"the damaged file"
    assert Path(f"{path}.damaged-wal").read_bytes() == b"left over"


def test_a_second_repair_does_not_overwrite_what_the_first_one_kept(path: Path) -> None:
    filled(path, 10)
    for _ in range(2):
        smash_table(path, "part_log")
        with ChatHistory(path):
            pass
    assert kept_files(path) == ["history.db.damaged", "history.db.damaged-2"]


def test_deleting_names_the_copies_that_still_hold_the_text(path: Path) -> None:
    session_id = filled(path, 10)
    smash_table(path, "part_log")
    with ChatHistory(path) as history:
        history.delete_session(session_id)
        assert "delete history.db.damaged in" in history.notices[-1]


# --- not ours, or not readable at all ---------------------------------------------------------------


def other_program(path: Path) -> None:
    sql(path, "CREATE TABLE messages (id INTEGER PRIMARY KEY)")


def newer_version(path: Path) -> None:
    ChatHistory(path).close()
    sql(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")


def no_schema(path: Path) -> None:
    filled(path, 3)
    data = bytearray(path.read_bytes())
    data[100:PAGE] = b"\xff" * (PAGE - 100)
    path.write_bytes(data)


def text_waits(path: Path) -> None:
    path.write_bytes(b"")
    Path(f"{path}-wal").write_bytes(b"text")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: path.write_bytes(b"Dear diary, " * 500), "is not a database; it was left as it is"),
        (lambda path: path.write_bytes(b"x"), "is not a database; it was left as it is"),
        (other_program, "is a database of another program; it was left as it is"),
        (newer_version, "was written by a newer version of this program \\(schema 3"),
        (no_schema, "nothing in it could be read; it was left as it is"),
        (text_waits, "is empty although text waits in history.db-wal"),
        (lambda path: path.mkdir(), r"cannot be used \(Is a directory\): set MINI_AGENT_HOME"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence_and_left_alone(
    path: Path, make: Callable[[Path], object], sentence: str
) -> None:
    path.parent.mkdir()
    make(path)
    before = {p.name: p.read_bytes() for p in path.parent.iterdir() if p.is_file()}
    for _ in range(2):
        with pytest.raises(HistoryError, match=sentence) as caught:
            ChatHistory(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    after = {
        p.name: p.read_bytes() for p in path.parent.iterdir() if p.is_file() and p.name != "history.db.lock"
    }
    assert after == {name: data for name, data in before.items() if name != "history.db.lock"}


def test_an_empty_file_becomes_a_history(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with ChatHistory(path) as history:
        talk(history.new_session(), 1)


# --- versions -------------------------------------------------------------------------------------


def version_one(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    script = (Path(__file__).parent / "data" / "history_v1.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(script)


def test_an_older_version_is_migrated_and_the_old_file_kept(path: Path) -> None:
    version_one(path)
    old = path.read_bytes()
    with ChatHistory(path) as history:
        assert history.notices == [f"The history was brought up to date; the old file is kept as {path}.v1."]
        first, second = history.sessions()
        assert (first.id, first.title, first.turns) == ("0a0a0a0a", "Travel", 1)
        assert (second.id, second.title, second.messages) == ("0b0b0b0b", "Add 2 and 3", 4)
        session = history.open_session("0b0b")
        assert content(session)[1][1] == {
            "role": "assistant",
            "content": None,
            "tool_calls": [call("c1", "calculator", '{"expression": "2+3"}')],
        }
        assert [hit.text for hit in history.search("京")] == ["Where is 京都?"]
        assert history.search("back") == []  # was taken back in version 1 already
        assert session.open_turn(2, user("next")) == 9  # 8 was given and deleted in version 1
    with closing(sqlite3.connect(f"{path}.v1")) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (1,)
        assert kept.execute("SELECT count(*) FROM messages").fetchone() == (7,)
    assert Path(f"{path}.v1").stat().st_mode & 0o777 == 0o600
    assert len(old) > 0
    with ChatHistory(path) as history:
        assert history.notices == []
    assert check(path) == "ok"


def test_a_migration_that_fails_leaves_the_old_file_as_it_was(path: Path) -> None:
    version_one(path)
    sql(path, "CREATE TABLE parts (in_the_way)")
    before = sql(path, "SELECT * FROM sqlite_master"), sql(path, "SELECT * FROM messages")
    with pytest.raises(HistoryError, match="table parts already exists"):
        ChatHistory(path)
    assert (sql(path, "SELECT * FROM sqlite_master"), sql(path, "SELECT * FROM messages")) == before
    assert sql(path, "PRAGMA user_version") == [(1,)]
    sql(path, "DROP TABLE parts")
    with ChatHistory(path) as history:
        assert history.notices[0].endswith(f"kept as {path}.v1-2.")


class CtrlC:
    """Presses Ctrl-C the `nth` time that a migration can be stopped while it is `of`: copying, changing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: str, nth: int) -> None:
        self.seen, self.nth = 0, nth
        monkeypatch.setattr(schema, "PAGES_AT_ONCE", 1)
        monkeypatch.setattr(schema, "STEPS_AT_ONCE", 10)

        def press(*_: object) -> None:
            self.seen += 1
            if self.seen == self.nth:
                signal.raise_signal(signal.SIGINT)

        class Interrupted(sqlite3.Connection):
            def backup(self, target: sqlite3.Connection, **options: Any) -> None:
                super().backup(target, **options | ({"progress": press} if of == "copying" else {}))

            def set_progress_handler(self, handler: Any, steps: int) -> None:
                super().set_progress_handler(handler and (press if of == "changing" else handler), steps)

        def connect(path: Path) -> sqlite3.Connection:
            return sqlite3.connect(path, isolation_level=None, factory=Interrupted)

        monkeypatch.setattr(schema, "connect", connect)


@pytest.mark.parametrize(("of", "nth"), [("copying", 1), ("copying", 3), ("changing", 1), ("changing", 9)])
def test_a_migration_that_is_stopped_leaves_the_old_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, of: str, nth: int
) -> None:
    """Ctrl-C stops it at once and leaves no copies about; the next start migrates."""
    version_one(path)
    before = sql(path, "SELECT * FROM sqlite_master"), sql(path, "SELECT * FROM messages")
    with monkeypatch.context() as patched:
        ctrl_c = CtrlC(patched, of, nth)
        with pytest.raises(KeyboardInterrupt):
            ChatHistory(path)
    assert ctrl_c.seen == nth
    assert (sql(path, "SELECT * FROM sqlite_master"), sql(path, "SELECT * FROM messages")) == before
    assert [each.name for each in path.parent.glob("*.v1*")] == []
    with ChatHistory(path) as history:
        assert history.notices[0].endswith(f"kept as {path}.v1.")


def test_a_migration_that_is_stopped_too_late_is_done(path: Path) -> None:
    """Ctrl-C is seen when SQLite returns, and by then the file may be a new one already."""
    version_one(path)

    class Late(sqlite3.Connection):
        def executescript(self, script: str) -> sqlite3.Cursor:
            super().executescript(script)
            raise KeyboardInterrupt

    with closing(sqlite3.connect(path, isolation_level=None, factory=Late)) as conn:
        assert schema.migrate(conn, path, 1) == Path(f"{path}.v1")
    assert Path(f"{path}.v1").exists()
    assert sql(path, "PRAGMA user_version") == [(schema.SCHEMA_VERSION,)]


def test_what_may_take_long_is_said_while_it_runs(path: Path) -> None:
    """Also to whoever must wait for another terminal that does it."""
    said: list[str] = []

    @contextmanager
    def working(what: str) -> Iterator[None]:
        said.append(what)
        yield
        said.append("done")

    version_one(path)  # with a text in it that was taken back long ago
    with ChatHistory(path, working=working):
        ChatHistory(path, working=working).close()
    filled(path, 200)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])
    ChatHistory(path, working=working).close()
    assert said[::2] == [
        "bringing the history up to date",
        "erasing what was taken back long ago",
        "clearing the history of what was deleted",
        "waiting for another terminal",
        "saving what is readable of the damaged history",
    ]
    assert set(said[1::2]) == {"done"}


def test_an_older_program_that_still_runs_is_not_migrated_under_its_feet(path: Path) -> None:
    with ChatHistory(path):
        sql(path, "PRAGMA user_version = 1")
        with pytest.raises(HistoryError, match="older version of this program has the history"):
            ChatHistory(path)
        assert sql(path, "PRAGMA user_version") == [(1,)]
        sql(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION}")


# --- the disk -------------------------------------------------------------------------------------


def test_a_full_disk_changes_nothing_and_can_be_made_room_on(path: Path) -> None:
    with ChatHistory(path) as history:
        session = history.new_session()
        talk(session, 3)
        before = content(session), session.parts()
        pages = connection(history).execute("PRAGMA page_count").fetchone()[0]
        connection(history).execute(f"PRAGMA max_page_count = {pages}")
        for write in (
            lambda: session.open_turn(4, user("x" * 20_000), {"view": "4"}),
            lambda: session.append(3, assistant("x" * 20_000), {"view": "4"}),
            lambda: session.project(3, {"view": "x" * 20_000}),
        ):
            with pytest.raises(HistoryError, match=r"The disk is full, so .* was left as it was"):
                write()
            assert (content(session), session.parts()) == before
        with pytest.raises(HistoryError, match="The disk is full"):
            history.import_session({**history.export_session(session.id), "parts": big_part()})
        session.undo(3)  # needs no room
        connection(history).execute("PRAGMA max_page_count = 100000")
        session.open_turn(3, user("x" * 20_000), {"view": "4"})
        assert session.parts()["view"] == "4"
        assert len(history.sessions()) == 1
    assert check(path) == "ok"


def big_part() -> list[dict[str, object]]:
    return [{"turn": 1, "name": "p", "value": "x" * 20_000}]


def test_a_full_disk_at_a_search_is_a_sentence(path: Path) -> None:
    with ChatHistory(path) as history:
        session = history.new_session()
        talk(session, 1)
        pages = connection(history).execute("PRAGMA page_count").fetchone()[0]
        connection(history).execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(HistoryError, match="The disk is full"):
            history.search("answer")
        connection(history).execute("PRAGMA max_page_count = 100000")
        assert len(history.search("answer")) == 1


def test_a_repair_without_room_leaves_the_damaged_file_in_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path, 10)
    smash_table(path, "part_log")
    damaged = path.read_bytes()

    def no_room(*_: object) -> None:
        with closing(sqlite3.connect(":memory:")) as conn:
            conn.execute("PRAGMA max_page_count = 1")
            conn.execute("CREATE TABLE a (b)")

    with monkeypatch.context() as patch:
        patch.setattr(repair, "salvage", no_room)
        with pytest.raises(HistoryError, match="The disk is full"):
            ChatHistory(path)
    assert path.read_bytes() == damaged
    assert kept_files(path) == []
    with ChatHistory(path) as history:
        assert len(history.sessions()) == 1


@pytest.fixture
def foreign_folder() -> Path:
    """A folder that somebody without privileges can reach but, once it is made so, not write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_home_that_cannot_be_written_to_is_one_sentence(foreign_folder: Path) -> None:
    if os.getuid() != 0:
        foreign_folder.chmod(0o555)
    for name in ("history.db", "home/history.db"):
        sentence = without_root(lambda name=name: ChatHistory(foreign_folder / name))
        assert sentence.startswith(f"The history {foreign_folder / name} cannot be used (Permission denied)")
        assert "MINI_AGENT_HOME" in sentence
        assert "--no-history" in sentence
    foreign_folder.chmod(0o755)


def test_a_file_that_cannot_be_written_to_is_one_sentence(foreign_folder: Path) -> None:
    path = foreign_folder / "history.db"
    filled(path, 1)
    for file in foreign_folder.rglob("*"):
        os.chown(file, 65534, 65534) if os.getuid() == 0 else None
    path.chmod(0o400)
    if os.getuid() != 0:
        foreign_folder.chmod(0o555)
    sentence = without_root(lambda: ChatHistory(path))
    assert sentence.startswith(f"The history {path} cannot be")
    assert "MINI_AGENT_HOME" in sentence
    foreign_folder.chmod(0o755)
