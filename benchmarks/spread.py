"""What is reported of many measurements of one thing: the median, and how far they lie apart.

Medians, because a busy machine only ever adds time, and now and then very much of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some measurements, and their 10th and 90th percentiles, in the unit they came in."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Sum up at least one measurement."""
        ordered = sorted(values)
        last = len(ordered) - 1
        return cls(statistics.median(ordered), ordered[round(0.1 * last)], ordered[round(0.9 * last)])

    def shown(self, digits: int = 0, scale: float = 1) -> str:
        """Return `median (low-high)` with that many decimals, every figure times `scale`."""
        figures = [f"{scale * value:,.{digits}f}" for value in (self.median, self.low, self.high)]
        return f"{figures[0]} ({figures[1]}-{figures[2]})"
