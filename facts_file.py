"""The SQLite file under the facts: rows in, rows out, and every fault as one sentence.

Covered here: one connection, shared safely with other processes, and what happens to a damaged or
foreign file: nothing. Not covered: what the rows mean (`facts.py`).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from provenance import Fact, FactError, Mark, Source, Version

_APPLICATION_ID = 0x6D616661  # "mafa": marks the file as ours (SQLite file format, offset 68)
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS versions (
    id INTEGER PRIMARY KEY,       -- the highest id of a key is in force
    identity TEXT NOT NULL,       -- the key, folded
    key TEXT NOT NULL,            -- the key as it was written
    value TEXT NOT NULL,
    sources TEXT NOT NULL,        -- JSON: [[name, session of a turn-N or ""], ...]
    confidence TEXT NOT NULL,
    origin TEXT NOT NULL,
    created_at TEXT NOT NULL,     -- ISO 8601 with offset
    session TEXT,                 -- stamp: the turn that an undo takes this back with; NULL outside a turn
    turn INTEGER
);
CREATE INDEX IF NOT EXISTS versions_by_identity ON versions (identity, id);
CREATE TABLE IF NOT EXISTS revocations (
    serial INTEGER PRIMARY KEY,   -- never deleted, so serials only ascend
    source TEXT NOT NULL,
    session TEXT NOT NULL
);
"""


