"""The learner's commands, each a plain function that prints and returns an exit code."""

from __future__ import annotations

import os
import pydoc
import re
import sys
from pathlib import Path

from lessons import CourseError, prose, quiz
from lessons.check import changes, check, first_open
from lessons.lesson import HINTS, Course, Lesson
from lessons.start import NAME, damage, offered, start, troubles, update
from lessons.state import goals
from lessons.workspace import Workspace, found_beside, python_of


def show_status(work: Workspace) -> int:
    """Where you are and what to type next."""
    lesson, total = work.current(), len(work.course)
    done, goal = work.state.finished(lesson), len(goals(lesson))
    print(
        prose.fill(
            f"Lesson {lesson.nn} of {total - 1:02}: {lesson.title} ({lesson.minutes} minutes). {lesson.goal}"
        )
    )
    print(f"{done} of {goal} tasks done here, {work.state.percent(work.course)} % of the course.")
    if done == goal:
        asked = "" if lesson.id in work.state.quiz else "./course quiz, then "
        last = lesson.number == total - 1
        print("Next: " + (f"{asked}./course progress" if last else f"{asked}./course next"))
    elif not done and not any(key.startswith(f"{lesson.id}/") for key in work.state.hints):
        print(
            f"Next: ./course read   (./course chat {lesson.nn} runs what you will have built, Ctrl-D leaves)"
        )
    else:
        print("Next: ./course check   (./course hint when you are stuck)")
    _offer(work)
    return 0


def _offer(work: Workspace) -> None:
    """Say, and no more, that the clone holds another edition."""
    if offered(work):
        print("The clone has a new edition of the course: ./course update takes it; your branches stay.")


def begin(clone: Path, folder: Path | None) -> int:
    """Make the learner's repository and say what to type there."""
    where = folder or clone.parent / NAME
    for trouble in troubles(clone, python_of(clone)):
        raise CourseError(trouble)
    work, new = start(clone, where)
    if new:
        print(
            f"Your repository is {work.root}, tagged from article-00-start to {work.course.lessons[-1].tag}."
        )
        print(
            "You are at lesson 00. The reference of each lesson is a tag; your own work is on branches my/..."
        )
    else:
        print(f"Your repository is {work.root}; it was there already and nothing in it was changed.")
    print("\nType next:")
    print(f"  cd {os.path.relpath(work.root)}")
    first = work.current().nn
    print(f"  ./course chat {first}  what you will have built in this lesson; Ctrl-D leaves")
    print("  ./course read     the text of the lesson\n  ./course check    what is to be done, one line each")
    print("  ./course          where you are, at any time")
    return 0


def where_am_i(clone: Path) -> int:
    """What `python -m lessons` says in the clone: the repositories beside it, or how to begin."""
    found = list(found_beside(clone))
    if not found:
        course = Course(clone / "lessons")
        print(f"The course has {len(course)} lessons; each builds a part of mini-agent.")
        print(
            f"Begin: make lessons ARGS=start   (or python -m lessons start; it makes {clone.parent / NAME})"
        )
        return 0
    for root in found:
        print(f"{root}:")
        show_status(Workspace(root))
        print(f"Type it there: cd {os.path.relpath(root)}")
    return 0


def read(path: Path) -> int:
    """Show a text: a lesson's, or the glossary."""
    text = path.read_text("utf-8")
    _page(_emphasized(prose.markdown(text)) if sys.stdout.isatty() else text)
    print(f"In your editor: {path}")
    return 0


def _emphasized(text: str) -> str:
    """Headings in bold; the rest of Markdown reads well as it is."""
    return re.sub(r"^#+ .*$", lambda match: f"\x1b[1m{match[0]}\x1b[0m", text, flags=re.MULTILINE)


