"""How far a learner is: a small file in the `.git` of their repository, by lesson and task id."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from lessons import CourseError
from lessons.lesson import Course, Lesson

FORMAT = 1
"""Raised when an older file can no longer be read."""


@dataclass(slots=True)
class State:
    """What is remembered between two commands."""

    clone: str
    """Where the clone is that runs the commands."""
    edition: str
    """Of the texts and tags that this repository holds."""
    lesson: str = ""
    """Where the learner was last; the branch decides, this is for a branch that says nothing."""
    done: list[str] = field(default_factory=list)
    """Tasks whose tests all passed once: `lesson id/task id`; a lesson without tasks is `lesson id/`."""
    hints: dict[str, int] = field(default_factory=dict)
    """How many hints of a task were shown."""
    quiz: dict[str, int] = field(default_factory=dict)
    """Right answers at the best try, by lesson."""
    shown: list[str] = field(default_factory=list)
    """Lessons whose solution was taken over."""
    format: int = FORMAT

    @classmethod
    def load(cls, path: Path) -> State:
        """Read it.

        Raises:
            CourseError: it cannot be read.
        """
        try:
            values = json.loads(path.read_text("utf-8"))
            known = {each.name for each in fields(cls)}
            return cls(**{name: value for name, value in values.items() if name in known})
        except (OSError, ValueError, TypeError, AttributeError):
            again = f"python -m lessons start {path.parents[2]}"
            raise CourseError(f"{path} cannot be read; remove it, and in the clone type: {again}") from None

    def store(self, path: Path) -> None:
        """Write it so that a crash leaves the old one or the new one."""
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def finish(self, key: str) -> None:
        """Note that a task is done; it stays so."""
        if key not in self.done:
            self.done.append(key)

    def finished(self, lesson: Lesson) -> int:
        """How many goals of a lesson are done."""
        return sum(key in self.done for key in goals(lesson))

    def percent(self, course: Course) -> int:
        """How much of the course is done, rounded down: 100 means all of it."""
        total = sum(len(goals(lesson)) for lesson in course)
        return 100 * sum(self.finished(lesson) for lesson in course) // total if total else 0


def goals(lesson: Lesson) -> list[str]:
    """What there is to do in a lesson: its tasks, or the lesson itself when it has none."""
    return [lesson.key(task) for task in lesson.tasks] or [f"{lesson.id}/"]
