"""Text for a person, filled to the width of the terminal. Code, tables and headings stay as they are."""

from __future__ import annotations

import re
import shutil
import textwrap

WIDEST = 100
"""Columns of a line at most: longer ones are hard to read, however wide the screen is."""

_MARK = re.compile(r" *(?:[-*] |\d+\. |[a-z]\) )?")


def width() -> int:
    """The columns of a line here."""
    return min(shutil.get_terminal_size().columns, WIDEST)


def fill(text: str) -> str:
    """Fill each line on its own; what goes on under a mark, as in `a) ...`, is indented like its text."""
    return "\n".join(map(_fill, text.split("\n")))


def _fill(line: str) -> str:
    mark = _MARK.match(line)
    indent = " " * (mark.end() if mark else 0)
    lines = textwrap.wrap(
        line, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def markdown(text: str) -> str:
    """Fill the paragraphs and list items of a Markdown text."""
    done: list[str] = []
    paragraph: list[str] = []
    code = False

    def flush() -> None:
        if paragraph:
            first, *rest = paragraph
            done.append(_fill(" ".join([first.rstrip(), *(each.strip() for each in rest)])))
            paragraph.clear()

    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        if code or is_fence or not line.strip() or line.startswith(("|", "#")):
            flush()
            done.append(line)
            code = code != is_fence
            continue
        if re.match(r" *(?:[-*] |\d+\. )", line):
            flush()
        paragraph.append(line)
    flush()
    return "\n".join(done)
