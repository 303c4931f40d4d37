"""The child process: serves a model file on loopback until its standard input ends.

The chat holds the other end of that pipe. However the chat ends, kill -9 included, the pipe closes and the
server goes with it. The first line on standard output is the server's address, once it answers.

Run by `local/chat.py`, with the packages of requirements-local.txt.
"""

from __future__ import annotations

import os
import sys

ALIAS = "local (demo quality)"


def serve(model_path: str, context_tokens: int) -> None:
    """Serve until standard input ends. llama.cpp logs to standard error."""
    from xllamacpp import CommonParams, Server  # only here: the chat itself does without it

    said = os.dup(1)
    os.dup2(2, 1)  # llama.cpp writes its log to standard output too
    params = CommonParams()
    params.model.path = model_path
    params.model_alias = {ALIAS}
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = Server(params)
    os.write(said, f"{server.listening_address}\n".encode())
    os.close(said)
    sys.stdin.buffer.read()
    os._exit(0)  # at once: a reply that is being written has no reader any more


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
