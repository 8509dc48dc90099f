"""The frames of SQLite's write-ahead log, as https://sqlite.org/walformat.html describes them."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
_DEFAULT_SIZE = 4096


def wal_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def commit_frames(wal: Path) -> list[int]:
    """The numbers of the frames that end a commit, whether or not they are damaged.

    SQLite begins the file anew after a checkpoint: frames of its former use do not count.
    """
    commits = []
    try:
        with wal.open("rb") as file:
            size, salts = _page_size_and_salts(file.read(_HEADER.size))
            number = 0
            while len(head := file.read(_FRAME.size)) == _FRAME.size:
                number += 1
                _, pages, *rest = _FRAME.unpack(head)
                salts = salts or rest[:2]  # the first frames are of the present use
                if pages and rest[:2] == salts:
                    commits.append(number)
                file.seek(size, os.SEEK_CUR)
    except (OSError, struct.error):
        pass  # without a write-ahead log there is nothing to lose
    return commits


def _page_size_and_salts(header: bytes) -> tuple[int, list[int]]:
    """The contents of the header; no salts if it is damaged."""
    magic, _, size, _, *salts, sum0, sum1 = _HEADER.unpack(header)
    words = struct.unpack(">6I" if magic & 1 else "<6I", header[:24])
    first = second = 0
    for i in range(0, 6, 2):
        first = (first + words[i] + second) & 0xFFFFFFFF
        second = (second + words[i + 1] + first) & 0xFFFFFFFF
    intact = magic & ~1 == _MAGIC and (first, second) == (sum0, sum1)
    return (size, salts) if intact else (_DEFAULT_SIZE, [])
