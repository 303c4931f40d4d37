"""Chunks in, one `Reply` out: text, reasoning, tool calls and usage, put together from pieces.

Servers that call themselves OpenAI-compatible differ in every field of a chunk, so nothing here trusts a
type. What comes out always fits the contract of the context: a reply has text or calls, the calls have unique
ids, clean names, and arguments that are the JSON text of an object.

Not here: bytes and events (`wire.py`), running a tool or judging its arguments (the tools), errors a server
reports.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from failures import fail


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the model's reasoning. Never part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted (and bills) them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply.

    `tool_calls` are in OpenAI's form, ready for the next payload. Arguments that were not the JSON text of an
    object are kept as `{"_invalid": "the raw text"}`: valid to send back, and nothing a tool would run on.
    """

    text: str
    tool_calls: list[dict[str, Any]]
    usage: Usage | None
    finish_reason: str
    reasoning: str | None = None


class Assembly:
    """Takes the chunks of one reply, in order.

    Attributes:
        started: Something of the reply has come, so the request must not be sent again.
        complete: The server said that the reply is finished: by a finish reason, or as its reader found out.
    """

    def __init__(self) -> None:
        self.started = False
        self.complete = False
        self._finish_reason = ""
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._usage: Usage | None = None
        self._tags = _ThinkTags()
        self._text_pairs, self._reasoning_pairs = _Surrogates(), _Surrogates()
        self._calls = _ToolCalls()

    def add(self, chunk: dict[str, Any]) -> Iterator[TextDelta | ReasoningDelta]:
        """Takes a chunk of a stream, or a whole plain answer (the same fields under `message`)."""
        choice = _first_choice(chunk)
        # Moonshot puts the usage into the choice.
        self._usage = _usage(chunk.get("usage")) or _usage(choice.get("usage")) or self._usage
        delta = _dict(choice.get("delta")) or _dict(choice.get("message"))
        # DeepSeek, vLLM and llama.cpp say reasoning_content; OpenRouter, Ollama and Groq reasoning; some send
        # both.
        thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        thought += _thinking_parts(delta.get("content"))
        yield from self._emit(True, thought)
        # A refusal is the model's answer, in a field of its own (OpenAI).
        for is_reasoning, piece in self._tags.feed(
            _text(delta.get("content")) or _text(delta.get("refusal"))
        ):
            yield from self._emit(is_reasoning, piece)
        calls = _list(delta.get("tool_calls"))
        if not calls and (legacy := _dict(delta.get("function_call"))):
            calls = [{"index": "legacy", "function": legacy}]
        for call in calls:
            self.started |= self._calls.add(_dict(call))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:  # old Ollama: "" in every chunk
            self._finish_reason = reason
            self.complete = True

    def close(self) -> Iterator[TextDelta | ReasoningDelta]:
        """The body has ended: what was held back comes out."""
        for is_reasoning, piece in self._tags.flush():
            yield from self._emit(is_reasoning, piece)
        yield from self._emit(True, self._reasoning_pairs.flush(), paired=True)
        yield from self._emit(False, self._text_pairs.flush(), paired=True)

    def reply(self) -> Reply:
        """The reply, once it is complete.

        Raises:
            BrainError: interrupted (no sign of the end), filtered, empty (nothing a context could keep),
                server.
        """
        if not self.complete:
            raise fail("broken_off")
        calls = self._calls.finished()
        reason = self._finish_reason or ("tool_calls" if calls else "stop")
        if reason.lower() in ("max_tokens", "model_length"):  # Gemini's and Mistral's names for it
            reason = "length"
        if reason == "content_filter":
            raise fail("filtered")
        if reason == "error":  # OpenRouter, Mistral
            raise fail("reported")
        if reason == "length":
            calls = []  # the last call may be cut in the middle, and nobody can tell
        text, reasoning = "".join(self._texts), "".join(self._thoughts)
        if not text.strip() and not calls:
            raise fail("cut_short" if reason == "length" else "only_reasoning" if reasoning else "empty")
        return Reply(text, calls, self._usage, reason, reasoning or None)

    def _emit(
        self, is_reasoning: bool, piece: str, *, paired: bool = False
    ) -> Iterator[TextDelta | ReasoningDelta]:
        pairs = self._reasoning_pairs if is_reasoning else self._text_pairs
        piece = piece if paired else pairs.feed(piece)
        if not piece:
            return
        self.started = True
        if is_reasoning:
            self._thoughts.append(piece)
            yield ReasoningDelta(piece)
        else:
            self._texts.append(piece)
            yield TextDelta(piece)


# ------------------------------------------------------------ fields of any type


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def _text(value: object) -> str:
    """A text field: a string, or Mistral's list of parts."""
    if isinstance(value, str):
        return value
    return "".join(_text(_dict(part).get("text")) for part in value) if isinstance(value, list) else ""


def _thinking_parts(value: object) -> str:
    """Mistral's reasoning: `{"type": "thinking", "thinking": [{"text": ...}]}` among the parts."""
    parts = value if isinstance(value, list) else []
    return "".join(_text(_dict(part).get("thinking")) for part in parts)


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any]:
    """The choice with index 0. We ask for one; a server that sends two must not mix them into one text."""
    choices = [_dict(choice) for choice in _list(chunk.get("choices"))]
    return next((choice for choice in choices if choice.get("index") in (0, None)), {})


def _usage(value: object) -> Usage | None:
    """The usage, when it names a number of prompt tokens; a partial, zero or nonsensical one is none."""
    counts = []
    for name in ("prompt_tokens", "completion_tokens"):
        count = _dict(value).get(name)
        counts.append(count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0)
    return Usage(*counts) if counts[0] else None


