"""Running a person's own Python file: their tools, their compactor.

Covered here: from a path to a module, or one sentence why not. Not covered: what is looked for in it.
The file runs with all rights of the program; that is the person's choice when they name it.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from pathlib import Path
from types import ModuleType

from redaction import hide_secrets, said_by

_numbers = itertools.count(1)


class PluginError(ValueError):
    """A person's file cannot be used; one sentence that names the file and, where there is one, the line."""


def run_file(path: Path | str) -> ModuleType:
    """Run a Python file as a module with a name of its own, without leaving a `__pycache__` beside it.

    Raises:
        PluginError: it cannot be read, or raises anything but KeyboardInterrupt.
    """
    path = Path(path)
    if path.is_dir():
        raise PluginError(f"{path} is a folder: name a Python file.")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PluginError(f"{path} cannot be read: {error.strerror or error}.") from error
    module = ModuleType(f"own_{next(_numbers)}_{path.stem}")
    module.__file__ = str(path)
    # Dataclasses and annotations written as text look their module up here.
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - what it is for
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a file must not end the chat
        raise PluginError(f"{path.name}{_where(error, str(path))}: {describe(error)}.") from error
    return module


def describe(error: BaseException) -> str:
    """Return an exception as one line of bounded length."""
    if isinstance(error, SystemExit):
        return "it tried to end the program"
    # The text of a SyntaxError repeats the line, which the caller names.
    text = hide_secrets(str(error.msg)) if isinstance(error, SyntaxError) else said_by(error)
    return " ".join(f"{type(error).__name__}: {text}".split())[:300].rstrip(".: ")


def _where(error: BaseException, file: str) -> str:
    lines: list[int | None] = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file
    ]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return f", line {lines[-1]}" if lines else ""
