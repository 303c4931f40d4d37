"""Text in the person's own editor: what `/edit` opens."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from terminal.interrupts import loud_keys


class EditorError(Exception):
    """No editor could be run; one sentence for a person."""


def edit_text(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Opens `text` in $VISUAL, $EDITOR or a common editor, and returns it as it was saved.

    Raises:
        EditorError: there is no editor, or it failed; the text is unchanged.
    """
    command = _editor(environ)
    handle, name = tempfile.mkstemp(prefix="mini-agent-", suffix=".md")  # readable by its owner alone
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        # Ctrl-C belongs to the editor while it runs. A handler of our own, and not SIG_IGN, which the editor
        # would inherit.
        previous = signal.signal(signal.SIGINT, lambda *_: None)
        listening = signal.set_wakeup_fd(-1)  # by which the prompt's event loop hears of it all the same
        try:
            # S603: the person chose this command.
            with loud_keys():
                done = subprocess.run([*command, name], check=False)  # noqa: S603
        finally:
            signal.set_wakeup_fd(listening)
            signal.signal(signal.SIGINT, previous)
        if done.returncode:
            raise EditorError(f"{command[0]} ended with code {done.returncode}; the text is unchanged.")
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError as error:
        raise EditorError(f"Cannot run {command[0]}: {error.strerror or error}.") from error
    finally:
        path.unlink(missing_ok=True)


def _editor(environ: Mapping[str, str]) -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        try:
            command = shlex.split(environ.get(name, ""), posix=os.name != "nt")
        except ValueError:
            raise EditorError(f"{name} cannot be read as a command: {environ[name]!r}.") from None
        if command:
            return command
    for candidate in ("notepad",) if os.name == "nt" else ("editor", "nano", "vim", "vi", "emacs"):
        if shutil.which(candidate):
            return [candidate]
    raise EditorError("No editor was found; set EDITOR to the one you use.")
