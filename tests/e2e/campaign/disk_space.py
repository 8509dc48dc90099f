"""The space of a small disk: all of it is taken for a while, or somebody frees some of it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from tests.small_disk import fill

SIZE, STEP = 256, 64
"""In MiB."""


@dataclass
class DiskSpace:
    """A tmpfs of SIZE. `enlarged` counts how often space was needed."""

    folder: Path
    enlarged: int = 0
    _size: int = SIZE

    def keep_full(self, seconds: float, over: Event) -> None:
        """Take all space, also space that others free, until the time or the campaign is over."""
        file = self.folder / "filler"
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and not over.wait(0.3):
                fill(file)
        finally:
            file.unlink(missing_ok=True)

    def enlarge(self) -> None:
        self.enlarged += 1
        self._resize(self._size + STEP)

    def shrink(self) -> None:
        """Return to the size at the beginning, unless more than that is in use."""
        if self._size > SIZE:
            self._resize(SIZE)

    def _resize(self, size: int) -> None:
        command = ["mount", "-o", f"remount,size={size}m", str(self.folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            self._size = size
