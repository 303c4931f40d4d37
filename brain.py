"""The model client: one chat call over the `openai` SDK, to any server that speaks its protocol.

`Brain.stream` sends a payload and yields what comes: text, reasoning, notices of retries, and at the end the
`Reply`. It hides the quirks of servers: what they refuse is left out and asked again, what they send is put
in order, and what fails is one `BrainError`. `ScriptedBrain` is the public double for tests and lessons.

The parts: `wire.py` reads bytes into chunks, `assembly.py` makes a reply of chunks, `failures.py` explains
errors and `server_errors.py` reads those that a server reports. Not here: what is in the payload (the context
decides) and what happens with tool calls (the agent does).
"""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import failures
import server_errors
import wire
from assembly import Assembly, ReasoningDelta, Reply, TextDelta, Usage
from failures import BrainError
from redaction import keep_secret

if TYPE_CHECKING:
    import openai

__all__ = [
    "Brain",
    "BrainError",
    "BrainEvent",
    "ChatModel",
    "ReasoningDelta",
    "Reply",
    "Request",
    "Retrying",
    "ScriptedBrain",
    "TextDelta",
    "Usage",
]

DEFAULT_BASE_URL = "https://api.openai.com/v1"
MAX_TRIES = 3
FIRST_DELAY = 1.0  # seconds; doubles with every try. One person at one terminal: no jitter needed
MAX_WAIT = (
    60.0  # seconds in all. A server that asks for more is told to the person instead: nobody sits that out
)

Payload = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Retrying:
    """The request is sent again after `delay` seconds; with 0, without something the server refused."""

    reason: str
    delay: float


BrainEvent = TextDelta | ReasoningDelta | Retrying | Reply


class ChatModel(Protocol):
    """What the agent needs of a model: `Brain`, `ScriptedBrain` and the offline stand-in are ones."""

    model: str

    def stream(
        self, payload: Payload, tools: Payload | None = None, max_tokens: int | None = None
    ) -> Iterator[BrainEvent]:
        """Yields events; the last one is the `Reply`. Raises `BrainError`."""

    def chat(self, payload: Payload, tools: Payload | None = None, max_tokens: int | None = None) -> Reply:
        """The same, run to its `Reply`."""


# What a server may refuse, and what a person reads when the request is sent again without it.
_REFUSALS = {
    "stream_options": "the server does not count tokens in a stream; asked again without",
    "max_tokens": "the model wants max_completion_tokens for max_tokens; asked again",
    "max_completion_tokens": "the model takes no limit on the reply; asked again without",
    "tools": "the server does not accept tools; asked again without",
    "reasoning_content": "the server does not take reasoning back; asked again without",
    "stream": "the server does not stream this model; asked again without",
}


