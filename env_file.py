"""The lines of a `.env`, whatever editor wrote it. The grammar of the lines is python-dotenv's.

Not covered: what the variables mean (config.py). Nothing is put into the environment, and `${NAME}` is not
replaced.
"""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import NamedTuple


class EnvFileError(Exception):
    """The file cannot be read. One sentence without any of its content, which may be a key."""


class Entry(NamedTuple):
    """The value of a variable (empty when it has none) and the number of its line."""

    text: str
    line: int


def read_env_file(path: Path) -> dict[str, Entry]:
    """Read the variables, the last one of a name winning.

    Raises:
        FileNotFoundError: there is no such file.
        EnvFileError: it cannot be read, is no text, or has a line that is not NAME=value.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise EnvFileError(f"{path.name} cannot be read: {error.strerror}.") from None
    if not raw.strip():
        return {}
    from dotenv.parser import parse_stream  # takes 15 ms that a start without a .env can do without

    entries = {}
    for binding in parse_stream(io.StringIO(_decode(raw, path.name))):
        source = binding.original.string
        # python-dotenv counts the blank lines before a binding as part of it
        line = binding.original.line + source[: len(source) - len(source.lstrip())].count("\n")
        if binding.error:
            raise EnvFileError(f"{path.name}, line {line}, is not NAME=value. Is there a quote left open?")
        if binding.key is not None:
            entries[binding.key] = Entry(binding.value or "", line)
    return entries


def _decode(raw: bytes, name: str) -> str:
    """The text with plain line ends: UTF-8 or UTF-16, with or without a mark, else Windows-1252."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encodings = ["utf-16"]
    elif b"\0" in raw[:2]:  # half of an ASCII character is zero in UTF-16
        encodings = ["utf-16-be" if raw[0] == 0 else "utf-16-le"]
    else:
        encodings = ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text.replace("\r\n", "\n").replace("\r", "\n")
    raise EnvFileError(f"{name} is no text, or in an encoding not known here: save it as UTF-8.")
