"""Markdown to look at: tables, code, lists and stories of any length, so that a person can see them rendered.

They mean nothing, and the same request gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

MOST = 2_000
"""Most rows, lines, items or paragraphs of one reply."""

_REQUEST = re.compile(
    r"(?is)^(?:(?:please|(?:can|could|would) you|now|ok|hey)[,\s]+)*"
    r"(?:show|write|list|print|tell|give|generate|make|create|draw|produce)\b(.*)$"
)
_PERSONAL = re.compile(r"(?i)\b(?:i|we|my|our|you know)\b")  # "list three things I said" asks for no sample
_WHO = (
    "A lighthouse keeper",
    "The old clockmaker",
    "A girl with a *red* kite",
    "The ferry captain",
    "A quiet librarian",
)
_DID = ("found", "lost", "mended", "wrote about", "could not forget", "counted", "gave away")
_WHAT = (
    "a brass key",
    "the **last** page",
    "seven paper boats",
    "an unsent letter",
    "the sound of rain",
    "a map",
)


def sample(request: str) -> str | None:
    """Return the Markdown that a request asks for ("write 150 lines of code"), or None."""
    asked = _REQUEST.match(request.strip()) if len(request) < 200 else None
    if not asked or _PERSONAL.search(asked[1]):
        return None
    kind = next((kind for kind in _KINDS if kind.pattern.search(asked[1])), None)
    if not kind:
        return None
    number = re.search(r"\d[\d,]{0,12}", asked[1])
    wanted = int(number[0].replace(",", "")) if number else kind.usual
    count = min(max(wanted, 1), MOST)
    limit = f" (I write {MOST:,} at most.)" if wanted > MOST else ""
    return f"Made up by the offline stand-in, {count:,} {kind.unit} to look at:{limit}\n\n{kind.write(count)}"


def _table(rows: int) -> str:
    head = "| no. | who | what | size |\n|---:|---|---|---:|\n"
    return head + "\n".join(
        f"| {row} | {_WHO[row % 5]} | {_WHAT[row % 6]} | {row * 37 % 101} |" for row in range(1, rows + 1)
    )


def _code(lines: int) -> str:
    written = [f"# line {number}" for number in range(1, lines % 4 + 1)]
    for number in range(1, lines // 4 + 1):
        written += [
            f"def step_{number}(value: int) -> int:",
            f'    """Add {number} to the value."""',
            f"    return value + {number}",
            "",
        ]
    return "```python\n" + "\n".join(written) + "\n```"


def _list(items: int) -> str:
    return "\n".join(f"{item}. {_sentence(item)}" for item in range(1, items + 1))


def _story(paragraphs: int) -> str:
    return "\n\n".join(
        " ".join(_sentence(day * 4 + part) for part in range(4)) + f" So ended day {day}."
        for day in range(1, paragraphs + 1)
    )


def _sentence(at: int) -> str:
    return f"{_WHO[at * 3 % 5]} {_DID[at * 5 % 7]} {_WHAT[(at * 5 + at // 7) % 6]}."


class _Kind(NamedTuple):
    """A kind of sample: how it is asked for, how many of what are usual, and who writes it."""

    pattern: re.Pattern[str]
    usual: int
    unit: str
    write: Callable[[int], str]


_KINDS = (
    _Kind(re.compile(r"(?i)\btable\b"), 5, "rows", _table),
    _Kind(re.compile(r"(?i)\b(?:code|program|python|function|script)\b"), 24, "lines of code", _code),
    _Kind(
        re.compile(r"(?i)\b(?:story|essay|tale|paragraphs?|long (?:text|reply))\b"), 12, "paragraphs", _story
    ),
    _Kind(
        re.compile(r"(?i)^\s*(?:me )?(?:a list|[\d,]+)\b|\b(?:items|bullets|numbers)\b"), 10, "items", _list
    ),
)
