"""What a word is, for searching: splitting text in any script, queries, marks and snippets.

Covered here: pure functions on text. Not covered: the index and the ranking (`search.py`).

Full-text tokenizers take a Chinese sentence for one word, or need three characters at least. So text is
split here: a run of letters and digits is a word; so is every single character of a script that writes
without blanks, and every symbol (+, €, 🙂). What is written without a blank in the query must stand side
by side in the text, which makes 你好, POL-358 and 20.04 phrases.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

MAX_WORDS = 64
"""Words of a query that count; a pasted page would otherwise be one endless query."""

SNIPPET_LENGTH = 160
"""Characters of a snippet, without its ellipses."""

SYMBOLS = "$+<=>^`|~"
"""The ASCII characters of Unicode's category S; each is a word of its own."""

# Scripts written without blanks between words (and Hangul, whose particles stick to the word): radicals
# and ideographs, kana, bopomofo, Yi, Hangul, Thai, Lao, Tibetan, Burmese, Khmer. Unicode block names.
_NO_BLANKS = (
    "\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u318f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_ALONE = re.compile(f"[{_NO_BLANKS}]")
_RUNS = re.compile(rf"[a-zA-Z0-9\u0080-\U0010ffff]+|[{re.escape(SYMBOLS)}]")


class Word(NamedTuple):
    """A word as it is compared, and where it stands in the text."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand side by side; with `prefix` the last one may go on ("deploy" finds "deployed")."""

    words: tuple[str, ...]
    prefix: bool = False


def split_words(text: str) -> Iterator[Word]:
    """The words of a text. Case, accents and the width of a character make no difference."""
    for run in _RUNS.finditer(text):
        piece = run.group()
        if piece.isascii():
            yield Word(piece.lower(), run.start(), run.end())
        else:
            yield from _split_run(piece, run.start())


def joined_words(text: str) -> str:
    """The words of a text between blanks, without their places: what the index is fed, and faster."""
    words: list[str] = []
    for run in _RUNS.findall(text):
        if run.isascii():
            words.append(run.lower())
        else:
            words.extend(found.word for found in _split_run(run, 0))
    return " ".join(words)


def _split_run(run: str, offset: int) -> Iterator[Word]:
    word, start = "", 0
    position = 0
    while position < len(run):
        end = position + 1
        while end < len(run) and _continues(run[end]):
            end += 1
        kind, folded = _fold(run[position:end])
        if kind != "letter" and word:
            yield Word(word, offset + start, offset + position)
            word = ""
        if kind == "letter":
            start = start if word else position
            word += folded
        elif kind == "alone" and folded:
            yield Word(folded, offset + position, offset + end)
        position = end
    if word:
        yield Word(word, offset + start, offset + len(run))


@lru_cache(maxsize=4096)
def _continues(character: str) -> bool:
    """Whether a character belongs to the one before: an accent, a vowel sign, the end of a syllable."""
    return unicodedata.category(character)[0] == "M" or "\u1160" <= character <= "\u11ff" or character in "ﾞﾟ"


@lru_cache(maxsize=16384)
def _fold(cluster: str) -> tuple[str, str]:
    """What kind of character this is (letter, alone, nothing), and the form in which it is compared."""
    if _ALONE.match(cluster) and unicodedata.category(cluster[0])[0] in "LNM":
        return "alone", unicodedata.normalize("NFKC", cluster).casefold().strip()
    category = unicodedata.category(cluster[0])
    kind = "S" if category in {"Cn", "Co"} else category[0]  # unassigned: an emoji newer than this Python
    if kind not in "LNS":
        return "nothing", ""
    plain = "".join(c for c in unicodedata.normalize("NFKD", cluster) if unicodedata.category(c)[0] != "M")
    return "alone" if kind == "S" else "letter", plain.casefold().strip()


def parse_query(query: str) -> list[Phrase]:
    """The phrases of a query: one for each piece between blanks that has words in it. Never raises."""
    phrases, left = [], MAX_WORDS
    for piece in query.split():
        words = tuple(found.word for found, _ in zip(split_words(piece), range(left), strict=False))
        left -= len(words)
        if words:
            phrases.append(_phrase(words))
        if not left:
            break
    return phrases


def loosen(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Smaller phrases for a second attempt, of which one is enough: single words, pairs of ideographs.

    A piece with a digit (POL-358, 20.04) names one thing and stays whole.
    """
    loose: dict[Phrase, None] = {}
    for phrase in phrases:
        if any(word.isdigit() for word in phrase.words) and not any(map(_ALONE.match, phrase.words)):
            loose[phrase] = None
            continue
        words = phrase.words
        for index, word in enumerate(words):
            follower = words[index + 1] if index + 1 < len(words) else ""
            if not _ALONE.match(word):
                if len(words) == 1 or len(word) > 1:
                    loose[_phrase((word,))] = None
            elif follower and _ALONE.match(follower):
                loose[Phrase((word, follower))] = None
            elif index == 0 or not _ALONE.match(words[index - 1]):
                loose[Phrase((word,))] = None
    return list(loose)


def _phrase(words: tuple[str, ...]) -> Phrase:
    prefix = len(words) == 1 and len(words[0]) > 2 and words[0].isalpha() and not _ALONE.match(words[0])
    return Phrase(words, prefix)


def find_marks(text: str, phrases: Sequence[Phrase]) -> list[tuple[int, int]]:
    """Where the phrases stand in a text: (start, end) pairs in order, without overlaps."""
    words = list(split_words(text))
    marks: list[tuple[int, int]] = []
    for index, word in enumerate(words):
        for phrase in phrases:
            span = words[index : index + len(phrase.words)]
            *heads, last = phrase.words
            if len(span) < len(phrase.words) or [found.word for found in span[:-1]] != heads:
                continue
            if span[-1].word == last or (phrase.prefix and span[-1].word.startswith(last)):
                if marks and word.start <= marks[-1][1]:
                    marks[-1] = (marks[-1][0], max(marks[-1][1], span[-1].end))
                else:
                    marks.append((word.start, span[-1].end))
    return marks


def make_snippet(text: str, phrases: Sequence[Phrase]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The part of a text with the most matches, on one line, and where the matches stand in it."""
    marks = find_marks(text, phrases)
    best, most = 0, 0
    for start, _ in marks:
        inside = sum(start <= other < start + SNIPPET_LENGTH for other, _ in marks)
        if inside > most:
            best, most = start, inside
    begin = max(0, min(best - SNIPPET_LENGTH // 4, len(text) - SNIPPET_LENGTH))
    end = min(len(text), begin + SNIPPET_LENGTH)
    before, after = "…" if begin else "", "…" if end < len(text) else ""
    line = "".join(" " if character.isspace() else character for character in text[begin:end])
    shift = len(before) - begin
    inside_marks = tuple(
        (max(start, begin) + shift, min(stop, end) + shift)
        for start, stop in marks
        if start < end and stop > begin
    )
    return before + line + after, inside_marks
