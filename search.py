"""Full-text search over everything that was said: the index (SQLite FTS5) and the ranking.

Covered here: bringing the index up to date, searching, and forgetting. Not covered: what a word is
(`words.py`), which sessions there are (`history.py`), and how a hit is shown or fenced (the terminal,
`tools.py`).

The index is brought up to date when somebody searches, not when something is said: an append stays
one small write. It holds words and row ids only; the text stays in the log.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from storage import Database
from words import MAX_WORDS, SYMBOLS, Phrase, joined_words, loosen, parse_query

Progress = Callable[[int, int], None]
"""Called with (messages indexed so far, messages to index) while an index is brought up to date."""

NOT_INDEXED = frozenset({"search_history"})
"""Tools whose results are no news: what a search found would otherwise be found again by the next one."""

INDEX_FORMAT = 1
"""Raise it when words are split differently: every index is then made anew."""

NOTHING_HIDDEN = (0, 0)  # no session has the number 0

_BATCH = 500  # messages indexed in one transaction, so that other terminals never wait long


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found.

    Attributes:
        session: id of its session; `title` is that session's title.
        time: when it was said, in UTC.
        snippet: the part of the text with the most matches, on one line, the text otherwise unchanged.
        marks: where in `snippet` the matching words stand: (start, end) pairs in order.
        text: the whole message.
    """

    session: str
    title: str
    turn: int
    role: str
    time: datetime
    snippet: str
    marks: tuple[tuple[int, int], ...]
    text: str


class Found(NamedTuple):
    """A row that matches, before its session is looked up."""

    session: int
    turn: int
    role: str
    text: str
    created_at: float


class SearchIndex:
    """The index over the messages of one history file."""

    def __init__(self, database: Database, notices: list[str]) -> None:
        self._database = database
        self._notices = notices
        self._usable: bool | None = None

    def search(
        self,
        query: str,
        *,
        limit: int,
        session: int | None,
        now: float,
        hidden: tuple[int, int] = NOTHING_HIDDEN,
        progress: Progress | None = None,
    ) -> tuple[list[Found], list[Phrase]]:
        """Messages that match, best first, and the phrases that did it.

        `hidden` is (session, turn): turns of that session from this one on are not looked at.

        All phrases must be there; when nothing has them all, messages with some of them are found.
        Ranked by BM25; what was said today counts double, what was said a month ago half again as much.
        """
        phrases = parse_query(query)
        if not phrases or limit < 1:
            return [], phrases
        if not self._available():
            return self._search_without_index(query, limit, session, hidden), loosen(phrases)
        for attempt, operator in ((phrases, " AND "), (loosen(phrases), " OR ")):
            found: list[Found] | None = None if attempt else []
            while found is None:
                self.catch_up(progress)
                found = self._match(operator.join(map(_quoted, attempt)), limit, session, hidden, now)
            if found:
                return found, attempt
        return [], phrases

    def catch_up(self, progress: Progress | None = None) -> None:
        """Index what was said since the last search."""
        done, total = 0, 0
        while True:
            count, remaining = self._database.write(_index_batch)
            done += count
            total = max(total, done + remaining)
            if progress is not None and count:
                progress(done, total)
            if not remaining:
                return

    def forget(self, conn: sqlite3.Connection, ids: Sequence[int]) -> None:
        """Take messages out of the index, in the transaction that will delete them from the log.

        FTS5 only notes that a row is gone and keeps its words until the pieces of the index are merged;
        `optimize` merges them all, now.
        """
        if not _exists(conn):
            return
        if not self._available():
            # Nobody can use the index in this build, but its words are in plain tables, and they must go.
            for (table,) in conn.execute(
                "SELECT name FROM sqlite_master WHERE name IN "
                "('search_index_data', 'search_index_idx', 'search_index_docsize')"
            ).fetchall():
                conn.execute(f"DELETE FROM {table}")  # noqa: S608 (one of the three)
            conn.execute("UPDATE meta SET value = 0 WHERE name = 'index_format'")
            return
        for row_id in ids:
            indexed = conn.execute(
                "SELECT m.content FROM messages m JOIN search_index_docsize d ON d.id = m.id WHERE m.id = ?",
                (row_id,),
            ).fetchone()
            if indexed is not None and not isinstance(indexed[0], str):
                conn.execute("DROP TABLE search_index")  # damaged since: its words are not known any more
                return
            if indexed is not None:
                conn.execute(
                    "INSERT INTO search_index (search_index, rowid, text) VALUES ('delete', ?, ?)",
                    (row_id, joined_words(indexed[0])),
                )
        conn.execute("INSERT INTO search_index (search_index) VALUES ('optimize')")

    def _available(self) -> bool:
        if self._usable is None:
            self._usable = self._database.read(_has_fts5)
            if not self._usable:
                self._notices.append(
                    "This Python's SQLite has no full-text search (FTS5): searches are slower and not ranked."
                )
        return self._usable

    def _match(
        self, expression: str, limit: int, session: int | None, hidden: tuple[int, int], now: float
    ) -> list[Found] | None:
        """The messages that match; None when the index was damaged, and the file was made anew without it."""

        def work(conn: sqlite3.Connection) -> list[Found] | None:
            if not _exists(conn):
                return None
            rows = conn.execute(
                """
                WITH best AS (
                    SELECT m.id AS id,
                           bm25(search_index) * (1 + 1 / (1 + max(0, ?1 - m.created_at) / 2592000.0)) AS score
                    FROM search_index JOIN messages m ON m.id = search_index.rowid
                    WHERE search_index MATCH ?2 AND m.undone_at IS NULL AND (?3 IS NULL OR m.session = ?3)
                          AND (m.session != ?5 OR m.turn < ?6)
                    ORDER BY score, m.id DESC LIMIT ?4
                )
                SELECT m.session, m.turn, m.role, m.content, m.created_at
                FROM best JOIN messages m USING (id) ORDER BY best.score, m.id DESC
                """,
                (now, expression, session, limit, *hidden),
            )
            return [Found(*row) for row in rows if isinstance(row[3], str)]

        return self._database.read(work)

    def _search_without_index(
        self, query: str, limit: int, session: int | None, hidden: tuple[int, int]
    ) -> list[Found]:
        pieces = [re.sub(r"([\\%_])", r"\\\1", _encodable(piece)) for piece in query.split()[:MAX_WORDS]]
        condition = " AND ".join("content LIKE ? ESCAPE '\\'" for _ in pieces)

        def work(conn: sqlite3.Connection) -> list[Found]:
            select = (
                "SELECT session, turn, role, content, created_at FROM messages "  # noqa: S608 (LIKE ?, repeated)
                f"WHERE undone_at IS NULL AND {condition} AND (? IS NULL OR session = ?) "
                "AND (session != ? OR turn < ?) ORDER BY id DESC LIMIT ?"
            )
            rows = conn.execute(
                select, (*(f"%{piece}%" for piece in pieces), session, session, *hidden, limit)
            )
            return [Found(*row) for row in rows if isinstance(row[3], str)]

        return self._database.read(work)


