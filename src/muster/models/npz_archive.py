"""The arrays in an npz file: a zip archive of npy files, of which a few kilobytes are read.

Not with `zipfile`: it reads as much as the archive states, follows records of zip64 to a list of
members of any size, and decompresses bzip2 and LZMA without a bound. Here the list of members has a
limit, and only the first bytes of members that are stored or deflated are read.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from muster.contract.exported_models import Tensor
from muster.models.tensors import MAX_TENSORS, Damaged, text

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_DIRECTORY = 1 << 20
"""Bytes of the list of members."""
_MAX_HEAD = 4096
"""Bytes of a member: the header of an npy file is shorter."""
_END, _END64, _LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_MEMBER, _LOCAL = b"PK\x01\x02", b"PK\x03\x04"
_END_SIZE, _END64_SIZE, _LOCATOR_SIZE = 22, 56, 20
_MEMBER_SIZE, _LOCAL_SIZE = 46, 30
_MAX_COMMENT = 65_535
_IN_ZIP64 = 0xFFFFFFFF
"""A size or position that is in an extra field instead."""
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 1
_NPY_DTYPE = re.compile(rb"'descr':\s*'([^']{1,40})'")
_NPY_SHAPE = re.compile(rb"'shape':\s*\(([\d,\s]{0,200})\)")
_NPY_NAMES = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}


class _Member(NamedTuple):
    name: str
    method: int
    is_encrypted: bool
    compressed: int
    """Bytes in the archive."""
    start: int


def npz(file: int) -> tuple[Tensor, ...]:
    """The arrays of an npz file; Damaged if it is not complete."""
    size = os.fstat(file).st_size
    start, length = _directory(file, size)
    if start + length > size:
        raise Damaged
    if length > _MAX_DIRECTORY:
        return ()
    tensors = []
    for member in _members(os.pread(file, length, start)):
        if member.name.endswith(".npy"):
            name = text(member.name.removesuffix(".npy"))
            tensors.append(_npy(name, _head(file, size, member)))
    return tuple(tensors)


def _directory(file: int, size: int) -> tuple[int, int]:
    """Where the list of members begins, and its length."""
    tail_start = max(0, size - _END_SIZE - _MAX_COMMENT)
    tail = os.pread(file, _END_SIZE + _MAX_COMMENT, tail_start)
    at = tail.rfind(_END)
    if at < 0 or at + _END_SIZE > len(tail):
        raise Damaged
    count, length, start = struct.unpack_from("<HII", tail, at + 10)
    if _IN_ZIP64 not in (length, start) and count != _IN_ZIP64 & 0xFFFF:
        return start, length
    locator = os.pread(file, _LOCATOR_SIZE, max(0, tail_start + at - _LOCATOR_SIZE))
    if len(locator) < _LOCATOR_SIZE or not locator.startswith(_LOCATOR):
        raise Damaged
    (position,) = struct.unpack_from("<Q", locator, 8)
    record = _read(file, size, position, _END64_SIZE)
    if not record.startswith(_END64):
        raise Damaged
    length, start = struct.unpack_from("<QQ", record, 40)
    return start, length


def _read(file: int, size: int, start: int, length: int) -> bytes:
    if start + length > size:
        raise Damaged
    return os.pread(file, length, start)


def _members(directory: bytes) -> Iterator[_Member]:
    at = 0
    for _ in range(MAX_TENSORS):
        if at == len(directory):
            return
        if len(directory) - at < _MEMBER_SIZE or not directory.startswith(_MEMBER, at):
            raise Damaged
        flags, method = struct.unpack_from("<HH", directory, at + 8)
        compressed, whole = struct.unpack_from("<II", directory, at + 20)
        name_length, extra_length, comment_length = struct.unpack_from("<HHH", directory, at + 28)
        (start,) = struct.unpack_from("<I", directory, at + 42)
        at += _MEMBER_SIZE
        name = directory[at : at + name_length].decode(errors="replace")
        at += name_length
        compressed, start = _large(directory[at : at + extra_length], compressed, whole, start)
        at += extra_length + comment_length
        yield _Member(name, method, bool(flags & _ENCRYPTED), compressed, start)


def _large(extra: bytes, compressed: int, whole: int, start: int) -> tuple[int, int]:
    """The size in the archive and the position, from the extra field of zip64 where it has them."""
    values = b""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<HH", extra)
        if kind == 1:
            values = extra[4 : 4 + length]
        extra = extra[4 + length :]
    sizes = []
    for value in (whole, compressed, start):
        if value == _IN_ZIP64:
            if len(values) < 8:
                raise Damaged
            (value,), values = struct.unpack_from("<Q", values), values[8:]
        sizes.append(value)
    return sizes[1], sizes[2]


def _head(file: int, size: int, member: _Member) -> bytes:
    """The first bytes of a member; none if they are compressed in a way that is not read."""
    import zlib  # rarely needed

    local = _read(file, size, member.start, _LOCAL_SIZE)
    if not local.startswith(_LOCAL):
        raise Damaged
    start = member.start + _LOCAL_SIZE + sum(struct.unpack_from("<HH", local, 26))
    if start + member.compressed > size:
        raise Damaged
    data = os.pread(file, min(member.compressed, _MAX_HEAD), start)
    if member.is_encrypted or member.method not in (_STORED, _DEFLATED):
        return b""
    if member.method == _STORED:
        return data
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _MAX_HEAD)
    except zlib.error as error:
        raise Damaged from error


def _npy(name: str, head: bytes) -> Tensor:
    """The dtype and shape in the header of an npy file."""
    if len(head) < 10 or not head.startswith(b"\x93NUMPY"):
        return Tensor(name)
    # Version 2 and 3 have four bytes of length; the two that are read too many do not matter.
    header = head[10 : 10 + (struct.unpack_from("<H", head, 8)[0] or _MAX_HEAD)]
    dtype, shape = _NPY_DTYPE.search(header), _NPY_SHAPE.search(header)
    sizes = [int(word[:18]) for word in re.findall(rb"\d+", shape[1])] if shape else []
    return Tensor(name, _npy_dtype(dtype[1].decode(errors="replace") if dtype else ""), (*sizes,))


def _npy_dtype(code: str) -> str:
    kind, size = code.lstrip("<>|=")[:1], code.lstrip("<>|=")[1:]
    if kind == "b":
        return "bool"
    if kind in _NPY_NAMES and size.isascii() and size.isdigit():
        return f"{_NPY_NAMES[kind]}{int(size[:3]) * 8}"
    return text(code)
