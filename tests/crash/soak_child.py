"""The child of the soak: a chat without a screen. A question a line comes in, what came of it goes out.

    python soak_child.py FOLDER SESSION URL

Each line is JSON. In: `question`, `model`, `timeout`. Out, first: `session`, `turns`, `recovered`; then for
each question: `kind` of the failure or "", `turns` in the log, `answer` of the last one, `open`, `rss` in KB,
`compactions`. Ctrl-C counts while a turn runs; elsewhere it is ignored, so that no outcome is lost.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent), str(HERE)]
# ruff: noqa: E402, I001 (importable only from here on)

from conversation_script import summarize
from agent import Agent, Failed
from brain import Brain
from context import ContextManager
from history import ChatHistory
from memory import FactStore
from terminal.interrupts import InterruptShield
from test_quirks_conversation import BUDGET, registry


def rss() -> int:
    """Memory that this process holds now, in KB (proc(5), Linux); 0 elsewhere."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return int(next(line for line in status.read_text().splitlines() if line.startswith("VmRSS")).split()[1])


def run(agent: Agent, question: str) -> str:
    """One turn; returns what it failed by, or ''. A Ctrl-C that hits our own lines counts as well."""
    kind = ""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with closing(agent.run_turn(question)) as events:
            for event in events:
                if isinstance(event, Failed):
                    kind = event.kind
    except KeyboardInterrupt:
        kind = "interrupted"
    while True:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt:
            continue
        return kind


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, session_id, url = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    history = ChatHistory(folder / "history.db")
    facts = FactStore(folder / "facts.db")
    session = history.new_session() if session_id == "new" else history.open_session(session_id)
    facts.session = session.id
    context = ContextManager(
        "Be brief.", BUDGET, "gpt-4o-mini", summarizer=summarize, facts=facts, history=session
    )
    hello = {"session": session.id, "turns": context.turn_count, "recovered": context.recovered}
    print(json.dumps(hello), flush=True)
    agents: dict[float, Agent] = {}
    for line in sys.stdin:
        order = json.loads(line)
        timeout = order["timeout"]
        if timeout not in agents:
            brain = Brain(
                api_key="sk-0123456789",
                base_url=url,
                model="none",
                timeout=timeout,
                connect_timeout=timeout,
                sleep=lambda _: None,
            )
            agents[timeout] = Agent(context, brain, registry(), max_tokens=500, shield=InterruptShield())
        agent = agents[timeout]
        agent.brain.model = order["model"]
        context.configure(token_budget=BUDGET)
        kind = run(agent, order["question"])
        last = context.messages[-1]["content"] if context.turn_count else ""
        outcome = {"kind": kind, "turns": context.turn_count, "answer": last, "open": context.is_open}
        print(json.dumps({**outcome, "rss": rss(), "compactions": context.compact_count}), flush=True)


if __name__ == "__main__":
    main()
