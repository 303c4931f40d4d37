"""`make chaos`: our client against `llmock`, a server that others wrote to inject faults, and its verdict.

Each row queues faults, asks one question through the agent, and then a second one without faults. What must
hold: a reply or a failure of the expected kind, no exception, and the next question works.
llmock comes from the package index, needs Python 3.12 and has an environment of its own.

Run as `python tests/chaos.py PATH-OF-LLMOCK`.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS.parent), str(TESTS)]

from conversation import problems  # noqa: E402 - found by the line above

from agent import Agent, Done, Failed  # noqa: E402
from brain import Brain  # noqa: E402
from builtin_tools import builtin_registry  # noqa: E402
from context import ContextManager  # noqa: E402


def cut(kind: str) -> list[dict[str, Any]]:
    """Return a fault of llmock's that strikes after two pieces of a stream."""
    return [{"type": "stream_fault", "kind": kind, "after_chunks": 2}]


def status(code: int, times: int = 1, **fields: object) -> list[dict[str, Any]]:
    """Return refusals with this HTTP status."""
    return [{"type": "fail", "status": code, **fields}] * times


FAULTS: list[tuple[str, list[dict[str, Any]], set[str]]] = [
    ("429 with Retry-After", status(429, retry_after=2), {"reply"}),
    ("500 once", status(500), {"reply"}),
    ("503 twice", status(503, 2), {"reply"}),
    ("503 for ever", status(503, 3), {"server"}),
    ("401", status(401), {"auth"}),
    ("400", status(400), {"bad_request"}),
    ("404", status(404), {"not_found"}),
    ("a stream that is truncated", cut("truncate"), {"interrupted"}),
    ("a stream that is cut", cut("disconnect"), {"connection", "interrupted"}),
    ("a malformed chunk", cut("malformed"), {"server", "reply"}),
    ("a stream that stalls", cut("stall"), {"timeout", "interrupted"}),
    ("a slow answer", [{"type": "delay", "seconds": 1}], {"reply"}),
    ("malformed arguments", [{"type": "tool_fault", "kind": "malformed_arguments"}], {"reply", "server"}),
]
"""What is played, and how it may end: with a reply, or with a failure of one of these kinds."""


def free_port() -> int:
    """Return a port of the loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def call(url: str, body: object | None = None) -> str:
    """Ask the control side of llmock."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        text: str = reply.read().decode()
        return text


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers, or has ended."""
    while server.poll() is None:
        try:
            call(f"{url}/_llmock/verdict?format=text")
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)  # nothing tells when a foreign server is ready; this is no test that CI runs
        else:
            return
    raise SystemExit("llmock did not start")


def play(url: str, name: str, faults: list[dict[str, Any]]) -> str:
    """Play one row; return how the turn ended, "reply" or the kind of the failure.

    Its name is in the questions, since llmock tells calls apart by what is asked.
    """
    brain = Brain(
        api_key="none",
        base_url=f"{url}/v1",
        model="gpt-4o-mini",
        timeout=3,
        connect_timeout=3,
    )
    with_tools = any(fault["type"] == "tool_fault" for fault in faults)
    agent = Agent(ContextManager(model="gpt-4o-mini"), brain, builtin_registry() if with_tools else None)
    call(f"{url}/_llmock/scenario", {"behaviors": faults})
    last = list(agent.run_turn(f"What is 6 * 7? This row is {name}."))[-1]
    ended = last.kind if isinstance(last, Failed) else "reply"
    agent.registry = None
    assert isinstance(list(agent.run_turn(f"And after {name}?"))[-1], Done), "the next question must work"
    assert not problems(agent.context.build_for_llm())
    brain.close()
    return ended


def main(arguments: list[str]) -> int:
    """Play all rows and print a table and llmock's own verdict; 1 when a row ended otherwise than it may."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [arguments[0], "serve", "--host", "127.0.0.1", "--port", str(port)]
    wrong = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(url, server)
            for name, faults, allowed in FAULTS:
                ended = play(url, name, faults)
                wrong += ended not in allowed
                print(f"{'ok  ' if ended in allowed else 'FAIL'}  {name:28} {ended}")
            print("\n" + call(f"{url}/_llmock/verdict?format=text"))
        finally:
            server.terminate()
    print(f"{len(FAULTS) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
