"""The body of a reply, byte by byte: server-sent events, or whatever came instead.

The SDK has a reader of its own, but it ends in silence where a chat must not: on a cut stream, on a web page
or an error object with status 200, and it does not tell whether `[DONE]` came. So the SDK makes the request,
and this reads the answer. It knows the format
(https://html.spec.whatwg.org/multipage/server-sent-events.html) and JSON, and nothing of chat: what a chunk
means is for `assembly.py`.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal, NamedTuple

from failures import BrainError, fail
from server_errors import tidy

MAX_PIECE = 32 * 1024 * 1024
"""Bytes that one line, or one plain answer, may have: a server that never ends must not fill the memory."""


class Event(NamedTuple):
    """One thing that came: a chunk of a stream, a whole plain answer, an error in any shape, or `[DONE]`."""

    kind: Literal["chunk", "plain", "error", "done"]
    data: Any = None


def events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """Reads a body as it arrives.

    Args:
        pieces: The bytes, split anywhere (inside a line, a character or an escape).

    Yields:
        Events, the last of them `done` when the server said `[DONE]`.

    Raises:
        BrainError: empty (no body) or server (a web page, damaged JSON, no end).
    """
    lines = _lines(pieces)
    first = next((line for line in lines if line.strip(b"\xef\xbb\xbf \t")), None)
    if first is None:
        raise fail("no_body")
    first = first.removeprefix(b"\xef\xbb\xbf")
    if re.match(rb"(data|event|id|retry|error)\s*:|:", first):
        yield from _stream(chain([first], lines))
    else:
        yield _plain(chain([first], lines))


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their end (CR LF, LF or CR). `str.splitlines` would also split at a U+2028 in a text."""
    rest: list[bytes] = []
    for piece in pieces:
        rest.append(piece)
        if b"\n" in piece or b"\r" in piece:
            # A CR at the very end waits: the LF that belongs to it may come with the next piece.
            *lines, last = re.split(rb"\r\n|\n|\r(?!\Z)", b"".join(rest))
            yield from lines
            rest = [last]
        elif sum(map(len, rest)) > MAX_PIECE:
            raise _endless()
    yield b"".join(rest).rstrip(b"\r")


def _plain(lines: Iterable[bytes]) -> Event:
    """A body that is no event stream: one JSON value, or something that is no chat reply at all."""
    body, size = [], 0
    for line in lines:
        body.append(line)
        size += len(line)
        if size > MAX_PIECE:
            raise _endless()
    text = b"\n".join(body).decode("utf-8", errors="replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        page = text.lstrip().startswith("<")
        raise fail("web_page" if page else "not_chat", words="" if page else tidy(text, 100)) from None
    event = _event(value, "plain")
    if event.kind == "plain" and "choices" not in event.data:
        raise fail("not_chat", words=tidy(text, 100))
    return event


def _stream(lines: Iterable[bytes]) -> Iterator[Event]:
    """Server-sent events: `data:` lines up to a blank one make an event, and `:` begins a comment."""
    data: list[str] = []
    is_error = False
    for line in lines:
        name, _, value = line.decode("utf-8", errors="replace").partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif name == "event":
            is_error = value.strip() == "error"
        elif name == "error":  # llama.cpp writes "error: {...}"
            data.append(value)
            is_error = True
        elif not line:
            event = _parse("\n".join(data), is_error=is_error)
            data, is_error = [], False
            if event:
                yield event
                if event.kind == "done":
                    return
    # Some servers leave out the blank line after the last event; where the stream was cut, it is no JSON.
    last = None
    with contextlib.suppress(BrainError):
        last = _parse("\n".join(data), is_error=is_error)
    if last:
        yield last


def _parse(text: str, *, is_error: bool) -> Event | None:
    """One event; None for an empty one (some servers keep the connection open with them)."""
    text = text.strip()
    if not text:
        return None
    if text.startswith("[DONE]"):
        return Event("done")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if is_error:
            return Event("error", text)
        raise fail("bad_json") from None
    return Event("error", value) if is_error else _event(value, "chunk")


def _event(value: Any, kind: Literal["chunk", "plain"]) -> Event:
    """Tells an error object from a reply. `"error": null` in a chunk is no error."""
    if isinstance(value, list) and len(value) == 1:  # Gemini wraps an error into a list
        value = value[0]
    if isinstance(value, dict):
        is_error = (
            value.get("error")
            or value.get("object") == "error"
            or ("detail" in value and "choices" not in value)
        )
        return Event("error" if is_error else kind, value)
    raise fail("not_chat", words=tidy(json.dumps(value), 100))


def _endless() -> BrainError:
    return fail("endless", size=f"{MAX_PIECE // 1024 // 1024} MB")
