"""Bold, code and links inside a line of Markdown, and where a growing line can no longer change its look.

The parsing itself is markdown-it's (CommonMark 0.31 with strikethrough). What models write is not always
meant as CommonMark, so three things differ: a backslash before a bracket stays (it begins a formula), HTML is
text except for `<br>`, and a link shows its address. Blocks (lists, code, tables) are in `markdown.py`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from terminal.cells import Line, Span
from terminal.safe import safe

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LONGEST_WAIT = 400
"""Characters after which an opening `*`, backtick or bracket that was never closed is taken as plain text."""

_MARKUP = re.compile(r"[\\`*_~\[\]<&!]")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_FORMULA = frozenset("()[]{},;!$ ")


def inline(text: str, *, keep_marks: bool = False) -> Line:
    r"""Returns `text` as styled spans; "\n" in a span is a line break.

    `keep_marks` leaves the backticks around code, for where it has no color to tell it from the rest.
    """
    if not _MARKUP.search(text):
        return [Span(text)]
    line: Line = []
    styles: list[str] = []
    link = ""
    for token in _parser().parseInline(text)[0].children or []:
        style = " ".join(styles)
        match token.type:
            case "text":
                line.append(Span(_BREAK.sub("\n", _text(token.content)), style))
            case "text_special":  # an escaped character, or an entity such as &amp;
                keep = token.info == "escape" and token.content in _FORMULA
                line.append(Span(_text(token.markup if keep else token.content), style))
            case "code_inline":
                mark = "`" if keep_marks else ""
                line.append(Span(f"{mark}{token.content}{mark}", f"{style} cyan".strip()))
            case "softbreak" | "hardbreak":
                line.append(Span("\n"))
            case "strong_open" | "em_open" | "s_open":
                styles.append({"strong_open": "bold", "em_open": "italic", "s_open": "strike"}[token.type])
            case "link_open":
                link = _text(str(token.attrs.get("href", "")))
                styles.append("underline")
                begin = len(line)
            case "link_close":
                styles.pop()
                shown = "".join(span.text for span in line[begin:])
                if link and shown not in {link, link.removeprefix("mailto:")}:
                    line.append(Span(f" ({link})", " ".join([*styles, "dim"])))
            case "strong_close" | "em_close" | "s_close":
                styles.pop()
            case "image":
                line.append(
                    Span(f"[image: {_text(token.content)}] ({_text(str(token.attrs.get('src', '')))})", style)
                )
            case _:
                line.append(Span(_text(token.content), style))
    return line


def _text(text: str) -> str:
    # An entity such as &#8238; can spell what was taken out of the source.
    return " ".join(safe(text).split("\n"))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # 50 ms: not needed before the first prompt

    class Parser(MarkdownIt):
        """Shows addresses as they were written; nothing here follows a link."""

        def normalizeLink(self, url: str) -> str:  # noqa: N802 - markdown-it's name
            return url

        def normalizeLinkText(self, link: str) -> str:  # noqa: N802 - markdown-it's name
            return link

        def validateLink(self, url: str) -> bool:  # noqa: N802 - markdown-it's name
            return bool(url)

    parser = Parser("commonmark").enable("strikethrough")
    # text_join would merge escaped characters into the text, and which was which could no longer be told.
    parser.disable(["html_inline", "text_join"])
    return parser


def settled(text: str, start: int = 0) -> int | None:
    """Returns the end of the first stretch from `start` on whose look no later text can change, or None.

    A stretch ends with a blank or newline at which no emphasis, code or bracket is open. The answer depends
    only on the text up to that blank, so a text is split in the same places however it arrives. After
    `LONGEST_WAIT` characters a stretch ends in any case, at its last blank or, without one, right there.
    """
    window = text[start : start + LONGEST_WAIT]
    open_marks: list[str] = []
    code = ""  # the run of backticks that is open
    index, last_blank = 0, 0
    while index < len(window):
        char = window[index]
        if char in " \n":
            last_blank = index + 1
            if not open_marks and not code:
                return start + last_blank
        run = _run(window, index)
        if char == "`":
            ticks = window[index : index + run]
            code = "" if code == ticks else code or ticks
        elif code:
            pass
        elif char == "\\":
            run = 2
        elif char == "[":
            open_marks += "[" * run
        elif char == "]" and "[" in open_marks:
            del open_marks[_last(open_marks, "[") :]
            if window[index + 1 : index + 2] == "(":
                open_marks.append("(")
                run = 2
            else:
                run = 1
        elif char == ")" and "(" in open_marks:
            del open_marks[_last(open_marks, "(") :]
            run = 1
        elif char in "*_" or (char == "~" and run == 2):
            _delimiter(
                open_marks, char, run, window[index - 1 : index] or " ", window[index + run : index + run + 1]
            )
        index += run if char not in " \n" else 1
    if len(window) == LONGEST_WAIT:
        return start + (last_blank or LONGEST_WAIT)
    return None


def _run(text: str, index: int) -> int:
    end = index
    while end < len(text) and text[end] == text[index]:
        end += 1
    return end - index


def _last(marks: list[str], mark: str) -> int:
    return len(marks) - 1 - marks[::-1].index(mark)


def _delimiter(open_marks: list[str], char: str, run: int, before: str, after: str) -> None:
    """Closes or opens emphasis at a run of `*`, `_` or `~~` (CommonMark, "left-flanking delimiter run")."""
    can_open = not (after or " ").isspace() and (after.isalnum() or not before.isalnum())
    can_close = not before.isspace() and (before.isalnum() or not after.isalnum())
    if char == "_":  # not inside a word
        can_open, can_close = can_open and not before.isalnum(), can_close and not after.isalnum()
    if can_close:
        while run and char in open_marks:
            del open_marks[_last(open_marks, char) :]
            run -= 1
    if can_open:
        open_marks += char * run
