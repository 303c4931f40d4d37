"""The commands of the course: a learner's as `./course ...` in their repository, an author's in the clone."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (whoever has an older Python must read this and no traceback)
    sys.exit("The course needs Python 3.11 or newer; in the clone type: make lessons PYTHON=python3.11")

import argparse
import os
from pathlib import Path

from lessons import CourseError, learner
from lessons.cli import clone_parser, learner_parser, split
from lessons.lesson import Course
from lessons.workspace import Workspace

CLONE = Path(__file__).resolve().parent.parent
"""The clone that this module lies in."""


def in_repository(options: argparse.Namespace, arguments: list[str]) -> int:
    """Run a learner's command."""
    work = Workspace(options.repository)
    if options.command == "read" and options.lesson == "glossary":
        return learner.read(work.course.root / "GLOSSARY.md")
    named = work.course.numbered(options.lesson) if getattr(options, "lesson", None) else None
    match options.command:
        case "read":
            return learner.read((named or work.current()).folder / "README.md")
        case "check":
            return learner.run_check(work, watch=options.watch, everything=options.all)
        case "hint":
            return learner.hint(work)
        case "chat":
            return learner.chat(work, named, arguments)
        case "diff":
            return learner.diff(work)
        case "show":
            return learner.show(work, named or work.current())
        case "solution":
            return learner.solution(work, named or work.current())
        case "next":
            return learner.next_lesson(work, skip=options.skip)
        case "goto":
            return learner.goto(work, named or work.current())
        case "reset":
            return learner.reset(work)
        case "quiz":
            return learner.take_quiz(work, named or work.current())
        case "progress":
            return learner.progress(work)
        case "doctor":
            return learner.doctor(work)
        case "update":
            return learner.take_edition(work)
    return learner.show_status(work)


def in_clone(options: argparse.Namespace) -> int:
    """Run a command of the clone."""
    if options.command is None:
        return learner.where_am_i(CLONE)
    if options.command == "start":
        return learner.begin(CLONE, options.folder)
    from lessons import author  # the proofs and all that they need; a learner waits for nothing

    return author.run(options, CLONE, Course(CLONE / "lessons"))


def main(arguments: list[str]) -> int:
    """Run a command; whatever goes wrong is one sentence on stderr and exit code 1."""
    try:
        if "--repository" in arguments[:1]:
            own, others = split(arguments)
            return in_repository(learner_parser("./course").parse_args(own), others)
        return in_clone(clone_parser().parse_args(arguments))
    except CourseError as error:
        print(error, file=sys.stderr)
    except BrokenPipeError:  # `./course read | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except PermissionError as error:
        print(f"{error.filename} cannot be written or read; look at who owns it.", file=sys.stderr)
    except OSError as error:
        print(f"{error.filename or 'The disk'}: {error.strerror}.", file=sys.stderr)
    except KeyboardInterrupt:
        print()
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
