"""Make the repository of the course: apply the patches one after another, commit, and tag.

Nothing is checked out and no `git am` runs: patches go into the index, trees and commits are written by
plumbing. The result is the same to the byte under any configuration (see `git.py`). `lessons/manifest.txt`
says what each tag holds, so a patch that was damaged on the way is found before a learner stands on it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lessons import CourseError
from lessons.git import AUTHOR, Git
from lessons.lesson import PARTS, Course, Lesson
from lessons.patches import apply, changed_lines, diff_between, render

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
Tree = dict[str, tuple[str, str]]
"""The files of a commit: path to mode and blob id."""

_TAGGED = 1735689600  # the second of `git.DATE`
_TITLE = "# What each tag holds: mode, git's id of the content, path; `-` was removed. `save` writes this.\n"


@dataclass(slots=True)
class Series:
    """The commits of a course in a repository."""

    git: Git
    commits: dict[tuple[str, str], str] = field(default_factory=dict)
    """Lesson id and part to the commit; parts without a patch have none."""
    tags: dict[str, str] = field(default_factory=dict)
    """Tag to the commit that it names, in order."""

    @property
    def last(self) -> str:
        """The commit of the last tag; it stands for everything before it too."""
        return list(self.tags.values())[-1] if self.tags else ""


def build(course: Course, git_dir: Path, work_tree: Path | None = None) -> Series:
    """Make a repository of the course at `git_dir`, which must not exist, and tag it.

    Raises:
        CourseError: a patch does not apply, or a lesson names a test that is not there.
    """
    git = Git.create(git_dir, work_tree)
    series = Series(git)
    parent = ""
    for lesson in course:
        at_start = ""
        if not any(lesson.patch(part).exists() for part in PARTS):
            raise CourseError(
                f"{lesson.folder.name} has no patch yet; `python -m lessons import` makes them."
            )
        for part in PARTS:
            if lesson.patch(part).exists():
                message = apply(git, lesson.patch(part))
                parent = commit(git, git.text("write-tree"), parent, message)
                series.commits[lesson.id, part] = parent
            if part == "start":
                at_start = parent
        series.tags[lesson.start_tag] = at_start
        series.tags[lesson.tag] = parent
    write_tags(course, series)
    return series


def commit(git: Git, tree: str, parent: str, message: str) -> str:
    """Write a commit by the course's author and return its id; no parent is the first one."""
    parents = ["-p", parent] if parent else []
    return git.text("commit-tree", *parents, tree, data=message.encode())


def write_tags(course: Course, series: Series) -> None:
    """Write the annotated tags, and the branch `course` at the last of them."""
    git = series.git
    updates = []
    for lesson in course:
        for name in (lesson.start_tag, lesson.tag):
            target = series.tags[name]
            text = tag_message(lesson, series, name)
            tagger = f"{AUTHOR[0]} <{AUTHOR[1]}> {_TAGGED} +0000"
            head = f"object {target}\ntype commit\ntag {name}\ntagger {tagger}\n\n"
            updates.append(f"update refs/tags/{name} {git.text('mktag', data=(head + text).encode())}\n")
    if series.last:
        updates.append(f"update refs/heads/course {series.last}\n")
    git.run("update-ref", "--stdin", data="".join(updates).encode())


def tag_message(lesson: Lesson, series: Series, name: str) -> str:
    """What `git show article-NN` says first: goal, files, commands and the acceptance list."""
    git, begins = series.git, name == lesson.start_tag
    lines = [
        f"Lesson {lesson.nn}{' begins' if begins else ''}: {lesson.title}",
        "",
        f"Goal: {lesson.goal}",
        "",
    ]
    if lesson.product_files:
        lines += ["Files you write in: " + ", ".join(lesson.product_files), ""]
    lines += ["Commands: ./course read, ./course chat, ./course check, ./course hint, ./course diff", ""]
    if lesson.tasks:
        lines += ["Accepted when it"]
        files: dict[str, dict[str, str]] = {}
        for task in lesson.tasks:
            lines += [f"  {task.title}"]
            for test in task.tests:
                path, _, inside = test.partition("::")
                if path not in files:
                    files[path] = behaviors(git.show(series.tags[lesson.tag], path) or b"")
                if inside not in files[path]:
                    raise CourseError(f"{lesson.folder.name}/meta.toml: {lesson.tag} has no test {test}.")
                lines += [f"    - {files[path][inside]}"]
    return "\n".join(lines).rstrip() + "\n"


