"""Proofs about the course: every patch applies, every tag works, every test can fail, every text is true.

`python -m lessons prove [NN]` runs them and the tests of the project call them. Only a lesson's own tests and
those before it run at its tag, in the clone's one environment. Sessions in a real terminal are compared in
the tests of the project, which have a library for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from lessons import CourseError, quiz, transcript
from lessons.check import Job, Outcome, run_jobs
from lessons.cli import known
from lessons.lesson import HINTS, Course, Lesson
from lessons.prove_series import prove_series
from lessons.series import Series, behaviors, build, size_of
from lessons.start import start
from lessons.texts import check_blocks, is_course, missing_sections
from lessons.workspace import Workspace, python_of

LONGEST = 150
"""Changed lines of a solution outside tests; more is more than one idea."""
MINUTES = 45
"""What a lesson takes to read and to write, at most."""
UNWRITTEN = ("AssertionError", "NotImplementedError", "Failed")
"""How a test of an unfinished lesson may fail: nothing was missing that it needs in order to look."""


def prove_lesson(course: Course, lesson: Lesson) -> list[str]:
    """Problems of one lesson: its tests, its wrong solutions, its record, its text, hints and quiz."""
    python = python_of(course.root.parent)
    with tempfile.TemporaryDirectory() as temporary:
        series = build(course, Path(temporary, "work", ".git"), Path(temporary, "work"))
        done, begun = Path(temporary, lesson.tag), Path(temporary, lesson.start_tag)
        series.git.export(lesson.tag, done)
        series.git.export(lesson.start_tag, begun)
        return [
            *_complete(lesson, series),
            *_tests(course, lesson, series, done, begun),
            *_record(lesson, done, python),
            *_text(course, lesson, series, Path(temporary)),
        ]


def _complete(lesson: Lesson, series: Series) -> Iterator[str]:
    """Hints, quiz, length, sections, and that every new test belongs to a task."""
    if lesson.minutes > MINUTES:
        yield f"meta.toml: {lesson.minutes} minutes are too long; {MINUTES} at most"
    if (size := size_of(lesson, series)) > LONGEST:
        yield f"solution.patch changes {size} lines outside tests; {LONGEST} at most"
    for name in missing_sections(lesson.text("README.md")):
        yield f"README.md: the section {name!r} is missing or out of order"
    yield from quiz.faults(lesson.quiz())
    hints = lesson.hints()
    writing = {task.id for task in lesson.tasks} if (lesson.id, "start") in series.commits else set()
    for task in sorted(writing | hints.keys()):
        if task not in {each.id for each in lesson.tasks}:
            yield f"hints.md: there is no task {task!r}"
        elif len(hints.get(task, [])) != HINTS or not all(hints[task]):
            yield f"hints.md: task {task!r} has {len(hints.get(task, []))} hints; {HINTS} are wanted"
    if (started := series.commits.get((lesson.id, "start"))) is not None:
        git = series.git
        for path in git.names("diff-tree", "--no-commit-id", "--name-only", "-r", "-z", started):
            if not path.startswith("tests/"):
                continue
            before = behaviors(git.show(f"{started}^", path) or b"")
            new = [
                f"{path}::{name}" for name in behaviors(git.show(started, path) or b"") if name not in before
            ]
            yield from (f"meta.toml: {test} is in no task" for test in new if test not in lesson.tests)
        solved = series.commits.get((lesson.id, "solution"), started)
        for path in sorted({test.partition("::")[0] for test in lesson.tests}):
            if git.show(started, path) != git.show(solved, path):
                yield f"solution.patch changes the tests in {path}; they belong to start.patch"


def _tests(course: Course, lesson: Lesson, series: Series, done: Path, begun: Path) -> Iterator[str]:
    """What the tests say at the tag, at its start, with seeded faults, with files of the lesson before."""
    own, earlier = lesson.tests, tuple(course.still_valid(lesson))
    gone = tuple(
        test
        for one in course.before(lesson)
        for test in one.tests
        if any(each.covers(test) for each in lesson.superseded)
    )
    jobs = [Job(done, (*own, *earlier, *gone)), Job(begun, (*own, *earlier))]
    for wrong in lesson.wrong:
        right = (done / wrong.file).read_text("utf-8") if (done / wrong.file).is_file() else ""
        if right.count(wrong.find) != 1:
            times = right.count(wrong.find)
            raise CourseError(
                f"{lesson.folder.name}/meta.toml: {wrong.find!r} is {times} times in {wrong.file}."
            )
        jobs.append(Job(done, wrong.tests, {wrong.file: right.replace(wrong.find, wrong.replace)}))
    before = course.lessons[lesson.number - 1].tag if lesson.number else lesson.start_tag
    contents = {path: series.git.show(before, path) for path in lesson.product_files}
    older = {path: None if text is None else text.decode("utf-8") for path, text in contents.items()}
    if older:
        jobs.append(Job(done, own, older))
    outcomes = iter(run_jobs(python_of(course.root.parent), jobs))

    at_tag, at_start = next(outcomes), next(outcomes)
    yield from (
        f"{lesson.tag}: {_failure(test, at_tag)}" for test in (*own, *earlier) if not _passed(at_tag, test)
    )
    yield from (f"meta.toml: {test} is superseded, but passes" for test in gone if _passed(at_tag, test))
    yield from (
        f"{lesson.start_tag}: {_failure(test, at_start)}" for test in earlier if not _passed(at_start, test)
    )
    written = (lesson.id, "start") in series.commits
    for test in own if written else ():
        if _passed(at_start, test):
            yield f"{lesson.start_tag}: {test} passes before anything is written"
        elif at_start[test]["kind"] not in UNWRITTEN:
            yield f"{lesson.start_tag}: {_failure(test, at_start)}"
    for wrong in lesson.wrong:
        outcome = next(outcomes)
        for test in wrong.tests:
            if _passed(outcome, test):
                yield f"{test} does not notice the wrong {wrong.find!r} -> {wrong.replace!r}"
            elif outcome[test]["kind"] in ("ImportError", "SyntaxError", "missing", "died"):
                yield f"the wrong {wrong.replace!r} is no wrong solution: {_failure(test, outcome)}"
            elif "expected" not in outcome[test]["text"]:
                yield f"{test} does not say what it expected: {_failure(test, outcome)}"
    if written:
        covered = {test for wrong in lesson.wrong for test in wrong.tests}
        yield from (f"meta.toml: no wrong solution for {test}" for test in own if test not in covered)
    if older and all(_passed(with_older, test) for with_older in outcomes for test in own):
        yield f"with {', '.join(older)} of the lesson before all new tests pass"


def _passed(outcome: Outcome, test: str) -> bool:
    return bool(outcome[test]["outcome"] == "passed")


def _failure(test: str, outcome: Outcome) -> str:
    """A failure in one line."""
    result = outcome[test]
    return f"{test} fails ({result['kind']}): {' '.join(str(result.get('text', '')).split())}"


def _record(lesson: Lesson, tree: Path, python: Path) -> Iterator[str]:
    """Whether the recorded session comes out the same."""
    text = lesson.text("transcript.txt")
    if not text:
        yield "transcript.txt is missing: every lesson shows something new in the chat"
        return
    try:
        now = transcript.check(transcript.parse(text, lesson.prompt), tree, lesson.prompt, python)
    except CourseError as error:
        yield f"transcript.txt: {error}"
        return
    for number, (old, new) in enumerate(
        zip([*text.splitlines(), "(end)"], [*now.splitlines(), "(end)"], strict=False), 1
    ):
        if old != new:
            yield f"transcript.txt:{number}: it says {old!r}, now it is {new!r} (record {lesson.nn})"
            return


def _text(course: Course, lesson: Lesson, series: Series, temporary: Path) -> Iterator[str]:
    """Whether the snippets of the text are in the files, and its commands do what it says."""
    python, work_tree = python_of(course.root.parent), temporary / "work"
    learners: dict[str, Workspace] = {}

    def show(at: str, path: str) -> str | None:
        if path == "transcript.txt":
            return lesson.text(path)
        content = series.git.show(at, path)
        return None if content is None else content.decode("utf-8", "replace")

    def run(at: str, command: str) -> tuple[int, str]:
        home = temporary / "home"
        home.mkdir(exist_ok=True)
        if is_course(command):
            if at not in learners:
                work, _ = start(course.root.parent, temporary / f"learner-{at}")
                work.goto(course.numbered(at.removesuffix("-start")))
                if not at.endswith("-start"):
                    work.take_solution(work.current())
                learners[at] = work
            where = learners[at].root
        else:
            where = work_tree
            series.git.run("checkout", "--quiet", "--force", "--detach", at)
            # What a program of the lessons keeps stays from command to command, as it does for a learner.
            series.git.run("clean", "--quiet", "-ffdx", "--exclude=/.mini-agent")
        return transcript.run(command, where, transcript.environment(where, home / "data", python))

    yield from check_blocks(lesson.text("README.md"), lesson.tag, show, run, known)


def prove(course: Course, lessons: list[Lesson]) -> Iterator[tuple[str, list[str]]]:
    """Prove the series and these lessons; each with its problems, as they are known."""
    yield "the series", prove_series(course)
    for lesson in lessons:
        try:
            found = prove_lesson(course, lesson)
        except CourseError as error:
            found = [str(error)]
        yield lesson.folder.name, found
