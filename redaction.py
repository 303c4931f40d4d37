"""What a key looks like, and how it is hidden from everything that a person may read, copy or send on.

Not covered: a key of no known form that nobody named as a secret; nothing tells it from any other word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

HIDDEN = "***"
LONGEST_TEXT = 10_000
"""Characters of a text in which `hide_secrets` looks."""
_SHORTEST_SECRET = 8
"""Characters. A shorter one (a placeholder such as `x`) would eat letters out of ordinary words."""
_secrets: set[str] = set()  # of this process; also as they stand in JSON text
# The prefixes of known services, and a long word with a digit: `sk-internationalization-2` is none.
_KEY = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?:(?:sk|pk|rk|gsk|csk|hf|xai|nvapi|pplx|fw|r8|tgp)[-_][\w-]{0,64}?(?=[A-Za-z]{0,200}\d)[A-Za-z0-9]{16,}"
    r"|AIza[\w-]{30,})"
    r"[\w-]*",
    re.ASCII,
)
_RANDOM = re.compile(r"(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[\w-]{20,}", re.ASCII)
_BARE_KEY = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{32,}")
_LOGIN = re.compile(r"(^|//)[^\s'\"]*@")
# Servers at home take any key ("ollama"), and such a word also stands in host and model names.
_TELLING_LENGTH = 12


def holds_key(text: str, secrets: Iterable[str] = ()) -> bool:
    """Whether a text that should hold no key holds one of these secrets, or what surely is a key."""
    if any(len(secret) >= _TELLING_LENGTH and secret in text for secret in secrets):
        return True
    return _KEY.search(text) is not None or _BARE_KEY.fullmatch(text) is not None


def keep_secret(secret: str) -> None:
    """Have `hide_secrets` hide this from now on, in every part of the program."""
    if len(secret) >= _SHORTEST_SECRET:
        _secrets.update((secret, json.dumps(secret)[1:-1]))


def hide_secrets(text: str) -> str:
    """Hide what was named to `keep_secret`, and what surely is a key, in a text that somebody else wrote.

    To be called before such a text is cut: of half a key nobody can tell any more what it was. Of a very long
    text only the first LONGEST_TEXT characters come back, because the time that this takes is not bounded
    otherwise; who shows it shows less than that anyway.
    """
    text = text[:LONGEST_TEXT]
    for secret in sorted(_secrets, key=len, reverse=True):  # the longest first: one may be part of another
        text = text.replace(secret, "[key]")
    return _KEY.sub("[key]", text)


def said_by(error: BaseException) -> str:
    """What an exception says, without keys; "" when not even that can be had (a failing `__str__`)."""
    try:
        return hide_secrets(str(error))
    except Exception:  # noqa: BLE001 - the exception is anybody's
        return ""


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Hide the secrets, all that looks like a key, and the user name and password in a URL.

    Errs on the side of hiding: a long random-looking name goes too.
    """
    # The longest first: one may be part of another.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _LOGIN.sub(rf"\1{HIDDEN}@", text)
    return _RANDOM.sub(HIDDEN, _KEY.sub(HIDDEN, text))
