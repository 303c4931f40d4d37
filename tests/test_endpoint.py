"""Where the model client connects to, and what it tells whom: addresses, certificates, redirects, the key.

Over real HTTP on loopback, with as many servers as it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import HELLO, KEY, brain, failure
from server import Answer, Server, error, plain, says, stream


@pytest.fixture
def server() -> Iterator[Server]:
    """A server whose every request must have been valid."""
    with Server() as server:
        yield server
    assert server.problems == []


# ------------------------------------------------------------------------------------ no connection


def closed_port() -> int:
    """A port on which nothing listens."""
    with Server() as server:
        return server.port


def test_connection_refused() -> None:
    with brain(f"http://127.0.0.1:{closed_port()}/v1") as (client, waits):
        reported = failure(client)
    assert (reported.kind, reported.status, waits) == ("connection", None, [1.0, 2.0])
    assert "refused" in reported.message


def test_a_self_signed_certificate_is_named(tmp_path: Path) -> None:
    with Server(tls=tmp_path) as server, brain(server) as (client, waits):
        reported = failure(client)
    assert (reported.kind, waits) == ("connection", [])
    assert "certificate" in reported.message
    assert "SSL_CERT_FILE" in reported.hint


def test_what_the_hint_about_certificates_says_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(says("Yes."), tls=tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "loopback.pem"))
        with brain(server) as (client, _):
            assert client.chat(HELLO).text == "Yes."


def test_https_to_a_server_that_speaks_http(server: Server) -> None:
    with brain(server.url.replace("http:", "https:")) as (client, waits):
        reported = failure(client)
    assert (reported.kind, waits) == ("connection", [])
    assert "http://" in reported.hint


# ------------------------------------------------------------------------------------ the key


@pytest.mark.parametrize(
    "key",
    [
        "sk-abc\n",
        "sk-abc\r\nX-Evil: 1",
        "sk abc",
        "\u201csk-abc\u201d",
        "sk-äbc",
        "sk-\x00",
        "sk-\u00a0abc",
        "\ud83d",
    ],
    ids=[
        "newline",
        "header injection",
        "blank",
        "curly quotes",
        "umlaut",
        "nul",
        "no-break space",
        "surrogate",
    ],
)
def test_a_key_with_odd_characters_is_refused_before_anything_is_sent(server: Server, key: str) -> None:
    with brain(server, api_key=key) as (client, waits):
        reported = failure(client)
    assert (reported.kind, server.requests, waits) == ("auth", [], [])
    assert "OPENAI_API_KEY" in reported.hint
    assert "abc" not in reported.message


ECHO = f"Incorrect API key provided: {KEY}. Authorization: Bearer {KEY}"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(error(401, ECHO), id="401"),
        pytest.param(error(400, ECHO), id="400"),
        pytest.param(plain(ECHO.encode(), 500), id="500 as text"),
        pytest.param(plain({"detail": [{"loc": ["header", KEY], "msg": ECHO}]}, 422), id="validation error"),
        pytest.param(plain({"error": ECHO}), id="200 with an error"),
        pytest.param(plain(ECHO.encode(), content_type="text/plain"), id="200 with text"),
        pytest.param(stream({"error": {"message": ECHO}}), id="in the stream"),
        pytest.param(Answer(307, (), [("Location", f"http://127.0.0.1:1/?key={KEY}")]), id="redirect"),
        pytest.param(Answer(307, (), [("Location", f"http://127.0.0.1:1/{KEY}/v1")]), id="redirect path"),
        pytest.param(stream('{"half": "' + KEY), id="damaged JSON"),
    ],
)
def test_no_error_holds_the_key(server: Server, answer: Answer) -> None:
    """Also when the server sends it back; also in the exceptions behind it, which a traceback shows."""
    server.play(answer, answer, answer)
    with brain(server) as (client, _):
        reported = failure(client)
    seen: BaseException | None = reported
    while seen is not None:
        assert KEY not in f"{seen!s} {seen!r} {vars(seen)}"
        seen = seen.__cause__ or seen.__context__
    assert KEY not in repr(client)


@pytest.mark.parametrize("before", range(270, 301, 5))
def test_half_a_key_is_not_shown_where_a_long_error_is_cut(server: Server, before: int) -> None:
    """Of half a key nobody can tell any more what it was: it is hidden before the text is cut."""
    server.play(error(401, f"{'x' * before} {KEY} is wrong"))
    with brain(server) as (client, _):
        message = failure(client).message
    assert KEY[:5] not in message


def test_a_key_is_hidden_as_it_stands_in_json(server: Server) -> None:
    key = 'a key with "quotes" and \\ in it'
    server.play(stream({"unexpected": f"your key {key} is wrong"}))
    with brain(server, api_key=key) as (client, _):
        message = failure(client).message
    assert "quotes" not in message


def test_a_short_placeholder_key_does_not_eat_words(server: Server) -> None:
    """People write `x` or `ollama` where a key is demanded and none is needed."""
    server.play(error(400, "expected x, next: exit"))
    with brain(server, api_key="x") as (client, _):
        assert "expected [key], next: exit" in failure(client).message


def test_key_and_conversation_stay_with_the_configured_server(server: Server) -> None:
    """A redirect elsewhere is not followed, not even without the key: the conversation is private too."""
    with Server() as other:
        server.play(Answer(307, (), [("Location", other.url + "/chat/completions?token=1")]))
        with brain(server) as (client, waits):
            reported = failure(client)
        assert other.requests == []
    assert (reported.kind, waits) == ("not_found", [])
    assert f"127.0.0.1:{other.port}/v1/chat/completions" in reported.message
    assert "token" not in reported.message
    assert "OPENAI_BASE_URL" in reported.hint


def test_a_redirect_within_the_server_is_followed(server: Server) -> None:
    """FastAPI sends one for a slash too many or too few."""
    server.play(Answer(307, (), [("Location", "/v1/chat/completions/")]), says("Yes."))
    with brain(server) as (client, _):
        assert client.chat(HELLO).text == "Yes."
    assert server.requests[1].body == server.requests[0].body


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_lose_the_request_is_not_followed(server: Server, status: int) -> None:
    """These turn a POST into a GET of, say, a login page."""
    server.play(Answer(status, (), [("Location", "/login")]))
    with brain(server) as (client, _):
        assert failure(client).kind == "not_found"
    assert len(server.requests) == 1


def test_a_redirect_in_circles_ends(server: Server) -> None:
    server.play(*[Answer(307, (), [("Location", "/v1/chat/completions")])] * 30)
    with brain(server) as (client, _):
        assert failure(client).kind == "not_found"


# ------------------------------------------------------------------------------------ proxies


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_from_the_environment_is_used(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The name of the API is never looked up here: the proxy does that."""
    monkeypatch.setenv(name, f"http://127.0.0.1:{server.port}")
    server.play(says("By proxy."))
    with brain("http://api.example.test/v1") as (client, _):
        assert client.chat(HELLO).text == "By proxy."
    assert server.requests[0].path == "http://api.example.test/v1/chat/completions"


def test_no_proxy_is_honored(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.play(says("Directly."))
    with brain(server) as (client, _):
        assert client.chat(HELLO).text == "Directly."


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://user:hidden@127.0.0.1:1080"),
        ("HTTP_PROXY", "gopher://user:hidden@127.0.0.1:70"),
        ("SSL_CERT_FILE", "/nowhere/at-all.pem"),
    ],
    ids=["SOCKS without its package", "unknown scheme", "no such certificate file"],
)
def test_settings_of_the_environment_that_cannot_work(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with brain("http://127.0.0.1:9/v1") as (client, waits):
        client.warm_up()  # says nothing, whatever is wrong: the first request does
        reported = failure(client)
    assert (reported.kind, waits) == ("connection", [])
    assert variable in reported.hint
    assert "hidden" not in reported.message


@pytest.mark.parametrize("url", ["127.0.0.1:9/v1", "ftp://127.0.0.1/v1", "http://[::1/v1", "http://", "/v1"])
def test_an_address_that_is_none(url: str) -> None:
    """config.py refuses these; whoever makes a Brain without it gets a sentence as well."""
    with brain(url) as (client, _):
        assert failure(client).kind == "connection"
