"""Streaming Markdown: finished lines come out once, and do not depend on how the text was cut."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terminal.cells import Line, Span, cells, clip, clusters, line_cells, plain, split_wide, wrap
from terminal.highlight import MEMORY, Highlighter
from terminal.inline import LONGEST_WAIT, inline, settled
from terminal.markdown import DECIDED, Markdown
from terminal.screen import Look

COLOR = Look(tty=True, style=True, color=True, cursor=True)
PIECES = [
    *("# h\n", "## two\n", "**", "*", "`", "``", "```\n", "```py\n", "~~~\n", "---\n", "~~", "_", "\\"),
    *("- ", "1. ", "  ", "    ", "   - ", "> ", ">> ", "\n", "\n\n", " ", "[x](", "[", ")", "](u)"),
    *("| a | b |\n", "|--|--|\n", "|---", "|", "&amp;", "<br>", "word ", "漢字かな。", "👍🏽", "x = 1\n"),
    *("a" * 50, "b " * 90, "c" * 170 + "\n", "long words here and ", "https://x.y/a_b"),
]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


def rendered(text: str, width: int = 40, sizes: tuple[int, ...] = (), look: Look = COLOR) -> list[Line]:
    """The lines of `text` when it arrives in pieces of these sizes, with the tail asked for in between."""
    document = Markdown(lambda: width, look)
    bounds = list(itertools.accumulate([0, *sizes]))
    lines = []
    for begin, end in itertools.pairwise(bounds):
        lines += document.feed(text[begin:end])
        document.tail(4)
    return [*lines, *document.feed(text[bounds[-1] :]), *document.finish()]


def as_text(lines: list[Line]) -> str:
    return "\n".join(plain(line) for line in lines)


@given(MARKDOWN, st.lists(st.integers(1, 30), max_size=60), st.sampled_from([20, 40, 80]))
def test_the_pieces_do_not_matter(text: str, sizes: list[int], width: int) -> None:
    """The same lines in the same styles come out however the text is cut, and asking for the tail is free."""
    assert rendered(text, width, tuple(sizes)) == rendered(text, width)
    assert rendered(text, width, (1,) * len(text)) == rendered(text, width)


@given(
    st.lists(
        st.sampled_from(
            ["w{}", "**w{}**", "`w{}`", "*w{}", "w{}*", "- w{}", "\n", "> w{}", "| w{} |", "[w{}"]
        ),
        max_size=60,
    )
)
def test_every_word_comes_out_once_and_in_order(parts: list[str]) -> None:
    text = " ".join(part.format(number) for number, part in enumerate(parts))
    assert re.findall(r"w(\d+)", as_text(rendered(text, 20))) == re.findall(r"w(\d+)", text)


@given(MARKDOWN, st.sampled_from([8, 20, 40]))
def test_only_code_addresses_and_long_words_are_wider_than_the_window(text: str, width: int) -> None:
    """A line over the width holds one unbreakable word, or is code, which a person wants to copy."""
    for line in rendered(text.replace("```", "").replace("~~~", "").replace("    ", ""), width):
        words = plain(line).strip("│ •").split()
        assert line_cells(line) <= width or len(words) <= 2, plain(line)


def test_a_reply_looks_like_this() -> None:
    """One of everything, at 40 columns."""
    text = """\
