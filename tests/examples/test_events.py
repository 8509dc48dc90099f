"""The event files that we write by hand have the documented format, byte for byte."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from examples.events import EventWriter, crc32c, record, varint


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
    ids=["check value", "RFC 3720 zeroes", "RFC 3720 ones", "RFC 3720 ascending"],
)
def test_the_checksum_is_crc_32c(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32, "8080808010")],
)
def test_integers_are_encoded_with_seven_bits_per_byte(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_a_record_frames_its_data_by_length_and_checksums() -> None:
    framed = record(b"a" * 24)

    # Every event file begins with these bytes: its first event is 24 bytes long.
    assert framed[:12].hex() == "1800000000000000" + "a37f4b22"
    assert framed[12:36] == b"a" * 24
    assert len(framed) == 8 + 4 + 24 + 4


def test_a_scalar_is_in_the_file_when_the_call_returns(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "new" / "logs") as events:
        header = events.path.stat().st_size
        events.scalar("loss", 0.25, step=300)

        written = events.path.read_bytes()[header:]

    # Event{wall_time, step: 300, summary{value{tag: "loss", simple_value: 0.25}}}
    assert written[12 + 9 : -4].hex() == "10ac02" + "2a0d" + "0a0b" + "0a04" + b"loss".hex() + (
        "15" + struct.pack("<f", 0.25).hex()
    )
    assert written == record(written[12:-4])


def test_two_runs_may_write_into_one_folder(tmp_path: Path) -> None:
    for step in (1, 2):
        with EventWriter(tmp_path) as events:
            events.scalar("loss", 0.5, step)

    assert sum(path.read_bytes().count(b"loss") for path in tmp_path.iterdir()) == 2
