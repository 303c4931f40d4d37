"""The tables of the history, their version, and the way from older versions to this one."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from pathlib import Path

from storage.errors import AWAY, BUSY_SECONDS, HistoryError, code

SCHEMA_VERSION = 2
APPLICATION_ID = 0x6D416774  # "mAgt": tells our file from another program's

TABLES = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL DEFAULT '',         -- as the person named it; '' stands for the first question
    created_at REAL NOT NULL
);
-- AUTOINCREMENT: the id of a deleted last row is never used again, so `id > ?` never misses a row.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES sessions (number),
    turn INTEGER NOT NULL,
    role TEXT NOT NULL,
    content TEXT,
    extra TEXT,                             -- JSON object: everything else that the message has
    created_at REAL NOT NULL,               -- for people only: order is by id, clocks jump
    undone_at REAL                          -- set: taken back, and read by nothing any more
);
CREATE INDEX messages_live ON messages (session, turn, id) WHERE undone_at IS NULL;
CREATE INDEX messages_undone ON messages (undone_at) WHERE undone_at IS NOT NULL;
CREATE TABLE parts (                        -- the projection: a part's value from this turn on
    session INTEGER NOT NULL, name TEXT NOT NULL, turn INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (session, name, turn)
) WITHOUT ROWID;                            -- one page less to write with every message
CREATE TABLE part_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL, turn INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL
);
CREATE INDEX part_log_turns ON part_log (session, turn);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""

# Version 1 knew neither the projection nor numbered sessions. Its message ids stay as they are, and so
# does the highest one that it ever gave. (When there is a version 3, version 2's tables are frozen in here.)
_FROM_1 = f"""
ALTER TABLE sessions RENAME TO old_sessions;
ALTER TABLE messages RENAME TO old_messages;
{TABLES}
INSERT INTO sessions (id, title, created_at) SELECT id, title, created_at FROM old_sessions ORDER BY rowid;
INSERT INTO messages (id, session, turn, role, content, extra, created_at, undone_at)
    SELECT m.id, s.number, m.turn, m.role, m.content, m.extra, m.created_at,
           CASE WHEN m.undone THEN m.created_at END
    FROM old_messages m JOIN sessions s ON s.id = m.session ORDER BY m.id;
DELETE FROM sqlite_sequence WHERE name = 'messages';
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'messages', seq FROM sqlite_sequence WHERE name = 'old_messages';
DROP TABLE old_messages;
DROP TABLE old_sessions;
"""  # noqa: S608 (no value comes in, only our own tables)
MIGRATIONS = {1: _FROM_1}
"""For each older version the SQL that makes the next one of it."""

PAGES_AT_ONCE = 1_000
"""Pages copied, and STEPS_AT_ONCE of SQLite's own steps done, between two looks at whether Ctrl-C came."""
STEPS_AT_ONCE = 100_000


def connect(path: Path) -> sqlite3.Connection:
    """Open the file as it is. Transactions are begun by hand; text that is no text comes as bytes."""
    conn = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    conn.text_factory = text_or_bytes
    return conn


def text_or_bytes(raw: bytes) -> str | bytes:
    """The text of a column, or its bytes when it is damaged, so that one bad row stays one bad row."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def version_of(conn: sqlite3.Connection, path: Path) -> int:
    """Schema version of the file, 0 when it is empty. Writes nothing.

    Raises:
        HistoryError: it is another program's, or a newer version of ours wrote it.
    """
    version: int = conn.execute("PRAGMA user_version").fetchone()[0]
    application: int = conn.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        if version or application or conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise HistoryError(f"{path} is a database of another program; {AWAY}.")
        return 0
    if version > SCHEMA_VERSION:
        raise HistoryError(
            f"The history {path} was written by a newer version of this program (schema {version}, this one "
            f"knows {SCHEMA_VERSION}): get the newer program, or set MINI_AGENT_HOME to another folder."
        )
    return version


def create(conn: sqlite3.Connection) -> None:
    """Make the tables in an empty file, all or none."""
    conn.executescript(
        f"BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION_ID};"
        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def migrate(conn: sqlite3.Connection, path: Path, version: int) -> Path:
    """Bring an older file up to date in one transaction.

    Returns:
        Where the old file is kept. When the migration fails, the file is as it was and the copy stays too.

    Raises:
        KeyboardInterrupt: the person stopped it; the file is as it was, and there is no copy.
    """
    kept = free_name(path, f"v{version}")
    half = Path(f"{kept}.part")  # a copy that was cut short must not look like a copy
    make_private(half)
    try:
        with contextlib.closing(sqlite3.connect(half)) as copy:
            conn.backup(copy, pages=PAGES_AT_ONCE, progress=lambda *_: None)
    except KeyboardInterrupt:
        half.unlink()
        raise
    half.rename(kept)
    sync_folder(path.parent)
    steps = "".join(MIGRATIONS[step] for step in range(version, SCHEMA_VERSION))
    # Ctrl-C reaches Python code alone: here this function, and SQLite stops when it raises.
    conn.set_progress_handler(lambda: None, STEPS_AT_ONCE)
    try:
        conn.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    except (sqlite3.Error, KeyboardInterrupt) as error:
        conn.set_progress_handler(None, 0)
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error) and code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        if version_of(conn, path) != version:
            return kept  # Ctrl-C came too late to stop it
        kept.unlink()
        raise KeyboardInterrupt from None
    conn.set_progress_handler(None, 0)
    return kept


def free_name(path: Path, label: str) -> Path:
    """A name beside the file that nothing has yet: nothing that was kept earlier is overwritten."""
    candidate, number = Path(f"{path}.{label}"), 1
    while candidate.exists():
        number += 1
        candidate = Path(f"{path}.{label}-{number}")
    return candidate


def make_private(path: Path) -> None:
    """Make an empty file that only its owner can read, before anything is written to it."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def sync_folder(folder: Path) -> None:
    """Make a new or renamed file's name as durable as its content (POSIX; Windows does it by itself)."""
    if sys.platform != "win32":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def looks_like_a_database(path: Path) -> bool:
    """Whether a file is empty or begins as SQLite files do (https://sqlite.org/fileformat.html, section 1.3).

    SQLite itself takes a file of a few bytes for a new database and writes over it.
    """
    with path.open("rb") as file:
        start = file.read(16)
    return start in {b"", b"SQLite format 3\0"} or Path(f"{path}-journal").exists()