# Title with `code`
Some **bold text that wraps** and *more*, [a link](https://example.com/a_b).
Second line: snake_case, 5 * 3 * 2, \\(x^2\\), 1 < 2 &amp; <b>no html</b>.
1. First item, long enough to be wrapped around
   - nested **one**
     goes on
1. Second

   More of the second.
- [x] done

> Quoted, and long enough to be wrapped around
> - item

```python
def f(x):
\treturn "x"  # why
```
| Name | Value | Note |
|:-----|------:|------|
| `a|b` | 1 | a note that does not fit |
| c | 22 | x<br>y |

---
    indented
The end*
"""
    assert (
        as_text(rendered(text))
        == """\
Title with code
Some bold text that wraps and more, a
link (https://example.com/a_b).
Second line: snake_case, 5 * 3 * 2,
\\(x^2\\), 1 < 2 & <b>no html</b>.
1. First item, long enough to be wrapped
   around
   • nested one
     goes on
2. Second

   More of the second.
• [x] done

│ Quoted, and long enough to be wrapped
│ around
│ • item

```python
def f(x):
\treturn "x"  # why
```
Name  Value  Note
────  ─────  ────────────────────────
a|b       1  a note that does not fit
c        22  x
             y

────────────────────────
    indented
The end*"""
    )


def test_styles() -> None:
    lines = rendered("# T\n**b** *i* `c` ~~s~~ [l](u) <https://e.org>", 80)
    assert lines[0] == [Span("T", "bold underline")]
    spans = {span.text: span.style for span in lines[1] if span.text.strip()}
    assert spans == {
        "b": "bold",
        "i": "italic",
        "c": "cyan",
        "s": "strike",
        "l": "underline",
        "(u)": "dim",
        "https://e.org": "underline",
    }


def test_without_color_code_keeps_its_marks() -> None:
    """Nothing is said by color alone."""
    assert as_text(rendered("use `x` here", look=Look(tty=True, style=True, cursor=True))) == "use `x` here"


def test_ascii_only() -> None:
    text = as_text(rendered("- item\n\n> quote\n\n---\n", look=Look(tty=True, style=True, unicode=False)))
    assert text.isascii()


@pytest.mark.parametrize(
    ("text", "least"),
    [
        pytest.param("".join(f"{n}. item\n" for n in range(300)), 299, id="a list, item by item"),
        pytest.param("```py\n" + "".join(f"x = {n}\n" for n in range(150)), 151, id="code, line by line"),
        pytest.param(" ".join(f"word{n}" for n in range(900)), 170, id="a paragraph without a newline"),
        pytest.param("> " + "quoted words " * 90, 27, id="a quote"),
        pytest.param(
            "a stray * and [ and ` " + "then many words " * 90, 20, id="marks that are never closed"
        ),
    ],
)
def test_what_is_longer_than_the_screen_flows_out(text: str, least: int) -> None:
    """Lines are handed out while the block is still growing: the tail never has to hold a screenful."""
    assert len(Markdown(lambda: 40, COLOR).feed(text)) >= least


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "- ```" + "x" * DECIDED + "` no fence\nnext\n", id="an item that is no fence in the end"
        ),
        pytest.param("> " + "a" * (DECIDED - 2) + "|b\n> --|--\n> 1|2\n", id="a bar right before the limit"),
        pytest.param("-" * (DECIDED + 9) + " no rule\n", id="a long rule that is none"),
    ],
)
def test_what_a_line_is_may_be_known_only_at_its_end(text: str) -> None:
    assert rendered(text, 40, (1,) * len(text)) == rendered(text, 40)


def test_a_table_ends_with_its_quote() -> None:
    text = as_text(rendered("> |a|b|\n> |-|-|\n> |1|2|\nafter | a bar\n"))
    assert text.endswith("\nafter | a bar")
    assert text.startswith("│ a  b")


def test_a_table_waits_for_its_end_and_its_tail_stays_small() -> None:
    document = Markdown(lambda: 40, COLOR)
    assert not document.feed("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 100)
    assert len(document.tail(6)) == 5  # head, rule and the last rows
    assert len(document.feed("after\n")) == 102


@given(MARKDOWN, st.integers(1, 6), st.sampled_from([10, 40]))
def test_the_tail_fits_its_place(text: str, rows: int, width: int) -> None:
    document = Markdown(lambda: width, COLOR)
    document.feed(text)
    tail = document.tail(rows)
    assert len(tail) <= rows
    assert all(line_cells(line) <= width for line in tail)


def test_a_marker_that_may_become_an_item_does_not_flicker_as_text() -> None:
    document = Markdown(lambda: 40, COLOR)
    document.feed("1. one\n2")
    assert as_text(document.tail(4)) == "1. one"


def test_a_resize_counts_from_the_next_line_on() -> None:
    width = 80
    document = Markdown(lambda: width, COLOR)
    first = document.feed("word " * 40)
    width = 20
    second = document.feed("word " * 40)
    assert max(map(line_cells, first)) > 70
    assert max(map(line_cells, second[1:])) <= 20


def test_an_entity_cannot_smuggle_a_control_in() -> None:
    """Text is made safe before it is parsed; parsing must not undo that."""
    text = as_text(rendered("a&#8238;b &#x9b;31m &#27;[0m&#10;x [l](&#8238;u) `&#27;`"))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert text.count("\n") == 0


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        pytest.param("| a | b | c | d |", "a: 1", id="too narrow for columns"),
        pytest.param("| a | b |", "a  b", id="too many cells"),
    ],
)
def test_tables_lose_nothing(row: str, columns: str) -> None:
    count = row.count("|") - 1
    text = as_text(rendered(f"{row}\n{'|--' * count}|\n| 1 | 22222 | 33333 | 44444 |\n", 20))
    assert columns in text
    for cell in ("22222", "33333", "44444"):
        assert cell in text


# -- inline


def test_settled_ends_only_where_nothing_is_open() -> None:
    def stretches(text: str) -> list[str]:
        found, start = [], 0
        while (end := settled(text, start)) is not None:
            found.append(text[start:end])
            start = end
        return [*found, text[start:]]

    assert stretches("a **b c** d `e f` [g h](i j) 5 * 3 k") == [
        "a ", "**b c** ", "d ", "`e f` ", "[g h](i j) ", "5 ", "* ", "3 ", "k",
    ]  # fmt: skip
    assert stretches("snake_case b") == ["snake_case ", "b"]
    assert stretches("snake_case_a b __c d__ e")[:3] == ["snake_case_a ", "b ", "__c d__ "]


def test_settled_gives_up_on_what_is_never_closed() -> None:
    text = "*open " + "word " * 200
    assert settled(text) == 396  # the last blank before LONGEST_WAIT
    assert settled("`" + "x" * 1000) == LONGEST_WAIT


def test_inline_code_is_verbatim() -> None:
    assert inline("`a **b** <br> \\(c`") == [Span("a **b** <br> \\(c", "cyan")]


# -- code


@given(
    st.lists(st.text(st.sampled_from(" \tabx=1(){}[]\"'#/*\\:"), max_size=20), max_size=30),
    st.sampled_from(["python", "c", "json", "bash", "nonsense", ""]),
)
def test_highlighting_changes_no_character(code: list[str], language: str) -> None:
    highlighter = Highlighter(language)
    assert [plain(highlighter.line(line)) for line in code] == code


def test_a_string_of_many_lines_keeps_its_color() -> None:
    """A line is colored by what stands above it, not as if it stood alone."""
    highlighter = Highlighter("python")
    styles = [highlighter.line(line)[-1].style for line in ('x = """', "for this", '"""')]
    assert styles == ["green", "green", "green"]


def test_a_lexer_that_changes_the_text_is_not_believed() -> None:
    class Careless:
        def get_tokens(self, text: str) -> list[tuple[str, str]]:
            return [("Token.Keyword", text.upper() + "\n")]

    highlighter = Highlighter("")
    highlighter._lexer = Careless()
    assert highlighter.line("return") == [Span("return")]
    assert Highlighter("python").line("return") == [Span("return", "magenta")]


def test_the_memory_of_a_long_block_is_bounded() -> None:
    highlighter = Highlighter("python")
    for number in range(3 * MEMORY):
        highlighter.line(f"x = {number}")
    assert len(highlighter._above) <= MEMORY


# -- widths


@given(st.text(st.sampled_from("ab 漢字。👍🏽❤\ufe0f\u200d👩🇩🇪e\u0301\n"), max_size=60), st.integers(2, 30))
def test_cutting_and_wrapping_keep_to_the_width(text: str, width: int) -> None:
    assert cells(clip(text, width)) <= width
    assert "".join(map(plain, split_wide([Span(text)], max(2, width)))) == text
    for line in split_wide([Span(text)], width):
        assert line_cells(line) <= width or len(list(clusters(plain(line)))) == 1
    wrapped = "".join(map(plain, wrap([Span(text)], width)))
    assert "".join(wrapped.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("漢字", 4),
        ("👍🏽", 4),
        ("❤\ufe0f", 2),
        ("👨\u200d👩\u200d👧", 6),
        ("e\u0301", 1),
        ("🇩🇪", 4),
        ("ﾊﾝ", 2),
        ("≈×…", 3),
    ],
)
def test_cells_counts_the_widest_reading(text: str, width: int) -> None:
    assert cells(text) == width


def test_chinese_and_japanese_break_anywhere_but_before_punctuation() -> None:
    lines = [plain(line) for line in wrap([Span("これは長い文です。そして続く。")], 16)]
    assert lines == ["これは長い文で", "す。そして続く。"]


def test_a_long_address_is_left_in_one_piece() -> None:
    """So that it can be copied from the terminal."""
    address = "https://example.com/" + "x" * 60
    assert [plain(line) for line in wrap([Span(f"see {address} there")], 40)] == ["see", address, "there"]


def test_a_long_line_is_decided_by_its_first_characters() -> None:
    """`DECIDED` characters without a bar are a paragraph, although a bar follows later."""
    text = "word " * (DECIDED // 5 + 1) + "| bar\n|---|---|\n"
    assert "| bar" in as_text(rendered(text))
