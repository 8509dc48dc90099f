"""Inputs and outputs of SavedModel and ONNX files, read from their protobuf without a library.

A message is a list of (field number, value); values that are not needed (weights, graphs) are
skipped by their length and never read. The files are hostile: fields, depth and bytes are bounded.
Field numbers: tensorflow/core/protobuf/{saved_model,meta_graph}.proto and onnx/onnx.proto.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from muster.contract.exported_models import Signature, Tensor
from muster.models.tensors import MAX_TEXT, Damaged, TooLarge, text

if TYPE_CHECKING:
    from collections.abc import Iterator

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
