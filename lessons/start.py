"""Make a learner's repository beside the clone, link it again after a move, and take a new edition over."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lessons import CourseError
from lessons.git import OLDEST, Git, repository_above, version
from lessons.lesson import Course
from lessons.series import build, verify
from lessons.state import State
from lessons.workspace import Workspace, home_of

NAME = "mini-agent-course"
"""The learner's folder, beside the clone, when nobody names another."""

_EXCLUDED = "# The course's own things.\n/course\n/.venv\n.env\n__pycache__/\n"
_NEEDED = ("pytest", "openai", "tiktoken")
_SCRIPT = """#!/bin/sh
# Runs the commands of the course, which live in the clone, in this repository.
here=$(cd "$(dirname "$0")" && pwd -P) || exit
clone={clone}
if [ ! -d "$clone/lessons" ]; then
  echo "The clone is no longer in $clone; where it is now, type: python -m lessons start $here" >&2
  exit 1
fi
python=$clone/.venv/bin/python
[ -x "$python" ] || python={python}
unset PYTHONPATH PYTHONSAFEPATH PYTHONHOME
cd "$clone" && exec "$python" -B -m lessons --repository "$here" "$@"
"""


def troubles(clone: Path, python: Path) -> Iterator[str]:
    """What of this machine would stop a learner, each with what to do."""
    if version() < OLDEST:
        found, needed = (".".join(map(str, each)) for each in (version(), OLDEST))
        yield f"git {found} is too old; the course needs {needed}."
    asked = subprocess.run(
        [str(python), "-c", "import " + ", ".join(_NEEDED)], capture_output=True, check=False, cwd=os.sep
    )
    if asked.returncode:
        lines = asked.stderr.decode("utf-8", "replace").strip().splitlines()
        yield (
            f"The lessons need packages that {python} does not have ({lines[-1] if lines else 'no reason'}); "
            f"in {clone} type: make lessons"
        )


def start(clone: Path, folder: Path) -> tuple[Workspace, bool]:
    """Make the learner's repository, or link an existing one to this clone.

    Returns:
        The repository, and whether it is new.

    Raises:
        CourseError: the place lies in a git repository, or is taken.
    """
    folder = folder.resolve()
    if home_of(folder).is_dir():
        _link(folder, clone)
        return Workspace(folder), False
    if (above := repository_above(folder)) is not None:
        raise CourseError(
            f"{folder} lies in the git repository {above}; name a place outside: python -m lessons start DIR"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CourseError(
            f"{folder} exists and is not empty; name another place: python -m lessons start DIR"
        )
    course = Course(clone / "lessons")
    if not len(course):
        raise CourseError(f"There are no lessons in {clone / 'lessons'}.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Made under another name and renamed: whoever stops it in the middle finds nothing half done.
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        fresh.chmod(0o755)
        series = build(course, fresh / ".git", fresh)
        verify(course, series)
        first = course.lessons[0]
        series.git.run("checkout", "--quiet", "--force", "--no-track", "-b", first.branch, first.start_tag)
        series.git.run("branch", "--quiet", "-D", "course")
        (fresh / ".git" / "info" / "exclude").write_text(_EXCLUDED, "utf-8")
        _texts(course, home_of(fresh))
        State(str(clone), course.edition(), first.id).store(home_of(fresh) / "state.json")
        _link(fresh, clone)
        if folder.exists():
            folder.rmdir()
        fresh.rename(folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return Workspace(folder), True


def _texts(course: Course, home: Path) -> None:
    """Copy the texts of an edition, so that text and code agree until the learner takes a new one."""
    fresh = home / "lessons.new"
    shutil.rmtree(fresh, ignore_errors=True)
    for path in course.files():
        target = fresh / path.relative_to(course.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.rmtree(home / "lessons", ignore_errors=True)
    fresh.rename(home / "lessons")


def _link(folder: Path, clone: Path) -> None:
    """Write ./course and the link to the clone's environment."""
    script = folder / "course"
    script.write_text(
        _SCRIPT.format(clone=shlex.quote(str(clone)), python=shlex.quote(sys.executable)), "utf-8"
    )
    script.chmod(0o755)
    environment = folder / ".venv"
    if environment.is_symlink():
        environment.unlink()
    if not environment.exists():
        environment.symlink_to(clone / ".venv", target_is_directory=True)
    progress = home_of(folder) / "state.json"
    if not progress.exists():
        State(str(clone), Course(home_of(folder) / "lessons").edition()).store(progress)
    state = State.load(progress)
    if state.clone != str(clone):
        state.clone = str(clone)
        state.store(progress)


def offered(work: Workspace) -> str | None:
    """The edition that the clone has now, when it is another than the learner's."""
    try:
        edition = Course(Path(work.state.clone) / "lessons").edition()
    except (CourseError, OSError):
        return None  # the clone is being changed: nothing to offer
    return edition if edition != work.state.edition else None


def update(work: Workspace) -> list[str]:
    """Take the clone's edition over: texts and tags. Branches and files of the learner stay as they are.

    Returns:
        The numbers of lessons whose code changed.
    """
    course = Course(Path(work.state.clone) / "lessons")
    edition = course.edition()
    git = work.git
    with tempfile.TemporaryDirectory() as temporary:
        series = build(course, Path(temporary) / "new")
        verify(course, series)
        old = {
            name: git.commit_of(f"refs/tags/{name}")
            for name in git.text("tag", "--list", "article-*").split()
        }
        for name, found in old.items():
            if found is not None and series.tags.get(name) != found:
                git.run("update-ref", f"refs/tags/edition-{work.state.edition}/{name}", f"refs/tags/{name}")
            git.run("update-ref", "-d", f"refs/tags/{name}")
        tags = "+refs/tags/*:refs/tags/*"
        git.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(series.git.git_dir), tags)
    _texts(course, work.home)
    shutil.rmtree(work.home / "trees", ignore_errors=True)
    work.course = Course(work.home / "lessons")
    work.state.edition = edition
    work.store()
    return [
        lesson.nn
        for lesson in course
        if any(old.get(name) not in (None, series.tags[name]) for name in (lesson.start_tag, lesson.tag))
    ]


def damage(work: Workspace) -> Iterator[str]:
    """What of a learner's repository is not as it should be, each with what to do."""
    git: Git = work.git
    if (git.git_dir / "index.lock").exists():
        yield "Another git is at work here, or one was killed: if none runs, remove .git/index.lock."
    said = (work.home / "lessons" / "manifest.txt").read_text("utf-8")
    tags = [line for line in said.splitlines() if line.startswith("article-")]
    missing = [tag for tag in tags if git.commit_of(f"refs/tags/{tag}") is None]
    if missing:
        yield f"Tags are missing ({', '.join(missing)}); bring them back with: ./course update"
    elif tags and git.commit_of(tags[-1]) != said.partition("commit ")[2].partition("\n")[0]:
        yield "The tags are not those of this edition; set them right with: ./course update"
    if not os.access(work.root / "course", os.X_OK):
        yield f"./course cannot be run; write it anew with: python -m lessons start {work.root}"
