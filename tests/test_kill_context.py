"""After `kill -9` a conversation goes on where it was: the same payload, byte for byte, and nothing lost.

The context is killed here together with its facts, in turns with steps, pins, evidence, undo, compactions
and a summarizer. `test_kill.py` kills the log below it. `KILLS` and `KILL_SEED` are as there.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from crash.conversation_script import Action, Told, actions, make_context, replayed, state
from histories import sql

from history import ChatHistory
from memory import FactStore

if sys.platform == "win32":
    pytest.skip("SIGKILL is POSIX", allow_module_level=True)

CONVERSE = Path(__file__).parent / "crash" / "converse.py"
KILLS = int(os.environ.get("KILLS", "15"))
SEED = int(os.environ.get("KILL_SEED", "20"))
KILLS_PER_SESSION = 15
"""Then another conversation begins: what is compared is said again from its first word on."""

DIED, BUILD = Action("died"), Action("build")


class Killed:
    """One conversation, killed again and again; every child goes on where the last one died.

    Attributes:
        done: everything that was done so far and is known to be on the disk.
        recovered: unanswered questions that were offered again.
        in_flight: actions that had happened although nobody had said so yet.
    """

    def __init__(self, folder: Path, rng: random.Random, *options: str) -> None:
        self.folder = folder
        self.rng = rng
        self.options = options
        self.session_id = "new"
        self.done: list[Action] = [BUILD]
        self.recovered = self.in_flight = 0

    def kill(self) -> tuple[int, list[Action]]:
        """Let a child talk and kill it; returns its seed and what it acknowledged.

        Every other time it dies by its own hand before an SQL statement; otherwise it is struck from
        outside, a little after an acknowledgment.
        """
        seed = self.rng.randrange(10**6)
        inside = self.rng.random() < 0.5
        more = ("--die-at", str(self.rng.randrange(10, 250))) if inside else ()
        command = [sys.executable, str(CONVERSE), str(self.folder), self.session_id, str(seed)]
        with subprocess.Popen([*command, *self.options, *more], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            self.session_id = child.stdout.readline().strip()
            acknowledged: list[str] = []
            if not inside:
                acknowledged += [child.stdout.readline().strip() for _ in range(self.rng.randrange(60))]
                for _ in range(self.rng.randrange(20_000)):  # not always just after an acknowledgment
                    pass
                child.kill()
            acknowledged += [line.strip() for line in child.stdout]
        assert child.returncode == -9
        performed = list(islice(actions(seed), len(acknowledged) + 1))
        assert acknowledged == [action.name for action in performed[:-1]]
        return seed, performed

    def difference(self) -> str:
        """Kill it once more; what is wrong afterwards, '' when nothing is.

        The action that was under way may have happened or not, but not in part.
        """
        seed, performed = self.kill()
        if not sql(self.folder / "history.db", "SELECT 1 FROM sessions"):
            self.session_id = "new"  # killed before its first word was stored
            return "" if len(performed) == 1 else f"seed {seed}: everything is lost"
        with (
            ChatHistory(self.folder / "history.db") as history,
            closing(FactStore(self.folder / "facts.db")) as facts,
        ):
            session = history.open_session(self.session_id)
            facts.session = session.id
            ctx = make_context(facts, session)
            found, recovered = state(ctx, facts), ctx.recovered
            rows = [(turn, message.get("content") or "") for turn, message in _rows(session)]
            notices = history.notices
        wrong = ""
        for happened in (performed[:-1], performed):
            whole = [*self.done, *happened, DIED]
            expected = replayed(self.session_id, whole)
            told = Told().after(whole[:-1])
            offered = told.turns[-1][0] if told.open else None
            told.after([DIED])
            spoken = [(number, text) for number, turn in enumerate(told.turns, 1) for text in turn]
            differs = [name for name in expected if found[name] != expected[name]]
            differs += ["rows"] * (rows != spoken) + ["offer"] * (recovered != offered)
            if not differs:
                self.done = [*whole, BUILD]
                self.recovered += recovered is not None
                self.in_flight += happened is performed
                break
            wrong = wrong or f"seed {seed}: after {len(happened)} actions {', '.join(differs)} differ"
        else:
            return wrong
        return f"notices: {notices}" if notices else ""


def _rows(session: object) -> Iterator[tuple[int, dict[str, object]]]:
    for turn, messages in session.turns(1, session.last_turn()):  # type: ignore[attr-defined]  # a Session
        for message in messages:
            yield turn, message


def killed(folder: Path, *options: str) -> Iterator[tuple[str, Killed]]:
    """Kill conversations `KILLS` times; what was wrong after each, and the conversation."""
    rng = random.Random(SEED)
    for number in range(KILLS):
        if number % KILLS_PER_SESSION == 0:
            home = folder / f"conversation {number // KILLS_PER_SESSION} ü"
            conversation = Killed(home, rng, *options)
        yield conversation.difference(), conversation


@pytest.mark.timeout(60 + 20 * KILLS)
def test_a_killed_conversation_sends_what_it_would_have_sent(tmp_path: Path) -> None:
    """Nothing acknowledged is lost or doubled; an unanswered turn is offered again, its facts are gone."""
    conversations = []
    for wrong, conversation in killed(tmp_path):
        assert wrong == ""
        if conversation not in conversations:
            conversations.append(conversation)
    # Or the test would have had nothing to lose.
    assert sum(each.recovered for each in conversations) >= KILLS // 3
    last = conversations[0]
    names = {action.name for action in last.done}
    assert {"ask", "call", "result", "answer", "undo", "learn"} <= names
    assert any(action.pinned for action in last.done)
    with ChatHistory(last.folder / "history.db") as history:
        assert len(history.open_session(last.session_id).part_log("compaction")) >= 2
    assert sql(last.folder / "history.db", "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.timeout(60 + 20 * KILLS)
def test_the_kill_test_notices_a_history_that_commits_late(tmp_path: Path) -> None:
    """Without this, the test above could be blind."""
    assert any(wrong for wrong, _ in islice(killed(tmp_path, "--late"), 5))
