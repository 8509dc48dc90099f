"""One row of the log: a write of an object, with a checksum over all of its columns.

The disk may return other bytes than were written, and so may a person with an SQL prompt. A row
whose checksum does not match is an `OddRow`: it is reported and set aside, and never shown as an
object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from localkube.apiserver.store import acknowledged

if TYPE_CHECKING:
    from collections.abc import Sequence


class Row(NamedTuple):
    """One write. `previous` is 0 for a key never seen before; a deletion keeps the last value.

    SQLite has no booleans: `deleted` of a row that was read is 0 or 1.
    """

    revision: int
    key: str
    previous: int
    deleted: bool
    value: bytes


class OddRow(NamedTuple):
    """A row that does not hold what was written; its key may be wrong too."""

    revision: int
    key: str


def damage_text(rows: Sequence[OddRow], *, record_lost: bool) -> str:
    """What is or may be missing because of damage; empty if nothing is."""
    texts = [acknowledged.LOST] if record_lost else []
    if rows:
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        texts.append(f"damaged and set aside: {rows[0].key}{more}; `arena check` names them")
    return "; ".join(texts)


COLUMNS = "revision, CAST(key AS BLOB), previous, deleted, value, checksum"
"""The columns that `read_row` takes. Damaged text that is not UTF-8 cannot be read as text."""


def checksum(row: Row) -> int:
    """The checksum that is stored with a row."""
    revision, key, previous, deleted, value = row
    return _checksum(revision, key.encode(), previous, deleted, value)


def read_row(columns: tuple[Any, ...]) -> Row | OddRow:
    """The row of these columns."""
    revision, key, previous, deleted, value, stored = columns
    try:
        if stored == _checksum(revision, key, previous, deleted, value):
            return Row(revision, key.decode(), previous, deleted, value)
    except TypeError:
        pass  # a column has another type: it was not written by us
    name = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
    return OddRow(revision, name)


def _checksum(revision: int, key: bytes, previous: int, deleted: bool, value: bytes) -> int:
    # CRC-32 finds every change of up to four neighbouring bytes, and others but for one in 2^32.
    return crc32(value, crc32(b"%d %d %d %s" % (revision, previous, deleted, key)))
