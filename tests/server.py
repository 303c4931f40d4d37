"""A scripted OpenAI-compatible server on loopback: real HTTP, one answer from the script for each request.

An `Answer` is a status, headers and a list of steps: bytes to send (each a network write of its own), one of
`CUT`, `RESET` and `HOLD`, or a number of seconds to wait. `stream`, `plain` and `error` write the usual ones.
Every request is recorded and checked against the published schema of chat completions; what is wrong ends up
in `Server.problems`, which tests assert to be empty.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import socketserver
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

CUT = object()  # close the connection in the middle of the body
RESET = object()  # the same, with a TCP reset
HOLD = object()  # send nothing more until the client has gone, or the test ends

Step = bytes | object


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    steps: Sequence[Step] = ()
    headers: Sequence[tuple[str, str]] = ()


# ------------------------------------------------------------------------------------ what servers answer


def delta(
    content: str | None = None, *, finish: str | None = None, index: int = 0, **fields: Any
) -> dict[str, Any]:
    """A chunk as OpenAI sends it; more fields of the delta as keywords."""
    piece = fields if content is None else {"content": content, **fields}
    choice = {"index": index, "delta": piece, "logprobs": None, "finish_reason": finish}
    return chunk(choices=[choice])


def chunk(**fields: Any) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini"}
    return {**head, **fields}


def calls(*pieces: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A chunk with pieces of tool calls."""
    return delta(tool_calls=list(pieces), finish=finish)


def piece(
    arguments: Any = None,
    *,
    index: Any = 0,
    id: str | None = None,  # noqa: A002 (the field of the protocol)
    name: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One entry of `delta.tool_calls`; what is None is left out."""
    function = {k: v for k, v in {"name": name, "arguments": arguments}.items() if v is not None}
    entry = {"index": index, "id": id, "type": "function" if id else None, "function": function}
    return {**{k: v for k, v in entry.items() if v is not None}, **more}


def usage(prompt: Any = 10, completion: Any = 5) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": 15}


def event(value: object, end: str = "\n") -> bytes:
    """One server-sent event. `json.dumps` writes half a surrogate pair as an escape, as servers do."""
    data = value if isinstance(value, str) else json.dumps(value)
    return f"data: {data}{end}{end}".encode()


def stream(
    *chunks: dict[str, Any] | str | bytes | object, done: bool = True, content_type: str = "text/event-stream"
) -> Answer:
    """A streamed answer. Text is a `data:` line as it is, bytes are sent as they are, a mark is a step."""
    steps: list[Step] = [event(c) if isinstance(c, dict | str) else c for c in chunks]
    if done:
        steps.append(event("[DONE]"))
    return Answer(200, steps, [("content-type", content_type)])


def says(text: str, **counts: Any) -> Answer:
    """A well-behaved streamed answer, in pieces, as OpenAI sends it."""
    half = len(text) // 2
    start = delta("", role="assistant", refusal=None)
    parts = [delta(part) for part in (text[:half], text[half:]) if part]
    return stream(start, *parts, delta(finish="stop"), chunk(choices=[], usage=usage(**counts)))


def plain(value: object, status: int = 200, content_type: str = "application/json") -> Answer:
    """An answer in one piece: JSON of the value, or the bytes."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Answer(status, [body], [("content-type", content_type)])


def message(content: str | None = "Hello", finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    """A whole chat completion, as servers send it that do not stream."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, **fields},
        "finish_reason": finish,
    }
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage()}


def error(
    status: int, text: str = "Something is wrong", *, headers: Sequence[tuple[str, str]] = (), **fields: Any
) -> Answer:
    """OpenAI's error object."""
    body = {"error": {"message": text, "type": "error", "param": None, "code": None, **fields}}
    return Answer(status, [json.dumps(body).encode()], [("content-type", "application/json"), *headers])


# ------------------------------------------------------------------------------------ the server


@dataclass(slots=True)
class Received:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: Any


Script = Answer | Callable[[Received], Answer]


class Server:
    """Answers with the script, in order. Use it as a context manager.

    Args:
        reasoning: Messages may carry `reasoning_content`, which is not in OpenAI's schema.
        tls: Speak HTTPS, with the self-signed certificate below.
    """

    def __init__(self, *script: Script, reasoning: bool = False, tls: Path | None = None) -> None:
        self.script = deque(script)
        self.reasoning = reasoning
        self.requests: list[Received] = []
        self.problems: list[str] = []
        self.connections = 0  # made so far
        self.left = threading.Event()  # the client closed a connection that was on HOLD
        self.closing = threading.Event()
        self._tcp = _Listener(("127.0.0.1", 0), _handler(self))
        self.port: int = self._tcp.server_address[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}/v1"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(write_certificate(tls))
            self._tcp.socket = context.wrap_socket(self._tcp.socket, server_side=True)
        self._thread = threading.Thread(target=self._tcp.serve_forever, args=(0.01,), daemon=True)

    def play(self, *script: Script) -> None:
        """Adds to the script."""
        self.script.extend(script)

    def take(self, request: Received) -> Answer:
        self.requests.append(request)
        if request.method == "POST" and isinstance(request.body, dict):
            self.problems += schema_problems(request.body, reasoning=self.reasoning)
        if not self.script:
            self.problems.append(f"request {len(self.requests)} ({request.method}) is not in the script")
            return Answer(500)
        answer = self.script.popleft()
        return answer if isinstance(answer, Answer) else answer(request)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._tcp.shutdown()
        self._tcp.server_close()  # waits for the threads of the connections
        self._thread.join()


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = False
    allow_reuse_address = True

    def __init__(self, *args: Any) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(*args)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        self.open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for connection in list(self.open):  # a kept-alive connection waits for its next request
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, *_: object) -> None:
        """A client that went away in the middle is what many tests are about."""


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or small writes wait 40 ms for an acknowledgment

        def setup(self) -> None:
            server.connections += 1
            super().setup()

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            body = json.loads(raw) if raw else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.take(Received(self.command, self.path, headers, body))
            self.send_response_only(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for step in answer.steps:
                if isinstance(step, bytes):
                    if step:  # an empty chunk would end the body
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(step), step))
                        self.wfile.flush()
                    continue
                if isinstance(step, float):
                    server.closing.wait(step)
                    continue
                self.close_connection = True
                if step is HOLD:
                    self._hold()
                elif step is RESET:
                    # A reset overtakes what was sent, and the client would read none of it.
                    server.closing.wait(0.5)
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.connection.close()
                return
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST  # noqa: N815 (the name that http.server looks for)

        def _hold(self) -> None:
            while not server.closing.is_set():
                readable, _, _ = select.select([self.connection], [], [], 0.02)
                if readable and not self.connection.recv(1, socket.MSG_PEEK):
                    server.left.set()
                    return

    return Handler


