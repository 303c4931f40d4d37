"""One conversation on disk: its messages in order, and the projection beside them.

Covered here: appending, undo, reading back, titles. Not covered: which sessions there are, who owns
one, and erasing (`history.py`); the file itself (`storage/`); what is sent to a model (`context.py`).

A message is durable when the call that stores it returns. Undo is a soft delete: the rows stay, marked,
and nothing reads them any more (how long: `history.UNDONE_DAYS`). Parts of the projection that an undo
takes back are deleted at once, because they can be made again from what was said.
"""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from storage import Database, FileLock, HistoryError

T = TypeVar("T")
Message = dict[str, Any]

ROLES = ("user", "assistant", "tool")
TITLE_COLUMNS = 60


class Session:
    """One conversation on disk, owned by one terminal until it is closed. Made by `ChatHistory`.

    Turns count from 1. Nothing is stored before the first message, so that a session in which nothing
    was said leaves no trace.

    Attributes:
        id: eight hexadecimal digits.
        rows_read: messages and parts read so far, for tests of what a resume costs.
    """

    def __init__(
        self,
        database: Database,
        session_id: str,
        number: int | None,
        lock: FileLock,
        *,
        clock: Callable[[], float],
        notices: list[str],
        title: str = "",
    ) -> None:
        self.id = session_id
        self.rows_read = 0
        self._database = database
        self._number = number
        self._lock = lock
        self._clock = clock
        self._notices = notices
        self._given_title = title  # until there is a row to keep it
        self._newest: dict[str, str] | None = None  # parts as they are stored; None: to be read
        self._pending: dict[str, str] = {}  # parts of the transaction that is under way
        self._top: int | None = (
            0 if number is None else None
        )  # nothing is stored above this turn; None: unknown
        self._damaged_turns: set[int] = set()
        self._closed = False

    @property
    def number(self) -> int | None:
        """The session's key in the database, None before the first message."""
        return self._number

    @property
    def title(self) -> str:
        """The name that the person gave, or else the first question, cleaned."""
        if self._number is None:
            return self._given_title
        return self._read(title_of) or ""

    @title.setter
    def title(self, title: str) -> None:
        title = clean_title(title)
        if self._number is None:
            self._given_title = title
        else:
            self._write(
                lambda conn, n: conn.execute("UPDATE sessions SET title = ? WHERE number = ?", (title, n))
            )

    def last_turn(self) -> int:
        """Number of the last turn, 0 when there is none."""
        return self._read(_last_turn) or 0

    def open_turn(self, turn: int, message: Message, parts: Mapping[str, str] = {}) -> int:
        """Store the question of a new turn, in place of whatever a crash left at or above its number.

        Returns:
            The row's id. Like every writer here it raises HistoryError when nothing could be saved.
        """

        def work(conn: sqlite3.Connection, number: int) -> int:
            if self._top is None or self._top >= turn:
                self._take_back(conn, number, turn)
            return self._insert(conn, number, turn, message, parts)

        self._database.check_in_place()
        return self._write(work, top=turn)

    def append(self, turn: int, message: Message, parts: Mapping[str, str] = {}) -> int:
        """Store a further message of the turn, and the parts that changed with it; returns the row's id."""
        return self._write(lambda conn, number: self._insert(conn, number, turn, message, parts), least=turn)

    def project(self, turn: int, parts: Mapping[str, str], log: Mapping[str, str] = {}) -> None:
        """Store parts of the projection as they are from this turn on, and add to its log.

        A part that did not change is not written again.
        """
        if log or self._changed(parts):

            def work(conn: sqlite3.Connection, number: int) -> None:
                self._store_parts(conn, number, turn, parts)
                for name, value in log.items():
                    conn.execute(
                        "INSERT INTO part_log (session, turn, name, value) VALUES (?, ?, ?, ?)",
                        (number, turn, name, encodable(value)),
                    )

            self._write(work, least=turn)

    def undo(self, turn: int) -> None:
        """Take back every message, part and log row of this turn and those after it, all or nothing."""
        if self._number is not None:
            self._write(lambda conn, number: self._take_back(conn, number, turn), top=turn - 1)

    def parts(self) -> dict[str, str]:
        """The newest value of each part of the projection."""
        if self._newest is None:
            self._newest = self._read(_newest_parts) or {}
            self.rows_read += len(self._newest)
        return dict(self._newest)

    def part_log(self, name: str) -> list[str]:
        """Everything that was logged under this name and not taken back, in order."""

        def work(conn: sqlite3.Connection, number: int) -> list[str]:
            rows = conn.execute(
                "SELECT value FROM part_log WHERE session = ? AND name = ? ORDER BY id", (number, name)
            ).fetchall()
            return [value for (value,) in rows if isinstance(value, str)]

        values = self._read(work) or []
        self.rows_read += len(values)
        return values

    def turns(self, first: int, last: int) -> list[tuple[int, list[Message]]]:
        """The messages of the turns from `first` to `last`, in order, by turn.

        Of a turn with a damaged message only what stands before that comes back, and a notice says so.
        """
        turns: dict[int, list[Message]] = {}
        broken: set[int] = set()
        for _, turn, message in self._messages("turn BETWEEN ? AND ? ORDER BY turn, id", (first, last)):
            messages = turns.setdefault(turn, [])
            if message is None:
                broken.add(turn)
            elif turn not in broken:
                messages.append(message)
        return list(turns.items())

    def messages_after(self, row_id: int) -> list[tuple[int, Message]]:
        """Every message with a higher id than this, with its id, in order."""
        rows = self._messages("id > ? ORDER BY id", (row_id,))
        return [(found, message) for found, _, message in rows if message is not None]

    def close(self) -> None:
        """Let other terminals have the session."""
        self._closed = True
        self._lock.release(remove=True)

    # --- below: how it is done ---------------------------------------------------------------------

    def _write(
        self, work: Callable[[sqlite3.Connection, int], T], *, top: int | None = None, least: int = 0
    ) -> T:
        """Run a transaction. Afterwards nothing is stored above turn `top`, or something up to `least` is."""
        if self._closed:
            raise HistoryError(f"Session {self.id} is closed: open it again.")

        def transaction(conn: sqlite3.Connection) -> tuple[int, T]:
            self._pending = {}
            number = self._number or self._create(conn)
            return number, work(conn, number)

        try:
            self._number, result = self._database.write(transaction)
            if self._newest is not None:
                self._newest |= self._pending
            if top is not None or self._top is not None:
                self._top = top if top is not None else max(self._top or 0, least)
        except BaseException:
            self._newest = self._top = None  # Ctrl-C may have come after the commit: look again
            raise
        return result

    def _read(self, work: Callable[[sqlite3.Connection, int], T]) -> T | None:
        number = self._number
        return None if number is None else self._database.read(lambda conn: work(conn, number))

    def _create(self, conn: sqlite3.Connection) -> int:
        conn.execute(  # it may be there: Ctrl-C can come between a commit and our learning of it
            "INSERT OR IGNORE INTO sessions (id, title, created_at) VALUES (?, ?, ?)",
            (self.id, self._given_title, self._clock()),
        )
        number: int = conn.execute("SELECT number FROM sessions WHERE id = ?", (self.id,)).fetchone()[0]
        return number

    def _insert(
        self, conn: sqlite3.Connection, number: int, turn: int, message: Message, parts: Mapping[str, str]
    ) -> int:
        content, extra = to_columns(message)
        cursor = conn.execute(INSERT_MESSAGE, (number, turn, message["role"], content, extra, self._clock()))
        if parts:
            self._store_parts(conn, number, turn, parts)
        return cursor.lastrowid or 0

    def _changed(self, parts: Mapping[str, str]) -> dict[str, str]:
        newest = self.parts()
        return {name: value for name, value in parts.items() if newest.get(name) != value}

    def _store_parts(
        self, conn: sqlite3.Connection, number: int, turn: int, parts: Mapping[str, str]
    ) -> None:
        if self._newest is None:
            self._newest = _newest_parts(conn, number)
            self.rows_read += len(self._newest)
        self._pending = self._changed(parts)
        for name, value in self._pending.items():
            conn.execute(
                "INSERT OR REPLACE INTO parts (session, name, turn, value) VALUES (?, ?, ?, ?)",
                (number, name, turn, encodable(value)),
            )

    def _take_back(self, conn: sqlite3.Connection, number: int, turn: int) -> None:
        conn.execute(
            "UPDATE messages SET undone_at = ? WHERE session = ? AND turn >= ? AND undone_at IS NULL",
            (self._clock(), number, turn),
        )
        if conn.execute(_DELETE_PARTS, (number, turn)).rowcount:
            self._newest = None
        conn.execute("DELETE FROM part_log WHERE session = ? AND turn >= ?", (number, turn))

    def _messages(self, condition: str, values: Sequence[int]) -> list[tuple[int, int, Message | None]]:
        """(row id, turn, message) of the rows that are not taken back; None for a damaged message."""

        def work(conn: sqlite3.Connection, number: int) -> list[tuple[Any, ...]]:
            return conn.execute(f"{_SELECT_MESSAGES} AND {condition}", (number, *values)).fetchall()

        rows = self._read(work) or []
        self.rows_read += len(rows)
        found = [(row_id, turn, from_columns(*columns)) for row_id, turn, *columns in rows]
        damaged = sorted({turn for _, turn, message in found if message is None} - self._damaged_turns)
        if damaged:
            self._damaged_turns.update(damaged)
            listed = ", ".join(map(str, damaged))
            self._notices.append(
                f"Session {self.id} has damaged messages (turn {listed}); the rest of such a turn is left "
                "out, and nothing in the file was changed."
            )
        return found


