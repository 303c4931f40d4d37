"""Make a stray network call impossible: whatever is not loopback raises, in this process and for good.

An audit hook, because nothing can go around it: it sees every connection and every look-up of a name that
this interpreter makes, in any thread and from any library, and it cannot be removed. The processes that tests
start get it from the folder `children`, which conftest.py puts on their path. Unix sockets pass.
"""

from __future__ import annotations

import os
import sys
from ipaddress import ip_address
from typing import Any

CONNECTING = ("socket.connect", "socket.sendto", "socket.sendmsg")
LOOKING_UP = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


class NetworkBlocked(BaseException):
    """A test reached for the network. No `Exception`, or the SDK would report it as a failed connection."""


def is_loopback(host: str) -> bool:
    """Whether a host, as given to the socket module, is this machine."""
    try:
        return host in ("", "localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def _check(event: str, args: tuple[Any, ...]) -> None:
    if event in CONNECTING:
        host = args[1][0] if isinstance(args[1], tuple) else None  # a Unix socket has a path there
    elif event in LOOKING_UP:
        host = args[0]
    else:
        return
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if isinstance(host, str) and not is_loopback(host):
        raise NetworkBlocked(f"a test reached for {host}, but tests talk to this machine alone (see LIVE)")


def install() -> None:
    """Block the network for the rest of this process, unless LIVE=1 is set."""
    if os.environ.get("LIVE") != "1":
        sys.addaudithook(_check)