# ------------------------------------------------------------------------------------ the schema

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
TOP = {"model", "messages", "stream", "stream_options", "tools", "max_tokens", "max_completion_tokens"}
KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


def schema_problems(body: dict[str, Any], *, reasoning: bool = False) -> list[str]:
    """What is wrong with a request, by OpenAI's published schema (`CreateChatCompletionRequest` in
    github.com/openai/openai-openapi), and by what stricter servers want besides: one system message, first,
    and user and assistant in turn.
    """
    found = list(_top_problems(body)) + list(_tool_problems(body))
    found += _message_problems(body.get("messages", []), reasoning)
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        found.append("a string that is not UTF-8")
    return found


def _top_problems(body: dict[str, Any]) -> Iterator[str]:
    if unknown := body.keys() - TOP:
        yield f"fields that nobody set: {sorted(unknown)}"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield f"model: {body.get('model')!r}"
    if "stream" in body and body["stream"] is not True:
        yield f"stream: {body['stream']!r}"
    if "stream_options" in body and (
        body["stream_options"] != {"include_usage": True} or "stream" not in body
    ):
        yield f"stream_options: {body['stream_options']!r}"
    limits = [body[key] for key in ("max_tokens", "max_completion_tokens") if key in body]
    if len(limits) > 1 or not all(type(limit) is int and limit > 0 for limit in limits):
        yield f"limits of the reply: {limits!r}"


def _tool_problems(body: dict[str, Any]) -> Iterator[str]:
    if "tools" in body and not body["tools"]:
        yield "an empty list of tools"
    for tool in body.get("tools", []):
        function = tool.get("function", {})
        if tool.keys() != {"type", "function"} or tool["type"] != "function":
            yield f"tool: {tool!r}"
        elif (
            function.keys() - {"name", "description", "parameters", "strict"}
            or not NAME.fullmatch(function.get("name", ""))
            or not isinstance(function.get("parameters", {}), dict)
        ):
            yield f"tool function: {function!r}"


