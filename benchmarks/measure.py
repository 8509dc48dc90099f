"""How things are measured here: alternate the two sides, repeat, compare medians.

Used by every benchmark. Alternating spreads a noisy neighbour over both sides alike.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Ratio:
    """One line of the results: ours against a peer, and the bar it should reach."""

    name: str
    ours: float
    peer: float
    unit: str
    bar: str
    lower_is_better: bool = False

    @property
    def ratio(self) -> float:
        return self.ours / self.peer

    @property
    def holds(self) -> bool:
        limit = float(self.bar.split()[1])
        return self.ratio <= limit if self.lower_is_better else self.ratio >= limit

    def row(self) -> str:
        verdict = "holds" if self.holds else "MISSED"
        return (
            f"| {self.name} | {self.ours:,.4g} {self.unit} | {self.peer:,.4g} {self.unit} "
            f"| {self.ratio:.2f} | {self.bar} | {verdict} |"
        )


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def medians(
    ours: Callable[[], float], peer: Callable[[], float], *, rounds: int = 7
) -> tuple[float, float]:
    """The medians of two measurements taken in turn."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)