def run_check(work: Workspace, *, watch: bool, everything: bool) -> int:
    """Run the lesson's tests; with `watch` again after every change, until all pass."""
    finished = False
    try:
        for _ in changes(work.root) if watch else (None,):
            lesson = work.current()
            if watch and sys.stdout.isatty():
                print("\x1b[2J\x1b[H", end="")
            lines, finished = check(work, lesson, everything=everything)
            print("\n".join(lines))
            _after_check(work, lesson, finished=finished)
            if finished:
                break
    except KeyboardInterrupt:
        print()
    return 0 if finished else 1


def _after_check(work: Workspace, lesson: Lesson, *, finished: bool) -> None:
    if not finished:
        print("  hint: ./course hint    lesson: ./course read")
    elif not work.on_own_branch():
        print(f"  This is the reference. Your own work: ./course goto {lesson.nn}")
    elif lesson.number == len(work.course) - 1:
        print(f"  Lesson {lesson.nn} is done ({work.state.percent(work.course)} % of all): ./course progress")
    else:
        print(f"  Lesson {lesson.nn} is done: ./course diff shows the reference, ./course next goes on.")


def hint(work: Workspace) -> int:
    """Show the next hint for the first task that is not done."""
    lesson = work.current()
    at = first_open(work, lesson)
    if at is None:
        print(f"Nothing is open in lesson {lesson.nn}: ./course next")
        return 0
    task = lesson.tasks[at]
    hints = lesson.hints().get(task.id, [])
    if not hints:
        print(f"There are no hints for {task.title!r}: ./course read")
        return 0
    key = lesson.key(task)
    number = min(work.state.hints.get(key, 0) + 1, len(hints))
    print(f"{task.title}: hint {number} of {len(hints)}\n\n{prose.markdown(hints[number - 1])}\n")
    if number == HINTS:
        print(f"That was the last one. ./course show {lesson.nn} shows how the reference does it.")
    work.state.hints[key] = number
    work.store()
    return 0


def chat(work: Workspace, lesson: Lesson | None, arguments: list[str]) -> int:
    """Run the program: yours as it is, or the reference of a lesson, with data of its own."""
    where = work.root if lesson is None else work.reference(lesson)
    data = work.home / "data" / (lesson or work.current()).id
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ.setdefault("MINI_AGENT_HOME", str(data))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    if not (where / "main.py").exists():
        raise CourseError(
            "There is no main.py here; ./course reset begins the lesson anew and keeps your work."
        )
    sys.stdout.flush()
    os.chdir(where)
    # The program takes our place, so that Ctrl-C is its own.
    os.execv(work.python(), [str(work.python()), "main.py", *arguments])  # noqa: S606 (no shell is wanted)


def diff(work: Workspace) -> int:
    """Compare your files with the reference of the lesson."""
    lesson = work.current()
    color = "--color=always" if sys.stdout.isatty() else "--no-color"
    sides = ("--src-prefix=reference/", "--dst-prefix=yours/")
    # New files too, as if they were to be committed; in an index of its own, the learner's stays as it is.
    index = {"GIT_INDEX_FILE": str(work.home / "diff.index")}
    work.git.run("read-tree", "HEAD", env=index)
    work.git.run("add", "--all", env=index)
    found = work.git.run("diff", "--cached", "-R", color, *sides, lesson.tag, env=index).decode(
        "utf-8", "replace"
    )
    if not found:
        print(f"Your files are those of {lesson.tag}.")
        return 0
    _page(f"- yours, + the reference ({lesson.tag})\n{found}")
    return 0


def _page(text: str) -> None:
    """Show a text that may be longer than the screen, in the person's pager when there is a screen."""
    if sys.stdout.isatty():
        os.environ.setdefault("LESS", "FRX")  # as git does: colors, and no pager for what fits
        pydoc.pager(text)
    else:
        print(text, end="")


def show(work: Workspace, lesson: Lesson) -> int:
    """Show what a lesson asks for and how the reference does it; nothing of yours changes."""
    color = "--color=always" if sys.stdout.isatty() else "--no-color"
    _page(work.git.run("show", color, lesson.tag).decode("utf-8", "replace"))
    return 0