def _message_problems(messages: list[dict[str, Any]], reasoning: bool) -> Iterator[str]:
    if not messages or messages[0].get("role") != "system":
        yield "the first message is not the system message"
    wanted, owed = {"user"}, deque[str]()  # roles that may come next; ids of calls without a result
    for number, entry in enumerate(messages[1:], 1):
        role = entry.get("role")
        if role not in wanted:
            yield f"message {number}: {role} where {sorted(wanted)} belongs"
        allowed = KEYS.get(str(role), set()) | (
            {"reasoning_content"} if reasoning and role == "assistant" else set()
        )
        if unknown := entry.keys() - allowed:
            yield f"message {number}: unknown fields {sorted(unknown)}"
        has_calls = bool(entry.get("tool_calls"))
        if not isinstance(entry.get("content"), str) and not (has_calls and entry.get("content") is None):
            yield f"message {number}: content {entry.get('content')!r}"
        if not entry.get("content") and role in ("user", "assistant") and not has_calls:
            yield f"message {number}: nothing in it"
        if role == "tool" and (not owed or entry.get("tool_call_id") != owed.popleft()):
            yield f"message {number}: a result for {entry.get('tool_call_id')!r}, which is not the next call"
        if "tool_calls" in entry:
            owed.extend(call.get("id") for call in entry["tool_calls"])
            yield from _call_problems(number, entry["tool_calls"])
        wanted = {"tool"} if owed else {"assistant"} if role in ("user", "tool") else {"user"}
    if not messages or messages[-1].get("role") not in ("user", "tool"):
        yield "the last message is neither a question nor a result"
    if owed:
        yield f"calls without a result: {list(owed)}"


def _call_problems(number: int, entries: list[dict[str, Any]]) -> Iterator[str]:
    ids = [call.get("id") for call in entries]
    if not entries or not all(isinstance(i, str) and i for i in ids) or len(set(ids)) < len(ids):
        yield f"message {number}: ids of calls {ids!r}"
    for call in entries:
        function = call.get("function", {})
        if call.keys() != {"id", "type", "function"} or call["type"] != "function":
            yield f"message {number}: call {call!r}"
        if function.keys() != {"name", "arguments"} or not NAME.fullmatch(str(function.get("name"))):
            yield f"message {number}: function {function!r}"
        try:
            arguments = json.loads(function.get("arguments"))
        except (TypeError, ValueError):
            arguments = None
        if not isinstance(arguments, dict):
            yield f"message {number}: arguments {function.get('arguments')!r}"


# ------------------------------------------------------------------------------------ TLS


def write_certificate(folder: Path) -> Path:
    """Writes the key and certificate below into one file and returns its path."""
    path = folder / "loopback.pem"
    path.write_text(CERTIFICATE)
    return path


# For 127.0.0.1 and localhost, signed by itself, valid from 2020 to 2120. The key is public on purpose: it
# protects nothing, and these tests must not need the openssl program.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg5IHKaLtR38pdNaBx
zc9d+54AXqD1wlkWVyMAEh9kcjqhRANCAARM8lv4dW1zoJN5H6vtYGxRKrNO/hcr
2amAG/Mc0wONCjdwfyu26q8Wd+PJ9G5vsdDPXxeSCFXJmXmmWeYG8/GF
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBeDCCAR2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABEzyW/h1bXOgk3kf
q+1gbFEqs07+FyvZqYAb8xzTA40KN3B/K7bqrxZ348n0bm+x0M9fF5IIVcmZeaZZ
5gbz8YWjXjBcMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgKEMB0GA1Ud
DgQWBBRnsCzucR4stRkZ4KM7vmmg2puyljAaBgNVHREEEzARgglsb2NhbGhvc3SH
BH8AAAEwCgYIKoZIzj0EAwIDSQAwRgIhAKcbn9PektUKJCB3vhZLREvd0AYTgATW
6nA5mSOD3zocAiEA7T6rF+NC03qH3zBasrPpvmJ+/D7EwgjTNAi/TL+FJFA=
-----END CERTIFICATE-----
"""
