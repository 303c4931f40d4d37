"""Proofs about the series as a whole: as the manifest says, and the same whatever git is configured to do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lessons.cli import known
from lessons.editing import check_export
from lessons.hostile import hostile_build
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
        ids = [hostile_build(clone, Path(temporary, f"hostile-{odd}"), odd=odd) for odd in (False, True)]
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