def solution(work: Workspace, lesson: Lesson) -> int:
    """Put the reference into your files; what you had is committed on your branch."""
    work.take_solution(lesson)
    print(f"{lesson.branch} has the reference of lesson {lesson.nn} now; what you had is the commit before.")
    return run_check(work, watch=False, everything=False)


def next_lesson(work: Workspace, *, skip: bool) -> int:
    """Go to the next lesson."""
    lesson = work.current()
    if lesson.number == len(work.course) - 1:
        print(f"Lesson {lesson.nn} is the last one: ./course progress")
        return 0
    still = len(goals(lesson)) - work.state.finished(lesson)
    if still and not skip:
        raise CourseError(
            f"Lesson {lesson.nn} has open tasks, {still} (./course check); go on anyway: ./course next --skip"
        )
    code = goto(work, work.course.lessons[lesson.number + 1])
    print(f"It begins at the reference of lesson {lesson.nn}; your own is on {lesson.branch}.")
    return code


def goto(work: Workspace, lesson: Lesson) -> int:
    """Go to a lesson; it begins at the reference of the one before, yours stays on its branch."""
    left = work.branch()
    if work.goto(lesson):
        print(f"What was not committed is now, on {left or 'a branch my/...-kept'}.")
    return show_status(work)


def reset(work: Workspace) -> int:
    """Begin the lesson anew; what you did stays on another branch."""
    lesson = work.current()
    put_aside = work.reset(lesson)
    if put_aside:
        print(f"Your work so far is the branch {put_aside}.")
    return show_status(work)


def take_quiz(work: Workspace, lesson: Lesson) -> int:
    """Ask the questions of a lesson."""
    right = quiz.ask(lesson.quiz(), input, lambda text: print(prose.fill(text)))
    if right is not None:
        work.state.quiz[lesson.id] = max(right, work.state.quiz.get(lesson.id, 0))
        work.store()
    return 0


def progress(work: Workspace) -> int:
    """Show every lesson: its tasks, its quiz, hints taken, and whether the solution was taken over."""
    here = work.current()
    for lesson in work.course:
        done, goal = work.state.finished(lesson), len(goals(lesson))
        notes = []
        if lesson.id in work.state.quiz:
            notes.append(f"quiz {work.state.quiz[lesson.id]} of {len(lesson.quiz())}")
        if hints := sum(work.state.hints.get(lesson.key(task), 0) for task in lesson.tasks):
            notes.append(f"hints: {hints}")
        if lesson.id in work.state.shown:
            notes.append("solution taken")
        mark = ">" if lesson == here else " "
        bar = "#" * (8 * done // goal)
        print(
            f"{mark} {lesson.nn}  {lesson.title:<40} {bar:.<8} {done} of {goal}  {', '.join(notes)}".rstrip()
        )
    print(f"{work.state.percent(work.course)} % of the course.")
    return 0


def doctor(work: Workspace) -> int:
    """Look at the machine and at the repository, and say what to do about what is wrong."""
    clone = Path(work.state.clone)
    found = [*troubles(clone, work.python()), *damage(work)]
    for each in found:
        print(f"- {each}")
    if not found:
        print("Python, git, the packages of the lessons, the tags and your progress are as they should be.")
    print(f"clone: {clone}\nedition: {work.state.edition}\nbranch: {work.branch() or 'none (a tag)'}")
    _offer(work)
    return 1 if found else 0


def take_edition(work: Workspace) -> int:
    """Take the clone's edition of the course: texts and tags; your branches and files stay."""
    if not offered(work) and not list(damage(work)):
        print("You have the edition of the clone.")
        return 0
    changed = update(work)
    print("You have the new edition now; your branches and files are as they were.")
    for number in changed:
        lesson = work.course.numbered(number)
        if work.git.commit_of(f"refs/heads/{lesson.branch}"):
            print(
                f"Lesson {number} changed; {lesson.branch} stays as it is; ./course reset there begins anew."
            )
    return 0
