"""The modules of a package that a block calls, on all threads: for tests that count them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType


@contextmanager
def modules_called(package: ModuleType) -> Iterator[dict[str, set[str]]]:
    """The files that are called in the block, relative to the package, with the functions called.

    The result is filled as calls happen. Threads that started before the block are not traced.
    """
    assert package.__file__ is not None
    folder = f"{Path(package.__file__).parent}/"
    called: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        before, found, module = frame.f_code.co_filename.partition(folder)
        if event == "call" and found and not before:
            called.setdefault(module, set()).add(frame.f_code.co_name)

    previous = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(previous)
        threading.setprofile(previous)
