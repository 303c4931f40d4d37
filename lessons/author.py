"""The author's commands, as they are typed in the clone."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from lessons import CourseError, editing, transcript
from lessons.git import Git
from lessons.lesson import Course, Lesson
from lessons.prove import prove
from lessons.series import build
from lessons.workspace import python_of


def run(options: argparse.Namespace, clone: Path, course: Course) -> int:
    """Run a command of `cli.clone_parser`."""
    folder = getattr(options, "folder", None) or editing.edit_folder(clone)
    match options.command:
        case "edit":
            lesson = course.numbered(options.lesson)
            editing.edit(course, lesson, options.part, folder)
            print(f"Lesson {lesson.nn}, its {options.part}, is open in {folder}; change it there, then here:")
            print("  python -m lessons save")
            return 0
        case "save" if options.abort:
            editing.abort(folder)
            print(f"Given up; your change is still in {folder}.")
            return 0
        case "save":
            return save(options, clone, course, folder)
        case "import":
            changed = editing.import_history(course, clone, options.repository)
            _tell(clone, changed)
            return 0
        case "record":
            return record(course, _chosen(course, options.lesson), python_of(clone))
        case "prove":
            return tell_proofs(course, _chosen(course, options.lesson))
    wrong = editing.check_export(course, options.folder)
    if wrong:
        raise CourseError(f"What this git exports differs from {', '.join(wrong)}.")
    git = Git(options.folder)
    for tag in git.text("tag", "--list", "article-*").splitlines():
        print(tag, git.commit_of(tag))
    return 0


def _chosen(course: Course, numbers: Iterable[str]) -> list[Lesson]:
    return [course.numbered(number) for number in numbers] or list(course)


def save(options: argparse.Namespace, clone: Path, course: Course, folder: Path) -> int:
    """Save the open edit, or without one carry the product into the last lesson; then prove what changed."""
    try:
        state = editing.Edit.load(folder)
    except CourseError:
        if options.goes_on:
            raise
        state = None
    if state is None or (state.saved and not editing.dirty(folder)):
        changed = editing.save_product(course, clone)
    else:
        if options.goes_on and not state.replaying:
            raise CourseError(f"Nothing is being replayed in {folder}; type: python -m lessons save")
        if state.replaying and not options.goes_on and not options.keep_product:
            raise CourseError(
                f"A replay stopped in {folder}: mend it there, then: python -m lessons save --continue"
            )
        changed = editing.save(course, clone, folder, keep_product=options.keep_product)
    _tell(clone, changed)
    touched = {path.parent.name for path in changed}
    lessons = [lesson for lesson in course if lesson.folder.name in touched]
    return 0 if options.no_checks or not changed else tell_proofs(course, lessons)


def _tell(clone: Path, changed: list[Path]) -> None:
    """List what was written."""
    for path in changed:
        print(f"{'written' if path.exists() else 'removed'}  {path.relative_to(clone)}")
    if not changed:
        print("Nothing changed.")


def record(course: Course, lessons: list[Lesson], python: Path) -> int:
    """Play the recorded sessions and write what comes out, after a second run that must be the same."""
    with tempfile.TemporaryDirectory() as temporary:
        series = build(course, Path(temporary, "repo"))
        for lesson in lessons:
            tree = Path(temporary, lesson.tag)
            series.git.export(lesson.tag, tree)
            sessions = transcript.parse(lesson.text("transcript.txt"), lesson.prompt)
            text = transcript.record(sessions, tree, lesson.prompt, python)
            if transcript.record(sessions, tree, lesson.prompt, python) != text:
                raise CourseError(f"Lesson {lesson.nn}: two runs of the session print different things.")
            (lesson.folder / "transcript.txt").write_text(text, "utf-8")
            print(f"written  {lesson.folder.name}/transcript.txt")
    return 0


def tell_proofs(course: Course, lessons: list[Lesson]) -> int:
    """Prove lessons and print a line for each, with what is wrong under it."""
    bad, began = 0, time.monotonic()
    for name, found in prove(course, lessons):
        print(f"{'FAIL' if found else 'ok':<5} {name}   ({time.monotonic() - began:.1f} s)", flush=True)
        for each in found:
            print(f"      {each}")
        bad += len(found)
        began = time.monotonic()
    return 1 if bad else 0
