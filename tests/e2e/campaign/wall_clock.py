"""A wall clock that can jump while a program runs: only that program sees it.

The machine's clock is never set. The program is started with a small library that adds a number of
seconds to the time; the number is in a file.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

from tests.prerequisites import missing_prerequisite

SOURCE = Path(__file__).with_name("moved_clock.c")


class WallClock:
    """`variables` are the environment of the programs that see this clock."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            missing_prerequisite("cc", "no C compiler for the library that moves a clock")
        library, self._file = folder / "moved_clock.so", folder / "offset"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        self.variables = {"LD_PRELOAD": str(library), "MOVED_CLOCK": str(self._file)}
        self.offset = 0
        self._file.write_bytes(struct.pack("q", 0))

    def move_to(self, offset: int) -> None:
        """Jump to so many seconds after the machine's time."""
        with self._file.open("r+b") as file:  # in place: programs have mapped it
            file.write(struct.pack("q", offset))
        self.offset = offset
