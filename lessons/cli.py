"""What can be typed: a learner's commands as `./course ...` in their repository, an author's in the clone."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from pathlib import Path

from lessons import CourseError, learner
from lessons.lesson import PARTS, Course
from lessons.workspace import Workspace

CLONE = Path(__file__).resolve().parent.parent
"""The clone that this module lies in."""


def learner_parser(program: str) -> argparse.ArgumentParser:
    """The commands that work in a learner's repository."""
    parser = argparse.ArgumentParser(
        prog=program, description="Without a command: where you are and what to type next."
    )
    parser.add_argument("--repository", type=Path, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    read = commands.add_parser("read", help="the text of the lesson, or the glossary")
    read.add_argument("lesson", nargs="?", metavar="NN|glossary")
    check = commands.add_parser("check", help="what the program should do, one line each")
    check.add_argument(
        "-w", "--watch", action="store_true", help="again after every change, until all is well"
    )
    check.add_argument(
        "-a", "--all", action="store_true", help="details of every failure, not only of the first"
    )
    commands.add_parser("hint", help="the next hint; each says more")
    chat = commands.add_parser(
        "chat", help="run your program, or the reference of a lesson; after -- its own arguments"
    )
    chat.add_argument("lesson", nargs="?", metavar="NN")
    commands.add_parser("diff", help="your files beside the reference")
    commands.add_parser("show", help="goal, acceptance list and reference of a lesson").add_argument(
        "lesson", metavar="NN"
    )
    commands.add_parser("solution", help="put the reference into your files").add_argument(
        "lesson", metavar="NN"
    )
    commands.add_parser("next", help="go to the next lesson").add_argument(
        "--skip", action="store_true", help="also when tasks are open"
    )
    commands.add_parser("goto", help="go to a lesson").add_argument("lesson", metavar="NN")
    commands.add_parser("reset", help="begin the lesson anew; your work stays on a branch")
    commands.add_parser("quiz", help="questions about the lesson").add_argument(
        "lesson", nargs="?", metavar="NN"
    )
    commands.add_parser("progress", help="how far you are")
    commands.add_parser("doctor", help="look for what is wrong with machine or repository")
    commands.add_parser("update", help="take a new edition of the course; your branches stay")
    commands.add_parser("help", help="this list")
    return parser


def clone_parser() -> argparse.ArgumentParser:
    """The commands that work in the clone: the beginning of a course, and its making."""
    parser = argparse.ArgumentParser(
        prog="python -m lessons", description="Without a command: where you are and what to type next."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    begin = commands.add_parser("start", help="for learners: make your repository, beside the clone")
    begin.add_argument("folder", nargs="?", type=Path, metavar="DIR")
    edit = commands.add_parser("edit", help="for authors: open the code of a lesson")
    edit.add_argument("lesson", metavar="NN")
    edit.add_argument("part", nargs="?", choices=PARTS, default="solution")
    edit.add_argument(
        "--in", dest="folder", type=Path, metavar="DIR", help="where; beside the clone when left out"
    )
    save = commands.add_parser("save", help="replay the later lessons onto it and write the patches")
    how = save.add_mutually_exclusive_group()
    how.add_argument("--continue", dest="goes_on", action="store_true", help="after a conflict was mended")
    how.add_argument("--abort", action="store_true", help="give the replay up")
    save.add_argument("--keep-product", action="store_true", help="leave the product as it is")
    save.add_argument("--no-checks", action="store_true", help="do not prove the changed lessons")
    save.add_argument("--in", dest="folder", type=Path, metavar="DIR")
    take = commands.add_parser("import", help="write the patches of a history made elsewhere")
    take.add_argument("repository", type=Path, metavar="REPO")
    record = commands.add_parser("record", help="run the recorded sessions again and write what came out")
    record.add_argument("lesson", nargs="*", metavar="NN")
    prove = commands.add_parser("prove", help="check everything that can be checked of lessons")
    prove.add_argument("lesson", nargs="*", metavar="NN")
    build = commands.add_parser(
        "build", help="make the bare repository with all tags, and print their commits"
    )
    build.add_argument("folder", type=Path, metavar="DIR")
    return parser


def known(words: list[str]) -> bool:
    """Whether a line of a lesson is a command of the course; it is parsed and not run."""
    is_learners = words[0] == "./course"
    parser, arguments = (
        (learner_parser("./course"), words[1:]) if is_learners else (clone_parser(), words[3:])
    )
    arguments, _ = split(arguments)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            parser.parse_args(arguments)
        except SystemExit as left:
            return not left.code
    return True


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Arguments for the course, and after `--` those for the program that it runs."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


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
            parser = learner_parser("./course")
            options = parser.parse_args(own)
            if options.command == "help":
                parser.print_help()
                return 0
            return in_repository(options, others)
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
