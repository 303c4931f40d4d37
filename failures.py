"""Every way a chat request can fail, in words for a person.

`BrainError` is the one exception that leaves the model client. `TROUBLES` holds each sentence a person can
get to see, with what to do about it; README's troubleshooting list is checked against that table.
`from_exception` finds the row when no answer came at all. When one came, others know better and use this
table: `server_errors.py` for an error the server reported, `wire.py` and `assembly.py` for a reply that makes
no sense.

Not here: when to ask again (`brain.py`).
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass


class BrainError(Exception):
    """A chat request failed. Nothing of the reply may be kept.

    Attributes:
        kind: auth, quota, rate_limit, timeout, connection, context_length, not_found, bad_request, filtered,
            empty, server or interrupted.
        message: One sentence: what happened. hint: What the person can do about it. status: The HTTP status,
        when there was one. server_limit: Tokens the model's context holds, when a `context_length` error
        names it. server_count: Tokens the server counted in the prompt, when it names them. needs_reasoning:
        The server wants `reasoning_content` of earlier steps sent back; send it and ask again. retry: A few
        words when the same request may well succeed soon ("rate limited"), else "". retry_after: Seconds the
        server asks to wait before that, when it says so. refused: Request fields that the server seems to
        refuse; sending it without them may help.
    """

    is_sentence = True
    """What it says is for a person, and is shown without the name of its type."""

    def __init__(
        self,
        kind: str,
        message: str,
        hint: str = "",
        *,
        status: int | None = None,
        server_limit: int | None = None,
        server_count: int | None = None,
        needs_reasoning: bool = False,
        retry: str = "",
        retry_after: float | None = None,
        refused: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.status = status
        self.server_limit = server_limit
        self.server_count = server_count
        self.needs_reasoning = needs_reasoning
        self.retry = retry
        self.retry_after = retry_after
        self.refused = refused

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Trouble:
    """One row of the table: `sentence` may hold {placeholders}, `hint` never does."""

    kind: str
    sentence: str
    hint: str
    retry: str = (
        ""  # what a person reads while the request is sent again; "" = the same request would fail again
    )


_AGAIN = "Send it again."
_LOWER = "Lower CONTEXT_TOKEN_BUDGET (/budget), or choose a model with a longer context (/model)."
_ADDRESS = "Check OPENAI_BASE_URL: it is the address of the API, and usually ends in /v1."

TROUBLES: dict[str, Trouble] = {
    # --- the key and the account
    "key_missing": Trouble("auth", "The server wants an API key ({status}).", "Set OPENAI_API_KEY."),
    "key_refused": Trouble(
        "auth",
        "The server did not accept the API key ({status}).",
        "Check OPENAI_API_KEY: it must belong to the server in OPENAI_BASE_URL.",
    ),
    "key_unsendable": Trouble(
        "auth",
        "The API key was not sent, because it has {what}.",
        "Copy OPENAI_API_KEY again: one line of letters, digits and plain signs.",
    ),
    "forbidden": Trouble(
        "auth",
        "The server does not allow this request ({status}).",
        "Check that this key may use this model, and that the service is offered where you are.",
    ),
    "quota": Trouble(
        "quota",
        "The account has no credit left ({status}).",
        "Check plan and billing with the provider, or use another key or model.",
    ),
    "rate_limit": Trouble(
        "rate_limit",
        "The server takes no more requests for the moment ({status}).",
        "Wait a little and send it again.",
        retry="rate limited",
    ),
    "long_wait": Trouble(
        "rate_limit",
        "The server asks to wait {wait} before the next request ({status}).",
        "Wait that long, or use another model (/model) or key.",
    ),
    # --- getting there
    "unreachable": Trouble(
        "connection",
        "No connection to {host}.",
        "Check that the server is running, that OPENAI_BASE_URL is right, and the network.",
        retry="no connection",
    ),
    "unknown_host": Trouble(
        "connection",
        "The name {host} was not found.",
        "Check OPENAI_BASE_URL for a typing error, and the network.",
        retry="name not found",
    ),
    "connect_timeout": Trouble(
        "timeout",
        "{host} did not take the connection within {connect_timeout} s.",
        "Check OPENAI_BASE_URL and the network; a slow network needs a higher OPENAI_CONNECT_TIMEOUT.",
        retry="no connection",
    ),
    "read_timeout": Trouble(
        "timeout",
        "{host} sent nothing for {timeout} s.",
        "A slow model needs a higher OPENAI_TIMEOUT; otherwise send it again.",
    ),
    "dropped": Trouble("connection", "{host} dropped the connection.", _AGAIN, retry="connection dropped"),
    "certificate": Trouble(
        "connection",
        "The certificate of {host} is not trusted.",
        "If it is your own server, set SSL_CERT_FILE to its certificate file; otherwise send nothing there.",
    ),
    "no_tls": Trouble(
        "connection",
        "{host} does not speak HTTPS.",
        "A server on your own machine usually wants http:// in OPENAI_BASE_URL.",
    ),
    "proxy": Trouble(
        "connection",
        "The proxy between here and {host} refused the connection.",
        "Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY; NO_PROXY names hosts to reach directly.",
    ),
    "setup": Trouble(
        "connection",
        "No connection could be set up with these settings.",
        "Check OPENAI_BASE_URL, and HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE in the environment.",
    ),
    "redirect": Trouble(
        "not_found",
        "{host} points to another address, {location}, and nothing was sent there.",
        "If you trust that address, put it into OPENAI_BASE_URL.",
    ),
    "no_route": Trouble("not_found", "There is no chat API at {url} ({status}).", _ADDRESS),
    "no_model": Trouble(
        "not_found",
        "The server does not know the model {model} ({status}).",
        "Check OPENAI_MODEL, or choose another one with /model.",
    ),
    # --- what was sent
    "context_length": Trouble("context_length", "The conversation is too long for {model}.", _LOWER),
    "too_large": Trouble("context_length", "The request is too large for the server ({status}).", _LOWER),
    "bad_request": Trouble(
        "bad_request",
        "The server did not accept the request ({status}).",
        "Try another model (/model); /payload shows what is sent.",
    ),
    "reasoning_wanted": Trouble(
        "bad_request",
        "The server wants the model's earlier reasoning sent back ({status}).",
        "Send it again, or start a new conversation.",
    ),
    "unsendable_text": Trouble(
        "bad_request",
        "The conversation holds a character that cannot be sent.",
        "Write it again without unusual characters; /undo takes an older turn back.",
    ),
    "filtered": Trouble(
        "filtered",
        "The content filter of the server stopped this.",
        "Put it another way, or take back (/undo) what set the filter off.",
    ),
    # --- what came back
    "empty": Trouble("empty", "The model answered with nothing.", "Send it again, or try another model."),
    "only_reasoning": Trouble(
        "empty",
        "The model sent its reasoning and no answer.",
        "Send it again, or ask for a shorter answer.",
    ),
    "cut_short": Trouble(
        "empty",
        "The model reached its limit of tokens before there was an answer.",
        "Ask for something shorter, or leave more room for the reply: lower CONTEXT_TOKEN_BUDGET (/budget).",
    ),
    "broken_off": Trouble(
        "interrupted", "The reply broke off before it was complete.", _AGAIN, retry="the reply broke off"
    ),
    "server": Trouble("server", "The server failed{at}.", "Send it again in a minute.", retry="server error"),
    "busy": Trouble(
        "server",
        "The server is overloaded or still starting{at}.",
        "Send it again in a minute.",
        retry="server busy",
    ),
    "reported": Trouble("server", "The server reported an error.", "Send it again, or try another model."),
    "web_page": Trouble(
        "server",
        "A web page came back instead of an answer.",
        "Sign in to the network when it asks for that, or check OPENAI_BASE_URL: it usually ends in /v1.",
    ),
    "not_chat": Trouble("server", "What came back is not a chat reply.", _ADDRESS),
    "no_body": Trouble("empty", "The server sent an empty answer.", _ADDRESS, retry="an empty answer"),
    "bad_json": Trouble(
        "server", "The server sent a damaged piece of a reply.", _AGAIN, retry="a damaged answer"
    ),
    "endless": Trouble("server", "The server sent a piece of more than {size}.", _ADDRESS),
}


class RedirectError(Exception):
    """Raised in place of following a redirect that would leave the configured server, or lose the request.

    It is no `httpx2` error, so that the SDK lets it pass untouched.
    """


@dataclass(frozen=True, slots=True)
class Where:
    """What the sentences name: the endpoint, the model and the two timeouts (seconds). No key in it."""

    url: str
    host: str
    model: str
    timeout: float
    connect_timeout: float
    has_key: bool = True


def where(base_url: str, model: str, timeout: float, connect_timeout: float, has_key: bool) -> Where:
    """Names the endpoint for the sentences, without the password that an address may hold."""
    url = re.sub(r"//[^/@]*@", "//", base_url.partition("?")[0])
    host = re.sub(r"^\w*:?//|/.*", "", url) or url  # not urlsplit, which raises for what is no address
    return Where(url, host, model, timeout, connect_timeout, has_key)


def after_tries(error: BrainError, tries: int) -> BrainError:
    """Says how often it was tried."""
    if tries > 1:
        error.message = f"{error.message.rstrip('.')} ({tries} tries)."
        error.args = (error.message,)
    return error


def long_wait(error: BrainError, delay: float) -> BrainError:
    """The server asks for a wait that nobody wants to sit out: the person is told how long."""
    wait = f"{delay:.0f} s" if delay < 600 else f"{delay / 60:.0f} minutes" if delay < 36e3 else "many hours"
    longer = fail("long_wait", wait=wait, status=error.status)
    longer.kind, longer.retry_after = error.kind, error.retry_after
    return longer


def fail(name: str, *, words: str = "", status: int | None = None, **facts: object) -> BrainError:
    """Makes the error of one row of `TROUBLES`; `words` are the server's own and end the sentence."""
    trouble = TROUBLES[name]
    sentence = trouble.sentence.format(status=status, at=f" ({status})" if status else "", **facts)
    sentence = sentence.replace(" (None)", "")
    if words:
        sentence = f"{sentence.rstrip('.')}: {words}"
    return BrainError(trouble.kind, sentence, trouble.hint, status=status, retry=trouble.retry)


