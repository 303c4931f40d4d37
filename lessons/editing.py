"""Change the code of a lesson in a real repository, replay the later lessons onto it, export the patches.

    edit NN [PART]      makes a repository with one commit for each part, opened at that part
    save                puts your change into its commit, replays the later ones, writes patches and manifest
    import REPO         takes a whole history written elsewhere

The last lesson is the product. A change made in the clone is carried into it by `save`; a change that reaches
it from an earlier lesson is carried into the clone. Nobody edits a patch.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lessons import CourseError
from lessons.git import Git, repository_above
from lessons.lesson import PARTS, Course, Lesson
from lessons.product import carry, tree_of
from lessons.series import Series, build, commit, export, manifest, verify

Commits = dict[tuple[str, str], str]
"""Lesson id and part to the commit of that part."""

_SUBJECT = re.compile(r"(\d\d) (given|start|solution): \S")
_NOT_WORK = "__pycache__/\n.venv\n.env\n.pytest_cache/\n.hypothesis/\n.ruff_cache/\n.mypy_cache/\n"


@dataclass(slots=True)
class Edit:
    """An edit that is under way, kept in the `.git` of its repository."""

    lesson: str
    part: str
    commits: dict[str, str]
    """`lesson id/part` to its commit: what was built, and what was replayed so far."""
    product: str = ""
    """The tree of the clone's product when the replay began."""
    todo: list[str] = field(default_factory=list)
    """What is still to be replayed; its first entry is the one that stopped."""
    replaying: bool = False
    saved: bool = False

    @classmethod
    def load(cls, folder: Path) -> Edit:
        """The edit in a folder.

        Raises:
            CourseError: there is none.
        """
        try:
            return cls(**json.loads((folder / ".git" / "edit.json").read_text("utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            raise CourseError(
                f"No lesson is open in {folder}; begin with: python -m lessons edit NN"
            ) from None

    def store(self, folder: Path) -> None:
        """Keep it for the next command."""
        (folder / ".git" / "edit.json").write_text(json.dumps(asdict(self), indent=1), "utf-8")


def edit_folder(clone: Path) -> Path:
    """Where an edit is made when nobody says where."""
    return clone.parent / f"{clone.name}-edit"


def edit(course: Course, lesson: Lesson, part: str, folder: Path) -> Edit:
    """Make the repository of the course in a folder and open it at a part of a lesson.

    Raises:
        CourseError: the folder is taken, lies in a repository, or the lesson has no such part.
    """
    if lesson.product:
        raise CourseError(
            f"Lesson {lesson.nn} is the product: change it here in the clone, then: python -m lessons save"
        )
    if folder.exists() and any(folder.iterdir()):
        if not Edit.load(folder).saved or dirty(folder):
            raise CourseError(f"An edit is open in {folder}; save it, or remove that folder.")
        shutil.rmtree(folder)
    if (above := repository_above(folder.resolve())) is not None:
        raise CourseError(f"{folder} lies in the repository {above}; name a folder outside of it.")
    series = build(course, folder / ".git", folder)
    (folder / ".git" / "info" / "exclude").write_text(_NOT_WORK, "utf-8")
    found = series.commits.get((lesson.id, part))
    if found is None:
        shutil.rmtree(folder)
        raise CourseError(f"Lesson {lesson.nn} has no part {part!r}.")
    series.git.run("checkout", "--quiet", "--force", "--detach", found)
    opened = Edit(lesson.id, part, {"/".join(key): each for key, each in series.commits.items()})
    opened.store(folder)
    return opened


def dirty(folder: Path) -> bool:
    """Whether the work tree has anything that is not committed."""
    return bool(Git(folder / ".git", folder).names("status", "--porcelain", "-z", "--untracked-files=all"))


def save(course: Course, clone: Path, folder: Path, *, keep_product: bool = False) -> list[Path]:
    """Put the work in an edit's folder into its commit and replay the rest, or go on after a conflict.

    Args:
        course: the lessons of the clone.
        clone: where the product is.
        folder: the edit's repository.
        keep_product: leave the product as it is, whatever the earlier lessons say now.

    Returns:
        The files that changed: patches, manifest, and files of the product.

    Raises:
        CourseError: a later lesson conflicts (named), or a file still has conflict marks.
    """
    state, git = Edit.load(folder), Git(folder / ".git", folder)
    if not state.replaying:
        _begin(course, clone, state, git)
        state.store(folder)
    elif state.todo:
        lesson, part = state.todo[0].split("/")
        if keep_product and _lesson(course, lesson).product:
            git.run("reset", "--quiet", "--hard")
        else:
            _resolved(git)
            _commit_replayed(git, state)
    while state.todo:
        state.store(folder)
        lesson, part = state.todo[0].split("/")
        old = state.commits[state.todo[0]]
        if keep_product and _lesson(course, lesson).product:
            git.run("read-tree", "--reset", "-u", state.product)
        elif not git.ok("cherry-pick", "--no-commit", old):
            names = sorted(set(git.names("diff", "--name-only", "--diff-filter=U", "-z")))
            raise CourseError(
                f"Lesson {_lesson(course, lesson).nn} ({part}) conflicts with it in {', '.join(names)}: "
                f"mend it in {folder}, then: python -m lessons save --continue   (or: save --abort"
                f"{', save --keep-product' if _lesson(course, lesson).product else ''})"
            )
        _commit_replayed(git, state)
    state.store(folder)
    commits: Commits = {_key(name): each for name, each in state.commits.items()}
    if course.lessons[-1].product:
        if tree_of(clone, git) != state.product:
            raise CourseError(
                "The product changed while lessons were replayed; type: save --abort, then save again."
            )
        final = git.text("rev-parse", f"{commits[course.lessons[-1].id, 'given']}^{{tree}}")
        changed = write_series(course, git, commits, final)
        changed += [clone / path for path in carry(clone, git, state.product, final)]
    else:
        changed = write_series(course, git, commits)
    git.run("checkout", "--quiet", "--force", "--detach", state.commits[f"{state.lesson}/{state.part}"])
    state.replaying, state.saved = False, True
    state.store(folder)
    return changed


def abort(folder: Path) -> None:
    """Give up a replay that stopped: the folder is as it was when `save` was typed."""
    state, git = Edit.load(folder), Git(folder / ".git", folder)
    if not state.replaying:
        raise CourseError(f"Nothing is being replayed in {folder}.")
    git.run("checkout", "--quiet", "--force", "--detach", "refs/edit/mine")
    state.commits = {name: git.text("rev-parse", f"refs/edit/built/{name}") for name in state.commits}
    state.replaying, state.todo = False, []
    state.store(folder)


def _begin(course: Course, clone: Path, state: Edit, git: Git) -> None:
    """Make the edited commit, and note what is to be replayed onto it."""
    name = f"{state.lesson}/{state.part}"
    old = state.commits[name]
    for key, each in state.commits.items():
        git.run("update-ref", f"refs/edit/built/{key}", each)
    git.run("add", "--all")
    parents = git.text("log", "-1", "--format=%P", old)
    new = commit(git, git.text("write-tree"), parents, git.run("log", "-1", "--format=%B", old).decode())
    git.run("update-ref", "refs/edit/mine", new)
    git.run("update-ref", "--no-deref", "HEAD", new)
    last = course.lessons[-1]
    if last.product:
        state.product = tree_of(clone, git)
        given = f"{last.id}/given"
        message = git.run("log", "-1", "--format=%B", state.commits[given]).decode()
        state.commits[given] = commit(git, state.product, f"{state.commits[given]}^", message)
    order = [f"{lesson.id}/{part}" for lesson in course for part in PARTS]
    there = [key for key in order if key in state.commits]
    state.commits[name] = new
    state.todo = there[there.index(name) + 1 :]
    state.replaying, state.saved = True, False


def _commit_replayed(git: Git, state: Edit) -> None:
    """Commit what is in the index as the first of what is to be replayed."""
    name = state.todo.pop(0)
    message = git.run("log", "-1", "--format=%B", state.commits[name]).decode()
    new = commit(git, git.text("write-tree"), git.text("rev-parse", "HEAD"), message)
    git.run("update-ref", "--no-deref", "HEAD", new)
    state.commits[name] = new


def _resolved(git: Git) -> None:
    """Take the files of a conflict as mended, unless the marks are still in them."""
    assert git.work_tree is not None
    for name in sorted(set(git.names("diff", "--name-only", "--diff-filter=U", "-z"))):
        path = git.work_tree / name
        if path.is_file() and re.search(rb"^(<{7} |>{7} )", path.read_bytes(), re.MULTILINE):
            raise CourseError(f"{name} still has conflict marks (<<<<<<<); mend it, then: save --continue")
    git.run("add", "--all")


def _lesson(course: Course, lesson_id: str) -> Lesson:
    return next(each for each in course if each.id == lesson_id)


def _key(name: str) -> tuple[str, str]:
    lesson, part = name.split("/")
    return lesson, part


def save_product(course: Course, clone: Path) -> list[Path]:
    """Carry a change made in the clone into the last lesson, and write the manifest anew.

    Returns:
        The files that changed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        last = course.lessons[-1] if len(course) else None
        if last is None:
            raise CourseError("There are no lessons in lessons/ yet.")
        if not last.product:
            series = build(course, Path(temporary) / "repo")
            return write_series(course, series.git, series.commits)
        series = _without_last(course, Path(temporary))
        return write_series(course, series.git, series.commits, tree_of(clone, series.git))


def _without_last(course: Course, temporary: Path) -> Series:
    """Build the lessons before the product, whose own patch may be out of date or missing."""
    for lesson in course.lessons[:-1]:
        shutil.copytree(lesson.folder, temporary / "course" / lesson.folder.name)
    return build(Course(temporary / "course"), temporary / "repo")


def import_history(course: Course, clone: Path, repository: Path) -> list[Path]:
    """Write the patches of a history with one commit for each part, `NN start: ...`, in order.

    Returns:
        The files that changed.

    Raises:
        CourseError: a commit is none of these, comes out of order, or its lesson has no folder.
    """
    source = Git(repository / ".git" if (repository / ".git").exists() else repository)
    with tempfile.TemporaryDirectory() as temporary:
        git = Git.create(Path(temporary) / "repo")
        objects = source.text("rev-parse", "--path-format=absolute", "--git-path", "objects")
        (git.git_dir / "objects" / "info").mkdir(exist_ok=True)
        (git.git_dir / "objects" / "info" / "alternates").write_text(f"{objects}\n", "utf-8")
        commits: Commits = {}
        at = (-1, 0)
        for line in source.text("log", "--reverse", "--format=%H %P%x00%s", "HEAD").splitlines():
            ids, _, subject = line.partition("\0")
            match = _SUBJECT.match(subject)
            if match is None or len(ids.split()) > 2:
                raise CourseError(
                    f"The commit {subject!r} is no part of a lesson: `NN given|start|solution: ...`."
                )
            here = (int(match[1]), PARTS.index(match[2]))
            if here <= at:
                raise CourseError(f"The commit {subject!r} comes after a later part, or twice.")
            at, lesson = here, course.numbered(match[1])
            if lesson.product:
                raise CourseError(
                    f"Lesson {lesson.nn} is the product and is made from the clone; leave it out."
                )
            commits[lesson.id, match[2]] = ids.split()[0]
        product = tree_of(clone, git) if course.lessons[-1].product else None
        return write_series(course, git, commits, product)


def write_series(
    course: Course, git: Git, commits: Mapping[tuple[str, str], str], product: str | None = None
) -> list[Path]:
    """Write patches and manifest, after a trial: what is written builds the same trees and exports the same.

    Args:
        course: where they are written.
        git: holds the commits, and the tree of the product.
        commits: the commits of all parts.
        product: the tree of the last lesson, in place of its commit.

    Returns:
        The files that changed.
    """
    made = dict(commits)
    last = course.lessons[-1]
    if product is not None:
        before = [
            made[lesson.id, part]
            for lesson in course.lessons[:-1]
            for part in PARTS
            if (lesson.id, part) in made
        ]
        message = f"{last.nn} given: {last.title}\n"
        made = {key: each for key, each in made.items() if key[0] != last.id}
        made[last.id, "given"] = commit(git, product, before[-1] if before else "", message)
    files = export(course, git, made)
    with tempfile.TemporaryDirectory() as temporary:
        trial = Path(temporary) / "course"
        for lesson in course:
            (trial / lesson.folder.name).mkdir(parents=True)
            shutil.copy(lesson.folder / "meta.toml", trial / lesson.folder.name)
        for path, content in files.items():
            (trial / path.relative_to(course.root)).write_bytes(content)
        tried = Course(trial)
        series = build(tried, Path(temporary) / "repo")
        for key, each in made.items():
            if series.git.tree(series.commits[key]) != git.tree(each):
                raise CourseError(
                    f"The patch of {' '.join(key)} does not give the files that it was made from."
                )
        again = export(tried, series.git, series.commits)
        for path, content in again.items():
            if files[course.root / path.relative_to(trial)] != content:
                raise CourseError(f"{path.parent.name}/{path.name} is not exported the same twice.")
        files[course.manifest] = manifest(series).encode()
    stale = {lesson.patch(part) for lesson in course for part in PARTS} - files.keys()
    changed = [path for path in sorted(stale) if path.exists()]
    for path in changed:
        path.unlink()
    for path, content in files.items():
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
            changed.append(path)
    return changed


def check_export(course: Course, git_dir: Path) -> list[str]:
    """Build, compare with the manifest, export again; return what is not as committed."""
    series = build(course, git_dir)
    verify(course, series)
    files = export(course, series.git, series.commits)
    return [
        f"{path.parent.name}/{path.name}" for path, content in files.items() if path.read_bytes() != content
    ]
