"""The child of the kill tests: performs steps on a session and acknowledges each one on stdout.

    python talk.py FILE SESSION SEED [--count N] [--delete] [--late] [--die-at N] [--die-at-opening N]

SESSION is an id, or "new". The first line says the session's id and its last turn; every further line
is the row id of a step that returned. `--late` commits every seventh transaction only, which is the
mistake that the kill tests must notice. `--die-at` kills the process from within, just before it runs
its Nth SQL statement, so that a death between BEGIN and COMMIT needs no luck.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import sys
from itertools import islice
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]  # the program, and what the kill tests share
# ruff: noqa: E402, I001 (importable only from here on)

from script import Step, steps
import history as history_module
from history import ChatHistory, Session
from storage import Database, schema


class LateDatabase(Database):
    """Acknowledges before it commits."""

    waiting = 0

    def _begin(self, conn: sqlite3.Connection) -> None:
        if not conn.in_transaction:
            super()._begin(conn)

    def _commit(self, conn: sqlite3.Connection) -> None:
        self.waiting += 1
        if self.waiting % 7 == 0:
            super()._commit(conn)


def perform(session: Session, step: Step) -> int:
    if step.name == "open":
        return session.open_turn(step.turn, step.message, step.parts)
    if step.name == "append":
        return session.append(step.turn, step.message, step.parts)
    if step.name == "project":
        session.project(step.turn, step.parts, step.log)
    else:
        session.undo(step.turn)
    return 0


class Executioner:
    """Kills this process before the SQL statement with this number."""

    def __init__(self, statement: int) -> None:
        self.left = statement

    def watch(self, conn: sqlite3.Connection) -> sqlite3.Connection:
        conn.set_trace_callback(self.before)
        return conn

    def before(self, _: str) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("session")
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int)
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--delete", action="store_true")
    parser.add_argument("--die-at", type=int)
    parser.add_argument("--die-at-opening", type=int)
    options = parser.parse_args()
    if options.late:
        history_module.Database = LateDatabase  # type: ignore[misc]  # a double, for this process only
    if options.die_at_opening is not None:
        executioner = Executioner(options.die_at_opening)
        connect = schema.connect
        schema.connect = lambda path: executioner.watch(connect(path))
    with ChatHistory(options.file) as history:
        session = history.new_session() if options.session == "new" else history.open_session(options.session)
        print(session.id, session.last_turn(), flush=True)
        if options.die_at is not None:
            Executioner(options.die_at).watch(history._database._connection())
        if options.delete:
            history.delete_session(session.id)
            return
        for step in islice(steps(options.seed, session.last_turn()), options.count):
            print(perform(session, step), flush=True)


if __name__ == "__main__":
    main()
