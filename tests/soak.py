"""`make soak`: a thousand turns of one conversation, with every fault that we know, Ctrl-C and `kill -9`.

The whole way is walked: Agent, ContextManager and ChatHistory in a process of their own, real HTTP to a
server on loopback that plays a random row of the table in `quirks`, a summarizer that works, and facts. In
the first half the process is killed now and then, and another one goes on. In the second half one process
lives on, so that its memory can be compared. Afterwards the file is read from its first word on.

    python tests/soak.py [--turns 1000] [--seconds 900] [--seed 1]

It ends early, and says so, when the seconds are over. Exit code 1: something was lost, doubled or invalid,
or memory grew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from quirks import ROWS, Row  # noqa: E402 (found by the line above)
from server import Answer, Received, Server, schema_problems  # noqa: E402
from test_quirks_conversation import BUDGET, filler, payload_of, played, told  # noqa: E402

from context import ContextManager  # noqa: E402
from history import ChatHistory  # noqa: E402

CHILD = HERE / "crash" / "soak_child.py"
KILL, CTRL_C = 0.06, 0.10
"""Chances that a turn is struck so; kills come in the first half only."""
LONGEST_BLOW = 0.06
"""Seconds after the question within which a blow falls. An ordinary turn takes about a third of that."""
GROWTH = 1.05
"""Memory in the last quarter over that in the first, of the process that lives on; allocators breathe."""
FIRST = 5
"""Turns before the faults begin."""
PATIENCE = 60.0
"""Seconds after which a silent child is killed, and the soak has failed."""


class StrictServer(Server):
    """A server that answers the turn at hand: what a killed process still had in the wire gets nothing."""

    model = ""

    def take(self, request: Received) -> Answer:
        if isinstance(request.body, dict) and request.body.get("model") != self.model:
            return Answer(500)
        return super().take(request)


class Soak:
    """One conversation and what became of it.

    Attributes:
        acknowledged: (question, answer) of every turn that must be there.
        wrong: everything that must not be.
    """

    def __init__(self, folder: Path, server: StrictServer, seed: int) -> None:
        self.folder, self.server = folder, server
        self.rng = random.Random(seed)
        self.session = "new"
        self.acknowledged: list[tuple[str, str]] = []
        self.wrong: list[str] = []
        self.figures: Counter[str] = Counter()
        self.rss: list[int] = []
        self.child = self.start()
        self.hello()

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, str(CHILD), str(self.folder), self.session, self.server.url]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self) -> dict[str, Any] | None:
        """What the child says, None when it died before it said anything."""
        assert self.child.stdout is not None
        watchdog = threading.Timer(PATIENCE, self.child.kill)
        watchdog.start()
        line = self.child.stdout.readline()
        watchdog.cancel()
        return json.loads(line) if line.endswith("\n") else None

    def hello(self, question: str = "", answers: tuple[str, ...] = ()) -> None:
        """A child begins: it must have all turns, and the one that was struck whole, offered or not begun."""
        said = self.read()
        if said is None:
            raise SystemExit("The child did not start.")
        self.session = said["session"]
        extra = said["turns"] - len(self.acknowledged)
        if extra == 1 and question:
            self.acknowledged.append((question, answers[0]))  # compared with what is stored at the end
            self.figures["answered, and killed before it said so"] += 1
        elif extra:
            self.wrong.append(f"{said['turns']} turns after a kill, {len(self.acknowledged)} acknowledged")
        elif said["recovered"] is not None:
            self.figures["questions offered again"] += 1
            if said["recovered"] != question:
                self.wrong.append(f"offered {said['recovered'][:40]!r} instead of {question[:40]!r}")

    def turn(self, number: int, *, kills: bool) -> None:
        """Ask one question; sometimes strike while it is answered."""
        row: Row = played(self.rng.choice(ROWS))
        if len(self.acknowledged) < FIRST:
            row = ROWS[0]  # of a conversation that has just begun nothing can be cut, whatever a server says
        chance = self.rng.random()
        blow = signal.SIGKILL if kills and chance < KILL else signal.SIGINT if chance > 1 - CTRL_C else None
        self.server.model = f"model-{number}"  # what a server refuses is remembered for each model
        self.server.script.clear()
        self.server.requests.clear()
        self.server.play(*row.answers)
        question = filler(number)
        order = {"question": question, "model": self.server.model, "timeout": row.timeout}
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(order) + "\n")
        self.child.stdin.flush()
        if blow is not None:
            time.sleep(self.rng.random() * LONGEST_BLOW)
            self.child.send_signal(blow)
            self.figures["kills" if blow == signal.SIGKILL else "Ctrl-C"] += 1
        outcome = self.read()
        if outcome is None:
            self.child.wait()
            if blow != signal.SIGKILL:
                raise SystemExit(f"The child died by itself, or was silent for {PATIENCE:.0f} s: {row.name}")
            self.child = self.start()
            self.hello(question, (row.text,))
            return
        self.judge(outcome, row, question, struck=blow is not None)
        if blow == signal.SIGKILL:  # it spoke before it died
            self.child.wait()
            self.child = self.start()
            self.hello()

    def judge(self, outcome: dict[str, Any], row: Row, question: str, *, struck: bool) -> None:
        kind, extra = outcome["kind"], outcome["turns"] - len(self.acknowledged)
        if extra == 1:
            self.acknowledged.append((question, outcome["answer"]))
        if outcome["open"] or extra not in (0, 1):
            self.wrong.append(f"{row.name}: {outcome}")
        stopped = struck and kind == "interrupted"
        if not stopped and (kind != row.kind or (extra == 1) != (not row.kind)):
            self.wrong.append(f"{row.name}: ended as {kind or 'answered'!r} with {extra} turns more")
        if extra == 1 and outcome["answer"] != row.text:
            self.wrong.append(f"{row.name}: answered {outcome['answer'][:40]!r}")
        self.figures["stopped" if stopped and not extra else "failed" if not extra else "answered"] += 1
        self.figures["compactions"] = outcome["compactions"]
        self.rss.append(outcome["rss"])

    def close(self) -> None:
        """Let the child leave, and compare the file with what was acknowledged."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        if self.child.wait(PATIENCE):
            self.wrong.append(f"the child ended with {self.child.returncode}")
        with ChatHistory(self.folder / "history.db") as history:
            self.wrong += history.notices
            session = history.open_session(self.session)
            context = ContextManager("Be brief.", BUDGET, "gpt-4o-mini", history=session)
            stored = told(context)
            if stored != self.acknowledged:
                first = next(
                    (
                        n
                        for n, pair in enumerate(zip(stored, self.acknowledged, strict=False))
                        if pair[0] != pair[1]
                    ),
                    min(len(stored), len(self.acknowledged)),
                )
                self.wrong.append(
                    f"{len(stored)} turns stored, {len(self.acknowledged)} acknowledged; "
                    f"the first that differs is turn {first + 1}"
                )
            self.wrong += schema_problems({"model": "gpt-9", "messages": payload_of(context)})
            check = history._database.read(lambda conn: conn.execute("PRAGMA integrity_check").fetchall())
            if check != [("ok",)]:
                self.wrong.append(f"the file is damaged: {check}")
        self.wrong += self.server.problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=int(os.environ.get("SOAK_TURNS", "1000")))
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS", "900")))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, StrictServer() as server:
        soak = Soak(Path(name), server, options.seed)
        half = options.turns // 2
        done = 0
        for number in range(options.turns):
            if time.monotonic() - began > options.seconds:
                print(f"stopped after {options.seconds:.0f} s")
                break
            if number == half:
                soak.rss.clear()
            soak.turn(number, kills=number < half)
            done += 1
        soak.close()
        size = sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file()) / 1e6
    figures = ", ".join(f"{count:,} {what}" for what, count in soak.figures.items())
    print(f"{done:,} turns in {time.monotonic() - began:.0f} s (seed {options.seed}): {figures}")
    print(f"stored and acknowledged: {len(soak.acknowledged):,} turns, {size:.1f} MB on disk")
    quarter = len(soak.rss) // 4
    if done == options.turns and quarter >= 10 and soak.rss[0]:
        parts = [soak.rss[start : start + quarter] for start in range(0, 4 * quarter, quarter)]
        first, *between, last = (statistics.median(part) / 1e3 for part in parts)
        shown = ", ".join(f"{each:.1f}" for each in (first, *between, last))
        print(f"memory of the last process, MB, by quarters of its turns: {shown}")
        if last > first * GROWTH:
            soak.wrong.append(f"memory grew by {last / first - 1:.0%}")
    for each in soak.wrong[:20]:
        print(f"wrong: {each}")
    print("Nothing was lost." if not soak.wrong else f"{len(soak.wrong)} things are wrong.")
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
