"""What the tests of the history share: a place on a difficult path, short messages, a clock that stands."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from history import ChatHistory, HistoryError, Session

Message = dict[str, Any]
NOW = 1_800_000_000.0
DAY = 86_400.0


def user(text: str, **more: Any) -> Message:
    return {"role": "user", "content": text, **more}


def assistant(text: str | None, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def call(call_id: str, name: str = "calculator", arguments: str = "{}") -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def talk(session: Session, turns: int, text: str = "number {turn}") -> None:
    """Say and answer this many turns more."""
    first = session.last_turn() + 1
    for turn in range(first, first + turns):
        session.open_turn(turn, user(text.format(turn=turn)), {"view": f'{{"first": {turn}}}'})
        session.append(turn, assistant(f"answer {turn}"))


def content(session: Session) -> list[tuple[int, Message]]:
    """Everything that is live, as (turn, message)."""
    return [(turn, message) for turn, rows in session.turns(1, session.last_turn()) for message in rows]


def files_with(folder: Path, *needles: str) -> list[str]:
    """Names of the files below a folder that hold one of these texts, plain or in UTF-16."""
    found = []
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if any(needle.encode() in data or needle.encode("utf-16-le") in data for needle in needles):
            found.append(path.name)
    return found


def sql(path: Path, statement: str, *values: Any) -> list[Any]:
    """Run a statement on the file from outside, as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        return conn.execute(statement, values).fetchall()


def connection(history: ChatHistory) -> sqlite3.Connection:
    """The connection below a history: for limits and tracing that a test sets from outside."""
    return history._database._connection()


def without_root(work: Callable[[], object]) -> str:
    """Do something as somebody who must obey permissions; returns the sentence of its HistoryError, or ''."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        sentence = "the child ended without a word"
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setuid(65534)
            work()
            sentence = ""
        except HistoryError as error:
            sentence = str(error)
        except BaseException as error:  # noqa: BLE001 (the parent must hear of it)
            sentence = repr(error)
        finally:
            os.write(writer, sentence.encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()