class Brain:
    """A chat model behind an OpenAI-compatible endpoint.

    Args:
        api_key: The key, or "" for a server that wants none (no Authorization header is sent then).
        base_url: Address of the API, usually ending in `/v1`; "" is OpenAI's own.
        model: Name of the model. The attribute may be assigned at any time.
        timeout: Seconds without a byte from the server. A local model needs some before the first one.
        connect_timeout: Seconds to make a connection.
        sleep: Waits between tries; tests pass their own.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str,
        model: str,
        timeout: float = 60.0,
        connect_timeout: float = 10.0,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        keep_secret(api_key)
        self.model = model
        self._api_key = api_key
        self._base_url = base_url or DEFAULT_BASE_URL
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._sleep = sleep
        self._client: openai.OpenAI | None = None
        self._client_lock = threading.Lock()
        self._origin: Any = None  # scheme, host and port of the base URL, once there is a client
        # (base URL, model) -> request fields that this server refuses for this model
        self._refused: dict[tuple[str, str], set[str]] = {}

    @property
    def takes_tools(self) -> bool:
        """False once the server has refused tools for this model: none are sent, so none need be counted."""
        return "tools" not in self._refused.get((self._base_url, self.model), ())

    def chat(self, payload: Payload, tools: Payload | None = None, max_tokens: int | None = None) -> Reply:
        """Sends the payload and waits for the whole reply. Raises `BrainError`."""
        return _last(self.stream(payload, tools, max_tokens))

    def stream(
        self, payload: Payload, tools: Payload | None = None, max_tokens: int | None = None
    ) -> Iterator[BrainEvent]:
        """Sends the payload and yields the reply as it comes.

        Sends it again when the trouble is likely to pass, at most `MAX_TRIES` times, and never once a piece
        of the reply has come: what a person has read cannot be taken back, and the reply was billed.

        Args:
            payload: Messages as `ContextManager.build_for_llm` makes them.
            tools: Tool schemas in OpenAI's form; None or empty for none.
            max_tokens: Limit for the reply; None leaves it to the server.

        Yields:
            TextDelta, ReasoningDelta and Retrying, and last the `Reply`.

        Raises:
            BrainError: Every failure. `KeyboardInterrupt` passes through. Either way, and when the iterator
                is closed, the connection is closed too, so that the server stops working.
        """
        refused = self._refused.setdefault((self._base_url, self.model), set())
        tries, waited = 1, 0.0
        while True:
            request = _request(self.model, payload, tools, max_tokens, refused)
            assembly = Assembly()
            failure: BrainError | None = None
            try:
                yield from self._attempt(request, assembly)
            except _expected_errors() as error:
                if not assembly.complete:  # once the reply is whole, a broken connection costs nothing
                    failure = self._explain(error)
            if failure is None:
                yield from assembly.close()
                try:
                    reply = assembly.reply()
                except BrainError as error:
                    failure = error
                else:
                    yield reply
                    return
            failure = failures.redacted(failure, self._api_key)
            field = next((name for name in failure.refused if _sends(request, name)), None)
            if assembly.started:
                raise failure
            if field:
                refused.add(field)
                yield Retrying(_REFUSALS[field], 0.0)
                continue
            if not failure.retry or tries == MAX_TRIES:
                raise failures.after_tries(failure, tries)
            asked = failure.retry_after
            delay = asked if asked is not None else FIRST_DELAY * 2 ** (tries - 1)
            if waited + delay > MAX_WAIT:
                raise failures.long_wait(failure, delay)
            yield Retrying(failure.retry, delay)
            self._sleep(delay)
            tries, waited = tries + 1, waited + delay

    def warm_up(self) -> None:
        """Imports the SDK (0.7 s) and prepares the client, without any network. For a background thread."""
        try:
            self._connected()
        except _expected_errors():
            pass  # the first request reports it

    def close(self) -> None:
        """Closes the connections. The next request opens new ones."""
        with self._client_lock:
            if self._client:
                self._client.close()
                self._client = None

    def _attempt(self, request: dict[str, Any], assembly: Assembly) -> Iterator[TextDelta | ReasoningDelta]:
        """One HTTP request; fills the assembly."""
        self._check_key()
        client = self._connected()
        import openai  # loaded by now

        # Typed loosely: which of the SDK's overloads applies depends on what is in `request`. All of it goes
        # as `extra_body`: each message given as `messages` is led through the SDK's type unions first, which
        # changes nothing and takes 0.3 ms.
        create: Any = client.chat.completions.with_streaming_response.create
        start = {name: request[name] for name in ("model", "stream") if name in request}
        no_key = {} if self._api_key else {"Authorization": openai.Omit()}
        with (
            create(**start, messages=[], extra_body=request, extra_headers=no_key) as response,
            # Closed here, not by the garbage collector, which would swallow a Ctrl-C that comes meanwhile.
            closing(response.iter_bytes()) as body,
        ):
            for event in wire.events(body):
                if event.kind == "error":
                    raise self._reported(response, event.data)
                if event.kind != "done":
                    yield from assembly.add(event.data)
                # Some servers send no finish reason; then their mark tells a finished reply from a cut one.
                assembly.complete |= event.kind != "chunk"

    def _connected(self) -> openai.OpenAI:
        """The SDK's client, made once."""
        import httpx2
        import openai  # here, because it takes 0.7 s and the prompt must not wait for it

        with self._client_lock:
            try:
                self._origin = httpx2.URL(self._base_url).origin
                self._client = self._client or openai.OpenAI(
                    api_key=self._api_key or "none",  # it insists on one
                    base_url=self._base_url,
                    timeout=openai.Timeout(self._timeout, connect=self._connect_timeout),
                    max_retries=0,  # the SDK would sleep in silence; `stream` has a loop that can be seen
                    http_client=openai.DefaultHttpxClient(
                        event_hooks={"request": [self._stay]},
                        # A connection for each request: llama.cpp closes a kept one after a stream, and now
                        # and then just when the next request is on its way.
                        limits=httpx2.Limits(max_keepalive_connections=0),
                    ),
                )
            # No address; an unknown proxy scheme; no such SSL_CERT_FILE; SOCKS without the package for it.
            except (httpx2.InvalidURL, ValueError, OSError, ImportError) as error:
                raise failures.fail("setup", words=str(error)) from None
            return self._client

    def _stay(self, request: Any) -> None:
        """Runs before every HTTP request, redirects included: key and conversation go nowhere else."""
        if request.method != "POST" or request.url.origin != self._origin:
            url = request.url.copy_with(username=None, password=None, query=None, fragment=None)
            raise failures.RedirectError(str(url))

    def _explain(self, error: Exception) -> BrainError:
        import openai  # loaded already, or it could not have failed

        if isinstance(error, openai.APIStatusError):
            return self._reported(error.response, error.response.content)
        return failures.from_exception(error, self._where())

    def _reported(self, response: Any, body: object) -> BrainError:
        return server_errors.from_response(response.status_code, response.headers, body, self._where())

    def _where(self) -> failures.Where:
        return failures.where(
            self._base_url, self.model, self._timeout, self._connect_timeout, bool(self._api_key)
        )

    def _check_key(self) -> None:
        """The SDK says "Connection error." to a line break, and a curly quote is a `UnicodeEncodeError`."""
        for character in self._api_key:
            if not "!" <= character <= "~":
                what = "a line break or blank" if character.isspace() else "a character outside plain ASCII"
                raise failures.fail("key_unsendable", what=what)


