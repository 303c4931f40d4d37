"""What conftest.py promises to every other test: no network, and nothing of the person who runs it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from network_guard import NetworkBlocked, is_loopback

from config import ENV_FILE, load_settings

pytestmark = pytest.mark.skipif(os.environ.get("LIVE") == "1", reason="LIVE=1 opens the network")

SOMEWHERE = "192.0.2.1"  # an address for documentation: nobody is there (RFC 5737)


@pytest.mark.parametrize(
    "reach",
    [
        pytest.param(lambda: socket.create_connection((SOMEWHERE, 80)), id="connect by address"),
        pytest.param(lambda: socket.create_connection(("example.invalid", 80)), id="connect by name"),
        pytest.param(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"", (SOMEWHERE, 53)), id="sendto"),
        pytest.param(lambda: socket.socket().connect_ex((SOMEWHERE, 80)), id="connect_ex"),
        pytest.param(lambda: socket.getaddrinfo(b"example.invalid", 80), id="look-up of bytes"),
        pytest.param(lambda: socket.gethostbyname("example.invalid"), id="gethostbyname"),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed")  # the socket that was refused
def test_the_network_is_out_of_reach(reach: Callable[[], object]) -> None:
    with pytest.raises(NetworkBlocked, match="tests talk to this machine alone"):
        reach()


def test_the_network_is_out_of_reach_for_processes_that_tests_start() -> None:
    code = f"import socket; socket.create_connection(({SOMEWHERE!r}, 80))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "NetworkBlocked: a test reached for 192.0.2.1" in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", ""])
def test_this_machine_is_within_reach(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", [SOMEWHERE, "0x7f.example", "localhost.example", "127.0.0.1.example", "::2"])
def test_what_only_looks_like_this_machine_is_not(host: str) -> None:
    assert not is_loopback(host)


def test_a_server_on_this_machine_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        server.accept()[0].close()


def test_settings_and_files_of_the_person_are_not_seen(tmp_path: Path) -> None:
    assert not [name for name in os.environ if name.startswith("OPENAI_")]
    settings = load_settings()
    assert settings.offline
    assert settings.home == tmp_path / "home"
    assert os.environ["MINI_AGENT_ENV_FILE"] != str(ENV_FILE)
