"""The cost of `arena --help` and of `import muster`, against an empty Python program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.ratio import Ratio, in_turn, seconds

MAX_IMPORT = 30.0
"""Milliseconds."""


def run() -> list[Ratio]:
    arena = str(Path(sys.executable).with_name("arena"))
    help_rounds = in_turn(
        lambda: _milliseconds([arena, "--help"]), lambda: _python("pass"), rounds=15
    )
    imports = in_turn(lambda: _python("import muster"), lambda: _python("pass"), rounds=15)
    beyond = [(ours - empty, MAX_IMPORT) for ours, empty in imports]
    return [
        Ratio("arena --help vs python -c pass", help_rounds, "ms", "<= 4.0"),
        Ratio("import muster, beyond python -c pass", beyond, "ms", "<= 1.0"),
    ]


def _python(program: str) -> float:
    return _milliseconds([sys.executable, "-c", program])


def _milliseconds(command: list[str]) -> float:
    return 1e3 * seconds(lambda: subprocess.run(command, capture_output=True, check=True))
