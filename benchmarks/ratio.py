"""Measuring: the two sides in turn, several rounds, the median of their ratios.

Taking turns spreads the load of other processes over both sides, and the ratio of one round
compares two measurements made under the same load.
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
    """One line of the results: ours against a peer in each round, and the bar it should reach."""

    name: str
    rounds: list[tuple[float, float]]
    unit: str
    bar: str
    """`>= 1.5` or `<= 4.0`."""

    @property
    def ratio(self) -> float:
        return statistics.median(ours / peer for ours, peer in self.rounds)

    @property
    def holds(self) -> bool:
        sense, limit = self.bar.split()
        return self.ratio <= float(limit) if sense == "<=" else self.ratio >= float(limit)

    def row(self) -> str:
        ours, peer = (statistics.median(side) for side in zip(*self.rounds, strict=True))
        return (
            f"| {self.name} | {ours:,.4g} {self.unit} | {peer:,.4g} {self.unit} "
            f"| {self.ratio:.2f} | {self.bar} | {'holds' if self.holds else 'MISSED'} |"
        )


def seconds(work: Callable[[], object]) -> float:
    """The duration of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(
    ours: Callable[[], float], peer: Callable[[], float], *, rounds: int = 9
) -> list[tuple[float, float]]:
    """Both measurements, round by round, each side first in every other round."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            second = peer()
            pairs.append((ours(), second))
        else:
            pairs.append((ours(), peer()))
    return pairs
