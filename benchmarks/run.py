"""`make bench`: measure everything that README claims, and write it to `benchmarks/results.md`.

Peers are measured where their packages are installed (`requirements-bench.txt`); what is missing is left out
and said. Times belong to the machine that is named; only ratios within this one run mean something elsewhere.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "tests")]

import bench_accuracy  # noqa: E402 - found by the line above
import bench_history  # noqa: E402
import bench_recall  # noqa: E402
import bench_start  # noqa: E402
import bench_turn  # noqa: E402
import bench_validity  # noqa: E402

RESULTS = HERE / "results.md"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are figures."""
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine() -> str:
    """Name what was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


def turn_section() -> str:
    """What a turn costs."""
    found = bench_turn.results()
    rows = []
    for row in found["rows"]:
        cost = "not measurable" if row["us"] is None else f"{row['us']:,.0f}"
        ratio = "" if row["us"] is None else f"{row['us'] / row['floor']:,.1f}"
        rows.append([row["who"], row["kind"], f"{row['turns']:,}", cost, f"{row['floor']:.0f}", ratio])
    return (
        "### What a turn costs\n\n"
        "Append the question, build, append the answer, at a budget of 8,000 tokens. The floor is encoding "
        "the new text once and copying the payload.\n\n"
        + table(["", "kind", "turns before", "µs, median", "floor, µs", "times the floor"], rows)
        + f"\n\n10,000 turns with their history on disk take {found['memory_mb']:.0f} MB above the program."
    )


def validity_section() -> str:
    """Whether what is sent is valid."""
    rows = [
        [row["who"], f"{row['payloads']:,}", *(f"{row[name]:.1%}" for name in ("invalid", "over", "lost"))]
        for row in bench_validity.results()
    ]
    return (
        "### Whether what is sent is valid\n\n"
        "The same random conversations, half of the turns with tools, at budgets of 300 to 2,400 tokens.\n\n"
        + table(["", "payloads", "invalid", "over budget", "without the last question"], rows)
    )


def accuracy_section() -> str:
    """How right the meter is."""
    found = bench_accuracy.results()
    rows = [
        [row["server"], f"{row['before']:.1%}", f"{row['after']:.1%}", str(row["overflows"])]
        for row in found["servers"]
    ]
    return (
        "### How right `ctx≈` is\n\n"
        f"Of {found['bills']} published bills, text messages are exact in {found['exact']} of "
        f"{found['text_bills']}; tool schemas are up to {found['most_over']} tokens over, never under.\n\n"
        + table(
            ["a server that counts by", "error before", "after one reply", "payloads over its limit"], rows
        )
    )


def recall_section() -> str:
    """What each mechanism buys."""
    rows = [
        [f"{row['way']} ({row['model']})", f"{row['present']:.0%}", f"{row['answered']:.0%}"]
        for row in bench_recall.results()
    ]
    return (
        "### What each mechanism buys\n\n"
        f"{bench_recall.CONVERSATIONS} conversations of {bench_recall.FILLER_TURNS} turns, a fact planted in "
        f"the first and asked for in the last, at a budget of {bench_recall.BUDGET:,} tokens.\n\n"
        + table(["the fact is kept by", "in the payload", "in the answer"], rows)
    )


def start_section() -> str:
    """How long a start takes."""
    found = bench_start.results()
    rows = [
        [name, f"{seconds:.2f}", f"{found['megabytes'][name]:.0f}"]
        for name, seconds in found["prompt"].items()
    ]
    return (
        "### How long a start takes\n\n"
        + table(["until the prompt is there", "seconds, median", "MB, peak"], rows)
        + f"\n\nThat is {found['ratio']:.2f} times the bare one. An answer of the stand-in, from a shell, "
        f"shows its first character after {found['first_character']:.2f} s, "
        f"with the vocabulary in {found['reply_megabytes']:.0f} MB."
    )


def history_section() -> str:
    """What durability and size cost."""
    with tempfile.TemporaryDirectory() as folder:
        found = bench_history.results(Path(folder))
    rows = [
        [
            f"{row['messages']:,}",
            f"{row['megabytes']:.1f}",
            f"{row['rows_read']:,}",
            f"{1000 * row['resume']:.1f}",
            f"{row['first_search']:.2f}",
            f"{1000 * row['search']:.0f}",
        ]
        for row in found["sizes"]
    ]
    heads = [
        "messages",
        "MB on disk",
        "rows read to resume",
        "ms to resume",
        "s, first search",
        "ms, next search",
    ]
    return (
        "### What durability costs\n\n"
        f"{found['session']:,.0f} messages a second, each on disk before it is sent; a bare SQLite loop with "
        f"the same settings makes {found['bare']:,.0f}: a ratio of {found['ratio']:.2f}.\n\n"
        + table(heads, rows)
    )


def main() -> int:
    """Measure and write."""
    sections = [
        turn_section(),
        validity_section(),
        accuracy_section(),
        recall_section(),
        start_section(),
        history_section(),
    ]
    intro = f"Measured by `make bench` on {machine()}. Times are of that machine; ratios are of one run."
    RESULTS.write_text("\n\n".join([intro, *sections]) + "\n", encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
