"""Puts what can be read of a damaged history into a new file, and keeps the damaged one.

Covered here: rows behind unreadable pages, sessions whose own row is lost, a crash at any point of the
repair. Not covered: noticing the damage (`database.py`), and turns with a hole in them, which whoever
reads the history must expect.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage import schema
from storage.errors import AWAY, HistoryError

TABLES = {
    "sessions": "number, id, title, created_at",
    "messages": "id, session, turn, role, content, extra, created_at, undone_at",
    "parts": "session, name, turn, value",
    "part_log": "id, session, turn, name, value",
}
"""What is carried over. The search index is made anew from the messages."""

_REPAIRED = ".repaired."  # history.db.repaired.history.db.damaged: new file, and the name the old one gets


@dataclass(frozen=True, slots=True)
class Damage:
    """How many messages could not be read, and how many there should be."""

    unreadable: int
    total: int


def rebuild(path: Path) -> str:
    """Replace a damaged file by a new one with every row that can be read.

    The finished new file first gets a name that says so; from then on a crash at any point is finished
    by the next start. Until then the damaged file stays where it was. Nobody else may have it open.

    Returns:
        What was lost and where the damaged file is kept, in one sentence.

    Raises:
        HistoryError: nothing could be read; the file was left as it is.
    """
    kept = schema.free_name(path, "damaged")
    building = Path(f"{path}.rebuilding")
    schema.make_private(building)
    try:
        with contextlib.closing(sqlite3.connect(building, isolation_level=None)) as target:
            schema.create(target)
            target.execute("BEGIN")
            damage = salvage(path, target)
            target.execute("COMMIT")
    except BaseException:
        building.unlink(missing_ok=True)
        raise
    if damage is None:
        building.unlink()
        raise HistoryError(f"The history {path} is damaged and nothing in it could be read; {AWAY}.")
    building.rename(f"{path}{_REPAIRED}{kept.name}")
    finish(path)
    return (
        f"The history was damaged: {damage.unreadable:,} of {damage.total:,} messages could not be read; "
        f"the others are here, and the damaged file is kept as {kept}."
    )


def finish(path: Path) -> None:
    """Swap a rebuilt file in, if there is one. Every step may be the last before a crash."""
    for repaired in path.parent.glob(f"*{_REPAIRED}*"):
        name, _, kept_name = repaired.name.partition(_REPAIRED)
        if name != path.name:
            continue
        for suffix in ("", "-wal", "-shm"):  # the write-ahead file belongs to the damaged one
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(path.with_name(f"{kept_name}{suffix}"))
        schema.sync_folder(path.parent)
        repaired.rename(path)
        schema.sync_folder(path.parent)


def salvage(source: Path, target: sqlite3.Connection) -> Damage | None:
    """Copy every readable row of the damaged file into `target`, which has the tables and no rows.

    The source is only read.

    Returns:
        What was lost; None when not even one table could be read.
    """
    lost: dict[str, int] = {}
    beside = [path for path in (Path(f"{source}-wal"), Path(f"{source}-shm")) if not path.exists()]
    with contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as damaged:
        damaged.text_factory = schema.text_or_bytes  # what is no text any more is carried over as it is
        # Without this SQLite reads nothing at all of a file that is shorter than its header says.
        damaged.execute("PRAGMA writable_schema = ON")
        for table, columns in TABLES.items():
            marks = ", ".join("?" for _ in columns.split(","))
            insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 (our own names)
            reader = _Reader(damaged, table, columns)
            for row in reader.from_both_ends() if table == "parts" else reader.rows():
                target.execute(insert, row)
            if reader.opened:
                lost[table] = reader.unreadable
    for path in beside:  # what reading made, and a reader may not clear away by itself
        path.unlink(missing_ok=True)
    if "messages" not in lost:
        return None
    _adopt_orphans(target)
    _forget_parts_of_lost_turns(target)
    total: int = target.execute("SELECT count(*) FROM messages").fetchone()[0]
    return Damage(lost["messages"], total + lost["messages"])


class _Reader:
    """Walks one table of a damaged file by row id and steps over what cannot be read."""

    def __init__(self, damaged: sqlite3.Connection, table: str, columns: str) -> None:
        self._damaged = damaged
        self._table = table
        self._columns = columns
        self._select = f"SELECT rowid, {columns} FROM {table} NOT INDEXED"  # noqa: S608 (our own names)
        self.unreadable = 0
        self.opened = False

    def rows(self) -> Iterator[tuple[object, ...]]:
        last, highest = 0, self._highest()
        while True:
            try:
                for row in self._damaged.execute(f"{self._select} WHERE rowid > ? ORDER BY rowid", (last,)):
                    self.opened = True
                    last = row[0]
                    yield row[1:]
            except sqlite3.DatabaseError:
                pass
            else:
                self.opened = True
                return
            # A damaged page is in the way: ask for the rows behind it one by one, then go on as before.
            while last < highest:
                last += 1
                try:
                    found = self._damaged.execute(f"{self._select} WHERE rowid = ?", (last,)).fetchone()
                except sqlite3.DatabaseError:
                    self.unreadable += 1
                    continue
                if found is not None:
                    self.opened = True
                    yield found[1:]
                    break
            else:
                return

    def from_both_ends(self) -> Iterator[tuple[object, ...]]:
        """For a table without row ids: forward to the first damaged page, and backward to the last one."""
        for direction in ("ASC", "DESC"):
            order = ", ".join(f"{column} {direction}" for column in ("session", "name", "turn"))
            select = f"SELECT {self._columns} FROM {self._table} ORDER BY {order}"  # noqa: S608 (our own names)
            with contextlib.suppress(sqlite3.DatabaseError):
                for row in self._damaged.execute(select):
                    self.opened = True
                    yield row

    def _highest(self) -> int:
        """The highest row id that was ever given, as far as the file still knows it."""
        for question, values in (
            ("SELECT seq FROM sqlite_sequence WHERE name = ?", (self._table,)),
            (f"SELECT max(rowid) FROM {self._table}", ()),  # noqa: S608 (our own names)
        ):
            with contextlib.suppress(sqlite3.DatabaseError):
                found = self._damaged.execute(question, values).fetchone()
                if found is not None and isinstance(found[0], int):
                    return found[0]
        return 0


def _adopt_orphans(target: sqlite3.Connection) -> None:
    """Give messages whose session row is lost a session to be found in."""
    orphans = target.execute(
        "SELECT session, min(created_at) FROM messages WHERE session NOT IN (SELECT number FROM sessions) "
        "GROUP BY session"
    ).fetchall()
    for number, created_at in orphans:
        target.execute(
            "INSERT INTO sessions (number, id, created_at) VALUES (?, ?, ?)",
            (number, secrets.token_hex(4), created_at),
        )


def _forget_parts_of_lost_turns(target: sqlite3.Connection) -> None:
    """Let the projection step back to the last turn that is still there, as if the later ones were undone."""
    for table in ("parts", "part_log"):
        target.execute(
            f"DELETE FROM {table} WHERE turn > coalesce("  # noqa: S608 (our own names)
            f"(SELECT max(turn) FROM messages m WHERE m.session = {table}.session AND undone_at IS NULL), 0)"
        )
