"""How long a start takes, as a person waits for it: to the prompt, and to the first character of a reply.

Each program starts in a terminal of its own (a pty), in turn, several times. The measure of the prompt is a
bare prompt-toolkit prompt, and a peer chat program where one is installed.

Run as `python benchmarks/bench_start.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pexpect

PROJECT = Path(__file__).resolve().parent.parent
ROUNDS = 9
BARE = "from prompt_toolkit import PromptSession; PromptSession().prompt('> ')"
CURSOR_ASKED, CURSOR_ANSWER = re.escape("\x1b[6n"), "\x1b[1;1R"
PROMPT = r"(?<!\[)>"  # not that of an escape sequence


def peak_megabytes(pid: int) -> float:
    """Return the most memory that a running process has had, 0 where /proc does not say (Linux does)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1000 if found else 0.0


def until(command: list[str], mark: str, environ: dict[str, str]) -> tuple[float, float]:
    """Return seconds, and megabytes, from the start of a program until what it shows matches `mark`."""
    start = time.perf_counter()
    child = pexpect.spawn(
        command[0], command[1:], env=environ, cwd=str(PROJECT), encoding="utf-8", timeout=60
    )
    child.delaybeforesend = None
    try:
        while child.expect([CURSOR_ASKED, mark]) == 0:
            child.send(CURSOR_ANSWER)  # a terminal that is asked where its cursor is
        return time.perf_counter() - start, peak_megabytes(child.pid)
    finally:
        child.close(force=True)


def results() -> dict[str, Any]:
    """Return medians in seconds, and the ratio of our prompt to the bare one, pair by pair."""
    with tempfile.TemporaryDirectory() as home:
        environ = {
            **os.environ,
            "TERM": "xterm-256color",
            "MINI_AGENT_HOME": home,
            "MINI_AGENT_ENV_FILE": os.devnull,
            "LLM_USER_PATH": home,
            "OPENAI_API_KEY": "",
            "OPENAI_BASE_URL": "",
        }
        python = sys.executable
        programs = {
            "bare prompt-toolkit prompt": ([python, "-c", BARE], PROMPT),
            "mini-agent": ([python, "main.py"], PROMPT),
        }
        peer = Path(python).with_name("llm")
        if peer.exists() or shutil.which("llm"):
            programs["llm chat"] = ([str(peer) if peer.exists() else "llm", "chat"], PROMPT)
        times: dict[str, list[float]] = {name: [] for name in programs}
        memory: dict[str, float] = {}
        for number in range(ROUNDS + 1):
            for name, (command, mark) in programs.items():
                took, memory[name] = until(command, mark, environ)
                if number:  # the first round warms the disk
                    times[name].append(took)
        reply = [until([python, "main.py", "hello"], "stand-in", environ) for _ in range(ROUNDS)]
    pairs = zip(times["mini-agent"], times["bare prompt-toolkit prompt"], strict=True)
    return {
        "prompt": {name: statistics.median(values) for name, values in times.items()},
        "ratio": statistics.median(mine / bare for mine, bare in pairs),
        "megabytes": memory,
        "first_character": statistics.median(seconds for seconds, _ in reply),
        "reply_megabytes": statistics.median(size for _, size in reply),
    }


if __name__ == "__main__":
    print(json.dumps(results(), indent=2))
