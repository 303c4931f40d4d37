"""README agrees with the code: what is made from it is up to date."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


def test_the_generated_parts_are_up_to_date() -> None:
    """If this fails, run `python docs/readme.py` and look at what changed."""
    spec = importlib.util.spec_from_file_location("readme", PROJECT / "docs" / "readme.py")
    assert spec is not None
    assert spec.loader is not None
    readme = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme)
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert text.count("<!-- generated:") > 5
    assert list(readme.stale(text)) == []
    assert list(readme.stale(text.replace("CONTEXT_TOKEN_BUDGET`", "OLD`"))) == ["settings"]


@pytest.mark.timeout(300)
@pytest.mark.skipif(os.name != "posix", reason="a pseudo-terminal is POSIX")
def test_the_screens_are_what_the_program_shows() -> None:
    """If this fails, run `python docs/screens.py` and look at what changed."""
    command = [sys.executable, str(PROJECT / "docs" / "screens.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
