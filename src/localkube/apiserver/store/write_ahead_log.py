"""The frames of SQLite's write-ahead log, as https://sqlite.org/walformat.html describes them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
_DEFAULT_SIZE = 4096


class Frame(NamedTuple):
    """One frame of a write-ahead log: a new version of a page."""

    number: int
    """The number of the page."""
    commit: bool
    """Whether it is the last frame of a commit."""
    current: bool
    """Whether it is of the present use of the file: SQLite begins it anew after a checkpoint."""
    page: bytes


def wal_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def wal_frames(wal: Path) -> Iterator[Frame]:
    """All frames in the file, whether or not they are damaged."""
    try:
        with wal.open("rb") as file:
            size, salts = _page_size_and_salts(file.read(_HEADER.size))
            while len(head := file.read(_FRAME.size)) == _FRAME.size:
                number, pages, *rest = _FRAME.unpack(head)
                salts = salts or rest[:2]  # the first frames are of the present use
                yield Frame(number, bool(pages), rest[:2] == salts, file.read(size))
    except (OSError, struct.error):
        return


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