def clean_title(text: str) -> str:
    """One line of at most 60 terminal columns, without control characters and escape sequences."""
    text = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", text[:2000])  # a color code leaves no "[31m" behind
    shown = (" " if c.isspace() else c for c in text if c.isspace() or unicodedata.category(c) not in _UNSEEN)
    line = " ".join("".join(shown).split())[
        : TITLE_COLUMNS * 4
    ]  # accents take no column, but not without end
    columns = list(accumulate(map(_columns, line)))
    if not columns or columns[-1] <= TITLE_COLUMNS:
        return line
    return line[: bisect_right(columns, TITLE_COLUMNS - 1)].rstrip() + "…"


_UNSEEN = {"Cc", "Cf", "Cs"}  # Unicode: control, format (also those that turn text around), surrogate


def _columns(character: str) -> int:
    """Columns of a character in a terminal (Unicode Standard Annex 11: wide and fullwidth take two)."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


_to_json = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` would make an encoder every time

INSERT_MESSAGE = (
    "INSERT INTO messages (session, turn, role, content, extra, created_at) VALUES (?, ?, ?, ?, ?, ?)"
)
_SELECT_MESSAGES = (
    "SELECT id, turn, role, content, extra FROM messages INDEXED BY messages_live "
    "WHERE session = ? AND undone_at IS NULL"
)
# The few names of parts are found by jumping from one to the next in the index, not by reading a row
# for every turn.
_PART_NAMES = """
    WITH RECURSIVE names (name) AS (
        SELECT min(name) FROM parts WHERE session = ?1
        UNION ALL
        SELECT (SELECT min(name) FROM parts WHERE session = ?1 AND name > names.name)
        FROM names WHERE name IS NOT NULL
    )
    SELECT name FROM names WHERE name IS NOT NULL
"""
_SELECT_PARTS = f"""
    SELECT name,
        (SELECT value FROM parts p WHERE p.session = ?1 AND p.name = n.name ORDER BY turn DESC LIMIT 1)
    FROM ({_PART_NAMES}) n
"""  # noqa: S608 (our own SQL)
_DELETE_PARTS = f"DELETE FROM parts WHERE session = ?1 AND name IN ({_PART_NAMES}) AND turn >= ?2"  # noqa: S608


def _newest_parts(conn: sqlite3.Connection, number: int) -> dict[str, str]:
    rows = conn.execute(_SELECT_PARTS, (number,)).fetchall()
    return {name: value for name, value in rows if isinstance(name, str) and isinstance(value, str)}


def _last_turn(conn: sqlite3.Connection, number: int) -> int:
    found = conn.execute(
        "SELECT max(turn) FROM messages WHERE session = ? AND undone_at IS NULL", (number,)
    ).fetchone()
    return found[0] or 0


def title_of(conn: sqlite3.Connection, number: int) -> str:
    """The session's given name, or else its first question, cleaned; "" when there is neither."""
    given = conn.execute("SELECT title FROM sessions WHERE number = ?", (number,)).fetchone()
    if given is not None and isinstance(given[0], str) and given[0]:
        return given[0]
    first = conn.execute(
        "SELECT substr(content, 1, 2000) FROM messages "
        "WHERE session = ? AND undone_at IS NULL AND role = 'user' ORDER BY turn, id LIMIT 1",
        (number,),
    ).fetchone()
    return clean_title(first[0]) if first is not None and isinstance(first[0], str) else ""


def to_columns(message: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Content and everything else as they are stored; a content that is no text is in the latter."""
    content = message.get("content")
    apart = ("role", "content") if isinstance(content, str) else ("role",)
    rest = {key: value for key, value in message.items() if key not in apart}
    return (
        encodable(content) if isinstance(content, str) else None,
        encodable(_to_json(rest)) if rest else None,
    )


def from_columns(role: object, content: object, extra: object) -> Message | None:
    """The message as it was stored, or None when its row is damaged."""
    if role not in ROLES or not isinstance(content, str | None) or not isinstance(extra, str | None):
        return None
    try:
        rest = {} if extra is None else json.loads(extra)
    except (ValueError, RecursionError):
        return None
    if not isinstance(rest, dict):
        return None
    return {"role": role, **({} if content is None else {"content": content}), **rest}


def encodable(text: str) -> str:
    """Text that SQLite can store: surrogate pairs joined, lone surrogates replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
