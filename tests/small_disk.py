"""A small file system of its own, for tests that fill a disk."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from localkube.node.standalone.linux import kernel
from tests.prerequisites import missing_prerequisite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MNT_DETACH = 2


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of this size at the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        kernel.mount("tmpfs", str(folder), "tmpfs", data=f"size={size},mode=700")
    except PermissionError:
        missing_prerequisite("root", "mounts a small file system")
    try:
        yield folder
    finally:
        kernel.unmount(str(folder), _MNT_DETACH)


def fill(file: Path) -> None:
    """Append to a file until no block of its disk is free."""
    with file.open("ab", buffering=0) as open_file:
        for size in (1 << 20, 4096):
            try:
                while open_file.write(b"x" * size):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