# ------------------------------------------------------------------------------------------- text


class _Surrogates:
    r"""Joins characters outside the BMP that a server split into two chunks (`"\ud83d"`, `"\ude00"`).

    A half without its other half becomes U+FFFD: it could not be encoded, and so never be sent or saved.
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return _joined(text)

    def flush(self) -> str:
        half, self._half = self._half, ""
        return _joined(half)


def _joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class _ThinkTags:
    """Separates `<think>...</think>` at the start of the content from the answer, however it is split.

    Only at the start: later in a text the tag is text, for instance in a piece of code about it. White space
    around the tags goes with them. A tag that is never closed makes everything reasoning.
    """

    OPEN, CLOSE = "<think>", "</think>"

    def __init__(self) -> None:
        self._held = ""  # not yet decided
        self._state = "start"  # start, thinking, text
        self._dropped_a_block = False

    def feed(self, piece: str) -> Iterator[tuple[bool, str]]:
        """Yields (is reasoning, text)."""
        self._held += piece
        if self._state == "start":
            seen = self._held.lstrip()
            if seen.startswith(self.OPEN):
                self._state, self._held = "thinking", seen.removeprefix(self.OPEN)
            elif not self.OPEN.startswith(seen):  # "" and every beginning of the tag wait for more
                self._state, self._held = "text", seen if self._dropped_a_block else self._held
        if self._state == "thinking":
            thought, tag, after = self._held.partition(self.CLOSE)
            if tag:
                yield True, thought
                self._state, self._held, self._dropped_a_block = "start", "", True
                yield from self.feed(after)
            else:
                keep = max(n for n in range(len(self.CLOSE)) if thought.endswith(self.CLOSE[:n]))
                yield True, thought[: len(thought) - keep]
                self._held = thought[len(thought) - keep :]
        elif self._state == "text":
            text, self._held = self._held, ""
            yield False, text

    def flush(self) -> Iterator[tuple[bool, str]]:
        held, self._held = self._held, ""
        if self._state == "start" and self._dropped_a_block:
            held = held.lstrip()
        yield self._state == "thinking", held


# ------------------------------------------------------------------------------------------- tool calls


@dataclass(slots=True)
class _Call:
    index: object
    id: str = ""
    name: str = ""
    arguments: str = ""


class _ToolCalls:
    """Assembles calls whose pieces may come without id, without index, or with the wrong one."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def add(self, piece: dict[str, Any]) -> bool:
        """Takes one entry of `delta.tool_calls`; True when there was anything in it."""
        function = _dict(piece.get("function")) or piece  # some servers flatten the entry
        call_id, name = str(piece.get("id") or "").strip(), _text(function.get("name")).strip()
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
        if not (call_id or name or text):
            return False
        call = self._continued(piece.get("index"), call_id, name, text)
        if call is None:
            call = _Call(piece.get("index"))
            self._calls.append(call)
        call.id = call.id or call_id
        if name != call.name:  # the same name in every chunk is one name; a name in two pieces is joined
            call.name += name
        call.arguments += text
        return True

    def _continued(self, index: object, call_id: str, name: str, text: str) -> _Call | None:
        """The call that this piece goes on with; None when it opens a new one.

        A known id goes on with its call, unless another name or a second whole call comes under another index
        (an id given twice). A new id opens a new call, also at a used index (Gemini says 0 for each); only a
        new id without a name goes on with an unfinished call (some gateways draw a new id for every chunk).
        Without an id the index decides, and without an index the last call goes on; there, a name and
        arguments open a new call once the call before has all of its own.
        """
        known = [call for call in self._calls if call_id and call.id == call_id]
        if known:
            call = next((call for call in reversed(known) if index in (None, call.index)), known[-1])
            second = name and index not in (None, call.index)
            return None if second and (name != call.name or (text and _is_object(call.arguments))) else call
        at_index = [call for call in self._calls if index is None or call.index in (index, None)]
        if not at_index and not name and not call_id:
            at_index = self._calls  # a wrong index: a piece of arguments alone opens nothing
        if not at_index:
            return None
        call = at_index[-1]
        if call_id and name:
            late = not call.id and name == call.name and not _is_object(call.arguments)
            return call if late else None
        if call_id and _is_object(call.arguments):
            return None
        if name and text and (_is_object(call.arguments) or (call.arguments and name != call.name)):
            return None
        return call

    def finished(self) -> list[dict[str, Any]]:
        """The calls, in OpenAI's form."""
        used: set[str] = set()
        finished = []
        for call in self._calls:
            call_id = _joined(call.id)
            while not call_id or call_id in used:
                call_id = secrets.token_hex(5)[:9]  # nine letters and digits: the only form Mistral accepts
            used.add(call_id)
            # OpenAI accepts no other names in a payload, and this one will be part of the next.
            name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unnamed"
            function = {"name": name, "arguments": _arguments(call.arguments)}
            finished.append({"id": call_id, "type": "function", "function": function})
        return finished


def _arguments(text: str) -> str:
    """The JSON text of an object, whatever came. What is not one is marked, never repaired by a guess."""
    text = _joined(text).strip() or "{}"
    return text if _is_object(text) else json.dumps({"_invalid": text}, ensure_ascii=False)


def _is_object(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)  # NaN and Infinity are Python's, not JSON's

    if not text.rstrip().endswith("}"):
        return False  # cheap, for the many pieces in which an object is still growing
    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (ValueError, RecursionError):
        return False
