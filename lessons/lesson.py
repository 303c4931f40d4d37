"""What a lesson folder says: `meta.toml`, `hints.md` and `quiz.toml`, read and checked.

A lesson is known by its `id`, a task by `lesson id/task id`: numbers and commit ids change with an edition.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lessons import CourseError
from lessons.tables import Table

PARTS = ("given", "start", "solution")
"""The parts of a lesson in the order in which they are applied; each is at most one patch."""
HINTS = 3
"""Hints of a task, each more specific than the one before."""
PROMPT = "you> "
"""What a lesson's program prints before it reads a line, unless `meta.toml` says otherwise."""

_FOLDER = re.compile(r"(\d\d)-([a-z][a-z0-9-]*)")


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of a lesson: the tests that it makes pass, in the order in which they are shown."""

    id: str
    title: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Superseded:
    """A test, or a whole test file, of an earlier lesson that no longer holds."""

    test: str
    reason: str

    def covers(self, test: str) -> bool:
        """Whether it means this test."""
        return test == self.test or test.startswith(f"{self.test}::")


@dataclass(frozen=True, slots=True)
class Wrong:
    """A seeded wrong solution: one edit of the right one, which each of the tests must notice."""

    tests: tuple[str, ...]
    file: str
    find: str
    replace: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer of a question, and why it is right or wrong."""

    text: str
    why: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the quiz; one of its choices is right."""

    ask: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson; `folder` holds its texts and patches."""

    number: int
    folder: Path
    id: str
    title: str
    minutes: int
    goal: str
    product_files: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    wrong: tuple[Wrong, ...] = ()
    product: bool = False
    prompt: str = PROMPT
    no_pty: str = ""

    @property
    def nn(self) -> str:
        """The number as it is written: two digits."""
        return f"{self.number:02}"

    @property
    def tag(self) -> str:
        """The tag of the finished lesson."""
        return f"article-{self.nn}"

    @property
    def start_tag(self) -> str:
        """The tag at which a learner begins it."""
        return f"{self.tag}-start"

    @property
    def branch(self) -> str:
        """The learner's branch."""
        return f"my/{self.id}"

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests of all tasks."""
        return tuple(test for task in self.tasks for test in task.tests)

    def key(self, task: Task) -> str:
        """The name of a task in the learner's progress."""
        return f"{self.id}/{task.id}"

    def patch(self, part: str) -> Path:
        """Where the patch of a part is; it need not exist."""
        return self.folder / f"{part}.patch"

    def text(self, name: str) -> str:
        """A text of the lesson; empty when there is none."""
        try:
            return (self.folder / name).read_text("utf-8")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError:
            raise CourseError(f"{self.folder.name}/{name} is not UTF-8 text.") from None

    def hints(self) -> dict[str, list[str]]:
        """The hints of each task: `## task id`, then `### 1`, `### 2`, `### 3`."""
        found: dict[str, list[str]] = {}
        task: list[str] = []
        for kind, title, body in _sections(self.text("hints.md")):
            if kind == "##":
                task = found.setdefault(title, [])
            elif title != str(len(task) + 1):
                raise CourseError(
                    f"{self.folder.name}/hints.md: expected hint {len(task) + 1}, found {title}."
                )
            else:
                task.append(body)
        return found

    def quiz(self) -> tuple[Question, ...]:
        """The questions of the quiz."""
        where = f"{self.folder.name}/quiz.toml"
        table = Table.parse(self.text("quiz.toml"), where)
        questions = []
        for each in table.tables("questions"):
            choices = tuple(
                Choice(one.string("text"), one.string("why"), one.boolean("right"))
                for one in each.tables("choices")
            )
            questions.append(Question(each.string("ask"), choices))
        table.done()
        return tuple(questions)


