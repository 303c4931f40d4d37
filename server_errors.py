"""What a server's error says: its words, its codes, its numbers.

OpenAI-compatible servers agree on the happy path and on little else: the error may be an object, a string, a
list, a page of HTML, or nothing, and the same trouble has a different code, status and wording on each. This
module reads them; every pattern stands for wordings seen in the public sources or bug reports of the servers
named beside it.

Not here: the sentences for a person (`failures.py`), and what to do about an error (`brain.py`, the agent).
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from failures import BrainError, Where, fail
from redaction import hide_secrets


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """One error, read.

    `words` are for a person, at most 300 characters. `text` is everything in it that could name the trouble
    (codes, types, fields, messages), in lower case. `numbers` are fields with a count, such as llama.cpp's
    `n_ctx`.
    """

    words: str
    text: str
    numbers: dict[str, int]

    def says(self, pattern: str) -> bool:
        """Whether the pattern occurs in any part of the error."""
        return re.search(pattern, self.text) is not None

    @property
    def status(self) -> int | None:
        """An HTTP status named inside the body, as in `{"error": {"code": 429}}`."""
        code = self.numbers.get("code", self.numbers.get("status", 0))
        return code if 400 <= code < 600 else None


def read(content: object) -> ErrorBody:
    """Reads any body: bytes of any encoding, JSON of any shape, HTML (no words for a person), nothing."""
    if isinstance(content, bytes):
        content = content.decode("utf-8", errors="replace").strip()
        with contextlib.suppress(ValueError, RecursionError):  # plain text or HTML: read as it is
            content = json.loads(content)
    if isinstance(content, str) and content.lstrip().startswith("<"):
        return ErrorBody("", "", {})
    numbers: dict[str, int] = {}
    text = " ".join(_strings(content, numbers))
    return ErrorBody(_words(content), text.lower(), numbers)


def tidy(text: str, limit: int = 300) -> str:
    """One line of printable characters, without keys, cut to `limit`."""
    text = hide_secrets(text)
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _words(content: Any) -> str:
    """The message for a person, from wherever the server put it."""
    match content:
        case str():
            return tidy(content)
        case {"loc": [*where], "msg": str(message)}:  # FastAPI's validation errors
            return tidy(f"{'.'.join(map(str, where))}: {message}")
        case [first, *_]:
            return _words(first)
        case dict():
            for key in ("error", "message", "detail", "msg", "error_description", "errors"):
                if content.get(key) and (words := _words(content[key])):
                    return words
    return ""


# FastAPI's validation errors repeat what was sent, the conversation included: no word of the server's.
_ECHOES = {"input", "ctx", "url"}


def _strings(content: Any, numbers: dict[str, int], depth: int = 0) -> list[str]:
    """Every string of the body in order, and its whole-number fields into `numbers`."""
    if isinstance(content, str):
        return [content[:4000]]
    found: list[str] = []
    if depth < 6 and isinstance(content, list):
        for item in content[:20]:
            found += _strings(item, numbers, depth + 1)
    if depth < 6 and isinstance(content, dict):
        for key, value in content.items():
            if (
                isinstance(value, int | str)
                and not isinstance(value, bool)
                and re.fullmatch(r"\d{1,9}", str(value))
            ):
                numbers.setdefault(str(key), int(value))
            elif key not in _ECHOES:
                found += _strings(value, numbers, depth + 1)
    return found


# ------------------------------------------------------------ answers with a status


def from_response(status: int, headers: Mapping[str, str], content: object, where: Where) -> BrainError:
    """Explains an answer that is no reply: by its status, or its body where servers differ in the status.

    Args:
        status: The HTTP status; 200 for an error object in a reply that began well.
        headers: The response headers (case-insensitive mapping).
        content: The body: bytes, or what was already decoded.
        where: The endpoint, for the sentence.
    """
    body = read(content)
    status = status if status >= 300 else body.status or status
    name = _name(status, body, where)
    words = "" if name in ("context_length", "redirect") else body.words
    facts: dict[str, Any] = {"host": where.host, "url": where.url, "model": where.model or "(no name)"}
    if name == "redirect":
        facts["location"] = headers.get("location", "(not named)")
    error = fail(name, words=words, status=status if status >= 300 else None, **facts)
    if error.kind == "context_length":
        error.server_limit, error.server_count = context_numbers(body)
        if error.server_limit:
            counted = f", and the server counted {error.server_count:,}" if error.server_count else ""
            error.message = error.message.rstrip(".") + f": it takes {error.server_limit:,} tokens{counted}."
            error.args = (error.message,)
    error.needs_reasoning = name == "reasoning_wanted"
    error.retry_after = retry_after(headers) if error.retry else None
    if error.kind in ("bad_request", "not_found", "server"):
        error.refused = refused_fields(body)
    return error


def _name(status: int, body: ErrorBody, where: Where) -> str:
    """Which row of `TROUBLES`."""
    if is_context_length(body, status):
        return "context_length"
    if (
        body.says(r"insufficient_quota|insufficient balance|billing_hard_limit|billing_not_active")
        or status == 402
    ):
        return "quota"
    if body.says(r"content_filter|content_policy|content management policy|moderation|responsibleai"):
        return "filtered"
    if status == 401 or body.says(r"invalid.api.key|incorrect api key|api key not valid"):
        return "key_refused" if where.has_key else "key_missing"
    if status == 403:
        return "forbidden"
    if status == 404 or (400 <= status < 500 and is_unknown_model(body)):
        return "no_model" if is_unknown_model(body) else "no_route"
    if status == 429 or body.says(r"rate.?limit|too many requests"):
        # Some say "quota" for a limit per minute, and then name the time to wait.
        return "quota" if body.says(r"(current|your) quota|billing") else "rate_limit"
    if status in (503, 529) or body.says(r"overloaded|loading model"):
        return "busy"
    if status >= 500 or status in (408, 409):
        return "server"
    by_status = {405: "no_route", 413: "too_large"}
    if status in by_status:
        return by_status[status]
    if 300 <= status < 400:
        return "redirect"
    if status < 300:
        return "reported"
    return "reasoning_wanted" if wants_reasoning(body) else "bad_request"


# ------------------------------------------------------------------------------------------- context too long

_TOO_LONG = "|".join(
    (
        r"context_length_exceeded|exceed_context_size|context_window_exceeded",
        r"maximum context length|max(?:imum)? context|context (?:length|window|size)(?: is| was)? exceeded",
        r"(?:exceed|exceeds|exceeded|longer than|larger than)\W+(?:\w+\W+){0,4}context",  # llama.cpp, SGLang
        r"context (?:length|window|size) (?:of|is) (?:only )?\d",  # LM Studio, newer vLLM
        r"longer than the maximum model length",  # vLLM
        r"prompt is too long|prompt too long|input is too long|input too long",  # Anthropic, Ollama, oMLX
        r"reduce the length of the (?:messages|prompt|input)",  # Groq, vLLM
        r"input token count .{0,40}exceeds|tokens \+ `max_new_tokens` must be",  # Gemini, TGI
        r"(?:conversation|prompt|input|messages?) (?:is |are )?too (?:long|large|big)",
        r"too large for model with",  # Mistral
        r"request too large for",  # OpenAI, Groq: more than the tokens of a minute
    )
)
_COUNT = r"([\d,]*\d)"
_LIMITS = (
    # Ollama's "exceeded max context length by 4 tokens" names no limit.
    rf"context (?:length|window|size)(?! by)\D{{0,30}}{_COUNT}",
    rf"model length\D{{0,15}}{_COUNT}",
    rf"context window of {_COUNT}",
    rf"{_COUNT}(?: tokens)? maximum",
    rf"maximum number of tokens allowed\D{{0,5}}{_COUNT}",
    rf"must be <= {_COUNT}",
    rf"limit:?\s{_COUNT}",
)
_COUNTS = (
    rf"{_COUNT} (?:tokens )?(?:in|of|from) (?:the |your )?(?:input |text )?(?:messages|prompt|input)",
    rf"{_COUNT} input tokens|given: {_COUNT} `inputs`",
    rf"(?:prompt|input|request)\W+(?:contains |length |tokens? ?count )?\W?{_COUNT}(?: tokens)?",
    rf"length {_COUNT}\)",
    rf"(?:prompt is|prompt|input is|input) too long: {_COUNT}",
    rf"resulted in {_COUNT}|first {_COUNT} tokens",
    rf"requested(?: tokens| about| a total of)?:?\s\(?{_COUNT}",
)


def is_context_length(body: ErrorBody, status: int) -> bool:
    """Whether the prompt was longer than the model takes.

    A 429 usually means too many requests ("too many tokens per minute"); only "request too large" is about
    this one.
    """
    return body.says(r"request too large for" if status == 429 else _TOO_LONG)


def context_numbers(body: ErrorBody) -> tuple[int | None, int | None]:
    """(tokens the model takes, tokens the server counted in the prompt), each when it is named."""
    limit = body.numbers.get("n_ctx") or _first(_LIMITS, body.text)  # llama.cpp names both as fields
    count = body.numbers.get("n_prompt_tokens") or _first(_COUNTS, body.text)
    return limit, count


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    for pattern in patterns:
        if match := re.search(pattern, text):
            number = int(next(group for group in match.groups() if group).replace(",", ""))
            if number > 0:
                return number
    return None


# ------------------------------------------------------------------------------------------- refusals


def is_unknown_model(body: ErrorBody) -> bool:
    """Whether the model's name is what the server does not know."""
    return body.says(
        r"model_not_found|model_not_available|not a valid model|invalid model|unknown model"
        r"|\bmodel\b.{0,120}(?:not found|does not exist|not exist|not available|no such)"
        r"|(?:no such|not find|unknown).{0,20}\bmodel\b"
    )


