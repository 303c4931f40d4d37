"""Proofs about the series as a whole: as the manifest says, and the same whatever git is configured to do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lessons.cli import known
from lessons.editing import check_export
from lessons.lesson import Course
from lessons.product import blob_id, differences
from lessons.series import build, read_manifest
from lessons.texts import check_blocks


def prove_series(course: Course) -> list[str]:
    """Problems of the series as a whole: patches, manifest, the same commits everywhere, the product."""
    clone = course.root.parent
    with tempfile.TemporaryDirectory() as temporary:
        found = [
            f"{name} is not what its commit exports" for name in check_export(course, Path(temporary, "a"))
        ]
        series = build(course, Path(temporary, "b"))
        said = read_manifest(course.manifest.read_text("utf-8"))[1]
        for name in series.tags:
            folder = Path(temporary, name)
            series.git.export(name, folder)
            found += [
                f"{path} at {name} is not what the manifest says" for path in odd_files(folder, said[name])
            ]
        ids = [hostile_build(clone, Path(temporary, name)) for name in ("c", "d")]
        expected = "".join(f"{name} {commit}\n" for name, commit in sorted(series.tags.items()))
        found += ["another configuration of git gives other commits" for each in ids if each != expected]
        last = course.lessons[-1]
        if last.product:
            wrong = differences(clone, series.git.tree(last.tag))
            found += [
                f"{path} is not in the last lesson as it is here: python -m lessons save" for path in wrong
            ]
    return [*found, *_overview(course)]


def _overview(course: Course) -> Iterator[str]:
    """What is wrong with the commands in the text of the whole course; they are parsed and not run."""
    text = (course.root / "README.md").read_text("utf-8") if (course.root / "README.md").exists() else ""
    for problem in check_blocks(text, "", lambda _at, _path: None, lambda _at, _command: (0, ""), known):
        yield f"lessons/{problem}"


def odd_files(folder: Path, said: dict[str, tuple[str, str]]) -> list[str]:
    """Files on disk that are not what a manifest says, in content or mode."""
    there = {}
    for path in folder.rglob("*"):
        if path.is_symlink() or path.is_file():
            executable = not path.is_symlink() and os.access(path, os.X_OK)
            mode = "120000" if path.is_symlink() else "100755" if executable else "100644"
            there[path.relative_to(folder).as_posix()] = (mode, blob_id(path))
    return sorted(path for path in there.keys() | said.keys() if there.get(path) != said.get(path))


def hostile_build(clone: Path, folder: Path) -> str:
    """Build and export under a configuration that broke plain `git am`; return what the build says."""
    home = folder.with_suffix(".home")
    hooks, template = home / "hooks", home / "template" / "hooks"
    for place in (hooks, template):
        place.mkdir(parents=True)
        for name in ("pre-commit", "commit-msg", "applypatch-msg", "post-checkout", "reference-transaction"):
            (place / name).write_text("#!/bin/sh\nexit 1\n", "utf-8")
            (place / name).chmod(0o755)
    (home / "attributes").write_text("* text eol=crlf ident\n", "utf-8")
    odd = folder.name == "d"
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
    hostile = {
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
    done = subprocess.run(
        [sys.executable, "-m", "lessons", "build", str(folder)],
        cwd=clone,
        env=os.environ | hostile,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout or done.stderr
