"""Pages of a damaged database are read without trust."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

from localkube.apiserver.store.page_file import PageFile

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 4096
LENGTH = b"\x84\x80\x80\x80\x00"  # 1 GiB
ROW = b"\x01"


def test_a_circle_of_overflow_pages_with_a_huge_length_is_no_record(tmp_path: Path) -> None:
    first = b"SQLite format 3\0" + SIZE.to_bytes(2, "big")
    itself = (2).to_bytes(4, "big")
    # A page of a table with one cell, whose overflow page is this page wherever it is looked for.
    head = b"\x0d\0\0\0\1\0\0\0" + (10).to_bytes(2, "big") + LENGTH + ROW
    leaf = head + itself * ((SIZE - len(head)) // 4)
    path = tmp_path / "objects.db"
    path.write_bytes(first.ljust(SIZE, b"\0") + itself + leaf[4:].ljust(SIZE - 4, b"\0"))
    file = PageFile(path)

    tracemalloc.start()
    try:
        assert list(file.records(2, leaf)) == []
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()
