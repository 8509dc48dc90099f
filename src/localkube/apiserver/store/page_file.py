"""Reads the pages of an SQLite file by hand, where SQLite itself refuses a damaged one.

The file is a sequence of pages of one size. Pages of a table (`0x0d`) and of an index (`0x0a`,
`0x02`) hold cells; a cell holds a record, whose end may be on a chain of overflow pages. The
write-ahead log is a sequence of frames, each a newer version of one page. The format is described
at https://sqlite.org/fileformat2.html.

Nothing here is trusted: a record that looks right may be noise, and the caller checks it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from localkube.apiserver.store.write_ahead_log import wal_frames, wal_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Value = int | float | bytes | None
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_DEFAULT_SIZE = 4096
_FIRST_HEADER = 100
"""Bytes of the file's header at the start of its first page."""
_INTEGER_SIZES = (0, 1, 2, 3, 4, 6, 8)


class Record(NamedTuple):
    """A record of a table (with the number of its row) or of an index."""

    row: int | None
    values: list[Value]


class PageFile:
    """All versions of all pages of a database and its write-ahead log."""

    def __init__(self, database: Path) -> None:
        data = database.read_bytes() if database.exists() else b""
        size = int.from_bytes(data[16:18], "big")
        size = 65536 if size == 1 else size
        frames = list(wal_frames(wal_of(database)))
        if size < 512 or size & (size - 1):
            size = len(frames[0].page) if frames else _DEFAULT_SIZE
        self.size = size
        self.newest = {
            number: data[start : start + size]
            for number, start in enumerate(range(0, len(data), size), 1)
        }
        self.older: list[tuple[int, bytes]] = []
        for frame in frames:
            if not frame.current:
                self.older.append((frame.number, frame.page))
                continue
            if frame.number in self.newest:
                self.older.append((frame.number, self.newest[frame.number]))
            self.newest[frame.number] = frame.page

    def records(self, number: int, page: bytes) -> Iterator[Record]:
        """The records of a page that can be read."""
        start = _FIRST_HEADER if number == 1 else 0
        kind = page[start] if len(page) > start else 0
        if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
            return
        cells = start + (12 if kind == _INDEX_INTERIOR else 8)
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        for place in range(cells, min(cells + 2 * count, len(page) - 1), 2):
            offset = int.from_bytes(page[place : place + 2], "big")
            try:
                yield self._record(page, offset, kind)
            except (IndexError, struct.error):
                continue  # the cell leads outside of the page

    def _record(self, page: bytes, offset: int, kind: int) -> Record:
        if kind == _INDEX_INTERIOR:
            offset += 4  # the number of the child page
        length, offset = _varint(page, offset)
        row = None
        if kind == _TABLE_LEAF:
            row, offset = _varint(page, offset)
        return Record(row, _values(self._payload(page, offset, length, kind)))

    def _payload(self, page: bytes, offset: int, length: int, kind: int) -> bytes:
        """The bytes of a record, with its overflow pages."""
        room = self.size - 35 if kind == _TABLE_LEAF else (self.size - 12) * 64 // 255 - 23
        if length <= room:
            return page[offset : offset + length]
        if length > self.size * len(self.newest):  # damage; a chain of pages may be a circle
            raise IndexError(length)
        least = (self.size - 12) * 32 // 255 - 23
        local = least + (length - least) % (self.size - 4)
        local = local if local <= room else least
        parts = [page[offset : offset + local]]
        following = int.from_bytes(page[offset + local : offset + local + 4], "big")
        missing = length - local
        while missing > 0:
            overflow = self.newest.get(following, b"")
            if len(overflow) <= 4:
                raise IndexError(following)
            parts.append(overflow[4 : 4 + missing])
            missing -= len(parts[-1])
            following = int.from_bytes(overflow[:4], "big")
        return b"".join(parts)


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """A number of one to nine bytes, and the offset after it."""
    number = 0
    for _ in range(8):
        byte = data[offset]
        offset += 1
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, offset
    return number << 8 | data[offset], offset + 1


def _values(payload: bytes) -> list[Value]:
    end, offset = _varint(payload, 0)
    place, values = end, []
    while offset < end:
        kind, offset = _varint(payload, offset)
        value, size = _value(payload, place, kind)
        values.append(value)
        place += size
    return values


def _value(payload: bytes, place: int, kind: int) -> tuple[Value, int]:
    """A value of a record, and its size. Text stays bytes."""
    if kind >= 12:
        size = (kind - 12) // 2
        value = payload[place : place + size]
        if len(value) < size:
            raise IndexError(place)
        return value, size
    if kind == 7:
        return struct.unpack_from(">d", payload, place)[0], 8
    if kind in (8, 9):
        return kind - 8, 0
    if kind > len(_INTEGER_SIZES):
        raise IndexError(kind)
    size = _INTEGER_SIZES[kind]
    if not size:
        return None, 0
    return int.from_bytes(payload[place : place + size], "big", signed=True), size
