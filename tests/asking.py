"""What tests of the model client share: a question, a brain for a scripted server, how asking fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from server import Server

from brain import Brain, BrainError

KEY = "sk-secret-0123456789"
HELLO: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello?"},
]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "clock", "description": "Tells the time.", "parameters": {"type": "object"}},
    }
]


@contextlib.contextmanager
def brain(server: Server | str, **settings: Any) -> Iterator[tuple[Brain, list[float]]]:
    """A brain for this server, and the list of its waits."""
    waits: list[float] = []
    url = server if isinstance(server, str) else server.url
    given = {"api_key": KEY, "base_url": url, "model": "gpt-4o-mini", "timeout": 5, "connect_timeout": 5}
    client = Brain(**{**given, "sleep": waits.append, **settings})
    with contextlib.closing(client):
        yield client, waits


def failure(client: Brain, payload: list[dict[str, Any]] = HELLO) -> BrainError:
    """What asking fails with."""
    with pytest.raises(BrainError) as caught:
        client.chat(payload)
    return caught.value
