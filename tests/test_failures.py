"""Every failure is one sentence for a person with what to do; and what servers say is read as it is meant."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import failures
import server_errors
import wire
from assembly import Assembly
from failures import TROUBLES, BrainError, fail, from_exception

ROOT = Path(__file__).parent.parent
KINDS = {"auth", "quota", "rate_limit", "timeout", "connection", "context_length", "not_found", "bad_request"}
KINDS |= {"filtered", "empty", "server", "interrupted"}
WHERE = failures.where("https://api.example.test/v1", "gpt-9", 60, 10, has_key=True)
KEYLESS = failures.where("https://api.example.test/v1", "gpt-9", 60, 10, has_key=False)


def reported(status: int, body: object = "", at: Any = WHERE, **headers: str) -> BrainError:
    return server_errors.from_response(status, headers, body, at)


def raised(error: BaseException, cause: BaseException | None = None) -> BrainError:
    """As the SDK raises it: its own error, with the real one as the cause."""
    import httpx2
    import openai

    error.__cause__ = cause
    outer = openai.APIConnectionError(request=httpx2.Request("POST", WHERE.url))
    outer.__cause__ = error
    return from_exception(outer, WHERE)


def read(body: bytes) -> BrainError:
    with pytest.raises(BrainError) as caught:
        list(wire.events([body]))
    return caught.value


def assembled(*chunks: dict[str, Any]) -> BrainError:
    assembly = Assembly()
    for chunk in chunks:
        list(assembly.add({"choices": [chunk]}))
    with pytest.raises(BrainError) as caught:
        assembly.reply()
    return caught.value


def httpx_error(name: str) -> Exception:
    import httpx2

    error: Exception = getattr(httpx2, name)("All is not well")
    return error


def stop(reason: str, **delta: str) -> dict[str, Any]:
    return {"delta": delta, "finish_reason": reason}


BAD_CERTIFICATE = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
CASES: dict[str, Callable[[], BrainError]] = {
    "key_missing": lambda: reported(401, at=KEYLESS),
    "key_refused": lambda: reported(401, {"error": {"message": "Who are you?"}}),
    "key_unsendable": lambda: fail("key_unsendable", what="a line break or blank"),
    "forbidden": lambda: reported(403),
    "quota": lambda: reported(429, {"error": {"code": "insufficient_quota"}}),
    "rate_limit": lambda: reported(429, **{"retry-after": "7"}),
    "long_wait": lambda: failures.long_wait(reported(429), 90),
    "unreachable": lambda: raised(
        httpx_error("ConnectError"), ConnectionRefusedError(111, "Connection refused")
    ),
    "unknown_host": lambda: raised(httpx_error("ConnectError"), socket.gaierror(-2, "Name not known")),
    "connect_timeout": lambda: raised(httpx_error("ConnectTimeout")),
    "read_timeout": lambda: raised(httpx_error("ReadTimeout")),
    "dropped": lambda: raised(httpx_error("RemoteProtocolError")),
    "certificate": lambda: raised(httpx_error("ConnectError"), BAD_CERTIFICATE),
    "no_tls": lambda: raised(
        httpx_error("ConnectError"), ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong")
    ),
    "proxy": lambda: raised(httpx_error("ProxyError")),
    "setup": lambda: raised(httpx_error("UnsupportedProtocol")),
    "redirect": lambda: from_exception(failures.RedirectError("http://elsewhere.test/"), WHERE),
    "no_route": lambda: reported(404, b"<html>Not found</html>"),
    "no_model": lambda: reported(404, {"error": {"code": "model_not_found"}}),
    "context_length": lambda: reported(400, {"error": {"code": "context_length_exceeded"}}),
    "too_large": lambda: reported(413),
    "bad_request": lambda: reported(400, "No luck"),
    "reasoning_wanted": lambda: reported(400, "The `reasoning_content` must be passed back"),
    "unsendable_text": lambda: from_exception(
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), WHERE
    ),
    "filtered": lambda: assembled(stop("content_filter")),
    "empty": lambda: assembled(stop("stop")),
    "only_reasoning": lambda: assembled(stop("stop", reasoning="Hm.")),
    "cut_short": lambda: assembled(stop("length")),
    "broken_off": lambda: assembled({"delta": {"content": "Hel"}}),
    "server": lambda: reported(500),
    "busy": lambda: reported(503),
    "reported": lambda: reported(200, {"error": {"message": "No luck"}}),
    "web_page": lambda: read(b"<!doctype html>"),
    "not_chat": lambda: read(b"It works!"),
    "no_body": lambda: read(b""),
    "bad_json": lambda: read(b"data: {oops\n\n"),
    "endless": lambda: read(b"{" * (wire.MAX_PIECE + 1)),
}


def test_every_row_has_a_case() -> None:
    assert CASES.keys() == TROUBLES.keys()


@pytest.mark.parametrize("name", CASES)
def test_each_trouble_is_found_and_told_in_one_sentence(name: str) -> None:
    """What is raised is the row that fits, filled in: no placeholder, no class name, no newline."""
    error, trouble = CASES[name](), TROUBLES[name]
    start = re.split(r" ?\(?\{|\.$", trouble.sentence)[0]
    assert error.message.startswith(start)
    assert (error.kind, error.hint) == (trouble.kind, trouble.hint)
    assert error.kind in KINDS
    assert str(error) == error.message
    assert not re.search(r"[{}\n]|None|Error\b|httpx|openai\.", error.message)
    assert re.search(r"[.?!\w)\"`]$", error.message)


@pytest.mark.parametrize("name", TROUBLES)
def test_the_words_of_the_table(name: str) -> None:
    """A sentence ends with one full stop; a hint names a thing to do and holds no placeholder."""
    trouble = TROUBLES[name]
    assert re.fullmatch(r"[A-Z{][^\n]*[^.]\.", trouble.sentence)
    assert trouble.sentence.count(". ") == 0
    assert re.fullmatch(r"[A-Z][^\n{}]*[^.]\.", trouble.hint)


def test_hints_name_settings_that_exist() -> None:
    settings = (ROOT / ".env.example").read_text(encoding="utf-8")
    named = set(
        re.findall(r"\b(?:OPENAI|CONTEXT|AGENT)_[A-Z_]+", " ".join(t.hint for t in TROUBLES.values()))
    )
    assert named
    assert {name for name in named if name not in settings} == set()


# ------------------------------------------------------------------------------------ what servers say


@pytest.mark.parametrize(
    ("words", "limit", "count"),
    [
        pytest.param(
            "This model's maximum context length is 4097 tokens. However, you requested 4,927 tokens (3,927 "
            "in the messages, 1000 in the completion).",
            4097,
            3927,
            id="OpenAI, older",
        ),
        pytest.param(
            "'max_tokens' or 'max_completion_tokens' is too large: 500. This model's maximum context length "
            "is 4096 tokens and your request has 4500 input tokens (500 > 4096 - 4500).",
            4096,
            4500,
            id="vLLM, newer",
        ),
        pytest.param(
            "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
            4096,
            9000,
            id="vLLM, decoder",
        ),
        pytest.param(
            "You passed 9000 input tokens and requested 0 output tokens. However, the model's context length "
            "is only 4096 tokens.",
            4096,
            9000,
            id="vLLM, passed",
        ),
        pytest.param(
            "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
            4096,
            9000,
            id="SGLang",
        ),
        pytest.param(
            "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            4096,
            9000,
            id="llama.cpp in words",
        ),
        pytest.param(
            "Requested tokens (2285) exceed context window of 2048", 2048, 2285, id="llama-cpp-python"
        ),
        pytest.param(
            "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens, which is not enough.",
            4096,
            5000,
            id="LM Studio",
        ),
        pytest.param(
            "Prompt too long: 41911 tokens exceeds max context window of 32768 tokens",
            32768,
            41911,
            id="oMLX",
        ),
        pytest.param("prompt is too long: 210000 tokens > 200000 maximum", 200000, 210000, id="Anthropic"),
        pytest.param(
            "The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).",
            1048576,
            1048600,
            id="Gemini",
        ),
        pytest.param(
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context "
            "length",
            32768,
            40000,
            id="Mistral",
        ),
        pytest.param(
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 "
            "tokens (39000 of text input, 1000 in the output).",
            32768,
            39000,
            id="OpenRouter",
        ),
        pytest.param(
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 512 "
            "`max_new_tokens`",
            4096,
            5000,
            id="TGI",
        ),
        pytest.param("Please reduce the length of the messages or completion.", None, None, id="Groq"),
        pytest.param("Context length exceeded", None, None, id="in words"),
    ],
)
def test_context_too_long_in_other_spellings(words: str, limit: int | None, count: int | None) -> None:
    """The two numbers are the model's limit and the prompt's count, never the room for the reply."""
    error = reported(400, {"error": {"message": words}})
    assert (error.kind, error.server_limit, error.server_count) == ("context_length", limit, count)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"),
        (400, "Invalid 'tools[0].function.name': string does not match pattern"),
        (400, "max_tokens is too large: 9000. This model supports at most 4096 completion tokens"),
        (
            429,
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
        ),
        (429, "Token rate limit reached: please reduce the length of the messages, or wait"),
        (429, "Too many tokens per minute, please reduce your prompt"),
        (500, "Failed to parse tool call arguments as JSON: unexpected end of input"),
    ],
)
def test_what_is_neither_a_refusal_nor_a_long_context(status: int, words: str) -> None:
    """Words of both kinds occur in other errors."""
    error = reported(status, {"error": {"message": words}})
    assert error.kind in ("bad_request", "rate_limit", "server")
    assert error.refused == ()


def test_what_was_sent_is_not_read_as_the_words_of_the_server() -> None:
    """FastAPI's validation errors repeat the request; whoever writes about refusals must not cause one."""
    echo = {"messages": "the server does not support tools", "code": 402}
    error = reported(422, {"detail": [{"loc": ["body", "model"], "msg": "Bad value", "input": echo}]})
    assert (error.refused, error.kind) == ((), "bad_request")


def test_the_words_of_a_server_are_one_short_line() -> None:
    error = reported(400, {"error": {"message": "Bad\n\x1b[31mgrammar\x00 " + "very " * 999}})
    assert "\n" not in error.message
    assert "\x1b" not in error.message
    assert len(error.message) < 400


def test_a_line_of_a_stream_ends_somewhere_too() -> None:
    assert read(b"data: " + b"x" * wire.MAX_PIECE).message == fail("endless", size="32 MB").message


def test_a_plain_answer_of_many_lines_ends_somewhere_too() -> None:
    assert (
        read(b"{\n" + b"1234567\n" * (wire.MAX_PIECE // 6)).message == fail("endless", size="32 MB").message
    )


def test_tries_are_told_only_when_there_were_some() -> None:
    assert failures.after_tries(reported(500), 1).message == "The server failed (500)."
    assert str(failures.after_tries(reported(500), 3)) == "The server failed (500) (3 tries)."
