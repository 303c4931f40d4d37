"""How many columns a text takes; styled spans, cutting and wrapping.

Terminals disagree about emoji that are built of several characters. Every count here is the larger of the
common answers, because a line that turns out short does no harm, while one that turns out too long wraps.
Text is expected to have gone through `safe` before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from wcwidth import wcwidth


class Span(NamedTuple):
    """A piece of text in one style. A style is a set of names, in a string: "bold red"; see `screen.SGR`."""

    text: str
    style: str = ""


Line = list[Span]


class Word(NamedTuple):
    """What wrapping never breaks. `glued`: no blank stands before it, as within Chinese text."""

    spans: tuple[Span, ...]
    width: int
    glued: bool = False


@lru_cache(maxsize=4096)
def _char_cells(char: str) -> int:
    return max(0, wcwidth(char))


def cells(text: str) -> int:
    """Returns the columns that `text` may take: two for each East Asian character or emoji."""
    if text.isascii():
        return len(text)
    total = sum(map(_char_cells, text))
    if "\ufe0f" in text:  # it asks for the emoji form of the character before it, which is two columns wide
        total += sum(char == "\ufe0f" and _char_cells(before) == 1 for before, char in pairwise(text))
    return total


def line_cells(line: Iterable[Span]) -> int:
    """Returns the columns that a styled line may take."""
    return sum(cells(span.text) for span in line)


def plain(line: Iterable[Span]) -> str:
    """Returns the text of a styled line."""
    return "".join(span.text for span in line)


def clip(text: str, width: int, mark: str = "…") -> str:
    """Returns `text`, cut to at most `width` columns, with `mark` where something is missing."""
    if len(text) <= width and cells(text) <= width:
        return text
    room = width - cells(mark)
    if room < 0:
        return ""
    end = used = 0
    for cluster in clusters(text[: 4 * width + 16]):
        used += cells(cluster)
        if used > room:
            break
        end += len(cluster)
    return text[:end].rstrip() + mark


def clip_line(line: Line, width: int, mark: str = "…") -> Line:
    """Like `clip`, for a styled line."""
    if line_cells(line) <= width:
        return line
    result: Line = []
    room = width - cells(mark)
    if room < 0:
        return result
    for span in line:
        size = cells(span.text)
        if size > room:
            cut = clip(span.text, room, "")
            result.append(Span(cut, span.style))
            break
        result.append(span)
        room -= size
    return [*result, Span(mark, line[-1].style)]


def clusters(text: str) -> Iterator[str]:
    """Splits into what stays together: a character with its marks and skin tone, a flag's two letters."""
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or not _sticks(text[index - 1], text[index], index - start):
            yield text[start:index]
            start = index


def _sticks(before: str, char: str, length: int) -> bool:
    if char.isascii() and before.isascii():
        return False
    code = ord(char)
    if 0x1F1E6 <= code <= 0x1F1FF:  # regional indicators make a flag in pairs
        return length == 1 and 0x1F1E6 <= ord(before) <= 0x1F1FF
    return before == "\u200d" or _char_cells(char) == 0 or 0x1F3FB <= code <= 0x1F3FF


# East Asian text is broken between any two characters, but no line begins or ends with these (JIS X 4051).
_NOT_FIRST = frozenset(
    "、。，．・：；？！）］｝」』】〉》〕’”…ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ,.!?:;)]}"
)
_NOT_LAST = frozenset("（［｛「『【〈《〔‘“([{")


