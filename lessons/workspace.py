"""The learner's repository: where they are, and moving about in it without ever losing a line.

Before any move, what is not committed is committed to the branch it belongs to: changed, staged, new and
conflicting files, and ignored ones that the move would overwrite. A branch is never moved back or deleted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from lessons import CourseError
from lessons.git import Git, GitError
from lessons.lesson import Course, Lesson
from lessons.state import State

_UNDER_WAY = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "BISECT_LOG": "bisect",
    "sequencer": "cherry-pick",
}


class Workspace:
    """A learner's repository.

    Args:
        root: its folder.

    Raises:
        CourseError: it is none.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = home_of(root)
        if not self.home.is_dir():
            raise CourseError(f"{root} is no repository of the course; type: python -m lessons start")
        self.git = Git(root / ".git", root)
        self.course = Course(self.home / "lessons")
        self.state = State.load(self.home / "state.json")

    def store(self) -> None:
        """Keep the progress."""
        self.state.store(self.home / "state.json")

    # Where the learner is

    def branch(self) -> str | None:
        """The branch that is checked out, None for a bare commit such as a tag."""
        try:
            return self.git.text("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitError:
            return None

    def current(self) -> Lesson:
        """The lesson of the branch, else of the newest tag below where we stand, else the last one known."""
        branch = self.branch() or ""
        for lesson in self.course:
            if branch == lesson.branch or branch.startswith(f"{lesson.branch}-kept-"):
                return lesson
        try:
            tag = self.git.text("describe", "--tags", "--abbrev=0", "--match=article-*", "HEAD")
            return self.course.numbered(tag.removesuffix("-start"))
        except (GitError, CourseError):
            known = [lesson for lesson in self.course if lesson.id == self.state.lesson]
            return known[0] if known else self.course.lessons[0]

    def on_own_branch(self) -> bool:
        """Whether what is checked out is the learner's, not a tag of the course."""
        return self.branch() is not None

    def other_edition(self, lesson: Lesson) -> bool:
        """Whether the branch began at another edition of the lesson than the texts are of."""
        return not self.git.ok("merge-base", "--is-ancestor", lesson.start_tag, "HEAD")

    def changed_tests(self, lesson: Lesson) -> list[str]:
        """Test files of the lesson that are not as the lesson gave them."""
        given = self.git.tree(lesson.start_tag) if self.git.commit_of(lesson.start_tag) else {}
        files = sorted({test.partition("::")[0] for test in lesson.tests} & given.keys())
        changed = self.git.names("diff", "--name-only", "-z", lesson.start_tag, "--", *files) if files else []
        return [path for path in changed if path in files]

    # Keeping work

    def keep(self, why: str, target: str | None = None) -> bool:
        """Commit everything that is not committed to the branch it belongs to.

        Args:
            why: goes into the message, "before lesson 02".
            target: the commit that will be checked out; ignored files in its way are kept too.

        Returns:
            Whether there was something.

        Raises:
            CourseError: a rebase or the like is under way, which only its owner can end.
        """
        for name, command in _UNDER_WAY.items():
            if (self.git.git_dir / name).exists():
                raise CourseError(
                    f"A {command} is under way here; end it first with `git {command}`, then go on."
                )
        lesson = self.current()
        in_the_way = self._ignored_in_the_way(target) if target else []
        changed = in_the_way or self.git.names("status", "--porcelain", "-z", "--untracked-files=all")
        if self.branch() is None and (changed or not self._named("HEAD")):
            self.git.run("update-ref", f"refs/heads/{(aside := self.free_branch(lesson))}", "HEAD")
            self.git.run("symbolic-ref", "HEAD", f"refs/heads/{aside}")
        if not changed:
            return False
        whole = not self.git.names("ls-files", "--unmerged", "-z")
        staged = whole and not self.git.ok("diff-index", "--cached", "--quiet", "HEAD")
        if staged and not self.git.ok("diff-files", "--quiet"):
            # The same file may be staged in one version and changed again since: both are work.
            self.commit(f"Lesson {lesson.nn}: what was staged, kept {why}")
        self.git.run("add", "--all")
        if in_the_way:
            self.git.run("add", "--force", "--", *in_the_way)
        self.commit(f"Lesson {lesson.nn}: my work, kept {why}")
        return True

    def commit(self, message: str) -> None:
        """Commit the index in the learner's name."""
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        name, email = self._identity()
        facts = {"NAME": name, "EMAIL": email, "DATE": now}
        who = {f"GIT_{role}_{what}": facts[what] for role in ("AUTHOR", "COMMITTER") for what in facts}
        self.git.run("commit", "--quiet", "--no-verify", "--allow-empty", "-m", message, env=who)

    def _identity(self) -> tuple[str, str]:
        """The learner's own name and address, as their configuration says, or stand-ins."""
        found = []
        for key, otherwise in (("user.name", "learner"), ("user.email", "learner@localhost")):
            asked = subprocess.run(["git", "config", key], cwd=self.root, capture_output=True, check=False)
            found.append(asked.stdout.decode("utf-8", "replace").strip() or otherwise)
        return found[0], found[1]

    def _ignored_in_the_way(self, target: str) -> list[str]:
        """Ignored files that a checkout would overwrite, or that stand where it needs a folder."""
        ignored = self.git.names("ls-files", "--others", "--ignored", "--exclude-standard", "-z")
        paths = self.git.tree(target).keys()
        folders = {str(parent) for path in paths for parent in Path(path).parents}
        return [
            each
            for each in ignored
            if each in paths or each in folders or any(str(parent) in paths for parent in Path(each).parents)
        ]

    def _named(self, commit: str) -> bool:
        """Whether a branch or tag still reaches a commit."""
        return bool(self.git.text("for-each-ref", "--count=1", "--contains", commit))

    def free_branch(self, lesson: Lesson) -> str:
        """A branch name for work that is put aside."""
        number = 1
        while self.git.commit_of(f"refs/heads/{lesson.branch}-kept-{number}"):
            number += 1
        return f"{lesson.branch}-kept-{number}"

    # Moving

    def goto(self, lesson: Lesson) -> bool:
        """Go to the learner's branch of a lesson, begun at its start tag; says whether work was kept."""
        there = self.git.commit_of(f"refs/heads/{lesson.branch}")
        target = there or self.git.commit_of(lesson.start_tag)
        if target is None:
            raise CourseError(f"The tag {lesson.start_tag} is missing; ./course update brings it back.")
        kept = False
        if self.branch() != lesson.branch:
            kept = self.keep(f"before lesson {lesson.nn}", target)
            new = [lesson.branch] if there else ["--no-track", "-b", lesson.branch, lesson.start_tag]
            self.git.run("checkout", "--quiet", "--no-overwrite-ignore", *new, "--")
        self.state.lesson = lesson.id
        self.store()
        return kept

    def reset(self, lesson: Lesson) -> str | None:
        """Begin a lesson anew; the branch with what was done so far keeps it under the name returned."""
        start = self.git.commit_of(lesson.start_tag)
        self.keep("before a fresh start", start)
        put_aside = None
        if self.git.commit_of(f"refs/heads/{lesson.branch}"):
            put_aside = self.free_branch(lesson)
            self.git.run("branch", "--move", lesson.branch, put_aside)
        self.goto(lesson)
        return put_aside

    def take_solution(self, lesson: Lesson) -> None:
        """Put the reference into the learner's files and commit it; what they had is committed before."""
        self.goto(lesson)
        reference = self.git.tree(lesson.tag)
        self.keep("before the solution", lesson.tag)
        self.git.run("checkout", "--quiet", lesson.tag, "--", ".")
        removed = [path for path in self.git.tree(lesson.start_tag) if path not in reference]
        if removed:
            self.git.run("rm", "--quiet", "--force", "--ignore-unmatch", "--", *removed)
        self.commit(f"Lesson {lesson.nn}: the solution of the course")
        self.state.shown = sorted({*self.state.shown, lesson.id})
        self.store()

    # Running its programs

    def python(self) -> Path:
        """The Python of the clone's environment."""
        return python_of(Path(self.state.clone))

    def reference(self, lesson: Lesson) -> Path:
        """The finished lesson as files, made when first asked for."""
        folder = self.home / "trees" / f"{lesson.tag}-{self.state.edition}"
        if not folder.is_dir():
            fresh = folder.with_suffix(f".{os.getpid()}")
            self.git.export(lesson.tag, fresh)
            fresh.rename(folder)
        return folder


def home_of(root: Path) -> Path:
    """Where the course keeps its own things in a learner's repository."""
    return root / ".git" / "course"


def python_of(clone: Path) -> Path:
    """The Python that runs lessons: the clone's environment, or the one that runs this when there is none."""
    own = clone / ".venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def found_beside(clone: Path) -> Iterable[Path]:
    """Learners' repositories beside a clone that belong to it."""
    for each in sorted(clone.parent.iterdir()):
        try:
            progress = home_of(each) / "state.json"
            if progress.is_file() and State.load(progress).clone == str(clone):
                yield each
        except (CourseError, OSError):
            continue
