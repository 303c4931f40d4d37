"""Foreign text: nothing that a terminal would obey gets through, everything else does."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terminal.safe import SafeStream, one_line, safe

HOSTILE = st.text(
    st.one_of(st.sampled_from("\x1b[]P0;m\x07\\\x9b\x9d\x9c\x90\r\n \x85a\u202e\u200d"), st.characters())
)


@given(HOSTILE)
def test_no_control_reaches_the_terminal(text: str) -> None:
    """No C0 or C1 control except newline and tab, no DEL, no bidi control, no surrogate."""
    result = safe(text)
    codes = set(map(ord, result)) - {0x0A, 0x09}
    assert not codes & {*range(0x20), *range(0x7F, 0xA0)}
    assert not codes & {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    result.encode("utf-8")


@given(HOSTILE)
def test_twice_is_once(text: str) -> None:
    assert safe(safe(text)) == safe(text)


@given(HOSTILE, st.lists(st.integers(0, 9)))
def test_a_stream_gives_what_the_whole_text_gives(text: str, sizes: list[int]) -> None:
    """However a text is cut into pieces, a sequence that spans two of them is still removed."""
    stream = SafeStream()
    bounds = list(itertools.accumulate([0, *sizes]))
    pieces = [text[a:b] for a, b in itertools.pairwise(bounds)] + [text[bounds[-1] :]]
    assert "".join(map(stream.feed, pieces)) + stream.close() == safe(text)


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        pytest.param("a\x1b[31mred\x1b[0m", "ared", id="color"),
        pytest.param("\x1b[2J\x1b[1;1H\x1b[?1049h.", ".", id="cursor and screen"),
        pytest.param("\x1b]0;title\x07.", ".", id="title, ended by BEL"),
        pytest.param("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", id="link, ended by ST"),
        pytest.param("\x1b]52;c;ZXZpbA==\x1b\\.", ".", id="clipboard"),
        pytest.param("\x1bP+q544e\x1b\\.", ".", id="DCS"),
        pytest.param("\x9b31mred\x9d0;t\x9c.", "red.", id="8-bit forms"),
        pytest.param("\x1bc\x1b(0.", ".", id="reset and character set"),
        pytest.param(
            "\x1b]never ends\nnext", "never ends\nnext", id="a string without an end stops at the line"
        ),
        pytest.param("\x1b\x1b[31m", "␛", id="a lone escape is shown"),
        pytest.param("bell\x07 nul\0 del\x7f", "bell␇ nul␀ del␡", id="controls are shown"),
        pytest.param(
            "50%\r100%\r\nnext\rlast\r", "50%\n100%\nnext\nlast\n", id="carriage returns overwrite nothing"
        ),
        pytest.param("a\x0bb\x0cc\x85d\u2028e\u2029f", "a\nb\nc\nd\ne\nf", id="every line end is a newline"),
        pytest.param("user\u202etxt.exe", "usertxt.exe", id="override"),
        pytest.param("a\u2066b\u2069c\u200fd", "abcd", id="isolates and marks"),
        pytest.param("in\u200bvis\ufeffib\u00adle\U000e0041", "invisible", id="invisible"),
        pytest.param("\ud83d \udc00", "\ufffd \ufffd", id="lone surrogates"),
        pytest.param(
            "👨\u200d👩\u200d👧 ❤\ufe0f नि e\u0301",
            "👨\u200d👩\u200d👧 ❤\ufe0f नि e\u0301",
            id="emoji and marks stay",
        ),
        pytest.param(
            "\ttab\n漢字 [bold]x[/x] :smile:", "\ttab\n漢字 [bold]x[/x] :smile:", id="markup is text"
        ),
    ],
)
def test_known_tricks(foreign: str, shown: str) -> None:
    assert safe(foreign) == shown


def test_a_sequence_without_end_holds_a_stream_back_only_so_long() -> None:
    """An opened string may not swallow a whole reply."""
    stream = SafeStream()
    assert "visible" in stream.feed("\x1b]" + "x" * 5000 + "visible")


def test_one_line_is_one_line() -> None:
    assert one_line(" a\x1b[1m \n\t b\r\nc ") == "a b c"
