"""`./course check`: one line for each behavior.

For the first that fails: what was called, what came back, what was expected, and where.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lessons import CourseError
from lessons.lesson import Lesson
from lessons.series import behaviors
from lessons.workspace import Workspace

WIDTH = 56
"""Columns of the left part of a line."""

_THEIRS = (
    "OPENAI_",
    "CONTEXT_",
    "AGENT_",
    "MINI_AGENT_",
    "SYSTEM_PROMPT",
    "PYTEST_",
    "PYTHON",
    "LC_",
    "LANG",
)
_MORE = (
    "TIKTOKEN_CACHE_DIR",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "TZ",
    "TERM",
)


def sealed_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of tests and recorded sessions: no key, no settings, one time zone, one width."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_THEIRS) and name not in _MORE and not name.lower().endswith("_proxy")
    }
    return kept | {
        "MINI_AGENT_ENV_FILE": os.devnull,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "COLUMNS": "80",
        **(extra or {}),
    }


@dataclass(frozen=True, slots=True)
class Job:
    """Tests to be run in a tree, with files put into it meanwhile."""

    tree: Path
    tests: tuple[str, ...]
    files: Mapping[str, str | None] | None = None


Outcome = dict[str, dict[str, Any]]
"""Test to what came of it, see `runner.Result`."""


def run_jobs(python: Path, jobs: Iterable[Job]) -> list[Outcome]:
    """Run tests in the Python of the lessons; one outcome for each job, in order.

    Raises:
        CourseError: pytest cannot be run there.
    """
    asked = [{"tree": str(job.tree), "tests": job.tests, "files": job.files or {}} for job in jobs]
    runner = Path(__file__).with_name("runner.py")
    done = subprocess.run(
        [str(python), "-B", str(runner)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=sealed_environment(),
        check=False,
    )
    try:
        answers: list[Outcome | None] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise CourseError(
            f"The tests could not be run ({last}); ./course doctor looks for the reason."
        ) from None
    died = {"outcome": "failed", "kind": "died", "text": "Python itself ended during the tests."}
    return [
        dict.fromkeys(job["tests"], died) if answer is None else answer
        for job, answer in zip(asked, answers, strict=True)
    ]


def check(work: Workspace, lesson: Lesson, *, everything: bool = False) -> tuple[list[str], bool]:
    """Run the tests of a lesson and of those before it, note what is done, and return the lines to show.

    Args:
        work: the learner's repository.
        lesson: the lesson whose tests are run.
        everything: say of every failure what happened, not only of the first.

    Returns:
        The lines, and whether the lesson is finished.
    """
    earlier = work.course.still_valid(lesson)
    outcome = run_jobs(work.python(), [Job(work.root, (*lesson.tests, *earlier))])[0]
    broken = [test for test in earlier if outcome[test]["outcome"] != "passed"]
    lines = list(_report(work.root, lesson, outcome, everything=everything))
    for test in broken:
        lines += [
            _line("FAIL", f"{_said(work.root, test)}   (worked in an earlier lesson)"),
            *_detail(outcome[test]),
        ]
    if work.on_own_branch():
        for task in lesson.tasks:
            if all(outcome[test]["outcome"] == "passed" for test in task.tests):
                work.state.finish(lesson.key(task))
        if not lesson.tasks:
            work.state.finish(f"{lesson.id}/")
        work.store()
    finished = not broken and all(outcome[test]["outcome"] == "passed" for test in lesson.tests)
    for path in work.changed_tests(lesson):
        lines.append(f"  note: {path} is not as the lesson gave it: git diff {lesson.start_tag} -- {path}")
    if not finished and work.other_edition(lesson):
        lines.append("  note: this branch began at another edition; ./course reset begins anew and keeps it.")
    return lines, finished


def _report(root: Path, lesson: Lesson, outcome: Outcome, *, everything: bool) -> Iterator[str]:
    """One line for each behavior; after the first failure the others wait."""
    passed = sum(outcome[test]["outcome"] == "passed" for test in lesson.tests)
    yield f"{lesson.tag}  {lesson.title:<{WIDTH - len(lesson.tag) - 2}}{passed} of {len(lesson.tests)}"
    waiting, reason = False, "(waiting for the one above)"
    for test in lesson.tests:
        result = outcome[test]
        if result["outcome"] == "passed":
            yield _line("ok", _said(root, test))
        elif waiting and not everything:
            yield _line("...", f"{_said(root, test):<{WIDTH - 8}} {reason}".rstrip())
            reason = ""
        else:
            waiting = True
            yield _line("FAIL", _said(root, test))
            yield from _detail(result)


def _line(mark: str, text: str) -> str:
    return f"  {mark:<4}  {text}"


def _detail(result: Mapping[str, Any]) -> Iterator[str]:
    """What happened and where; the place in the learner's own code comes first."""
    lines = str(result.get("text", "")).splitlines() or ["no reason given"]
    places = dict.fromkeys(place for place in (result.get("code"), result.get("test")) if place)
    for line in lines[:-1]:
        yield f"        {line}"
    yield f"        {lines[-1]:<{WIDTH - 8}}  {'  '.join(places)}".rstrip()


def _said(root: Path, test: str) -> str:
    """What a test promises: the first line of its docstring."""
    path, _, name = test.partition("::")
    try:
        said = behaviors((root / path).read_bytes())
    except OSError:
        said = {}
    return said.get(name, name.rpartition("::")[2].removeprefix("test_").replace("_", " "))


def first_open(work: Workspace, lesson: Lesson) -> int | None:
    """The index of the first task that is not done, None when all are."""
    keys = [lesson.key(task) for task in lesson.tasks]
    return next((at for at, key in enumerate(keys) if key not in work.state.done), None)


def changes(root: Path) -> Iterator[None]:
    """Yield once now, and again whenever a file that tests may see changes; asks twice a second."""
    before: dict[Path, int] = {}
    while True:
        now = fingerprint(root)
        if now != before:
            before = now
            yield
        time.sleep(0.5)


def fingerprint(root: Path) -> dict[Path, int]:
    """When each Python and TOML file of a folder was written; hidden folders are left out."""
    times = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if not name.startswith((".", "__"))]
        for name in files:
            path = Path(folder, name)
            if name.endswith((".py", ".toml")) and path.exists():  # an editor may have it between two names
                times[path] = path.stat().st_mtime_ns
    return times