def behaviors(source: bytes) -> dict[str, str]:
    """The tests of a file, each with the first line of its docstring, or its name when it has none."""
    found: dict[str, str] = {}

    def look(body: Iterable[ast.stmt], inside: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                look(node.body, f"{inside}{node.name}::")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                said = (ast.get_docstring(node) or "").partition("\n")[0].strip()
                found[inside + node.name] = said or node.name.removeprefix("test_").replace("_", " ")

    try:
        look(ast.parse(source).body, "")
    except SyntaxError:
        return {}
    return found


def export(course: Course, git: Git, commits: Mapping[tuple[str, str], str]) -> dict[Path, bytes]:
    """The canonical patch files of these commits: where each belongs, and its bytes."""
    files = {}
    parent = EMPTY_TREE
    for lesson in course:
        for part in PARTS:
            found = commits.get((lesson.id, part))
            if found is not None:
                message = git.run("log", "-1", "--format=%B", found).decode()
                files[lesson.patch(part)] = render(message, diff_between(git, parent, found))
                parent = found
    return files


def manifest(series: Series) -> str:
    """The manifest of a course: what changed from tag to tag, so that a change of one lesson shows once."""
    lines = [_TITLE, f"commit {series.last}\n"]
    before: Tree = {}
    for name, found in series.tags.items():
        now = series.git.tree(found)
        lines.append(f"{name}\n")
        for path in sorted(before.keys() | now.keys()):
            if path not in now:
                lines.append(f"- {path}\n")
            elif before.get(path) != now[path]:
                lines.append(f"{now[path][0]} {now[path][1]} {path}\n")
        before = now
    return "".join(lines)


def read_manifest(text: str) -> tuple[str, dict[str, Tree]]:
    """The last commit and the files of each tag that a manifest says."""
    last, trees = "", {}
    now: Tree = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "commit":
            last = rest
        elif line.startswith("article-"):
            now = trees[line] = dict(now)
        elif kind == "-":
            now.pop(rest, None)
        elif kind != "#":
            blob, _, path = rest.partition(" ")
            now[path] = (kind, blob)
    return last, trees


def verify(course: Course, series: Series) -> None:
    """Compare a built course with its manifest.

    Raises:
        CourseError: they differ; the sentence names the first tag and file.
    """
    if not course.manifest.exists():
        raise CourseError("lessons/manifest.txt is missing; `python -m lessons save` writes it.")
    last, trees = read_manifest(course.manifest.read_text("utf-8"))
    if last == series.last and list(trees) == list(series.tags):
        return  # a commit's id covers every file of every commit before it
    for name, found in series.tags.items():
        now = series.git.tree(found)
        said = trees.get(name, {})
        for path in sorted(now.keys() | said.keys()):
            if now.get(path) != said.get(path):
                raise CourseError(
                    f"The course is damaged: {path} at {name} is not what lessons/manifest.txt says."
                )
    raise CourseError("The course is damaged: its commits are not those that lessons/manifest.txt names.")


def size_of(lesson: Lesson, series: Series, part: str = "solution") -> int:
    """Changed lines of a part outside tests."""
    found = series.commits.get((lesson.id, part))
    if found is None:
        return 0
    counts = changed_lines(diff_between(series.git, f"{found}^", found))
    return sum(lines for path, lines in counts.items() if not path.startswith("tests/"))
