"""What a lesson's text says is checked: snippets stand in the tag's files, commands run, nothing is missing.

The info string of a fenced block says what it is: the language, then words. `title=context.py`: it stands in
that file; `at=article-01-start`: at another tag; `sketch`: in no file; `norun="needs a key"`: it is not run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

SECTIONS = ("Goal", "Why", "Walk-through", "Run it", "Break it", "What you see", "Recap")
"""Headings that every lesson has, in this order; others may stand between."""
SHELLS = ("sh", "bash", "shell")
_ELSEWHERE = ("make", "cd")  # these are about the clone, or about the learner's own shell


@dataclass(slots=True)
class Block:
    """A fenced block: language, `key=value` words (a bare word is a key with an empty value), lines."""

    line: int
    language: str
    words: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        """Where it stands."""
        return f"README.md:{self.line}"


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text."""
    block, fence, indent = None, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        opened = re.match(r"( *)(`{3,})([^`]*)$", line)
        if block is not None:
            if opened and opened[2].startswith(fence) and not opened[3].strip():
                yield block
                block = None
            else:
                block.lines.append(line[indent:] if not line[:indent].strip() else line)
        elif opened:
            language, *words = shlex.split(opened[3]) or [""]
            pairs = (word.partition("=") for word in words)
            block = Block(number, language, {key: value for key, _, value in pairs})
            fence, indent = opened[2], len(opened[1])
    if block is not None:
        yield block


def headings(text: str) -> list[str]:
    """The second-level headings of a Markdown text."""
    return [line[3:].strip() for _, line in _prose(text) if line.startswith("## ")]


def missing_sections(text: str) -> list[str]:
    """Sections that are missing; all of them when they are out of order."""
    there = [name for name in headings(text) if name in SECTIONS]
    return [name for name in SECTIONS if name not in there] or ([] if there == [*SECTIONS] else [*SECTIONS])


def pieces(lines: list[str], mark: str = "...") -> list[list[str]]:
    """The parts of a snippet between lines that leave something out."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == mark:
            parts.append([])
        else:
            parts[-1].append(line)
    return [part for part in parts if any(line.strip() for line in part)]


def found_in(snippet: list[str], text: str) -> bool:
    """Whether a snippet stands in a file: its parts in order, as they are but for a common indentation."""
    lines, at = text.splitlines(), 0
    for part in pieces(snippet):
        while part and not part[0].strip():
            part.pop(0)
        while part and not part[-1].strip():
            part.pop()
        starts = (start for start in range(at, len(lines) - len(part) + 1) if _matches(part, lines, start))
        found = next(starts, None)
        if found is None:
            return False
        at = found + len(part)
    return True


def _matches(part: list[str], lines: list[str], start: int) -> bool:
    first = lines[start]
    if not first.endswith(part[0]) or first[: len(first) - len(part[0])].strip():
        return False
    indent = first[: len(first) - len(part[0])]
    return all(
        line.rstrip() == (indent + wanted).rstrip()
        for wanted, line in zip(part, lines[start : start + len(part)], strict=True)
    )


def same_output(expected: list[str], actual: str) -> bool:
    """Whether a command printed what the text shows; a line `...` stands for any lines."""
    lines = [line.rstrip() for line in actual.splitlines()]
    wanted = [line.rstrip() for line in expected]

    def fits(left: int, right: int) -> bool:
        if left == len(wanted):
            return right == len(lines)
        if wanted[left] == "...":
            return any(fits(left + 1, each) for each in range(right, len(lines) + 1))
        return right < len(lines) and wanted[left] == lines[right] and fits(left + 1, right + 1)

    return fits(0, 0)


def script(lines: list[str]) -> tuple[str, list[str]]:
    """A block of commands as a script that stops at the first failure, and its lines that are not run.

    `# exit N` at the end of a line says that the command is to end so. Not run are the course's own commands,
    which need a learner's repository, and what is about the clone.
    """
    running, aside = ["set -e"], []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        stripped = line.strip()
        if is_course(stripped) or stripped.split(" ")[0] in _ELSEWHERE:
            aside.append(stripped)
        elif code := re.search(r"# exit (\d+)$", stripped):
            running += ["set +e", line, f'[ "$?" -eq {code[1]} ] || exit 99', "set -e"]
        else:
            running.append(line)
    return "\n".join(running) + "\n", aside


def is_course(command: str) -> bool:
    """Whether a line runs a command of the course, alone or behind a pipe."""
    return course_command(command) is not None


def course_command(line: str) -> list[str] | None:
    """The words of the course's command in a line, None when there is none."""
    try:
        words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
    except ValueError:  # half of a quoted text, which is no command
        return None
    for at in range(len(words)):
        if words[at] == "./course" or words[at : at + 3] == ["python", "-m", "lessons"]:
            ends = [end for end in range(at, len(words)) if set(words[end]) <= set("|;&<>()")]
            return words[at : ends[0] if ends else None]
    return None


def conversations(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with the output that is shown."""
    command, output = "", list[str]()
    for line in [*lines, "$ "]:
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = line[2:].strip(), []
        else:
            output.append(line)


def check_blocks(
    text: str,
    tag: str,
    show: Callable[[str, str], str | None],
    run: Callable[[str, str], tuple[int, str]],
    known: Callable[[list[str]], bool],
) -> Iterator[str]:
    """What is wrong with the fenced blocks of a lesson, and with commands of the course in its prose.

    Args:
        text: the lesson.
        tag: the tag that a block is about unless it says `at=TAG`.
        show: the text of a file at a tag, None when it has none.
        run: runs a command at a tag; exit code and output.
        known: whether the course has a command with these arguments.
    """
    for number, line in _prose(text):
        for command in re.findall(r"`(\./course[^`]*)`", line):
            if not known(shlex.split(command)):
                yield f"README.md:{number}: `{command}` is no command of the course"
    for block in blocks(text):
        at = block.words.get("at", tag)
        for word in block.words.keys() - {"title", "at", "sketch", "norun"}:
            yield f"{block.where}: the word {word!r} after the language is not known"
        if title := block.words.get("title"):
            content = show(at, title)
            if content is None:
                yield f"{block.where}: {at} has no file {title}"
            elif not found_in(block.lines, content):
                yield f"{block.where}: this is not in {title} at {at}"
        elif block.language == "python" and "sketch" not in block.words:
            yield f"{block.where}: a block of Python says where it stands (title=FILE) or that it is a sketch"
        if "norun" in block.words:
            if not block.words["norun"]:
                yield f'{block.where}: norun needs a reason: norun="..."'
        elif block.language in SHELLS:
            yield from _check_script(block, at, run, known)
        elif block.language == "console":
            for command, output in conversations(block.lines):
                code, printed = run(at, command)
                if code not in (0, 1) or not same_output(output, printed):
                    yield f"{block.where}: `{command}` (exit {code}) prints:\n{printed.rstrip()}"


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced blocks, with their numbers."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        if not fence and not fenced:
            yield number, line
        fenced ^= fence


def _check_script(
    block: Block, at: str, run: Callable[[str, str], tuple[int, str]], known: Callable[[list[str]], bool]
) -> Iterator[str]:
    commands, aside = script(block.lines)
    for line in aside:
        words = course_command(line)
        if words is not None and not known(words):
            yield f"{block.where}: `{line}` is no command of the course"
    code, printed = run(at, commands)
    if code:
        last = (printed.strip().splitlines() or ["nothing was printed"])[-1]
        yield f"{block.where}: a command failed (exit {code}): {last}"