def redacted(error: BrainError, key: str) -> BrainError:
    """Takes the key, and passwords in addresses, out of every text of the error. Servers do echo keys.

    A key of less than eight characters (a placeholder such as `x`) is only replaced where it stands alone, or
    it would eat letters out of ordinary words.
    """
    alone = "" if len(key) >= 8 else r"\b"
    for name in ("message", "hint"):
        text = re.sub(r"//[^/@\s]+@", "//", getattr(error, name))
        if key:
            text = re.sub(f"{alone}{re.escape(key)}{alone}", "[key]", text)
        setattr(error, name, text)
    error.args = (error.message,)
    # Whatever was being handled may hold the key too: a JSONDecodeError carries the whole body.
    error.__cause__ = error.__context__ = error.__traceback__ = None
    return error


# ------------------------------------------------------------------------------------------- no answer at all


def from_exception(error: Exception, where: Where) -> BrainError:
    """Explains what the SDK, or the HTTP library under it, raised. The cause says more than the error."""
    import httpx2  # heavy; loaded by the SDK by the time anything can fail

    if isinstance(error, BrainError):
        return error
    causes = list(_causes(error))

    def caused_by(*types: type[BaseException]) -> bool:
        return any(isinstance(cause, types) for cause in causes)

    host = where.host
    if isinstance(error, RedirectError):
        return fail("redirect", host=host, location=str(error))
    if caused_by(httpx2.TooManyRedirects):
        return fail("redirect", host=host, location="one that points on and on")
    if caused_by(ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(causes):
        reason = next((c.verify_message for c in causes if hasattr(c, "verify_message")), "")
        return fail("certificate", host=host, words=reason)
    if caused_by(ssl.SSLError) or "[SSL" in str(causes):
        return fail("no_tls", host=host)
    if caused_by(httpx2.ConnectTimeout, httpx2.PoolTimeout):
        return fail("connect_timeout", host=host, connect_timeout=f"{where.connect_timeout:g}")
    if caused_by(httpx2.TimeoutException):
        return fail("read_timeout", host=host, timeout=f"{where.timeout:g}")
    if caused_by(httpx2.ProxyError):
        return fail("proxy", host=host)
    if caused_by(socket.gaierror):
        return fail("unknown_host", host=host)
    if caused_by(httpx2.ConnectError):
        reason = next((c.strerror for c in causes if isinstance(c, OSError) and c.strerror), "")
        return fail("unreachable", host=host, words=reason.lower())
    if caused_by(UnicodeError):
        return fail("unsendable_text")
    if caused_by(httpx2.DecodingError):
        return fail("bad_json")
    if caused_by(httpx2.UnsupportedProtocol, httpx2.InvalidURL, httpx2.LocalProtocolError):
        return fail("setup")
    return fail("dropped", host=host)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
