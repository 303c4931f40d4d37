"""A configuration of git that broke plain `git am`: the proofs build, and tests move about, under it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def hostile_home(home: Path, *, odd: bool = False) -> None:
    """Write a home with signing, hooks, templates, attributes and conversions; `odd` is another one."""
    hooks, template = home / "hooks", home / "template" / "hooks"
    for place in (hooks, template):
        place.mkdir(parents=True)
        for name in ("pre-commit", "commit-msg", "applypatch-msg", "post-checkout", "reference-transaction"):
            (place / name).write_text("#!/bin/sh\nexit 1\n", "utf-8")
            (place / name).chmod(0o755)
    (home / "attributes").write_text("* text eol=crlf ident\n", "utf-8")
    (home / ".gitconfig").write_text(
        f"""[user]
name = Somebody Else
email = somebody@else.invalid
[core]
autocrlf = {"input" if odd else "true"}
eol = crlf
hooksPath = {hooks}
attributesFile = {home / "attributes"}
bigFileThreshold = 1
[commit]
gpgSign = true
[tag]
gpgSign = true
[gpg]
program = /bin/false
[apply]
whitespace = fix
[init]
templateDir = {home / "template"}
defaultBranch = trunk
defaultObjectFormat = sha256
[diff]
noprefix = true
algorithm = patience
context = 1
renames = copies
suppressBlankEmpty = true
[i18n]
commitEncoding = iso-8859-1
""",
        "utf-8",
    )


def hostile_environment(home: Path, *, odd: bool = False) -> dict[str, str]:
    """Variables that lead git astray, on top of that home."""
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_DIR": str(home / "nowhere"),
        "GIT_INDEX_FILE": str(home / "index"),
        "GIT_WORK_TREE": str(home),
        "GIT_AUTHOR_DATE": "2001-01-01T00:00:00 +1200",
        "GIT_COMMITTER_NAME": "Somebody Else",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_TEMPLATE_DIR": str(home / "template"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "apply.whitespace",
        "GIT_CONFIG_VALUE_0": "fix",
        "GIT_DIFF_OPTS": "--unified=0",
        "LC_ALL": "tr_TR.UTF-8" if odd else "C",
        "TZ": "Pacific/Chatham" if odd else "America/Caracas",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def hostile_build(clone: Path, folder: Path, *, odd: bool = False) -> str:
    """Build and export in a folder, under such a configuration; return what the build says."""
    home = folder.with_suffix(".home")
    hostile_home(home, odd=odd)
    done = subprocess.run(
        [sys.executable, "-m", "lessons", "build", str(folder)],
        cwd=clone,
        env=os.environ | hostile_environment(home, odd=odd),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout or done.stderr