def words(line: Iterable[Span]) -> Iterator[Word | None]:
    """Splits a styled text at its blanks (and within East Asian text); None stands for a newline."""
    spans: list[Span] = []
    glued = False

    def done() -> Iterator[Word]:
        if spans:
            yield Word(tuple(spans), line_cells(spans), glued)
            spans.clear()

    for text, style in line:
        begin = 0
        for index, char in enumerate(text):
            if char.isspace() and char != "\xa0":  # a no-break space is part of its word
                if index > begin:
                    spans.append(Span(text[begin:index], style))
                yield from done()
                glued = False
                begin = index + 1
                if char == "\n":
                    yield None
            elif not char.isascii() or (index > begin and not text[index - 1].isascii()):
                before = text[index - 1] if index > begin else spans[-1].text[-1] if spans else ""
                if before and _may_break(before, char):
                    if index > begin:
                        spans.append(Span(text[begin:index], style))
                    yield from done()
                    glued = True
                    begin = index
        if begin < len(text):
            spans.append(Span(text[begin:], style))
    yield from done()


def _may_break(before: str, char: str) -> bool:
    if _char_cells(before) < 2 and _char_cells(char) < 2:
        return False
    if char in _NOT_FIRST or before in _NOT_LAST:
        return False
    # A flag is kept whole by never breaking between two regional indicators.
    return not _sticks(before, char, 1)


class Wrapper:
    """Fills lines with words; a line is handed out once, when the next word does not fit into it.

    `first` and `rest` are put before the first and before the further lines (a bullet, the blanks below it).
    A word wider than the line stands on a line of its own and is left to the terminal, so that an address
    can still be copied in one piece.
    """

    def __init__(self, first: Line | None = None, rest: Line | None = None) -> None:
        self._prefix, self._rest = first or [], rest or []
        self._line: Line = []
        self._used = 0
        self._fresh = True  # nothing of the prefix was handed out yet

    def add(self, word: Word, width: int) -> Line | None:
        """Places a word; returns the line that it finished, if any."""
        room = max(1, width - line_cells(self._prefix))
        gap = 0 if word.glued or not self._line else 1
        finished = None
        if self._line and self._used + gap + word.width > room:
            finished = self.end()
            gap = 0
        if gap:
            # The blank takes part in what goes on around it: a link is underlined in one piece.
            same = self._line[-1].style == word.spans[0].style
            self._line.append(Span(" ", word.spans[0].style if same else ""))
        self._line.extend(word.spans)
        self._used += gap + word.width
        return finished

    def end(self) -> Line | None:
        """Ends the line; returns it, or None when nothing was on it."""
        if not self._line:
            return None
        line = merged([*self._prefix, *self._line])
        self._prefix, self._line, self._used, self._fresh = self._rest, [], 0, False
        return line

    def close(self) -> Line | None:
        """Ends the text; a prefix without any text still makes a line (an empty list item)."""
        return self.end() or (self._prefix if self._fresh and self._prefix else None)

    def copy(self) -> Wrapper:
        """Returns one that can be filled further without changing this one."""
        other = Wrapper(self._prefix, self._rest)
        other._line, other._used, other._fresh = list(self._line), self._used, self._fresh
        return other


def merged(line: Line) -> Line:
    """Joins neighbors of one style, so that the terminal gets no more sequences than it needs."""
    result: Line = []
    for span in line:
        if result and result[-1].style == span.style:
            result[-1] = Span(result[-1].text + span.text, span.style)
        elif span.text:
            result.append(span)
    return result


def wrap(line: Line, width: int, first: Line | None = None, rest: Line | None = None) -> list[Line]:
    """Returns `line`, broken at its blanks into lines of at most `width` columns, longer words excepted."""
    wrapper = Wrapper(first, rest)
    lines = [(wrapper.end() or []) if word is None else wrapper.add(word, width) for word in words(line)]
    return [line for line in [*lines, wrapper.close()] if line is not None]


def split_wide(line: Line, width: int) -> list[Line]:
    """Returns `line` cut hard into pieces of at most `width` columns, as a terminal would wrap it."""
    pieces: list[Line] = [[]]
    used = 0
    for text, style in line:
        for cluster in clusters(text):
            size = cells(cluster)
            if pieces[-1] and used + size > width:
                pieces.append([])
                used = 0
            pieces[-1].append(Span(cluster, style))
            used += size
    return [merged(piece) for piece in pieces]