def _request(
    model: str, payload: Payload, tools: Payload | None, max_tokens: int | None, refused: set[str]
) -> dict[str, Any]:
    """The body of the request: what is needed and nothing else, less what this server refuses."""
    messages = list(payload)
    if "reasoning_content" in refused:
        messages = [{k: v for k, v in message.items() if k != "reasoning_content"} for message in messages]
    request: dict[str, Any] = {"model": model, "messages": messages}
    if "stream" not in refused:
        request["stream"] = True
        if "stream_options" not in refused:
            request["stream_options"] = {"include_usage": True}
    if tools and "tools" not in refused:
        request["tools"] = list(tools)
    if max_tokens is not None and "max_completion_tokens" not in refused:
        request["max_completion_tokens" if "max_tokens" in refused else "max_tokens"] = max_tokens
    return request


def _sends(request: dict[str, Any], field: str) -> bool:
    if field == "reasoning_content":
        return any(field in message for message in request["messages"])
    return field in request


def _expected_errors() -> tuple[type[Exception], ...]:
    """What can go wrong outside this program. A bug in it must show, so this is not `Exception`."""
    import httpx2  # both are loaded, or about to be
    import openai

    return (
        BrainError,
        failures.RedirectError,
        openai.OpenAIError,
        httpx2.HTTPError,  # while the body is read; before that, the SDK wraps them
        httpx2.InvalidURL,
        httpx2.StreamError,
        OSError,  # ssl.SSLError among them
        UnicodeError,  # text that cannot be sent
    )


def _last(events: Iterable[BrainEvent]) -> Reply:
    reply = None
    for event in events:
        reply = event
    assert isinstance(reply, Reply)
    return reply


# ------------------------------------------------------------------------------------------- the double


class Request(NamedTuple):
    """One call, as it was asked: deep copies, so that later changes do not show."""

    payload: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    max_tokens: int | None


class ScriptedBrain:
    """A model for tests and lessons: plays a queue of replies and records what it was asked.

    Args:
        *script: One item for each request: a `Reply` (its reasoning and text are yielded first), an exception
        to
            raise, a text (short for a plain reply), or a list of events and exceptions, played in order.
        model: The name it goes by.
    """

    def __init__(
        self,
        *script: Reply | BaseException | str | Sequence[BrainEvent | BaseException],
        model: str = "scripted",
    ) -> None:
        self.model = model
        self.script = deque(script)
        self.requests: list[Request] = []

    def chat(self, payload: Payload, tools: Payload | None = None, max_tokens: int | None = None) -> Reply:
        """Plays the next item to its `Reply`."""
        return _last(self.stream(payload, tools, max_tokens))

    def stream(
        self, payload: Payload, tools: Payload | None = None, max_tokens: int | None = None
    ) -> Iterator[BrainEvent]:
        """Plays the next item. `AssertionError` when the script has run out."""
        self.requests.append(
            Request(copy.deepcopy(list(payload)), copy.deepcopy(list(tools)) if tools else None, max_tokens)
        )
        assert self.script, f"no reply left in the script for request {len(self.requests)}"
        item = self.script.popleft()
        if isinstance(item, str):
            item = Reply(item, [], None, "stop")
        for event in (
            _told(item) if isinstance(item, Reply) else [item] if isinstance(item, BaseException) else item
        ):
            if isinstance(event, BaseException):
                raise event
            yield event


def _told(reply: Reply) -> Iterator[BrainEvent]:
    if reply.reasoning:
        yield ReasoningDelta(reply.reasoning)
    if reply.text:
        yield TextDelta(reply.text)
    yield reply
