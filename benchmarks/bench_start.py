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
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pexpect

PROJECT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PROJECT / "benchmarks"), str(PROJECT), str(PROJECT / "tests")]

from server import Server, says  # noqa: E402 - found by the line above
from spread import Spread  # noqa: E402

ROUNDS = 9
BARE = "from prompt_toolkit import PromptSession; PromptSession().prompt('> ')"
CURSOR_ASKED, CURSOR_ANSWER = re.escape("\x1b[6n"), "\x1b[1;1R"
ANSWER = "Pleased to meet you."
PROMPT = r"(?<!\[)>"  # not that of an escape sequence


def peak_megabytes(pid: int) -> float:
    """Return the most memory that a running process has had, 0 where /proc does not say (Linux does)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


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
    """Return seconds and megabytes until the prompt and until a reply's first character, for each program.

    A reply comes from the stand-in, or at once from a scripted server on this machine, so that what is
    measured is the program. `ratio` is our prompt to the bare one, pair by pair.
    """
    python = sys.executable
    ours = [python, "main.py"]
    prompts = {"bare prompt-toolkit prompt": [python, "-c", BARE], "mini-agent": ours}
    replies = {"mini-agent, the stand-in": [*ours, "hello"]}
    with tempfile.TemporaryDirectory() as home, Server() as server:
        environ = {
            **os.environ,
            "TERM": "xterm-256color",
            "MINI_AGENT_HOME": home,
            "MINI_AGENT_ENV_FILE": os.devnull,
            "LLM_USER_PATH": home,
            "LLM_LOAD_PLUGINS": "",  # it alone, without what else is installed there
            "OPENAI_API_KEY": "",
            "OPENAI_BASE_URL": "",
        }
        replies["mini-agent, a server"] = [*ours, "--base-url", server.url, "hello"]
        beside = Path(python).with_name("llm")
        peer = str(beside) if beside.exists() else shutil.which("llm")
        if peer is not None:
            prompts["llm chat"] = [peer, "chat"]
            replies["llm, the same server"] = [peer, "-m", "loopback", "--key", "none", "hello"]
            model = {"model_id": "loopback", "model_name": "gpt-4o-mini", "api_base": server.url}
            Path(home, "extra-openai-models.yaml").write_text(json.dumps([model]), encoding="utf-8")
        server.play(*[says(ANSWER)] * (len(replies) * (ROUNDS + 1)))
        seconds, megabytes = taken(prompts, PROMPT, environ)
        reply_seconds, reply_megabytes = taken(replies, f"stand-in|{ANSWER}", environ)
    pairs = zip(seconds["mini-agent"], seconds["bare prompt-toolkit prompt"], strict=True)
    return {
        "prompt": {name: (Spread.of(values), megabytes[name]) for name, values in seconds.items()},
        "reply": {name: (Spread.of(values), reply_megabytes[name]) for name, values in reply_seconds.items()},
        "ratio": Spread.of([mine / bare for mine, bare in pairs]),
    }


def taken(
    programs: dict[str, list[str]], mark: str, environ: dict[str, str]
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Start each program in turn, round after round; return their seconds, and their megabytes at the end."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    megabytes: dict[str, float] = {}
    for number in range(ROUNDS + 1):
        for name, command in programs.items():
            took, megabytes[name] = until(command, mark, environ)
            if number:  # the first round warms the disk
                seconds[name].append(took)
    return seconds, megabytes


if __name__ == "__main__":
    print(json.dumps(results(), indent=2, default=asdict))
