"""Descriptions of message types, in protobuf's own encoding.

Written by hand: importing protobuf takes longer than everything else at the creation of a
definition with rules, and a description needs six kinds of fields.
"""

from __future__ import annotations

from typing import NamedTuple

_LENGTH_DELIMITED = 2
TYPES = {"double": 1, "int": 3, "bool": 8, "string": 9, "bytes": 12}
_MESSAGE = 11
OPTIONAL, REPEATED = 1, 3


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | _LENGTH_DELIMITED) + _varint(len(data)) + data


class Field(NamedTuple):
    """A field of a message."""

    name: str
    type: str
    """A key of `TYPES`, or the full name of a message."""
    label: int = OPTIONAL

    def encoded(self, number: int) -> bytes:
        """The field under a number."""
        data = _bytes(1, self.name) + _number(3, number) + _number(4, self.label)
        if self.type in TYPES:
            return data + _number(5, TYPES[self.type])
        return data + _number(5, _MESSAGE) + _bytes(6, f".{self.type}")


class Message(NamedTuple):
    """A message type."""

    name: str
    fields: list[Field]
    nested: list[Message]
    is_map_entry: bool = False

    def encoded(self) -> bytes:
        """The type. Fields `fooBar` and `foo_bar` are no conflict."""
        data = _bytes(1, self.name)
        data += b"".join(_bytes(2, field.encoded(i)) for i, field in enumerate(self.fields, 1))
        data += b"".join(_bytes(3, message.encoded()) for message in self.nested)
        return data + _bytes(7, _number(7 if self.is_map_entry else 11, 1))


class File(NamedTuple):
    """A file of a pool, with the one attribute that the library reads."""

    serialized_pb: bytes


class Pool:
    """The types of one package, found as the library looks them up."""

    def __init__(self, package: str, messages: list[Message]) -> None:
        self._package = f"{package}."
        dependencies = (f"google/protobuf/{name}.proto" for name in _WELL_KNOWN_FILES)
        data = _bytes(1, f"{package}.proto") + _bytes(2, package)
        data += b"".join(_bytes(3, name) for name in dependencies)
        data += b"".join(_bytes(4, message.encoded()) for message in messages)
        self._file = File(data + _bytes(12, "proto2"))

    def FindFileContainingSymbol(self, name: str) -> File:
        """The file with a type; KeyError if it is no type of this pool."""
        if not name.startswith(self._package):
            raise KeyError(name)
        return self._file


_WELL_KNOWN_FILES = ("duration", "struct", "timestamp")
