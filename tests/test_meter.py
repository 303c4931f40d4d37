"""The meter, the toolbar and the compaction line: right at every width, and readable without color."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terminal.cells import Line, line_cells, plain
from terminal.meter import (
    Meter,
    Toolbar,
    bar,
    compaction_line,
    meter_line,
    shares,
    toolbar_line,
    waiting_line,
)
from terminal.screen import ASCII
from view import Compaction

METERS = st.builds(Meter, st.none() | st.integers(0, 10**7), st.integers(1, 10**7), st.integers(0, 999))
TITLES = st.text(st.sampled_from("plan 計画🎉👍🏽❤\ufe0f\u200d\n\t\x1b[31m\u202e"), max_size=30)


def test_the_meter_says() -> None:
    assert plain(meter_line(Meter(1234, 8000, 2), 80)) == "ctx≈ 1,234/8,000 (15%) · compact×2"
    assert plain(meter_line(Meter(1234, 8000, 2), 80, ASCII)) == "ctx~ 1,234/8,000 (15%) | compact x2"
    assert plain(meter_line(Meter(None, 8000), 80)) == "ctx≈ … · compact×0"


@pytest.mark.parametrize(
    ("tokens", "style", "word", "sign"),
    [
        (5599, "", "", ""),
        (5600, "yellow", "filling", "!"),
        (7200, "red", "nearly full", "!!"),
        (7999, "red", "nearly full", "!!"),
        (8000, "red", "over: compacts next", "!!"),
    ],
)
def test_color_never_says_it_alone(tokens: int, style: str, word: str, sign: str) -> None:
    """Yellow from 70 %, red from 90 %, and a word or a sign beside it."""
    line = meter_line(Meter(tokens, 8000), 80)
    assert line[0].style.split() == style.split()
    assert plain(line).split(") ")[-1].startswith(word)
    assert plain(meter_line(Meter(tokens, 8000), 24)).endswith(sign or ")")


def test_full_is_full() -> None:
    """The percentage is rounded down, so that 100 % is never said too early."""
    assert "(99%)" in plain(meter_line(Meter(7999, 8000), 80))
    assert "(104%)" in plain(meter_line(Meter(8320, 8000), 80))


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "gpt-4o-mini · ctx≈ 1,234/8,000 (15%) · compact×2 · 計画 🎉 trip · +a.py, b.md"),
        (66, "gpt-4o-mini · ctx≈ 1,234/8,000 (15%) · compact×2 · +a.py, b.md"),
        (60, "gpt-4o-mini · ctx≈ 1,234/8,000 (15%) · +a.py, b.md"),
        (48, "gpt-4o-mini · ctx≈ 1,234/8,000 (15%) · +2 files"),
        (40, "ctx≈ 1,234/8,000 (15%) · compact×2"),
        (30, "ctx≈ 1,234/8,000 (15%)"),
        (20, "ctx≈ 1,234/8,000"),
        (12, "ctx≈ 1k/8k"),
    ],
)
def test_what_gives_way_as_the_window_narrows(width: int, shown: str) -> None:
    toolbar = Toolbar(Meter(1234, 8000, 2), "gpt-4o-mini", "計画 🎉 trip", ["a.py", "b.md"])
    assert plain(toolbar_line(toolbar, width)) == shown


@given(METERS, TITLES, TITLES, st.lists(TITLES, max_size=4), st.integers(1, 120), st.booleans())
def test_the_toolbar_fits_and_is_one_safe_line(
    meter: Meter, model: str, title: str, files: list[str], width: int, ascii_only: bool
) -> None:
    glyphs = [ASCII] if ascii_only else []
    text = plain(toolbar_line(Toolbar(meter, model, title, files), width, *glyphs))
    assert line_cells(toolbar_line(Toolbar(meter, model, title, files), width, *glyphs)) <= width
    assert not set(text) & set("\n\t\x1b\u202e")
    if width >= 20:
        assert text.startswith("ctx") or " ctx" in text


@given(METERS, st.none() | METERS, st.text(max_size=80), st.floats(0, 10**5), st.integers(0, 120))
def test_the_waiting_line_fits(
    meter: Meter, other: Meter | None, what: str, seconds: float, width: int
) -> None:
    assert line_cells(meter_line(meter, width)) <= width
    assert line_cells(waiting_line(what, seconds, other, width)) <= width


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "waiting 3 s · Ctrl-C to stop · ctx≈ 1,234/8,000 (15%) · compact×2"),
        (60, "waiting 3 s · Ctrl-C to stop · ctx≈ 1,234/8,000 (15%)"),
        (40, "waiting 3 s · Ctrl-C to stop"),
        (25, "3 s · Ctrl-C to stop"),
        (18, "3 s · Ctrl-C"),
        (4, "3 s"),
    ],
)
def test_the_waiting_line_says(width: int, shown: str) -> None:
    assert plain(waiting_line("waiting", 3.2, Meter(1234, 8000, 2), width)) == shown


def test_long_waits_are_minutes() -> None:
    assert plain(waiting_line("", 185, None, 80)) == "3 min 5 s · Ctrl-C to stop"


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        pytest.param(
            Compaction(3, "summary", 8, 0, 0, 5120, 10, 7950, 2431, 180, 212),
            "compact×3 · dropped 8 turns (5,120 tokens) · summary 180 → 212 tokens · ctx≈ 7,950 → 2,431",
            id="summary",
        ),
        pytest.param(
            Compaction(1, "slide", 1, 0, 0, 1, 10, 8001, 8000),
            "compact×1 · dropped 1 turn (1 token) · ctx≈ 8,001 → 8,000",
            id="singular",
        ),
        pytest.param(
            Compaction(2, "slide", 0, 3, 1, 900, 1, 9000, 5000, note="kept 1 of 9 turns"),
            "compact×2 · dropped 3 steps (900 tokens) · shortened 1 result · ctx≈ 9,000 → 5,000"
            " · kept 1 of 9 turns",
            id="steps and results",
        ),
        pytest.param(
            Compaction(2, "slide", 2, 1, 2, 900, 1, 9000, 5000),
            "compact×2 · dropped 2 turns and 1 step (900 tokens) · shortened 2 results · ctx≈ 9,000 → 5,000",
            id="turns and steps",
        ),
        pytest.param(
            Compaction(
                4, "summary refused", 2, 0, 0, 900, 8, 9000, 5000, 180, 180, note="it was \x1b[31mempty"
            ),
            "compact×4 · dropped 2 turns (900 tokens) · summary refused · ctx≈ 9,000 → 5,000 · it was empty",
            id="refused",
        ),
        pytest.param(
            Compaction(1, "summary", 2, 0, 0, 900, 8, 9000, 5000, 0, 90),
            "compact×1 · dropped 2 turns (900 tokens) · summary 90 tokens · ctx≈ 9,000 → 5,000",
            id="first summary",
        ),
        pytest.param(
            Compaction(1, "summary resting", 0, 0, 0, 0, 8, 9000, 9000),
            "compact×1 · dropped nothing · summary resting · ctx≈ 9,000 → 9,000",
            id="nothing to drop",
        ),
    ],
)
def test_a_compaction_in_one_line(record: Compaction, shown: str) -> None:
    assert plain(compaction_line(record)) == shown


def test_a_compaction_in_ascii() -> None:
    record = Compaction(3, "summary", 8, 0, 0, 5120, 10, 7950, 2431, 180, 212)
    assert plain(compaction_line(record, ASCII)).isascii()


SECTIONS = st.lists(st.tuples(st.sampled_from("ITSFPWL"), st.integers(0, 9000), st.just("")), max_size=7)


@given(SECTIONS, st.integers(0, 20000), st.integers(7, 120))
def test_the_bar_is_as_wide_as_asked_and_hides_no_part(parts: Line, total: int, width: int) -> None:
    text = plain(bar(parts, total, width))
    assert len(text) == width
    assert {char for char, tokens, _ in parts if tokens} <= set(text)


def test_the_bar_shows_shares() -> None:
    parts = [("I", 1000, "blue"), ("W", 3000, "green"), ("L", 1, "red")]
    assert plain(bar(parts, 8000, 40)) == "I" * 5 + "W" * 15 + "L" + "." * 19


@given(st.lists(st.integers(0, 9000), max_size=7), st.integers(1, 20000))
def test_shares_add_up_to_what_the_meter_says(amounts: list[int], total: int) -> None:
    percent = shares(amounts, total)
    assert sum(percent) == Meter(sum(amounts), total).percent
    assert all(abs(100 * amount / total - share) <= 1 for amount, share in zip(amounts, percent, strict=True))
