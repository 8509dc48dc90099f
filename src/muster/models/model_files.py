"""Tensors and signatures of a model, from the headers of its files alone.

The files are hostile input: every size that they state is checked against the file and a limit, and
no array is read. `Damaged` means that the file is not complete, so that its version is not yet one.

- Safetensors: a length, then JSON.
- npz: not with `zipfile`, which reads as much as the archive states, follows records of zip64 to a
  list of members of any size, and decompresses bzip2 and LZMA without a bound. Here the list of
  members has a limit, and only the first bytes of members that are stored or deflated are read.
- SavedModel and ONNX: protobuf without a library. A message is a list of (field number, value);
  values that are not needed (weights, graphs) are skipped by their length and never read. Fields,
  depth and bytes are bounded. Field numbers: onnx/onnx.proto and
  tensorflow/core/protobuf/{saved_model,meta_graph}.proto.

Kept apart because it knows formats and no folders; with `model_versions` it would be too long.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.kinds import decoder_of
from muster.contract.exported_models import Signature, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_TENSORS = 200
MAX_TEXT = 200
_MAX_HEADER = 1 << 20
"""Bytes of a safetensors header, of some ten thousand tensors; a parsed one is far larger."""
_SAFE_NAMES = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint"}


class Damaged(Exception):
    """The file is not complete, or not of its format."""


class TooLarge(Damaged):
    """The file may be complete, but has more parts than are read."""


def text(value: str) -> str:
    """A name from a file, short enough to publish."""
    return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"


_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _SafeTensor(msgspec.Struct):
    dtype: str = ""
    shape: tuple[_Size, ...] = ()
    data_offsets: tuple[_Size, _Size] = (0, 0)


def safetensors(file: int) -> tuple[Tensor, ...]:
    """The tensors of a safetensors file: eight bytes of length, then JSON."""
    size = os.fstat(file).st_size
    head = os.pread(file, 8, 0)
    if len(head) < 8:
        raise Damaged
    (length,) = struct.unpack("<Q", head)
    if length > size - 8:
        raise Damaged
    if length > _MAX_HEADER:
        return ()
    try:
        rows = msgspec.json.decode(os.pread(file, length, 8), type=dict[str, msgspec.Raw])
        rows.pop("__metadata__", None)
        tensors = {
            name: decoder_of(_SafeTensor).decode(raw)
            for name, raw in sorted(rows.items())[:MAX_TENSORS]
        }
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged from error
    if any(row.data_offsets[1] > size - 8 - length for row in tensors.values()):
        raise Damaged
    return tuple(
        Tensor(text(name), _safe_dtype(row.dtype), row.shape[:16]) for name, row in tensors.items()
    )


def _safe_dtype(name: str) -> str:
    letters = name.rstrip("0123456789")
    known = _SAFE_NAMES.get(letters)
    return text(f"{known}{name[len(letters) :]}" if known else name.lower())


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
    kind, size = code.lstrip("<>|=")[:1], read_integer(code.lstrip("<>|=")[1:])
    if kind == "b":
        return "bool"
    if kind in _NPY_NAMES and size is not None:
        return f"{_NPY_NAMES[kind]}{size * 8}"
    return text(code)


_MAX_FIELDS = 50_000
_MAX_ROWS = 64
_WINDOW = 4 << 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TENSORFLOW_TYPES = (
    "", "float32", "float64", "int32", "uint8", "int16", "int8", "string", "complex64", "int64",
    "bool", "qint8", "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16", "complex128",
    "float16", "resource", "variant", "uint32", "uint64",
)  # fmt: skip
_ONNX_TYPES = (
    "", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool",
    "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16",
)  # fmt: skip


class _Field(NamedTuple):
    number: int
    value: int
    """A number; for bytes, where they begin."""
    length: int = -1
    """Of bytes; -1 for a number."""


class _Source:
    """A file that is read in windows, so that skipping over gigabytes costs nothing."""

    def __init__(self, file: int) -> None:
        self._file, self.size = file, os.fstat(file).st_size
        self._start, self._window = 0, b""
        self._fields = 0

    def fields(self, start: int, end: int) -> Iterator[_Field]:
        """The fields of the message between these positions."""
        while start < end:
            self._fields += 1
            if self._fields > _MAX_FIELDS:
                raise TooLarge
            tag, start = self._varint(start)
            kind, value, length = tag & 7, start, -1
            if kind == _VARINT:
                value, start = self._varint(start)
            elif kind == _BYTES:
                length, value = self._varint(start)
                start = value + length
            elif kind in (_FIXED64, _FIXED32):
                start += 8 if kind == _FIXED64 else 4
            else:
                raise Damaged
            if start > end:
                raise Damaged
            yield _Field(tag >> 3, value, length)

    def _varint(self, start: int) -> tuple[int, int]:
        offset = start - self._start
        if not 0 <= offset <= len(self._window) - 10:
            self._start, self._window = start, os.pread(self._file, _WINDOW, start)
            offset = 0
        value = 0
        for shift, byte in enumerate(self._window[offset : offset + 10]):
            value |= (byte & 0x7F) << (7 * shift)
            if byte < 0x80:
                return value, start + shift + 1
        raise Damaged

    def messages(self, start: int, end: int, number: int) -> list[tuple[int, int]]:
        """The positions of the messages in a repeated field."""
        rows = []
        for field in self.fields(start, end):
            if field.number == number and field.length >= 0:
                rows.append((field.value, field.value + field.length))
                if len(rows) == _MAX_ROWS:
                    break
        return rows

    def number(self, start: int, end: int, number: int) -> int:
        rows = [f.value for f in self.fields(start, end) if f.number == number and f.length < 0]
        return rows[-1] if rows else 0

    def string(self, start: int, end: int, number: int) -> str:
        rows = self.messages(start, end, number)
        if not rows:
            return ""
        start, end = rows[-1]
        if end > self.size:
            raise Damaged
        # More than is shown, since a character has up to four bytes.
        length = min(end - start, 4 * MAX_TEXT + 4)
        return text(os.pread(self._file, length, start).decode(errors="replace"))

    def entries(self, start: int, end: int, number: int) -> Iterator[tuple[str, int, int]]:
        """The entries of a map whose keys are strings and whose values are messages."""
        for entry in self.messages(start, end, number):
            for value in self.messages(*entry, 2)[-1:]:
                yield self.string(*entry, 1), *value


def saved_model(file: int) -> tuple[Signature, ...]:
    """The signatures of the first graph of a SavedModel."""
    source = _Source(file)
    graphs = source.messages(0, source.size, 2)
    if not graphs:
        raise Damaged
    rows = []
    for name, start, end in source.entries(*graphs[0], 5):
        if name.startswith("__saved_model"):  # TensorFlow's own, of initialisation
            continue
        sides = [
            tuple(
                _tensor_info(source, key, *value)
                for key, *value in source.entries(start, end, number)
            )
            for number in (1, 2)
        ]
        rows.append(Signature(name, *sides))
    return tuple(sorted(rows, key=lambda row: row.name))


def _tensor_info(source: _Source, name: str, start: int, end: int) -> Tensor:
    dtype = _name(_TENSORFLOW_TYPES, source.number(start, end, 2))
    sizes: list[int | str] = []
    for shape in source.messages(start, end, 3)[-1:]:
        # An int64 of -1 is written as 2**64 - 1.
        sizes = [_signed(source.number(*dim, 1)) for dim in source.messages(*shape, 2)]
    return Tensor(name, dtype, (*sizes,))


def onnx(file: int) -> tuple[Signature, ...]:
    """The inputs and outputs of an ONNX graph."""
    source = _Source(file)
    graphs = source.messages(0, source.size, 7)
    if not graphs:
        raise Damaged
    inputs, outputs = (
        tuple(_value_info(source, *value) for value in source.messages(*graphs[0], number))
        for number in (11, 12)
    )
    return (Signature(source.string(*graphs[0], 2) or "graph", inputs, outputs),)


def _value_info(source: _Source, start: int, end: int) -> Tensor:
    name = source.string(start, end, 1)
    for kind in source.messages(start, end, 2):
        for tensor in source.messages(*kind, 1):
            sizes: list[int | str] = []
            for shape in source.messages(*tensor, 2):
                for dim in source.messages(*shape, 1):
                    size = _signed(source.number(*dim, 1))
                    sizes.append(source.string(*dim, 2) or size or -1)
            return Tensor(name, _name(_ONNX_TYPES, source.number(*tensor, 1)), (*sizes,))
    return Tensor(name)


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else f"type {number}"


def _signed(number: int) -> int:
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number