class FactFile:
    """The versions of all facts and the revocations of sources.

    Args:
        path: the file; made, readable by its owner only, when it is not there. None for memory.

    Raises:
        FactError: from every method, when the file cannot be used.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.lock = threading.RLock()
        """Held while the connection is in use: a tool or a toolbar may run in another thread."""
        try:
            with _one_sentence(path):
                self._db = _open(path)
        except OSError as error:
            raise FactError(
                f"The facts file {path} cannot be opened ({error.strerror}); "
                "check its folder, or set MINI_AGENT_HOME to another one."
            ) from error

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # it could not be opened
            self._db.close()

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Hand out the connection to one thread at a time."""
        with self.lock, _one_sentence(self._path):
            yield self._db

    @contextmanager
    def transaction(self, *, erase: bool = False) -> Iterator[None]:
        """Write all or nothing. `erase` also empties the write-ahead log, which holds the old pages."""
        with self.use() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
            if erase:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def changes(self) -> tuple[int, int]:
        """Return a value that differs from the last one when anything was written meanwhile."""
        with self.use() as db:
            # data_version moves when another connection commits, total_changes when this one writes.
            return db.execute("PRAGMA data_version").fetchone()[0], db.total_changes

    def in_force(self) -> dict[str, Version]:
        """Return the top version of every key by its identity, the oldest first."""
        query = """
            SELECT * FROM versions WHERE id IN (SELECT max(id) FROM versions GROUP BY identity) ORDER BY id
        """
        with self.use() as db:
            return {row[1]: _version(row) for row in db.execute(query).fetchall()}

    def stack(self, identity: str) -> list[Version]:
        """Return the versions of one key, the top one first."""
        query = "SELECT * FROM versions WHERE identity = ? ORDER BY id DESC"
        with self.use() as db:
            return [_version(row) for row in db.execute(query, (identity,)).fetchall()]

    def everything(self) -> list[tuple[int, str, Version]]:
        """Return (id, identity, version) of every row."""
        with self.use() as db:
            return [
                (row[0], row[1], _version(row)) for row in db.execute("SELECT * FROM versions").fetchall()
            ]

    def push(self, identity: str, version: Version) -> None:
        """Put a version on top of its key's stack."""
        fact = version.fact
        values = (
            identity,
            fact.key,
            fact.value,
            json.dumps(version.sources, ensure_ascii=False),
            fact.confidence,
            fact.origin,
            fact.created_at.isoformat(),
            *(version.stamp or (None, None)),
        )
        with self.use() as db:
            db.execute("INSERT INTO versions VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def delete_key(self, identity: str) -> int:
        """Delete the whole stack of a key; return how many versions it had."""
        with self.use() as db:
            return db.execute("DELETE FROM versions WHERE identity = ?", (identity,)).rowcount

    def delete_rows(self, ids: Iterable[int]) -> None:
        """Delete single versions."""
        with self.use() as db:
            db.executemany("DELETE FROM versions WHERE id = ?", [(row_id,) for row_id in ids])

    def delete_after(self, mark: Mark) -> None:
        """Delete what the marked turn and later ones of its session wrote."""
        with self.use() as db:
            db.execute("DELETE FROM versions WHERE session = ? AND turn >= ?", mark)

    def revoke(self, sources: Iterable[Source]) -> None:
        """Note that these sources were forgotten."""
        with self.use() as db:
            db.executemany("INSERT INTO revocations (source, session) VALUES (?, ?)", list(sources))

    def revoked(self, after: int) -> list[tuple[int, Source]]:
        """Return every source that was forgotten after this serial, in order."""
        query = "SELECT serial, source, session FROM revocations WHERE serial > ? ORDER BY serial"
        with self.use() as db:
            return [(serial, Source(*source)) for serial, *source in db.execute(query, (after,)).fetchall()]

    def revocation_serial(self) -> int:
        """Return the serial of the newest revocation, 0 before the first."""
        with self.use() as db:
            serial: int = db.execute("SELECT coalesce(max(serial), 0) FROM revocations").fetchone()[0]
            return serial


def _version(row: Sequence[Any]) -> Version:
    _, _, key, value, sources, confidence, origin, created_at, session, turn = row
    try:
        names = tuple(Source(*pair) for pair in json.loads(sources))
        # The source is put together when the fact is shown, since it reads differently in each session.
        fact = Fact(key, value, "", confidence, origin, datetime.fromisoformat(created_at))
    except (TypeError, ValueError) as error:
        raise FactError(
            f"The facts file holds a row that cannot be read ({error}); it was left as it is."
        ) from error
    return Version(fact, names, None if turn is None else Mark(session, turn))


def _open(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
    # Transactions are begun and ended by hand; the lock of the store keeps threads apart.
    db = sqlite3.connect(path or ":memory:", timeout=5, isolation_level=None, check_same_thread=False)
    try:
        _prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection) -> None:
    """Check that the file is ours before anything in it is changed, and make the tables of a new one."""
    if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise sqlite3.DatabaseError("it is damaged")
    db.execute("BEGIN")  # one reading of both, since another terminal may be making the tables just now
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    db.execute("COMMIT")
    if tables and application != _APPLICATION_ID:
        raise sqlite3.DatabaseError("it belongs to another program")
    if version > _SCHEMA_VERSION:
        raise sqlite3.DatabaseError("it was written by a newer mini-agent")
    db.execute("PRAGMA secure_delete = ON")  # what is forgotten is overwritten, not only unlinked
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA journal_mode = WAL")  # one terminal reads while another writes
    if version < _SCHEMA_VERSION:
        db.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {_APPLICATION_ID};"
            f" PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;"
        )


_ADVICE = {
    "SQLITE_BUSY": "is in use by another program; try again",
    "SQLITE_FULL": "cannot grow because the disk is full; nothing was changed, make room and try again",
    "SQLITE_READONLY": "cannot be written; check its permissions, or set MINI_AGENT_HOME to another folder",
}


@contextmanager
def _one_sentence(path: Path | None) -> Iterator[None]:
    """Turn what SQLite reports into one FactError."""
    name = "in memory" if path is None else str(path)
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a closed store is used: a mistake in the program, not in the file
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        for known, advice in _ADVICE.items():
            if code.startswith(known):
                raise FactError(f"The facts file {name} {advice}.") from error
        raise FactError(
            f"The facts file {name} cannot be used ({error}); it was left as it is. "
            "Move it away to start with an empty one, or set MINI_AGENT_HOME to another folder."
        ) from error
