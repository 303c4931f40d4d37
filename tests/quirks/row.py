"""What a row of the table is, and short ways to write one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from server import Answer, delta, stream

from brain import Usage

OK = "Hello, Ada."
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Welcome to the hotel</body></html>"


@dataclass(frozen=True, slots=True)
class Row:
    """One quirk.

    Exactly one of `kind` (the request fails so) and the rest (it succeeds so) counts. `calls` are pairs of a
    name and the arguments as a value; `retried` is how often it was sent again; `without` is a field that the
    last request must no longer have.
    """

    name: str
    answers: Sequence[Answer]
    text: str = OK
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    reasoning: str | None = None
    usage: Usage | str | None = "any"
    finish: str = ""
    kind: str = ""
    says: str = ""
    limit: int | None = None
    count: int | None = None
    retried: int = 0
    without: str = ""
    timeout: float = 5.0


def row(name: str, *answers: Answer, **expected: Any) -> Row:
    return Row(name, answers, **expected)


def whole(*chunks: Any, finish: str | None = "stop", **ends: Any) -> Answer:
    """A stream of these chunks that ends as it should."""
    return stream(*chunks, delta(finish=finish), **ends)


def lines(text: str) -> Answer:
    """A stream, byte for byte."""
    return Answer(200, [text.encode()], [("content-type", "text/event-stream")])


HALF_1, HALF_2 = "\ud83d", "\ude00"  # 😀
FULL = json.dumps(delta(OK, finish="stop"))
