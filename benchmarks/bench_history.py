"""What the history costs: appends against a bare SQLite loop, and resuming at three sizes.

Run as `python benchmarks/bench_history.py`, or with all others by `make bench`. Both loops commit every
message durably, on the same disk, with the same pragmas; they take turns every few messages, so that a busy
disk hurts both. Resuming is the whole way from opening the file to the payload of the resumed context.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from spread import Spread  # noqa: E402 - found by the line above

from context import ContextManager  # noqa: E402
from history import ChatHistory  # noqa: E402
from tokens import counter_for  # noqa: E402
from view import View  # noqa: E402

TEXT = "A message of ordinary length, about as long as what a person types into a chat. " * 4
QUESTION = {"role": "user", "content": TEXT}
ANSWER = {"role": "assistant", "content": TEXT, "usage": {"prompt_tokens": 1200, "completion_tokens": 80}}
MODEL = "gpt-4o-mini"
BATCH = 20
"""Messages after which the other loop has its turn."""
SIZES = (10, 1_000, 20_000, 100_000)
"""Messages of the sessions that are resumed; 20,000 are 10,000 turns."""


def bare_loop(path: Path) -> Generator[float, None, None]:
    """Seconds for each batch of rows into one table without an index, each row its own transaction."""
    conn = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "secure_delete = ON"):
        conn.execute(f"PRAGMA {pragma}")
    conn.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT)")
    with contextlib.closing(conn):
        while True:
            start = time.perf_counter()
            for number in range(BATCH):
                conn.execute("BEGIN IMMEDIATE")
                conn.execute(
                    "INSERT INTO messages (role, content) VALUES (?, ?)",
                    (("user", "assistant")[number % 2], TEXT),
                )
                conn.execute("COMMIT")
            yield time.perf_counter() - start


def session_loop(path: Path) -> Generator[float, None, None]:
    """Seconds for each batch of messages through a Session, as the context stores them."""
    with ChatHistory(path) as history:
        session = history.new_session()
        turn = 0
        while True:
            start = time.perf_counter()
            for _ in range(BATCH // 2):
                turn += 1
                session.open_turn(turn, QUESTION)
                session.append(turn, ANSWER, {"correction": f"[1.0{turn % 7}, {turn}]"})
            yield time.perf_counter() - start


def fill(path: Path, count: int) -> str:
    """Make a session of `count` messages and return its id. Written in bulk: only its size matters."""
    with ChatHistory(path) as history:
        session = history.new_session()
        session.open_turn(1, QUESTION, {"correction": '[1.1, "gpt-4o-mini"]'})
        session.append(1, ANSWER)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("BEGIN")
    rows = ((1 + n // 2, ("user", "assistant")[n % 2], TEXT, 1.0) for n in range(2, count))
    conn.executemany(
        "INSERT INTO messages (session, turn, role, content, created_at) VALUES (1, ?, ?, ?, ?)", rows
    )
    conn.execute("COMMIT")
    for turn in range(2, count // 2, 10):
        value = json.dumps([1.1 + turn / count, MODEL])
        conn.execute("INSERT INTO parts VALUES (1, 'correction', ?, ?)", (turn, value))
    view = View(first=max(1, count // 2 - 5))
    for name, value in view.changed_parts(View()).items():
        conn.execute("INSERT OR REPLACE INTO parts VALUES (1, ?, ?, ?)", (name, count // 2, value))
    conn.close()
    return session.id


def resume(path: Path, session_id: str) -> tuple[float, int]:
    """Seconds and rows read from opening the file to having the payload."""
    start = time.perf_counter()
    with ChatHistory(path) as history:
        session = history.open_session(session_id)
        context = ContextManager(model=MODEL, history=session)
        context.build_for_llm()
        seconds = time.perf_counter() - start
        assert context.turn_count, "nothing was resumed"
        return seconds, session.rows_read


def measure_appends(folder: Path, count: int) -> dict[str, Any]:
    """Seconds an append takes in both loops, the ratio of their rates, and that over the whole time.

    The first ratio is of medians over batches that take turns. A checkpoint, which both make about every
    thousand pages, is in too few batches to show in them; in the whole time it is.
    """
    (folder / "bare").mkdir(parents=True)
    loops = {
        "bare": bare_loop(folder / "bare" / "history.db"),
        "session": session_loop(folder / "session" / "history.db"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(count // BATCH):
        for name, loop in loops.items():
            seconds[name].append(next(loop))
    for loop in loops.values():
        loop.close()
    spreads = {name: Spread.of([each / BATCH for each in values]) for name, values in seconds.items()}
    return {
        **spreads,
        "ratio": spreads["bare"].median / spreads["session"].median,
        "whole_ratio": sum(seconds["bare"]) / sum(seconds["session"]),
    }


def measure_size(folder: Path, count: int) -> dict[str, Any]:
    """What a session of `count` messages costs: seconds to resume and to search, rows read, megabytes."""
    path = folder / f"resume{count}" / "history.db"
    session_id = fill(path, count)
    megabytes = path.stat().st_size / 1e6
    counter_for(MODEL).text("")  # the vocabulary is loaded once for each program, not for each session
    runs = [resume(path, session_id) for _ in range(5)]
    with ChatHistory(path) as history:
        first_search = timed(lambda: history.search("ordinary"))  # makes the index
        searches = [timed(lambda: history.search("ordinary length")) for _ in range(5)]
    return {
        "messages": count,
        "megabytes": megabytes,
        "rows_read": runs[0][1],
        "resume": Spread.of([seconds for seconds, _ in runs]),
        "first_search": first_search,
        "search": Spread.of(searches),
    }


def timed(work: Callable[[], object]) -> float:
    """Seconds that this takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def results(folder: Path, *, count: int = 4000, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Everything that is measured here. Times are seconds."""
    appends = measure_appends(folder, count)
    return {**appends, "sizes": [measure_size(folder, size) for size in sizes]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4000, help="messages in each append loop")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = results(Path(name), count=options.count, sizes=options.sizes)
    print(
        f"an append of {options.count}: bare SQLite {found['bare'].shown(0, 1e6)} µs, "
        f"session {found['session'].shown(0, 1e6)} µs, "
        f"ratio {found['ratio']:.2f} (at least 0.67), over the whole time {found['whole_ratio']:.2f}"
    )
    for size in found["sizes"]:
        print(
            f"{size['messages']:,} messages, {size['megabytes']:.1f} MB: "
            f"resumed in {size['resume'].shown(1, 1000)} ms from {size['rows_read']} rows; "
            f"first search {size['first_search']:.2f} s (makes the index), "
            f"next {size['search'].shown(0, 1000)} ms"
        )
    return 0 if found["ratio"] >= 2 / 3 else 1


if __name__ == "__main__":
    sys.exit(main())
