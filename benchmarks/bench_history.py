"""What the history costs: appends against a bare SQLite loop, and resuming at three sizes.

Run as `python benchmarks/bench_history.py`. Both loops commit every message durably, on the same disk,
with the same pragmas; they take turns within one run, so that a busy disk hurts both. Resuming reads what
the context reads: the parts, the last turn, and a window of ten turns.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from history import ChatHistory

TEXT = "A message of ordinary length, about as long as what a person types into a chat. " * 4
QUESTION = {"role": "user", "content": TEXT}
ANSWER = {"role": "assistant", "content": TEXT, "usage": {"prompt_tokens": 1200, "completion_tokens": 80}}
WINDOW = 10


def bare_loop(path: Path, count: int) -> float:
    """Seconds for `count` rows into one table without an index, each its own transaction."""
    conn = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "secure_delete = ON"):
        conn.execute(f"PRAGMA {pragma}")
    conn.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT)")
    start = time.perf_counter()
    for number in range(count):
        conn.execute("BEGIN IMMEDIATE")
        conn.execute(
            "INSERT INTO messages (role, content) VALUES (?, ?)", (("user", "assistant")[number % 2], TEXT)
        )
        conn.execute("COMMIT")
    seconds = time.perf_counter() - start
    conn.close()
    return seconds


def session_loop(path: Path, count: int) -> float:
    """Seconds for `count` messages through a Session, as the context stores them."""
    with ChatHistory(path) as history:
        session = history.new_session()
        start = time.perf_counter()
        for number in range(0, count, 2):
            turn = number // 2 + 1
            session.open_turn(turn, QUESTION)
            session.append(turn, ANSWER, {"correction": f"[1.0{turn % 7}, {turn}]"})
        return time.perf_counter() - start


def fill(path: Path, count: int) -> str:
    """Make a session of `count` messages and return its id. Written in bulk: only its size matters."""
    with ChatHistory(path) as history:
        session = history.new_session()
        session.open_turn(1, QUESTION, {"view": "{}"})
        session.append(1, ANSWER)
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("BEGIN")
    rows = ((1 + n // 2, ("user", "assistant")[n % 2], TEXT, 1.0) for n in range(2, count))
    conn.executemany(
        "INSERT INTO messages (session, turn, role, content, created_at) VALUES (1, ?, ?, ?, ?)", rows
    )
    conn.execute("COMMIT")
    for turn in range(2, count // 2, 10):
        conn.execute("INSERT INTO parts (session, name, turn, value) VALUES (1, 'view', ?, '{}')", (turn,))
    conn.close()
    return session.id


def resume(path: Path, session_id: str) -> tuple[float, int]:
    """Seconds and rows read from opening the file to having the window."""
    start = time.perf_counter()
    with ChatHistory(path) as history:
        session = history.open_session(session_id)
        session.parts()
        last = session.last_turn()
        session.turns(max(1, last - WINDOW + 1), last)
        return time.perf_counter() - start, session.rows_read


def report_appends(folder: Path, count: int, rounds: int) -> float:
    loops: dict[str, Callable[[Path, int], float]] = {"bare": bare_loop, "session": session_loop}
    rates: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(rounds):
        for name, loop in loops.items():
            rates[name].append(count / loop(folder / f"{name}{number}" / "history.db", count))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    # Of neighbors, not of medians: what the disk had to do besides changes from minute to minute.
    ratio = statistics.median(ours / bare for ours, bare in zip(rates["session"], rates["bare"], strict=True))
    print(
        f"appends per second, {count} each, median of {rounds}: bare SQLite {medians['bare']:,.0f}, ", end=""
    )
    print(f"session {medians['session']:,.0f}, ratio {ratio:.2f} (at least 0.67)")
    return ratio


def report_resume(folder: Path, sizes: list[int]) -> None:
    for count in sizes:
        path = folder / f"resume{count}" / "history.db"
        session_id = fill(path, count)
        runs = [resume(path, session_id) for _ in range(5)]
        seconds = statistics.median(seconds for seconds, _ in runs)
        print(f"resume at {count:,} messages: {runs[0][1]} rows read, {seconds * 1000:.1f} ms")
        with ChatHistory(path) as history:
            start = time.perf_counter()
            history.search("ordinary")
            first = time.perf_counter() - start
            start = time.perf_counter()
            history.search("ordinary length")
            print(f"  first search {first:.2f} s (makes the index), next {time.perf_counter() - start:.3f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="messages in each append loop")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10, 1_000, 100_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(options.rounds):
            (folder / f"bare{number}").mkdir()
        ratio = report_appends(folder, options.count, options.rounds)
        report_resume(folder, options.sizes)
    return 0 if ratio >= 2 / 3 else 1


if __name__ == "__main__":
    sys.exit(main())
