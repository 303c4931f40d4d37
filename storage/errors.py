"""Everything that can be wrong with the history's file, each as one sentence with what to do about it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

BUSY_SECONDS = 15.0
"""How long a terminal waits for another one's transaction, in seconds. Ours take milliseconds."""


ELSEWHERE = "set MINI_AGENT_HOME to a folder that you may write to, or start with --no-history"
AWAY = "it was left as it is: move it away, or set MINI_AGENT_HOME to another folder"


class HistoryError(Exception):
    """What went wrong with the history: one sentence for a person, with what to do about it."""


def code(error: sqlite3.Error) -> int:
    """SQLite's primary result code: the low byte of the extended one (https://sqlite.org/rescode.html)."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


class Sentences:
    """A `with` block that turns what SQLite and the operating system raise about a file into a HistoryError.

    A class, and not a generator: it is entered for every message, and one object does for all of them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise HistoryError(_sentence(self._path, error)) from error
        if isinstance(error, OSError):
            raise HistoryError(
                f"The history {self._path} cannot be used ({error.strerror or error}): {ELSEWHERE}."
            ) from error


def _sentence(path: Path, error: sqlite3.Error) -> str:
    match code(error):
        case sqlite3.SQLITE_FULL:
            return f"The disk is full, so {path} was left as it was: free some space and try again."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"The history {path} cannot be written to: {ELSEWHERE}."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return (
                f"Another program kept the history {path} busy for {BUSY_SECONDS:.0f} seconds; "
                "nothing was saved: try again."
            )
        case sqlite3.SQLITE_NOTADB:
            return f"{path} is not a database; {AWAY}."
        case sqlite3.SQLITE_CORRUPT:
            return f"The history {path} is damaged: start again, which keeps what is readable."
        case sqlite3.SQLITE_IOERR:
            return (
                f"The disk failed while the history {path} was used ({error}); nothing was saved: try again."
            )
        case _:
            return f"The history {path} could not be used ({error})."