class Course:
    """All lessons of a folder, in order.

    Raises:
        CourseError: a number is missing, or a lesson's `meta.toml` says something that cannot be.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        folders = (
            sorted(each for each in root.iterdir() if _FOLDER.fullmatch(each.name)) if root.is_dir() else []
        )
        self.lessons = tuple(read_lesson(folder) for folder in folders)
        for number, lesson in enumerate(self.lessons):
            if lesson.number != number:
                raise CourseError(f"Lesson {number:02} is missing: after it comes {lesson.folder.name}.")
        ids = [lesson.id for lesson in self.lessons]
        for each in ids:
            if ids.count(each) > 1:
                raise CourseError(f"Two lessons have the id {each!r}.")
        for lesson in self.lessons[:-1]:
            if lesson.product:
                raise CourseError(
                    f"Only the last lesson is the product, but {lesson.folder.name} says it is."
                )

    def __iter__(self) -> Iterator[Lesson]:
        return iter(self.lessons)

    def __len__(self) -> int:
        return len(self.lessons)

    @property
    def manifest(self) -> Path:
        """The file that says what each tag holds."""
        return self.root / "manifest.txt"

    def numbered(self, number: str) -> Lesson:
        """The lesson of a number as a person writes it: 3, 03, article-03 or its id.

        Raises:
            CourseError: there is none.
        """
        wanted = number.removeprefix("article-")
        for lesson in self.lessons:
            if wanted == lesson.id or (wanted.isdecimal() and int(wanted) == lesson.number):
                return lesson
        last = self.lessons[-1].nn if self.lessons else "none"
        raise CourseError(f"There is no lesson {number!r}; they go from 00 to {last}.")

    def before(self, lesson: Lesson) -> tuple[Lesson, ...]:
        """The lessons before this one."""
        return self.lessons[: lesson.number]

    def still_valid(self, lesson: Lesson) -> list[str]:
        """The tests of earlier lessons that must pass at this one's tag too."""
        gone = [each for one in self.lessons[: lesson.number + 1] for each in one.superseded]
        return [
            test
            for one in self.before(lesson)
            for test in one.tests
            if not any(each.covers(test) for each in gone)
        ]

    def files(self) -> list[Path]:
        """Every file of the course that a learner's repository keeps a copy of."""
        folders = [
            each for lesson in self.lessons for each in sorted(lesson.folder.iterdir()) if each.is_file()
        ]
        return [
            *sorted(self.root.glob("*.md")),
            *folders,
            *([self.manifest] if self.manifest.exists() else []),
        ]

    def edition(self) -> str:
        """A short name of these very texts and patches: it changes when any of them does."""
        digest = hashlib.sha256()
        for path in self.files():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(self.root).as_posix()} {len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()[:12]


def read_lesson(folder: Path) -> Lesson:
    """Read the `meta.toml` of a lesson folder.

    Raises:
        CourseError: it is missing, or says something that cannot be.
    """
    where = f"{folder.name}/meta.toml"
    match = _FOLDER.fullmatch(folder.name)
    if match is None or not (folder / "meta.toml").is_file():
        raise CourseError(f"{where} is missing: a lesson is a folder NN-name with a meta.toml.")
    table = Table.parse((folder / "meta.toml").read_text("utf-8"), where)
    tasks = tuple(
        Task(each.string("id"), each.string("title"), each.strings("tests")) for each in table.tables("tasks")
    )
    superseded = tuple(
        Superseded(each.string("test"), each.string("reason")) for each in table.tables("superseded")
    )
    wrong = tuple(
        Wrong(
            each.one_or_more("test"),
            each.string("file"),
            each.string("find"),
            each.string("replace", empty=True),
        )
        for each in table.tables("wrong")
    )
    session = table.table("transcript")
    prompt = session.string("prompt", default=PROMPT)
    no_pty = "" if session.boolean("pty", default=True) else session.string("pty_reason")
    lesson = Lesson(
        number=int(match[1]),
        folder=folder,
        id=table.string("id"),
        title=table.string("title"),
        minutes=table.integer("minutes"),
        goal=table.string("goal"),
        product_files=table.strings("product_files"),
        tasks=tasks,
        superseded=superseded,
        wrong=wrong,
        product=table.boolean("product"),
        prompt=prompt,
        no_pty=no_pty,
    )
    table.done()
    if lesson.id != match[2]:
        raise CourseError(f"{where}: the id is {lesson.id!r}, but the folder says {match[2]!r}.")
    for kind, names in (("task", [task.id for task in tasks]), ("test", list(lesson.tests))):
        for name in names:
            if names.count(name) > 1:
                raise CourseError(f"{where}: two {kind}s are called {name!r}.")
    for name in lesson.tests:
        if not re.fullmatch(r"[\w./-]+\.py(::\w+)+", name):
            raise CourseError(f"{where}: {name!r} is not a test; write path.py::test_name.")
    return lesson


def _sections(text: str) -> Iterator[tuple[str, str, str]]:
    """The sections `##` and `###` of a Markdown text: mark, title, body; fenced lines are no headings."""
    mark, title, body, fenced = "", "", [], False
    for line in [*text.splitlines(), "## "]:
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else re.match(r"(##|###) +(.*)|## $", line)
        if heading is None:
            body.append(line)
            continue
        if mark:
            yield mark, title, "\n".join(body).strip()
        mark, title, body = heading[1] or "##", (heading[2] or "").strip(), []
