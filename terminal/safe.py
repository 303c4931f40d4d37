"""Foreign text made harmless for a terminal.

Whatever comes from a model, a tool, a file, a server's error or a session title may carry sequences that move
the cursor, recolor the screen, set the window's title, write to the clipboard or reverse the reading order.
All of that is taken out here, and only here; letters, combining marks and emoji stay as they are.

What this does not do: it does not judge the meaning of a text, and it does not protect a model from it.
"""

from __future__ import annotations

import json
import re

# Control sequences as ECMA-48 (5th edition, sections 5.3-5.6) defines them, in their 7-bit form (ESC and a
# character) and their 8-bit form (one character from U+0080 to U+009F). The lengths are bounded so that a
# sequence that never ends can neither swallow a whole text nor hold back a stream for long.
_CSI = r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f\n]{0,4096}"  # OSC, DCS, SOS, PM, APC
_SHORT = r"\x1b[ -/]{0,8}"

_SEQUENCE = re.compile(rf"{_CSI}[@-~]|{_STRING}(?:\x07|\x1b\\|\x9c)|{_SHORT}[0-~]")
_UNFINISHED = re.compile(rf"(?:{_CSI}|{_STRING}\x1b?|{_SHORT}|\r)\Z")
_NEWLINE = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def _replacements() -> dict[int, str | None]:
    """What becomes of each single character that must not reach a terminal."""
    table: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(0x20)}  # ␀ ␇ ␛
    table[0x7F] = "␡"
    del table[0x09], table[0x0A]  # tab and newline are text
    table |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")  # 8-bit controls that began no sequence
    table |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")  # lone surrogates cannot be written
    # All of Bidi_Control (UAX #9): overrides can make a text read as something else than it is.
    table |= dict.fromkeys([0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
    # Invisible, and counted differently by every terminal: zero-width space, soft hyphen, word joiner, BOM,
    # annotation marks, and the tag characters that can hide a whole sentence. The zero-width joiner and
    # the variation selectors stay: emoji and several scripts are spelled with them.
    table |= dict.fromkeys([0xAD, 0x180E, 0x200B, *range(0x2060, 0x2066), 0xFEFF, *range(0xFFF9, 0xFFFC)])
    table |= dict.fromkeys(range(0xE0000, 0xE0080))
    return table


_TABLE = _replacements()


def safe(text: str) -> str:
    r"""Returns `text` with everything removed or made visible that a terminal would obey.

    Whole escape sequences vanish; what is left of a broken one, and every other control character, is shown
    as its picture (`␛`, `␇`). All line ends become `\n`; tabs stay. `safe(safe(text)) == safe(text)`.
    """
    return _SEQUENCE.sub("", _NEWLINE.sub("\n", text)).translate(_TABLE)


def visible_json(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    r"""JSON text in which whatever `safe` would take out stands as an escape (`\u200b`).

    It is still JSON of the same value.
    """
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if safe(text) == text:
        return text
    return "".join(char if safe(char) == char else json.dumps(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """Like `safe`, with every run of blanks and newlines made one space: for titles, arguments, errors."""
    return " ".join(safe(text).split())


class SafeStream:
    """`safe` for a text that arrives in pieces: a sequence that is cut between two pieces is still removed.

    However the text was cut, the pieces returned by `feed` and `close` join to `safe(the whole text)`.
    """

    def __init__(self) -> None:
        self._held = ""  # the beginning of what may become a sequence

    def feed(self, text: str) -> str:
        """Returns what of the text so far is certain; the rest waits for the next piece."""
        text = self._held + text
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished else len(text)
        self._held = text[end:]
        return safe(text[:end])

    def close(self) -> str:
        """Returns what was still waiting when the text ended."""
        held, self._held = self._held, ""
        return safe(held)
