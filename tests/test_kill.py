"""What was acknowledged survives `kill -9`, whole and once, wherever it strikes.

`KILLS=100 pytest tests/test_kill.py` kills more often, `KILL_SEED` chooses other points. The seed is in
the message of a failure.
"""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crash.script import Model, steps
from histories import content, files_with, sql, talk

from history import ChatHistory

TALK = Path(__file__).parent / "crash" / "talk.py"
KILLS = int(os.environ.get("KILLS", "15"))
SEED = int(os.environ.get("KILL_SEED", "20"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "history.db"


def start(path: Path, session: str, seed: int, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(TALK), str(path), session, str(seed), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_once(path: Path, session: str, rng: random.Random, *options: str) -> tuple[str, int, list[int]]:
    """Let a child talk and kill it. Returns the session's id, the seed, and the acknowledged row ids.

    Every other time the child dies by its own hand within a transaction; otherwise it is struck from
    outside, a little after an acknowledgment.
    """
    seed = rng.randrange(10**6)
    inside = rng.random() < 0.5
    more = ("--die-at", str(rng.randrange(3, 250))) if inside else ()
    with start(path, session, seed, *options, *more) as child:
        assert child.stdout is not None
        session_id = child.stdout.readline().split()[0]
        acknowledged: list[int] = []
        if not inside:
            acknowledged += [int(child.stdout.readline()) for _ in range(rng.randrange(40))]
            for _ in range(rng.randrange(20_000)):  # strike within the next steps, not always just after one
                pass
            child.kill()
        # What was in the pipe when it died was acknowledged too.
        acknowledged += [int(line) for line in child.stdout]
    assert child.returncode == -9
    return session_id, seed, acknowledged


def difference(path: Path, session_id: str, before: Model, seed: int, acknowledged: list[int]) -> str:
    """What is wrong with the file after the kill; '' when nothing is.

    The step that was under way may have happened or not, but not in part.
    """
    count = len(acknowledged)
    with ChatHistory(path) as history:
        session = history.open_session(session_id)
        found = content(session), session.parts(), session.part_log("compaction")
        rows = dict(session.messages_after(0))
        if history.notices:
            return f"notices: {history.notices}"
    for steps_done in (count, count + 1):
        model = before.after(steps(seed, before.last_turn), steps_done)
        if found == (model.messages, model.parts, [value for _, value in model.logged]):
            break
    else:
        return f"seed {seed}: the state after {count} acknowledged steps is another one"
    for step, row_id in zip(steps(seed, before.last_turn), acknowledged, strict=False):
        if row_id in rows and rows[row_id] != step.message:
            return f"seed {seed}: row {row_id} is not the message that was acknowledged under that id"
    if list(rows) != sorted(rows) or [row_id for row_id in acknowledged if row_id] != sorted(
        {*acknowledged} - {0}
    ):
        return f"seed {seed}: row ids {list(rows)}, acknowledged {acknowledged}"
    return "" if sql(path, "PRAGMA integrity_check") == [("ok",)] else f"seed {seed}: the file is damaged"


def reread(path: Path, session_id: str) -> Model:
    """The state on the disk as the model that the next kill starts from, older values of parts included."""
    with ChatHistory(path) as history:
        exported = history.export_session(session_id)
    return Model(
        [(row["turn"], row["message"]) for row in exported["messages"]],
        sorted((row["turn"], row["name"], row["value"]) for row in exported["parts"]),
        [(row["turn"], row["value"]) for row in exported["log"]],
    )


def kills(path: Path, *options: str) -> Iterator[str]:
    """Kill one conversation again and again, each time going on where the last child died."""
    rng = random.Random(SEED)
    session_id, seed, acknowledged = kill_once(path, "new", rng, *options)
    while not acknowledged:
        session_id, seed, acknowledged = kill_once(path, "new", rng, *options)
    before = Model()
    for _ in range(KILLS):
        yield difference(path, session_id, before, seed, acknowledged)
        before = reread(path, session_id)
        _, seed, acknowledged = kill_once(path, session_id, rng, *options)


def test_nothing_acknowledged_is_lost_or_doubled(path: Path) -> None:
    assert [wrong for wrong in kills(path) if wrong] == []


def test_the_kill_test_notices_a_log_that_commits_late(path: Path) -> None:
    """Without this, the test above could be blind."""
    assert any("is another one" in wrong for wrong in kills(path, "--late"))


def statements() -> Iterator[int]:
    """SQL statements before which a child dies: some, from a place that the seed chooses; or all."""
    every = 1 if KILLS >= 100 else 5
    return itertools.count(SEED % every, every)


def test_a_deletion_that_is_killed_happened_or_did_not_and_leaves_no_bytes(path: Path) -> None:
    """Before whichever SQL statement it dies: the session is whole, or gone from every file."""
    gone = 0
    for statement in statements():
        with ChatHistory(path) as history:
            kept, doomed = history.new_session(), history.new_session()
            talk(kept, 2, "kept word")
            talk(doomed, 5, f"zqsecret{statement} word")
            history.search("word")
        with start(path, doomed.id, 0, "--delete", "--die-at", str(statement)) as child:
            child.communicate()
        with ChatHistory(path) as history:
            there = doomed.id in {info.id for info in history.sessions()}
            assert len(history.search("word", limit=99, session=kept.id)) == 2
            if there:
                assert len(content(history.open_session(doomed.id))) == 10
                history.delete_session(doomed.id)
            gone += not there
        assert files_with(path.parent, f"zqsecret{statement}") == []
        if child.returncode == 0:
            break
    assert gone >= 1


def test_a_migration_that_is_killed_is_done_by_the_next_start(tmp_path: Path) -> None:
    script = (Path(__file__).parent / "data" / "history_v1.sql").read_text(encoding="utf-8")
    for statement in statements():
        path = tmp_path / str(statement) / "history.db"
        path.parent.mkdir()
        with closing(sqlite3.connect(path)) as conn:
            conn.executescript(script)
        with start(path, "0b0b0b0b", 0, "--count", "0", "--die-at-opening", str(statement)) as child:
            child.communicate()
        with ChatHistory(path) as history:
            assert [(info.id, info.messages) for info in history.sessions()] == [
                ("0a0a0a0a", 2),
                ("0b0b0b0b", 4),
            ]
        with closing(sqlite3.connect(f"{path}.v1")) as kept:
            assert kept.execute("SELECT count(*) FROM messages").fetchone() == (7,)
        if child.returncode == 0:
            break
    assert statement > 10


def test_two_terminals_under_load_wait_for_each_other(path: Path) -> None:
    """Two sessions in two processes, and a third that searches: no 'database is locked', nothing mixed up."""
    children = [start(path, "new", seed, "--count", "150") for seed in (1, 2)]
    sessions = []
    with ChatHistory(path) as history:
        for child in children:
            assert child.stdout is not None
            sessions.append(child.stdout.readline().split()[0])
        while any(child.poll() is None for child in children):
            history.search("question", limit=3)
        for child, session_id, seed in zip(children, sessions, (1, 2), strict=True):
            assert child.communicate()[0].count("\n") == 150
            assert child.returncode == 0
            model = Model().after(steps(seed, 0), 150)
            session = history.open_session(session_id)
            assert content(session) == model.messages
            assert session.parts() == model.parts
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]
