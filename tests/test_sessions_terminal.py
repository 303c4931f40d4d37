"""Sessions as a person meets them: the program itself, its arguments and commands, and a disk that fails.

Every trouble with the history is one clear line, and nothing is destroyed by it. What the history does below
is in `test_history.py` and `test_history_damage.py`; here `main.py` runs, in a pipe or in a terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from histories import assistant, call, content, files_with, result, sql, user
from server import HOLD, Answer, Server, says

from history import ChatHistory, SessionInfo
from storage import schema

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0
"""Seconds that a machine under load may take for a turn."""

FULL_DISK = """
import sys
sys.path.insert(0, {root!r})
from storage import schema
connect = schema.connect
def full(path):
    conn = connect(path)
    pages = conn.execute("PRAGMA page_count").fetchone()[0]
    conn.execute(f"PRAGMA max_page_count = {{max(1, pages)}}")
    return conn
schema.connect = full
import main
sys.exit(main.main())
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home on a path with a blank and letters beyond ASCII."""
    return tmp_path / "Über uns 計画"


@pytest.fixture
def run(tmp_path: Path, home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program with the stand-in, in a pipe."""

    def run(
        *arguments: str,
        lines: Sequence[str] = (),
        at: Path = home,
        prelude: str = "",
        within: Sequence[str] = (),
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        start = ["-c", prelude.format(root=str(ROOT))] if prelude else [str(ROOT / "main.py")]
        return subprocess.run(
            [*within, sys.executable, *start, *arguments],
            env={**os.environ, "MINI_AGENT_HOME": str(at), "TERM": "dumb"},
            cwd=tmp_path,
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            **options,
        )

    return run


def notes(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What was said beside the replies, without the meter."""
    assert "Traceback" not in done.stderr
    return [line for line in done.stderr.splitlines() if line and not line.startswith("ctx≈")]


def sessions(home: Path) -> list[SessionInfo]:
    with ChatHistory(home / "history.db") as history:
        return history.sessions()


def fill(home: Path, turns: int = 3, text: str = "number {turn}") -> str:
    """A stored conversation; returns its id."""
    with ChatHistory(home / "history.db") as history:
        session = history.new_session()
        for turn in range(1, turns + 1):
            session.open_turn(turn, user(text.format(turn=turn)))
            session.append(turn, assistant(f"answer {turn}"))
        return session.id


def snapshot(home: Path) -> dict[str, bytes]:
    """Every file with its bytes; locks and what SQLite keeps beside an open file do not count."""
    passing = (".lock", "-wal", "-shm")
    return {
        path.name: path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.name.endswith(passing) and path.name != "facts.db"
    }


# ---- arguments --------------------------------------------------------------------------------------------


def test_a_one_shot_question_is_a_session_and_can_be_continued(run: Any, home: Path) -> None:
    assert run("my name is Zelda").returncode == 0
    assert run("my name is Link").returncode == 0
    first, second = sessions(home)[1], sessions(home)[0]
    assert (first.title, second.title) == ("my name is Zelda", "my name is Link")
    assert "Link" in run("--resume", "what is my name?").stdout
    done = run("--session", first.id[:5], "what is my name?")
    assert "Zelda" in done.stdout
    assert "Link" not in done.stdout
    assert [info.turns for info in sessions(home)] == [2, 2]
    listed = run("--sessions")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[2:]] == [first.id, second.id]


def test_a_session_that_is_not_there_is_one_line(run: Any, home: Path) -> None:
    done = run("--session", "zz", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert notes(done) == ["error: There is no session 'zz': /sessions lists them."]
    done = run("--resume", "hello")
    assert done.returncode == 0
    assert notes(done) == ["There is no conversation to resume yet; this is a new one."]


def test_nothing_to_resume_is_said_once(run: Any) -> None:
    assert notes(run("--resume")) == [
        "There is no conversation to resume yet; this is a new one.",
    ]


def test_no_history_keeps_nothing(run: Any, home: Path) -> None:
    done = run("--no-history", "the zqsecret word")
    assert (done.returncode, notes(done)) == (0, [])
    assert files_with(home, "zqsecret") == []
    assert not (home / "history.db").exists()
    done = run("--no-history", lines=["/sessions"])
    assert notes(done) == [
        "error: There is no history in this run: it was started with --no-history.",
        "  Usage: /sessions",
    ]


# ---- commands ---------------------------------------------------------------------------------------------


def test_the_commands_about_sessions(run: Any, home: Path, tmp_path: Path) -> None:
    """Rename, search, export, import, resume, list, and a deletion that leaves no bytes."""
    lines = [
        "please keep the heron in mind \x1b[31m now",
        "/rename Vögel 鳥",
        "/new",
        "an ostrich zqdoomed",
        "/search HERON",
        "/export a.md",
        "/export a.json",
        "/delete",
        "/import a.json",
        "/search zqdoomed",
        "/resume",
        "/sessions",
    ]
    done = run(lines=lines)
    assert (done.returncode, [line for line in notes(done) if line.startswith("error")]) == (0, [])
    found = next(line for line in done.stderr.splitlines() if "Vögel 鳥" in line and "turn 1" in line)
    assert re.match(r"[0-9a-f]{8}  turn 1  user  now  Vögel 鳥$", found)
    assert "[heron]" in done.stderr
    assert "Deleted 'an ostrich zqdoomed'." in done.stderr
    assert "Resumed: an ostrich zqdoomed (1 turn)." in done.stderr  # loaded again
    assert "Resumed: Vögel 鳥 (1 turn)." in done.stderr
    assert [(info.title, info.turns) for info in sessions(home)] == [
        ("an ostrich zqdoomed", 1),
        ("Vögel 鳥", 1),
    ]
    assert "**You**\n\nan ostrich zqdoomed" in (tmp_path / "a.md").read_text(encoding="utf-8")
    imported = sessions(home)[0].id
    done = run(lines=[f"/delete {imported[:6]}", "/search zqdoomed"])
    assert "Nothing found for 'zqdoomed'." in done.stderr
    assert files_with(home, "zqdoomed", "ostrich") == []
    assert [info.title for info in sessions(home)] == ["Vögel 鳥"]


def test_the_home_of_an_unknown_person_is_one_line(run: Any) -> None:
    done = run(
        lines=["hello", "/export ~nobody-knows-me/a.md", "/import ~nobody-knows-me/a.json", "hello again"]
    )
    assert (done.returncode, len(done.stdout.splitlines()) > 1) == (0, True)
    assert [line.startswith("error: ~nobody-knows-me/a.") for line in notes(done) if "~" in line] == [
        True
    ] * 2


def exported(home: Path) -> dict[str, Any]:
    fill(home, 1)
    with ChatHistory(home / "history.db") as history:
        session = history.new_session()
        session.open_turn(1, user("look", evidence=[["paper", "text"]], nonce="n"))
        session.append(1, assistant(None, tool_calls=[call("a")], reasoning="hm"))
        session.append(1, result("a", "seen"))
        session.append(1, assistant("I saw"), {"view": '{"first":1}'})
        return history.export_session(session.id)


def test_what_is_exported_is_accepted(home: Path) -> None:
    """Otherwise the test below could refuse everything."""
    data = exported(home)
    with ChatHistory(home / "history.db") as history:
        again = history.open_session(history.import_session(data))
        assert content(again) == [(row["turn"], row["message"]) for row in data["messages"]]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((0, "evidence"), [["only a name"]]),
        ((0, "evidence"), 7),
        ((0, "nonce"), 7),
        ((1, "tool_calls"), [{"id": "a"}]),
        ((1, "tool_calls"), {"id": "a"}),
        ((1, "tool_calls"), [{**call("a"), "id": 7}]),
        ((1, "tool_calls"), [call("a", arguments="[]")]),
        ((1, "tool_calls"), [call("a"), call("a")]),
        ((1, "reasoning"), 7),
        ((2, "content"), {"a": 1}),
        ((2, "tool_call_id"), 7),
        ((3, "content"), ["text"]),
    ],
)
def test_a_file_that_would_break_the_chat_is_refused(home: Path, place: tuple[int, str], value: Any) -> None:
    """A session file may come from somebody else: what is loaded must be something that can be sent."""
    from history import HistoryError

    data = exported(home)
    data["messages"][place[0]]["message"][place[1]] = value
    with ChatHistory(home / "history.db") as history:
        count = len(history.sessions())
        with pytest.raises(HistoryError, match=rf"cannot be loaded: messages\[{place[0]}\]"):
            history.import_session(data)
        assert len(history.sessions()) == count


def test_a_file_that_is_no_session_is_one_line(run: Any, tmp_path: Path) -> None:
    texts = ["", "[1, 2", "[" * 100_000, '{"format": "x"}', "\xff"]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.json").write_bytes(text.encode("latin-1"))
    done = run(lines=[*(f"/import {number}.json" for number in range(len(texts))), "hello"])
    assert (done.returncode, bool(done.stdout)) == (0, True)
    errors = [line for line in notes(done) if "Usage" not in line]
    assert [line.startswith("error: ") for line in errors] == [True] * len(texts)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "noon", 7, None])
def test_a_file_with_a_time_that_nobody_can_show_is_refused(home: Path, time: Any) -> None:
    """In UTC it is before the year 1 or after 9999: it would break every list of the conversations."""
    from history import HistoryError

    data = exported(home)
    with ChatHistory(home / "history.db") as history:
        for change in ({"created_at": time}, {"messages": [{**data["messages"][0], "time": time}]}):
            with pytest.raises(HistoryError, match="is not a time"):
                history.import_session({**data, **change})
        assert len(history.sessions()) == 2


def test_a_damaged_time_breaks_no_list(run: Any, home: Path) -> None:
    fill(home)
    for time in (-1e18, 1e18, "x"):
        sql(home / "history.db", "UPDATE messages SET created_at = ?", time)
        sql(home / "history.db", "UPDATE sessions SET created_at = ?", time)
        for arguments in (["--sessions"], ["--resume", "hello"]):
            done = run(*arguments)
            assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr


def test_calls_of_a_file_go_out_as_calls_are_sent(home: Path) -> None:
    """Whatever else stands in them: fields that nobody knows, or another type."""
    from context import ContextManager

    data = exported(home)
    data["messages"][1]["message"]["tool_calls"] = [{**call("a"), "type": "custom", "index": 5}]
    with ChatHistory(home / "history.db") as history:
        ctx = ContextManager(history=history.open_session(history.import_session(data)))
        (sent,) = ctx.build_for_llm()[2]["tool_calls"]
        assert sent == call("a")


def test_names_that_are_too_long_are_one_line_each(run: Any) -> None:
    name = "x" * 300
    lines = ["hello", f"/export {name}.md", f"/import {name}.json", f"/attach {name}", "hello"]
    done = run(lines=lines)
    assert bool(done.stdout)
    assert sum(line.startswith("error: xxx") for line in notes(done)) == 3


def test_an_empty_id_is_no_id(run: Any, home: Path) -> None:
    """It would mean whatever conversation is the newest one."""
    fill(home)
    done = run("--session", "", "hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --session: it is empty" in done.stderr


def test_a_failed_reply_among_others_is_the_exit_code(run: Any) -> None:
    with Server(says("one"), Answer(400), says("three")) as server:
        done = run("--base-url", server.url, lines=["a", "b", "c"])
    assert (done.returncode, done.stdout) == (1, "one\nthree\n")


# ---- a projection that cannot be read ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "junk",
        "[]",
        '{"first": "one"}',
        '{"first":99,"pins":[]}',
        '{"first":1,"pins":[7]}',
        '{"nobody": 1}',
    ],
)
@pytest.mark.parametrize("part", ["view", "summary", "correction"])
def test_a_damaged_projection_is_made_anew_from_what_was_said(home: Path, part: str, value: str) -> None:
    """The log is the truth; what of it is sent can always be worked out again."""
    from context import ContextManager

    session_id = fill(home)
    sql(home / "history.db", "INSERT INTO parts VALUES (1, ?, 3, ?)", part, value)
    sql(
        home / "history.db",
        "INSERT INTO part_log (session, turn, name, value) VALUES (1, 3, 'compaction', '7')",
    )
    with ChatHistory(home / "history.db") as history:
        ctx = ContextManager(history=history.open_session(session_id))
        assert [message["content"] for message in ctx.messages][::2] == ["number 1", "number 2", "number 3"]
        assert ctx.compactions == ()
        ctx.append_user("And on?")
        assert len(ctx.build_for_llm()) == 8
        ctx.append_assistant("On.")
        assert [ctx.rollback_last_user() for _ in range(5)][-2:] == ["number 1", None]


# ---- trouble: one line, and nothing destroyed -------------------------------------------------------------


def no_database(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 500)


def newer_version(path: Path) -> None:
    fill(path.parent)
    sql(path, "PRAGMA user_version = 9")


def other_program(path: Path) -> None:
    sql(path, "CREATE TABLE birds (name)")


def folder_instead(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (no_database, "is not a database; it was left as it is: move it away, or set MINI_AGENT_HOME"),
        (newer_version, "was written by a newer version of this program (schema 9"),
        (other_program, "is a database of another program; it was left as it is"),
        (folder_instead, "cannot be used (Is a directory): set MINI_AGENT_HOME"),
    ],
)
def test_a_history_that_cannot_be_used_is_one_line(
    run: Any, home: Path, make: Callable[[Path], None], says: str
) -> None:
    """A new chat goes on without it; who wants an old one is told why there is none. Nothing is touched."""
    home.mkdir()
    make(home / "history.db")
    before = snapshot(home)
    done = run("hello")
    assert (done.returncode, bool(done.stdout)) == (0, True)
    (line,) = notes(done)
    assert says in line
    assert line.endswith("This conversation is not kept.")
    for arguments in (["--resume", "hello"], ["--sessions"]):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = notes(done)
        assert line.startswith("error: ")
        assert says in line
    assert snapshot(home) == before


@pytest.mark.parametrize("place", ["file/home", "/proc/nobody/home"])
def test_a_home_that_cannot_be_made_is_one_line(run: Any, tmp_path: Path, place: str) -> None:
    """A file stands where the folder should be, or no folder can be made there, whoever asks."""
    (tmp_path / "file").write_text("mine")
    at = tmp_path / place
    done = run("hello", at=at)
    assert (done.returncode, bool(done.stdout)) == (0, True)
    (line,) = notes(done)
    assert line.startswith(f"The history {at / 'history.db'} cannot be used (")
    assert "MINI_AGENT_HOME" in line
    assert line.endswith("Neither this conversation nor any facts are kept.")
    done = run("--sessions", at=at)
    assert (done.returncode, len(notes(done))) == (1, 1)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A folder that everybody can reach and only its owner can write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755 if os.getuid() == 0 else 0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions")
def test_a_read_only_home_is_one_line(run: Any, foreign: Path) -> None:
    who: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    try:
        known = subprocess.run([sys.executable, str(ROOT / "main.py"), "--version"], cwd="/", **who)
    except PermissionError:
        pytest.skip("nobody else may run this Python")
    if known.returncode:
        pytest.skip("nobody else may run this Python")
    done = run("hello", at=foreign, **who)
    assert (done.returncode, bool(done.stdout)) == (0, True)
    (line,) = notes(done)
    assert line.startswith(f"The history {foreign / 'history.db'} cannot be used (Permission denied)")
    assert list(foreign.iterdir()) == []


READ_ONLY_MOUNT = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"')


def test_a_home_on_a_read_only_disk_is_one_line(run: Any, home: Path) -> None:
    """A disk of its own, mounted where nobody else sees it; only root on Linux may do that."""
    home.mkdir()
    if shutil.which("unshare") is None or subprocess.run([*READ_ONLY_MOUNT, str(home), "true"]).returncode:
        pytest.skip("nothing can be mounted here")
    done = run("hello", within=[*READ_ONLY_MOUNT, str(home)])
    assert (done.returncode, bool(done.stdout)) == (0, True)
    (line,) = notes(done)
    assert line.startswith(f"The history {home / 'history.db'} cannot be used (Read-only file system)")


def test_a_session_that_cannot_be_locked_is_one_line(run: Any, home: Path) -> None:
    home.mkdir()
    (home / "locks").write_text("mine")
    done = run("hello")
    assert (done.returncode, bool(done.stdout)) == (0, True)
    (line,) = notes(done)
    assert line.endswith("This conversation is not kept.")
    assert (home / "locks").read_text() == "mine"


def test_a_full_disk_is_one_line_and_the_question_is_not_answered(run: Any, home: Path) -> None:
    """Nothing is said that cannot be kept; what was kept stays."""
    fill(home)
    question = "tell me more " * 2000
    done = run("--resume", question, prelude=FULL_DISK)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = notes(done)
    assert line.startswith("error: The disk is full, so ")
    assert [info.messages for info in sessions(home)] == [6]
    done = run("--resume", "hello again")
    assert done.returncode == 0
    assert [info.messages for info in sessions(home)] == [8]


def test_a_disk_that_is_full_from_the_start_is_one_line(run: Any, home: Path) -> None:
    done = run("hello", prelude=FULL_DISK)
    assert (done.returncode, bool(done.stdout)) == (0, True)
    (line,) = notes(done)
    assert "The disk is full" in line
    assert line.endswith("This conversation is not kept.")


def test_a_truncated_file_is_one_line_and_the_rest_is_there(run: Any, home: Path) -> None:
    fill(home, 60, "number {turn} " + "word " * 100)
    path = home / "history.db"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    done = run("--resume", "hello")
    assert done.returncode == 0
    line = notes(done)[0]
    assert line.startswith("The history was damaged: ")
    assert len(notes(done)) == 1
    assert (home / "history.db.damaged").read_bytes() == data[: len(data) * 6 // 10]
    assert 1 < sessions(home)[0].turns < 61


def test_an_older_version_is_one_line_and_the_old_file_kept(run: Any, home: Path) -> None:
    home.mkdir()
    with closing(sqlite3.connect(home / "history.db")) as conn:
        conn.executescript((Path(__file__).parent / "data" / "history_v1.sql").read_text(encoding="utf-8"))
    done = run("--resume", "hello")
    assert done.returncode == 0
    assert notes(done) == [
        f"The history was brought up to date; the old file is kept as {home / 'history.db.v1'}."
    ]
    assert sql(home / "history.db", "PRAGMA user_version") == [(schema.SCHEMA_VERSION,)]


def test_a_second_terminal_on_a_session_is_one_line(run: Any, home: Path) -> None:
    session_id = fill(home)
    with ChatHistory(home / "history.db") as history:
        session = history.open_session(session_id)
        for arguments in (["--resume"], ["--session", session_id[:4]]):
            done = run(*arguments, "hello")
            assert (done.returncode, done.stdout) == (1, "")
            (line,) = notes(done)
            assert line.startswith(f"error: Session {session_id} is open in another terminal: close it there")
        done = run(lines=["hello", f"/resume {session_id}", "/undo", "/sessions"])
        assert done.returncode == 0
        assert f"error: Session {session_id} is open in another terminal" in done.stderr
        assert "Took back the last turn; 0 are left." in done.stderr  # its own
        assert len(content(session)) == 6
        session.append(3, assistant("still mine"))


def test_two_terminals_with_two_sessions_under_load(home: Path, tmp_path: Path) -> None:
    """Both write all the time, and one searches: nobody waits in vain, nothing is mixed up."""
    turns = 25
    children = []
    for name in ("heron", "ostrich"):
        lines = [f"echo: {name} {number}" for number in range(turns)]
        lines[5::6] = [f"{line}\n/search {name}" for line in lines[5::6]]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        with (tmp_path / name).open() as file:
            children.append(
                subprocess.Popen(
                    [sys.executable, str(ROOT / "main.py")],
                    env={**os.environ, "MINI_AGENT_HOME": str(home), "TERM": "dumb"},
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                )
            )
    for child in children:
        _, stderr = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0
        assert "error" not in stderr
    with ChatHistory(home / "history.db") as history:
        told = {}
        for info in history.sessions():
            session = history.open_session(info.id)
            told[info.title.split()[1]] = [message["content"] for _, message in content(session)][::2]
    assert told == {
        name: [f"echo: {name} {number}" for number in range(turns)] for name in ("heron", "ostrich")
    }


def test_an_unanswered_question_is_said_where_there_is_no_prompt(run: Any, home: Path) -> None:
    session_id = fill(home, 1)
    with ChatHistory(home / "history.db") as history:
        history.open_session(session_id).open_turn(2, user("where are the keys?"))
    done = run("--resume", "hello")
    assert done.returncode == 0
    assert notes(done) == ["The last question had no answer; it was taken back: where are the keys?"]


def test_a_session_that_cannot_be_opened_leaves_this_one_as_it_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its facts keep their stamp, and the other session is free again."""
    import wiring
    from config import load_settings
    from history import HistoryError

    session_id = fill(home)
    chat = wiring.Chat(load_settings({"home": str(home)}, {}, Path(os.devnull)))
    context, stamp = chat.context, chat.facts.session

    def unreadable(*_: object, **__: object) -> None:
        raise HistoryError("The disk failed.")

    with monkeypatch.context() as patch:
        patch.setattr(wiring, "ContextManager", unreadable)
        with pytest.raises(HistoryError):
            chat.go_to(session_id)
    assert (chat.context, chat.facts.session) == (context, stamp)
    chat.go_to(session_id[:5].upper())
    chat.go_to(session_id.upper())  # it is there already
    assert chat.context.turn_count == 3
    chat.close()


# ---- a real terminal --------------------------------------------------------------------------------------


class Terminal:
    """The program on a pty, with its screen."""

    def __init__(self, home: Path, *arguments: str, **environ: str) -> None:
        pexpect, pyte = pytest.importorskip("pexpect"), pytest.importorskip("pyte")
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self._ends = (pexpect.TIMEOUT, pexpect.EOF)
        unset = {"LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR"}
        kept = {name: value for name, value in os.environ.items() if name not in unset}
        self.child = pexpect.spawn(
            sys.executable,
            [str(ROOT / "main.py"), *arguments],
            env=kept | {"TERM": "xterm", "LANG": "C.UTF-8", "MINI_AGENT_HOME": str(home)} | environ,
            dimensions=(24, 80),
            timeout=PATIENCE,
        )

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def until(self, text: str) -> None:
        """Waits until the screen shows this."""
        while not any(text in line for line in self.lines):
            self._read()

    def _read(self) -> None:
        """Takes what the program writes next."""
        which = self.child.expect([b".+", *self._ends])
        assert which == 0, "\n".join(self.lines)
        self._stream.feed(self.child.after)

    def until_answered(self, text: str) -> None:
        """Waits until the screen shows a line with this and no more, and after it a prompt that is empty."""
        self.until(text)
        while not (text in self.lines and ">" in self.lines[self.lines.index(text) :]):
            self._read()

    def type(self, text: str) -> None:
        self.child.send(text)

    def leave(self) -> None:
        self.type("\x04")
        self.child.expect(self._ends[1])
        self.child.close()
        assert self.child.exitstatus == 0

    def kill(self) -> None:
        self.child.kill(signal.SIGKILL)
        self.child.expect(self._ends[1])
        self.child.close()


needs_pty = pytest.mark.skipif(sys.platform == "win32", reason="there are no ptys")


@needs_pty
def test_a_killed_chat_is_resumed_with_its_question_in_the_prompt(home: Path) -> None:
    """kill -9 while the model thinks; --resume; Enter sends the question again, and it is answered."""
    script = [says("The sea is blue."), Answer(200, [HOLD]), says("The sky is blue too.")]
    with Server(*script) as server:
        endpoint = {"OPENAI_BASE_URL": server.url, "OPENAI_MODEL": "gpt-4o-mini"}
        terminal = Terminal(home, **endpoint)
        terminal.until("ctx≈")
        terminal.type("What is the sea like?\r")
        terminal.until_answered("The sea is blue.")
        terminal.type("And the sky?\r")
        terminal.until("to stop")
        while len(server.requests) < 2:
            server.left.wait(0.02)
        terminal.kill()
        terminal = Terminal(home, "--resume", **endpoint)
        terminal.until("> And the sky?")
        assert "Resumed: What is the sea like? (1 turn)." in terminal.lines
        terminal.type("\r")
        terminal.until("The sky is blue too.")
        terminal.leave()
        asked = [message["content"] for message in server.requests[-1].body["messages"][1:]]
        assert asked == ["What is the sea like?", "The sea is blue.", "And the sky?"]
        assert server.problems == []
    assert [(info.title, info.turns) for info in sessions(home)] == [("What is the sea like?", 2)]


@needs_pty
def test_no_history_keeps_no_input_history_either(home: Path) -> None:
    terminal = Terminal(home, "--no-history")
    terminal.until("ctx≈")
    terminal.type("echo: zqsecret\r")
    terminal.until_answered("zqsecret")
    terminal.leave()
    assert files_with(home, "zqsecret") == []


@needs_pty
def test_a_deletion_is_asked_about_and_only_yes_is_yes(home: Path) -> None:
    """Ctrl-D at the question is no answer, and deletes nothing; what a deletion does not reach is named."""
    terminal = Terminal(home)
    terminal.until("ctx≈")
    terminal.type("echo: heron\r")
    terminal.until_answered("heron")
    terminal.type("/delete\r")
    terminal.until("for good? [yes/no]")
    terminal.type("\x04")
    terminal.until_answered("It was kept.")
    assert len(sessions(home)) == 1
    terminal.screen.reset()
    terminal.type("/delete\r")
    terminal.until("for good? [yes/no]")
    terminal.type("yes\r")
    terminal.until("Deleted 'echo: heron'.")
    terminal.until("input_history")
    terminal.leave()
    assert files_with(home, "heron") == ["input_history"]
