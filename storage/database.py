"""One connection to the history's file: put in order when it is opened, and used in transactions.

Covered here: durability, several terminals on one file, and what happens when damage is met. Not
covered: what the rows mean (`history.py`), how rows are won back (`repair.py`), the tables (`schema.py`).

Facts about SQLite without a source beside them are from https://sqlite.org/wal.html and
https://sqlite.org/pragma.html.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

from storage import repair, schema
from storage.errors import AWAY, BUSY_SECONDS, HistoryError, Sentences, code
from storage.locks import FileLock

T = TypeVar("T")

Working = Callable[[str], AbstractContextManager[object]]
"""`with working("bringing the history up to date"):` is entered around whatever may take long."""

CHECKPOINT_ROWS = 400
"""Rows written between two foldings of the write-ahead file into the database.

A row with its index entries takes about 2.5 pages, so these make about 4 MB of the file, SQLite's own
measure (`wal_autocheckpoint`, 1,000 pages). That is well under JOURNAL_BYTES: a write-ahead file that is cut
back after each folding has to grow anew, and a commit that grows a file costs more than one that writes
over it.
"""
JOURNAL_BYTES = 8 << 20
"""Size that the write-ahead file is cut back to once a burst of long messages has made it larger."""


class Database:
    """The history's file, opened. Safe to use from several threads of one process.

    Whoever opens the file while nobody else has it open puts it in order first: creates it, finishes
    an interrupted repair, migrates an older version, rebuilds a damaged file.

    Args:
        path: the file; its folder is made when it is missing, for the person alone (0700).
        synchronous: FULL syncs the write-ahead file at every commit, so what was acknowledged survives a
            killed process and, as far as the disk keeps its word, a power cut. NORMAL syncs at checkpoints
            only: a killed process still loses nothing, a power cut loses the last commits (the file stays
            sound). EXTRA is FULL in this journal mode.
        notices: what a person should know, one sentence each, is appended here.
        working: told what takes a while; may be called in any thread that opens the file.

    Raises:
        HistoryError: the file cannot be used; nothing was destroyed.
    """

    def __init__(
        self, path: Path, synchronous: str, notices: list[str], working: Working = nullcontext
    ) -> None:
        if synchronous not in {"FULL", "EXTRA", "NORMAL"}:
            raise HistoryError(f"Unknown synchronous mode {synchronous!r}: use FULL, EXTRA or NORMAL.")
        self.path = path
        self._synchronous = synchronous
        self._notices = notices
        self._working = working
        self._mutex = threading.RLock()
        self._sentences = Sentences(path)
        self._conn: sqlite3.Connection | None = None
        self._checkpoint_at = CHECKPOINT_ROWS
        self._identity: tuple[int, int] | None = None
        self._in_use = FileLock(Path(f"{path}.lock"))
        try:
            with self._sentences:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                if self._in_use.exclusive():
                    self._put_in_order()
                    self._in_use.shared()
                else:  # it may be putting the file in order, and that may take it a while
                    with working("waiting for another terminal"):
                        self._in_use.shared()
                self._connect()
        except BaseException:
            self.close()
            raise

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function that only reads.

        Raises:
            HistoryError: the file cannot be read.
        """
        return self._guarded(work)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function in one transaction, durable when this returns and undone when it raises.

        Raises:
            HistoryError: nothing was changed; the sentence says why (disk full, read-only, ...).
        """

        def transaction(conn: sqlite3.Connection) -> T:
            try:
                self._begin(conn)
                result = work(conn)
                self._commit(conn)
            except BaseException:
                if conn.in_transaction:  # some errors (disk full) have already rolled it back
                    conn.execute("ROLLBACK")
                raise
            return result

        result = self._guarded(transaction)
        self._checkpoint_when_due()
        return result

    def check_in_place(self) -> None:
        """Look whether the file still has its name; what is written to a deleted one is lost at the end.

        Raises:
            HistoryError: it was moved or deleted, or another file took its place.
        """
        if _identity(self.path) != self._identity:
            raise HistoryError(
                f"The history {self.path} was moved or deleted while it was in use, so nothing more can be "
                "kept in it: start again, or start with --no-history."
            )

    def compact(self) -> bool:
        """Rewrite the file without its free space and empty the write-ahead file: erased text is gone.

        `secure_delete` has already overwritten deleted rows with zeros. What it leaves is remains of rows
        that moved between pages, and older pages in the write-ahead file. Blocks that the file system or
        the disk has set aside are out of reach from here.

        Returns:
            False when another terminal was in the way: it is to be tried again later.
        """

        def work(conn: sqlite3.Connection) -> bool:
            try:
                conn.execute("VACUUM")
                busy: int = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError as error:
                if code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                    return False
                raise
            return not busy

        return self._guarded(work)

    def close(self) -> None:
        """Close the file. The last one to close it also folds the write-ahead file into it."""
        with self._mutex:
            if self._conn is not None:
                self._conn.close()
                self._conn = None
            self._in_use.release()

    # --- transactions -----------------------------------------------------------------------------

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`; on damage rebuild the file and run it once more; put every error into a sentence."""
        with self._mutex, self._sentences:
            try:
                return work(self._connection())
            except sqlite3.DatabaseError as error:
                if code(error) != sqlite3.SQLITE_CORRUPT:
                    raise
            self._repair_while_open()
            return work(self._connection())

    def _connection(self) -> sqlite3.Connection:
        if self._conn is None:
            raise HistoryError("The history is closed.")
        return self._conn

    def _begin(self, conn: sqlite3.Connection) -> None:
        # IMMEDIATE: wait for the write lock here, with the busy timeout. A transaction that starts reading
        # and wants to write later fails at once when another terminal wrote in between.
        conn.execute("BEGIN IMMEDIATE")

    def _commit(self, conn: sqlite3.Connection) -> None:
        conn.execute("COMMIT")

    def _checkpoint_when_due(self) -> None:
        """Fold the write-ahead file into the database when it has grown, as SQLite would by itself.

        By itself it would do so without the write lock, and up to SQLite 3.51.2 two terminals can then
        damage the file in a rare race ("The WAL-Reset Bug"); FULL takes the write lock first. A checkpoint
        that fails costs nothing: what was written is safe where it is, and a later one tries again.
        """
        conn = self._conn
        if conn is None or conn.total_changes < self._checkpoint_at:
            return
        with self._mutex, contextlib.suppress(sqlite3.Error):
            if self._conn is None:
                return
            self._checkpoint_at = self._conn.total_changes + CHECKPOINT_ROWS
            self._conn.execute("PRAGMA busy_timeout = 1000")
            try:
                self._conn.execute("PRAGMA wal_checkpoint(FULL)")
            finally:
                self._conn.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    # --- opening and repair -----------------------------------------------------------------------

    def _connect(self) -> None:
        self._conn = conn = schema.connect(self.path)
        self._identity = _identity(self.path)
        if schema.version_of(conn, self.path) < schema.SCHEMA_VERSION:
            raise HistoryError(
                f"An older version of this program has the history {self.path} open: "
                "close it there and start again."
            )
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute(f"PRAGMA synchronous = {self._synchronous}")
        conn.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone does not reach the disk
        conn.execute("PRAGMA secure_delete = ON")
        conn.execute("PRAGMA wal_autocheckpoint = 0")  # see _checkpoint_when_due
        conn.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
        self._checkpoint_at = CHECKPOINT_ROWS

    def _put_in_order(self) -> None:
        """Make the file one that can be opened. Only one process at a time gets here."""
        path = self.path
        repair.finish(path)
        if not path.exists():
            schema.make_private(path)
            schema.sync_folder(path.parent)
        elif path.stat().st_size == 0 and _size(Path(f"{path}-wal")) > 0:
            # SQLite would take the empty file for a new one and delete the write-ahead file.
            raise HistoryError(
                f"The history {path} is empty although text waits in {path.name}-wal; both were left as they "
                "are: move them away, or put a backup in their place."
            )
        elif not schema.looks_like_a_database(path):
            raise HistoryError(f"{path} is not a database; {AWAY}.")
        for suffix in ("", "-wal", "-shm"):  # those that SQLite makes later are as private as the database
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").chmod(0o600)
        try:
            with contextlib.closing(schema.connect(path)) as conn:
                version = schema.version_of(conn, path)
                if version == 0:
                    conn.execute("PRAGMA journal_mode = WAL")
                    schema.create(conn)
                elif version < schema.SCHEMA_VERSION:
                    with self._working("bringing the history up to date"):
                        kept = schema.migrate(conn, path, version)
                    self._notices.append(
                        f"The history was brought up to date; the old file is kept as {kept}."
                    )
                # A look, not a full check, which would take as long as reading the whole file.
                for column, table in (("number", "sessions"), ("id", "messages"), ("id", "part_log")):
                    conn.execute(f"SELECT max({column}) FROM {table}").fetchone()  # noqa: S608 (our own names)
                conn.execute("SELECT max(session) FROM parts").fetchone()
        except sqlite3.DatabaseError as error:
            if code(error) != sqlite3.SQLITE_CORRUPT:
                raise
            self._rebuild()

    def _rebuild(self) -> None:
        with self._working("saving what is readable of the damaged history"):
            self._notices.append(repair.rebuild(self.path))

    def _repair_while_open(self) -> None:
        """Rebuild the file in the middle of the work, unless another terminal has it open too."""
        self._connection().close()
        self._conn = None
        alone = self._in_use.exclusive()
        try:
            if alone:
                self._rebuild()
        finally:
            self._in_use.shared()
            self._connect()
        if not alone:
            raise HistoryError(
                f"The history {self.path} is damaged in places and another terminal has it open: close all "
                "terminals and start again; what is readable will be kept."
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
