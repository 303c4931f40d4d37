"""Run the acceptance tests and print them as a list a person can read (`make acceptance`).

Each file is a lesson, its docstring's first line is the title; each test is a promise, in its docstring.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
MARKS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}


class Checklist:
    """A pytest plugin that prints promises in place of dots."""

    def __init__(self) -> None:
        self.promises: dict[str, tuple[str, str]] = {}
        self.outcomes: dict[str, str] = {}
        self.counts = dict.fromkeys(MARKS, 0)
        self.title = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Remember each promise before anything runs."""
        for item in items:
            function = getattr(item, "function", None)
            module = getattr(item, "module", None)
            promise = (getattr(function, "__doc__", None) or item.name).strip()
            title = (getattr(module, "__doc__", None) or "").strip().splitlines()[0]
            case = item.name.partition("[")[2].rstrip("]").encode().decode("unicode_escape")
            self.promises[item.nodeid] = (title, " ".join(promise.split()) + (f" ({case})" if case else ""))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print one line once the test is over, whichever of its phases failed."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid] = report.outcome
        if report.when == "teardown":
            outcome = self.outcomes.get(report.nodeid, "failed")
            self.counts[outcome] += 1
            title, promise = self.promises[report.nodeid]
            if title != self.title:
                self.title = title
                print(f"\n{title}")
            print(f"  {MARKS[outcome]}  {promise}")


def main(arguments: list[str]) -> int:
    """Run the tests; further arguments go to pytest."""
    if os.environ.get("LIVE") == "1":
        print("LIVE=1: six short requests go to the endpoint of your settings, for a few hundred tokens.")
    checklist = Checklist()
    quiet = ["-s", "-o", "addopts=--strict-markers", "-p", "no:cacheprovider", "-p", "no:terminal"]
    status = pytest.main([*quiet, str(FOLDER), *arguments], plugins=[checklist])
    counts = checklist.counts
    print(f"\n{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    if counts["failed"]:
        print("What failed, in full: python -m pytest tests/acceptance")
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
