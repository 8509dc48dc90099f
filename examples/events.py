"""Scalars for TensorBoard without TensorFlow: event files written by hand.

An event file is a row of TFRecords (length, checksum, bytes, checksum), each holding one `Event`
protocol buffer. Scripts that train in plain numpy or JAX call `EventWriter`; `tensorboard --logdir`
reads the file. A scalar is in the file when `scalar` returns: curves can be followed live.

    with EventWriter("logs") as events:
        events.scalar("loss", 0.25, step=1)
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path
from typing import Self

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class EventWriter:
    """One new event file in `folder`; several runs, or writers, may share the folder."""

    def __init__(self, folder: str | Path) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        now = time.time()
        # TensorBoard takes any file with "tfevents" in its name, in the order of the names.
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}"
        self.path = Path(folder, name)
        self._file = self.path.open("ab")
        self._write(double(1, now) + message(3, b"brain.Event:2"))

    def scalar(self, tag: str, value: float, step: int) -> None:
        point = message(1, tag.encode()) + single(2, value)
        self._write(double(1, time.time()) + integer(2, step) + message(5, message(1, point)))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, event: bytes) -> None:
        self._file.write(record(event))
        self._file.flush()


def record(data: bytes) -> bytes:
    """A TFRecord: length and data, each followed by a masked CRC-32C."""
    length = struct.pack("<Q", len(data))
    return length + checksum(length) + data + checksum(data)


def checksum(data: bytes) -> bytes:
    # Masked, because the CRC of data that contains its own CRC would always be the same.
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """Castagnoli's polynomial, bits reversed; zlib's crc32 is another one."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


CRC = [_entry(byte) for byte in range(256)]


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | FIXED64) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    return varint(field << 3 | FIXED32) + struct.pack("<f", value)


def integer(field: int, value: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(value)


def message(field: int, body: bytes) -> bytes:
    return varint(field << 3 | BYTES) + varint(len(body)) + body


def varint(value: int) -> bytes:
    """Seven bits per byte, the lowest first; the high bit is set in all bytes but the last."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])