def wants_reasoning(body: ErrorBody) -> bool:
    """DeepSeek's 400: "The `reasoning_content` in the thinking mode must be passed back to the API."."""
    return body.says(r"reasoning_content\W.{0,60}(?:must|required|missing)|missing.{0,20}reasoning_content")


_NO = (
    r"(?:not.support|unsupported|unrecogni[sz]ed|unknown|extra.forbidden|extra inputs|not.permitted"
    r"|not allowed|only allowed|not enabled|not implemented|no endpoints|requires? -)"
)
# In the order in which they are left out when one error names several.
_FIELDS = {
    "stream_options": r"(?:stream_options|include_usage)",
    "max_tokens": r"(?<!\w)max_tokens\b",
    "max_completion_tokens": r"max_completion_tokens",
    "tools": r"\b(?:tools?|tool_choice|tool choice|function.call\w*)\b",
    "reasoning_content": r"\breasoning_content\b",
    "stream": r"(?:['\"`]stream['\"`]|\bstream\b (?=unsupported))",
}


def refused_fields(body: ErrorBody) -> tuple[str, ...]:
    """Request fields that stand close to a "not supported" of some kind; empty when none does.

    More than one may be named ("use max_completion_tokens instead of max_tokens"): the caller knows what it
    sent.
    """
    return tuple(
        field for field, name in _FIELDS.items() if body.says(rf"{_NO}.{{0,80}}{name}|{name}.{{0,80}}{_NO}")
    )


# ------------------------------------------------------------------------------------------- Retry-After


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait; None when it does not say, or nothing usable.

    `retry-after-ms` is OpenAI's; `Retry-After` holds seconds or an HTTP date (RFC 9110, 10.2.3). A date is
    compared with the server's own clock (its `Date` header), which may differ from ours.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d*)?", value):
            return float(value) * unit
    when = _date(headers.get("retry-after", ""))
    if when is None:
        return None
    now = _date(headers.get("date", "")) or time.time()
    return max(0.0, when - now)


def _date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
