"""`make bench`: measure everything that README claims, and write it to `benchmarks/results.md`.

Peers are measured where their packages are installed (`requirements-bench.txt`); what is missing is left out
and said. Times belong to the machine that is named; only ratios within this one run mean something elsewhere.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
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
PEERS = ("langchain-core", "llama-index-core", "openai-agents", "llm", "prompt-toolkit", "tiktoken")


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are figures."""
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine() -> str:
    """Name what was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def packages() -> str:
    """Name the versions of what it is measured beside, where it is installed."""
    found = []
    for name in PEERS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)


def turn_section() -> str:
    """What a turn costs."""
    found = bench_turn.results()
    rows = []
    for row in found["rows"]:
        took, floor = row["us"], row["floor"]
        cost = "not measurable" if took is None else took.shown()
        ratio = "" if took is None else f"{took.median / floor.median:,.1f}"
        rows.append([row["who"], row["kind"], f"{row['turns']:,}", cost, floor.shown(), ratio])
    grown = found["memory_mb"]
    memory = (
        ""
        if grown is None
        else (f"\n\nOver 10,000 turns, their history on disk included, the program grows by {grown:.0f} MB.")
    )
    return (
        "### What a turn costs\n\n"
        "Append the question, build, append the answer, at a budget of 8,000 tokens; with tools there are "
        "four calls with their results between, and a second build. The floor is encoding the new text once "
        "and copying the payload.\n\n"
        + table(["", "kind", "turns before", "µs a turn", "floor, µs", "times the floor"], rows)
        + memory
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
        [
            row["server"],
            row["before"].shown(1, 100),
            f"{100 * row['first']:.1f}",
            row["after"].shown(1, 100),
            str(row["overflows"]),
        ]
        for row in found["servers"]
    ]
    return (
        "### How right `ctx≈` is\n\n"
        f"Of {found['bills']} published bills, text messages are exact in {found['exact']} of "
        f"{found['text_bills']}; tool schemas are up to {found['most_over']} tokens over, never under.\n\n"
        f"Against servers that count otherwise, over a conversation of {bench_accuracy.TURNS} turns that "
        "begins with one short question; errors in percent of the bill:\n\n"
        + table(
            [
                "a server that counts by",
                "without learning",
                "second request",
                "all after the first",
                "payloads over its limit",
            ],
            rows,
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
        f"the first and asked for in the last, at a budget of {bench_recall.BUDGET:,} tokens. The "
        "first column is what the mechanism does, the second what the model makes of it; one that makes no "
        "tool calls finds nothing by search_history.\n\n"
        + table(["the fact is kept by", "in the payload", "in the answer"], rows)
    )


def start_section() -> str:
    """How long a start takes."""
    found = bench_start.results()
    prompts, replies = (
        [[name, took.shown(2), f"{megabytes:.0f}"] for name, (took, megabytes) in found[what].items()]
        for what in ("prompt", "reply")
    )
    return (
        "### How long a start takes\n\n"
        + table(["until the prompt is there", "seconds", "MB, peak"], prompts)
        + f"\n\nOurs takes {found['ratio'].shown(2)} times the bare one, pair by pair. From a shell, with "
        "the question as an argument and a server that answers at once:\n\n"
        + table(["until the first character of the reply", "seconds", "MB, peak"], replies)
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
            row["resume"].shown(1, 1000),
            f"{row['first_search']:.2f}",
            row["search"].shown(0, 1000),
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
        f"Each message is on disk before it is sent: {found['session'].shown(0, 1e6)} µs. A row of a bare "
        f"SQLite loop with the same settings, in turn with it: {found['bare'].shown(0, 1e6)} µs. So the "
        f"history makes {1 / found['session'].median:,.0f} messages a second, {found['ratio']:.2f} times the "
        f"rate of the bare loop; {found['whole_ratio']:.2f} times over the whole time, in which the foldings "
        "of the write-ahead file show.\n\n" + table(heads, rows)
    )


def main() -> int:
    """Measure and write."""
    intro = (
        f"Measured by `make bench` on {machine()}, beside {packages()}. Times are of that machine, ratios of "
        "one run; a figure with a range is the median, with the 10th and the 90th percentile."
    )
    sections = [intro]
    for measured in (
        turn_section,
        start_section,
        history_section,
        validity_section,
        accuracy_section,
        recall_section,
    ):
        sections.append(measured())
        print(f"{sections[-1]}\n", flush=True)  # whatever fails later, this was measured
    RESULTS.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
