"""All sessions of one person, in one SQLite file: list, resume, search, erase, export.

Covered here: which sessions there are, who owns one, what becomes of text that is to go. Not covered:
the messages of one session (`session.py`), the file itself (`storage/`), the search index (`search.py`),
and file formats (`export.py`).
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import export
from search import NOTHING_HIDDEN, Hit, Progress, SearchIndex
from session import Session, clean_title, encodable, title_of
from storage import Database, FileLock, HistoryError, Working
from words import make_snippet

__all__ = ["ChatHistory", "HistoryError", "Hit", "Session", "SessionInfo", "clean_title"]

UNDONE_DAYS = 30
"""How long text that was taken back stays in the file, in days. Deleting its session erases it at once."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A line of the list of sessions. Times are UTC; turns and messages are those not taken back."""

    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    turns: int
    messages: int


class ChatHistory:
    """All sessions of one person, in one SQLite file.

    Sessions are named by their id or its first characters.

    Args:
        path: the file, `history.db` by custom. It is made for its owner alone (0600, its folder 0700).
        synchronous: FULL (default) or NORMAL, see `storage.Database`.
        clock: seconds since the epoch.
        working: told what takes a while when the file is opened, see `storage.Working`.

    Attributes:
        notices: sentences for the person, in order: what was damaged, migrated, or left behind.

    Raises:
        HistoryError: here and in every method: one sentence, and nothing was destroyed.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        synchronous: str = "FULL",
        clock: Callable[[], float] = time.time,
        working: Working = nullcontext,
    ) -> None:
        self.notices: list[str] = []
        self._clock = clock
        self._database = Database(Path(path), synchronous, self.notices, working)
        self._index = SearchIndex(self._database, self.notices)
        self._locks = self._database.path.parent / "locks"
        self._open: dict[str, Session] = {}
        try:
            self._erase_old_undone(working)
        except BaseException:
            self.close()
            raise

    def new_session(self, title: str = "") -> Session:
        """Start a conversation. It is stored with its first message."""
        taken = True
        while taken:
            session_id = secrets.token_hex(4)
            taken = self._is_taken(session_id)
        return self._own(session_id, None, clean_title(title))

    def open_session(self, id_prefix: str) -> Session:
        """Continue a conversation.

        Raises:
            HistoryError: unknown, ambiguous, or open in another terminal.
        """
        session_id, number = self._find(id_prefix)
        return self._own(session_id, number)

    def sessions(self, limit: int = 50) -> list[SessionInfo]:
        """The sessions in which something was said, the one with the newest message first."""

        def work(conn: sqlite3.Connection) -> list[SessionInfo]:
            rows = conn.execute(
                """
                SELECT number, id, created_at,
                    (SELECT created_at FROM messages WHERE id = last),
                    (SELECT count(DISTINCT turn) FROM messages WHERE session = number AND undone_at IS NULL),
                    (SELECT count(*) FROM messages WHERE session = number AND undone_at IS NULL)
                FROM (
                    SELECT *, (SELECT id FROM messages WHERE session = number AND undone_at IS NULL
                               ORDER BY turn DESC, id DESC LIMIT 1) AS last
                    FROM sessions WHERE last IS NOT NULL ORDER BY last DESC LIMIT ?
                )
                """,
                (limit,),
            ).fetchall()
            return [
                SessionInfo(session_id, title_of(conn, number), _utc(created), _utc(updated), turns, messages)
                for number, session_id, created, updated, turns, messages in rows
            ]

        return self._database.read(work)

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        session: str | None = None,
        hidden: tuple[str, int] | None = None,
        progress: Progress | None = None,
    ) -> list[Hit]:
        """Messages that match, best first; any text is a query. What was taken back is never found.

        The first search after a while reads what was said since; `progress` is told how far that is.

        Args:
            query: the words.
            limit: hits at most.
            session: search this one only.
            hidden: (session, turn): leave out the turns of that session from this one on, which somebody
                who searches sees anyway; the question that is being asked would match best of all.
            progress: called while the index is brought up to date.
        """
        number = None if session is None else self._find(session)[1]
        found, phrases = self._index.search(
            query,
            limit=limit,
            session=number,
            now=self._clock(),
            hidden=self._hidden(hidden),
            progress=progress,
        )
        numbers = {row.session for row in found}
        names = self._database.read(lambda conn: {number: _names_of(conn, number) for number in numbers})
        hits = []
        for row in found:
            session_id, title = names[row.session]
            if session_id:  # or else another terminal deleted it just now
                snippet, marks = make_snippet(row.text, phrases)
                time = _utc(row.created_at)
                hits.append(Hit(session_id, title, row.turn, row.role, time, snippet, marks, row.text))
        return hits

    def _hidden(self, hidden: tuple[str, int] | None) -> tuple[int, int]:
        """The same with the session's number; a session that nothing was stored of hides nothing."""
        if hidden is None:
            return NOTHING_HIDDEN
        select = "SELECT number FROM sessions WHERE id = ?"
        row = self._database.read(lambda conn: conn.execute(select, (hidden[0],)).fetchone())
        return (row[0], hidden[1]) if row else NOTHING_HIDDEN

    def rename(self, session_id: str, title: str) -> None:
        """Give a session a name; an empty one makes it the first question again."""
        own = self._open.get(session_id)
        if own is not None:
            own.title = title
            return
        _, number = self._find(session_id)
        values = (clean_title(title), number)
        self._database.write(
            lambda conn: conn.execute("UPDATE sessions SET title = ? WHERE number = ?", values)
        )

    def delete_session(self, session_id: str) -> None:
        """Erase a session for good: its text, what was taken back of it, and its words in the index.

        A session that is open here is closed first. Copies that were kept after damage or a migration
        are not touched; a notice names them.

        Raises:
            HistoryError: unknown, ambiguous, or open in another terminal.
        """
        own = self._open.get(session_id)
        if own is not None and own.number is None:
            own.close()
            del self._open[session_id]
            return
        session_id, number = self._find(session_id)
        if session_id in self._open:
            self._open.pop(session_id).close()
        owned = self._own(session_id, number)
        try:
            self._database.write(lambda conn: self._erase_session(conn, number))
        finally:
            owned.close()
            del self._open[session_id]
        self._finish_erasing()
        copies = sorted(
            path
            for label in ("damaged", "v")
            for path in self._database.path.parent.glob(f"{self._database.path.name}.{label}*")
        )
        if copies:
            names = ", ".join(path.name for path in copies)
            self.notices.append(
                f"Older copies of the history may still hold that session: delete {names} in "
                f"{self._database.path.parent} when you need them no more."
            )

    def export_session(self, session_id: str) -> dict[str, Any]:
        """A session as plain data, for `export.to_json` and `to_markdown`; nothing undone is in it."""
        session_id, number = self._find(session_id)

        return self._database.read(lambda conn: export.read_session(conn, number, session_id))

    def import_session(self, data: Any) -> str:
        """Store an exported session as a new one and return its id.

        Raises:
            HistoryError: this is no exported session; the sentence names the first thing that is wrong.
        """
        try:
            export.check(data)
        except ValueError as error:
            raise HistoryError(f"The session cannot be loaded: {error}.") from error
        session = self.new_session()

        try:
            self._database.write(lambda conn: export.store_session(conn, data, session.id))
        finally:
            session.close()
            del self._open[session.id]
        return session.id

    def close(self) -> None:
        """Close every session and the file."""
        for session in self._open.values():
            session.close()
        self._open.clear()
        self._database.close()

    def __enter__(self) -> ChatHistory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- below: how it is done ----------------------------------------------------------------------

    def _is_taken(self, session_id: str) -> bool:
        return bool(self._database.read(lambda conn: _numbers(conn, session_id)))

    def _find(self, id_prefix: str) -> tuple[str, int]:
        """Id and key of the one session whose id begins like this."""
        wanted = encodable(id_prefix.strip().lower())
        matches = self._database.read(lambda conn: _numbers(conn, wanted)) if wanted else []
        if not matches:
            raise HistoryError(f"There is no session {id_prefix!r}: /sessions lists them.")
        if len(matches) > 1 and matches[0][0] != wanted:
            raise HistoryError(f"Several sessions begin with {id_prefix!r}: give more of the id.")
        return matches[0]

    def _own(self, session_id: str, number: int | None, title: str = "") -> Session:
        try:
            self._locks.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(self._locks / f"{session_id}.lock")
            owned = lock.exclusive()
        except OSError as error:
            raise HistoryError(
                f"Session {session_id} cannot be locked ({error.strerror or error})."
            ) from error
        if not owned:
            raise HistoryError(
                f"Session {session_id} is open in another terminal: close it there, or start a new session."
            )
        session = Session(
            self._database, session_id, number, lock, clock=self._clock, notices=self.notices, title=title
        )
        self._open[session_id] = session
        return session

    def _erase(self, conn: sqlite3.Connection, condition: str, value: float) -> None:
        """Delete messages and their words. What is left of them in the file goes in `_finish_erasing`."""
        select = f"SELECT id FROM messages WHERE {condition}"  # noqa: S608 (two conditions, both below)
        rows = conn.execute(select, (value,)).fetchall()
        self._index.forget(conn, [row_id for (row_id,) in rows])
        conn.executemany("DELETE FROM messages WHERE id = ?", rows)
        conn.execute("INSERT OR REPLACE INTO meta VALUES ('erasing', 1)")  # a crash cannot leave it half done

    def _erase_session(self, conn: sqlite3.Connection, number: int) -> None:
        self._erase(conn, "session = ?", number)
        conn.execute("DELETE FROM parts WHERE session = ?", (number,))
        conn.execute("DELETE FROM part_log WHERE session = ?", (number,))
        conn.execute("DELETE FROM sessions WHERE number = ?", (number,))

    def _erase_old_undone(self, working: Working) -> None:
        """Erase what was taken back long ago, and what an earlier run could not finish erasing."""
        limit = self._clock() - UNDONE_DAYS * 86_400
        try:
            if self._database.read(lambda conn: _any(conn, "messages WHERE undone_at < ?", limit)):
                with working("erasing what was taken back long ago"):
                    self._database.write(lambda conn: self._erase(conn, "undone_at < ?", limit))
            if self._database.read(lambda conn: _any(conn, "meta WHERE name = ?", "erasing")):
                with working("clearing the history of what was deleted"):
                    self._finish_erasing()
        except HistoryError as error:
            self.notices.append(f"Old text could not be erased and will be at a later start: {error}")

    def _finish_erasing(self) -> None:
        """Clear the file of what deleted rows left behind; the rows themselves are gone already."""
        try:
            done, reason = self._database.compact(), "another terminal was busy"
        except HistoryError as error:
            done, reason = False, str(error)
        if done:
            self._database.write(lambda conn: conn.execute("DELETE FROM meta WHERE name = 'erasing'"))
        else:
            self.notices.append(f"The last traces of deleted text leave the file at the next start: {reason}")


def _any(conn: sqlite3.Connection, source: str, value: float | str) -> bool:
    return conn.execute(f"SELECT 1 FROM {source} LIMIT 1", (value,)).fetchone() is not None  # noqa: S608


def _names_of(conn: sqlite3.Connection, number: int) -> tuple[str, str]:
    found = conn.execute("SELECT id FROM sessions WHERE number = ?", (number,)).fetchone()
    return (found[0] if found else ""), title_of(conn, number)


def _numbers(conn: sqlite3.Connection, id_prefix: str) -> list[tuple[str, int]]:
    """(id, key) of the sessions whose id begins like this, an equal one first."""
    rows = conn.execute(
        "SELECT id, number FROM sessions WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id <> ?1, id",
        (id_prefix,),
    )
    return [(session_id, number) for session_id, number in rows]


def _utc(timestamp: float) -> datetime:
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (TypeError, ValueError, OverflowError, OSError):  # damaged: a time is for people only
        return datetime.fromtimestamp(0, UTC)
