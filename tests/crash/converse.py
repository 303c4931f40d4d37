"""The child of the kill tests of the context: it holds a conversation and acknowledges each action on stdout.

    python converse.py FOLDER SESSION SEED [--late] [--die-at N]

SESSION is an id, or "new". The first line is the session's id; every further line is an action that returned.
`--late` and `--die-at` are those of `talk.py`; the statements of the facts' file are counted too, so that a
death between the two files needs no luck either.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]  # the program, and what the kill tests share
# ruff: noqa: E402, I001 (importable only from here on)

from conversation_script import actions, make_context, perform
from talk import Executioner, LateDatabase
import history as history_module
from history import ChatHistory
from memory import FactStore


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("session")
    parser.add_argument("seed", type=int)
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--die-at", type=int)
    options = parser.parse_args()
    if options.late:
        history_module.Database = LateDatabase  # type: ignore[misc]  # a double, for this process only
    history = ChatHistory(options.folder / "history.db")
    facts = FactStore(options.folder / "facts.db")
    session = history.new_session() if options.session == "new" else history.open_session(options.session)
    facts.session = session.id
    print(session.id, flush=True)
    if options.die_at is not None:
        executioner = Executioner(options.die_at)
        executioner.watch(history._database._connection())
        executioner.watch(facts._file._db)
    ctx = make_context(facts, session)
    ctx.build_for_llm()
    for action in actions(options.seed):
        perform(ctx, facts, action)
        print(action.name, flush=True)


if __name__ == "__main__":
    main()
