"""A session as a file: JSON that loads again, Markdown for people.

Covered here: the two formats, and checking JSON from outside before anything of it is stored. Not
covered: transactions and names of sessions (`history.py`), writing files (the terminal).
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from session import INSERT_MESSAGE, ROLES, clean_title, encodable, from_columns, title_of, to_columns
from turns import ContextError, check_calls

FORMAT = "mini-agent session"
VERSION = 1
_PROJECTION = {"parts": ("parts", "turn, name"), "log": ("part_log", "id")}  # name: table, order


def read_session(conn: sqlite3.Connection, number: int, session_id: str) -> dict[str, Any]:
    """A stored session as plain data. Nothing that was taken back is in it, nor a damaged message."""
    (created_at,) = conn.execute("SELECT created_at FROM sessions WHERE number = ?", (number,)).fetchone()
    rows = conn.execute(
        "SELECT turn, created_at, role, content, extra FROM messages "
        "WHERE session = ? AND undone_at IS NULL ORDER BY turn, id",
        (number,),
    )
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "id": session_id,
        "title": title_of(conn, number),
        "created_at": to_iso(created_at),
        "messages": [
            {"turn": turn, "time": to_iso(at), "message": message}
            for turn, at, *columns in rows
            if (message := from_columns(*columns)) is not None
        ],
    }
    for name, (table, order) in _PROJECTION.items():
        select = f"SELECT turn, name, value FROM {table} WHERE session = ? ORDER BY {order}"  # noqa: S608
        rows = conn.execute(select, (number,))
        data[name] = [{"turn": turn, "name": part, "value": value} for turn, part, value in rows]
    return data


def store_session(conn: sqlite3.Connection, data: Mapping[str, Any], session_id: str) -> None:
    """Store checked data as a new session."""
    number = conn.execute(
        "INSERT INTO sessions (id, created_at) VALUES (?, ?)", (session_id, from_iso(data["created_at"]))
    ).lastrowid
    for row in data["messages"]:
        content, extra = to_columns(row["message"])
        role, at = row["message"]["role"], from_iso(row["time"])
        conn.execute(INSERT_MESSAGE, (number, row["turn"], role, content, extra, at))
    for name, (table, _) in _PROJECTION.items():
        insert = f"INSERT OR REPLACE INTO {table} (session, turn, name, value) VALUES (?, ?, ?, ?)"  # noqa: S608
        for row in data[name]:
            conn.execute(insert, (number, row["turn"], encodable(row["name"]), encodable(row["value"])))
    title = clean_title(data["title"])
    if title != title_of(conn, number or 0):  # a title that is only the first question stays derived
        conn.execute("UPDATE sessions SET title = ? WHERE number = ?", (title, number))


def to_iso(timestamp: float) -> str:
    """A time as it stands in an export: ISO 8601, UTC, to the microsecond."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat()


def from_iso(text: str) -> float:
    """The reverse of `to_iso`; a time without a zone is UTC."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def check(data: Any) -> None:
    """Check that this is an exported session, as far as storing it goes.

    Raises:
        ValueError: the first thing that is wrong, with its place.
    """
    _expect(isinstance(data, dict) and data.get("format") == FORMAT, "it is not a session of this program")
    _expect(
        data.get("version") == VERSION,
        f"its version is {data.get('version')!r}, this program reads {VERSION}",
    )
    _expect(isinstance(data.get("title"), str), "title is not a text")
    _check_time(data.get("created_at"), "created_at")
    for name in ("messages", "parts", "log"):
        _expect(isinstance(data.get(name), list), f"{name} is not a list")
    turn = 0
    for number, row in enumerate(data["messages"]):
        place = f"messages[{number}]"
        _check_turn(row, place)
        _check_time(row.get("time"), f"{place}.time")
        message = row.get("message")
        _expect(isinstance(message, dict), f"{place}.message is not an object")
        _expect(message.get("role") in ROLES, f"{place}.message.role is not one of {', '.join(ROLES)}")
        opens = (
            row["turn"] == turn + 1 and message["role"] == "user" and isinstance(message.get("content"), str)
        )
        continues = row["turn"] == turn > 0 and message["role"] != "user"
        _expect(opens or continues, f"{place} is out of order: each turn is a question and what answers it")
        _check_fields(message, f"{place}.message")
        turn = row["turn"]
    for name in ("parts", "log"):
        for number, row in enumerate(data[name]):
            place = f"{name}[{number}]"
            _check_turn(row, place)
            texts = isinstance(row.get("name"), str) and isinstance(row.get("value"), str)
            _expect(texts, f"{place} has no name and value")


def _check_fields(message: Mapping[str, Any], place: str) -> None:
    """Check what the chat will read of a message: such a file may come from somebody else."""
    for name in ("content", "nonce", "reasoning"):
        _expect(isinstance(message.get(name), str | None), f"{place}.{name} is not a text")
    if message["role"] == "tool":
        _expect(isinstance(message.get("tool_call_id"), str), f"{place}.tool_call_id is not a text")
        _expect(isinstance(message.get("content"), str), f"{place}.content is not a text")
    pairs = message.get("evidence") or []
    fine = isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
        for pair in pairs
    )
    _expect(fine, f"{place}.evidence is not a list of names and texts")
    calls = message.get("tool_calls") or []
    _expect(isinstance(calls, list), f"{place}.tool_calls is not a list")
    try:
        check_calls(calls)
    except ContextError as error:
        raise ValueError(f"{place}.tool_calls: {error}") from None


def _check_turn(row: Any, place: str) -> None:
    _expect(isinstance(row, dict), f"{place} is not an object")
    turn = row.get("turn")
    _expect(type(turn) is int and 0 < turn < 2**53, f"{place}.turn is not a number from 1 on")


def _check_time(value: Any, place: str) -> None:
    try:
        to_iso(from_iso(value))  # a zone can take it before the year 1 or past 9999
    except (TypeError, ValueError, OverflowError, OSError):
        _expect(False, f"{place} is not a time")


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def to_markdown(data: Mapping[str, Any]) -> str:
    """An exported session for reading: turns as headings, tool calls and results as fenced blocks."""
    title = re.sub(r"([\\`*_\[\]<>#])", r"\\\1", data["title"]) or "Untitled session"
    turns = len({row["turn"] for row in data["messages"]})
    lines = [
        f"# {title}",
        "",
        f"Session {data['id']}, {data['created_at'][:16].replace('T', ' ')} UTC, turns: {turns}",
    ]
    names: dict[str, str] = {}
    for row in data["messages"]:
        message = row["message"]
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        if message["role"] == "user":
            lines += ["", f"## Turn {row['turn']}", "", "**You**", "", text]
            for name, body in message.get("evidence") or []:
                lines += ["", f"Attached: `{name}`", "", *_fenced(body)]
        elif message["role"] == "tool":
            name = names.get(message.get("tool_call_id", ""), "a tool")
            lines += ["", f"**Result of `{name}`**", "", *_fenced(text)]
        else:
            if text:
                lines += ["", "**Assistant**", "", text]
            for call in message.get("tool_calls") or []:
                function = call["function"]
                names[call["id"]] = function["name"]
                lines += ["", f"**Calls `{function['name']}`**", "", *_fenced(function["arguments"], "json")]
    return "\n".join(lines) + "\n"


def _fenced(text: str, language: str = "") -> list[str]:
    """A code block whose fence is longer than any in the text (CommonMark 0.31, section 4.5)."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return [f"{fence}{language}", text, fence]


def to_json(data: Mapping[str, Any]) -> str:
    """An exported session as the text of a JSON file."""
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
