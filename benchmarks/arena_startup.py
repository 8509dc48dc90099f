"""The cost of `arena --help`, against an empty Python program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.ratio import Ratio, in_turn, seconds


def run() -> list[Ratio]:
    arena = str(Path(sys.executable).with_name("arena"))
    rounds = in_turn(
        lambda: _milliseconds([arena, "--help"]),
        lambda: _milliseconds([sys.executable, "-c", "pass"]),
        rounds=15,
    )
    return [Ratio("arena --help vs python -c pass", rounds, "ms", "<= 4.0")]


def _milliseconds(command: list[str]) -> float:
    return 1e3 * seconds(lambda: subprocess.run(command, capture_output=True, check=True))