def _has_fts5(conn: sqlite3.Connection) -> bool:
    try:
        conn.execute("CREATE VIRTUAL TABLE temp.fts5_probe USING fts5(text)")
        conn.execute("DROP TABLE temp.fts5_probe")
    except sqlite3.OperationalError:
        return False
    return True


def _exists(conn: sqlite3.Connection) -> bool:
    return conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'search_index'").fetchone() is not None


def _quoted(phrase: Phrase) -> str:
    """A phrase in FTS5's query syntax. Words hold no quotation marks, so nothing can break out."""
    return f'"{" ".join(phrase.words)}"' + (" *" if phrase.prefix else "")


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _create(conn: sqlite3.Connection) -> None:
    """Make the index when there is none, or when words were split differently when it was made."""
    known = conn.execute("SELECT value FROM meta WHERE name = 'index_format'").fetchone()
    if known == (INDEX_FORMAT,) and _exists(conn):
        return
    conn.execute("DROP TABLE IF EXISTS search_index")
    conn.execute(
        "CREATE VIRTUAL TABLE search_index USING fts5("
        f"text, content = '', tokenize = \"ascii tokenchars '{SYMBOLS}'\")"
    )
    conn.execute(
        "INSERT OR REPLACE INTO meta VALUES ('index_format', ?), ('indexed_up_to', 0)", (INDEX_FORMAT,)
    )


def _index_batch(conn: sqlite3.Connection) -> tuple[int, int]:
    """Index the next messages; returns how many were looked at and how many ids are still ahead.

    Rows become visible in the order of their ids, because writers wait for each other: none is missed.
    """
    _create(conn)
    (done,) = conn.execute("SELECT value FROM meta WHERE name = 'indexed_up_to'").fetchone()
    rows = conn.execute(
        "SELECT id, session, turn, role, content, extra, undone_at FROM messages WHERE id > ? "
        "ORDER BY id LIMIT ?",
        (done, _BATCH),
    ).fetchall()
    if not rows:
        return 0, 0
    for row_id, session, turn, role, content, extra, undone_at in rows:
        if undone_at is not None or not isinstance(content, str):
            continue
        if role != "tool" or _tool_name(conn, row_id, session, turn, extra) not in NOT_INDEXED:
            conn.execute(
                "INSERT INTO search_index (rowid, text) VALUES (?, ?)", (row_id, joined_words(content))
            )
    conn.execute("UPDATE meta SET value = ? WHERE name = 'indexed_up_to'", (rows[-1][0],))
    (last,) = conn.execute("SELECT max(id) FROM messages").fetchone()
    return len(rows), last - rows[-1][0]


def _tool_name(conn: sqlite3.Connection, row_id: int, session: int, turn: int, extra: object) -> str | None:
    """Name of the tool whose result a row is: the call stands in the assistant message before it."""
    call = conn.execute(
        "SELECT extra FROM messages WHERE session = ? AND turn = ? AND id < ? AND role = 'assistant' "
        "AND undone_at IS NULL ORDER BY id DESC LIMIT 1",
        (session, turn, row_id),
    ).fetchone()
    try:
        wanted = json.loads(extra if isinstance(extra, str) else "{}").get("tool_call_id")
        names = {c["id"]: c["function"]["name"] for c in json.loads(call[0])["tool_calls"]}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):  # damaged, or no call there
        return None
    return names.get(wanted)
