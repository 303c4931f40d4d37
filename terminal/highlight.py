"""Colors for one line of code at a time.

A line of code is printed for good when it is complete, long before its block is, so it is colored by what
stands above it: the lines before it are read again with it, up to `MEMORY` of them. The colors of a line
therefore never depend on what follows, nor on how the text arrived.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from terminal.cells import Line, Span, merged, plain

MEMORY = 80
"""Lines that are read again at most to color one; keeps the cost of a line constant in a long block."""
LONGEST_LINE = 1000
"""Characters in a line above which it is left plain: nobody reads it, and it would be slow."""

# By the first name that fits, from the token's own kind up to its ancestors (pygments.token).
_STYLES = {
    "Comment.Preproc": "magenta",
    "Comment": "dim italic",
    "Keyword.Constant": "cyan",
    "Keyword": "magenta",
    "Operator.Word": "magenta",
    "Literal.String": "green",
    "Literal.Number": "cyan",
    "Name.Function": "blue",
    "Name.Class": "blue",
    "Name.Tag": "blue",
    "Name.Decorator": "blue",
    "Name.Builtin": "cyan",
    "Name.Attribute": "cyan",
    "Name.Variable": "cyan",
    "Generic.Deleted": "red",
    "Generic.Inserted": "green",
    "Generic.Heading": "bold",
    "Generic.Subheading": "bold",
    "Generic.Prompt": "dim",
}


class Highlighter:
    """The colors of one block of code. `line` is called with each complete line, in order."""

    def __init__(self, language: str) -> None:
        self._lexer = _lexer(language.lower())
        self._above: list[str] = []

    def line(self, text: str) -> Line:
        """Returns the line as styled spans; without a known language as it is."""
        if self._lexer is None or not text.strip() or len(text) > LONGEST_LINE:
            self._remember(text if len(text) <= LONGEST_LINE else "")
            return [Span(text)]
        lines: list[Line] = [[]]
        for kind, value in self._lexer.get_tokens("\n".join([*self._above, text])):
            first, *further = value.split("\n")
            lines[-1].append(Span(first, _style(str(kind))))
            lines += [[Span(piece, _style(str(kind)))] for piece in further]
        line = merged(lines[len(self._above)]) if len(lines) > len(self._above) else []
        self._remember(text)
        # A lexer may drop or change characters; what the model wrote goes before its colors.
        return line if plain(line) == text else [Span(text)]

    def _remember(self, text: str) -> None:
        self._above.append(text)
        if len(self._above) >= MEMORY:  # the first line stays: it may be `<?php`
            del self._above[1 : MEMORY // 2]


@cache
def _lexer(language: str) -> Any:  # pygments comes without types
    if not language:
        return None
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None


@cache
def _style(kind: str) -> str:
    name = kind.removeprefix("Token").removeprefix(".")
    while name:
        if name in _STYLES:
            return _STYLES[name]
        name = name.rpartition(".")[0]
    return ""
