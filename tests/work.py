"""How much work a block does, in numbers that do not depend on the machine's speed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType


@dataclass
class Calls:
    """Functions of a package that were called, and functions in C that these called."""

    count: int = 0


@contextmanager
def calls_in(package: ModuleType) -> Iterator[Calls]:
    """Counts the calls in the block; not those in threads that started before it."""
    folders = tuple(f"{Path(path)}/" for path in package.__path__)
    calls = Calls()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(folders):
            calls.count += 1

    previous = sys.getprofile()
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(previous)
        threading.setprofile(previous)


def growth(run: Callable[[int], object], size: int) -> float:
    """How many times longer eight times the size takes: 8 if it is linear, 64 if quadratic.

    For work that is done in C, where no calls can be counted. Other programs disturb the shortest
    of a few runs least.
    """

    def seconds(n: int) -> float:
        started = time.thread_time()
        run(n)
        return time.thread_time() - started

    return min(seconds(8 * size) for _ in range(5)) / min(seconds(size) for _ in range(5))
