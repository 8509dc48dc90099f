"""Sets of completion indexes, as `status.completedIndexes` writes them: `0-3,5,7-8`. Pure."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.local.workloads.shapes import Pod

INDEX = "batch.kubernetes.io/job-completion-index"


def parse(text: str, below: int) -> set[int]:
    """The indexes that a text names; those beyond the job's completions no longer count."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), min(int(last or first), below - 1) + 1))
    return found


def write(indexes: Iterable[int]) -> str:
    """The inverse: runs of three and more as a range, as of two."""
    runs: list[str] = []
    for _, group in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}{_joint(run)}{run[-1]}")
    return ",".join(runs)


def _joint(run: list[int]) -> str:
    return "," if len(run) == 2 else "-"


def of(pod: Pod) -> int | None:
    """The pod's own index, if it has one."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None
