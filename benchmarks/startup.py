"""What `arena --help` costs, against starting Python and doing nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Ratio, medians, seconds


def run() -> list[Ratio]:
    arena = Path(sys.executable).with_name("arena")
    ours, peer = medians(
        lambda: seconds(lambda: subprocess.run([arena, "--help"], capture_output=True, check=True)),
        lambda: seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)),
        rounds=15,
    )
    return [
        Ratio("arena --help vs python -c pass", ours * 1e3, peer * 1e3, "ms", "<= 4.0", True),
    ]
