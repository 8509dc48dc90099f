"""Reading a container's log: whole, in blocks, across a rotation, from the tail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from muster.local.apiserver.streams.node_interface import LogOptions
from muster.local.node import container_log_reader
from muster.local.node.standalone import log_writer

NOW = 1_790_000_000_000_000_000


def written(path: Path, *lines: str, end: str = "\n") -> None:
    text = ("\n".join(lines) + end if lines else "").encode()
    path.write_bytes(log_writer.records("stdout", text, NOW))


async def pieces(path: Path, **options: Any) -> list[bytes]:
    return [
        piece
        async for piece in container_log_reader.read(
            path, LogOptions("main", **options), lambda: False
        )
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


async def test_a_large_log_is_read_completely_in_few_blocks(log: Path) -> None:
    lines = [f"line {number}" for number in range(50_000)]
    written(log, *lines)

    got = await pieces(log)

    assert b"".join(got).decode().splitlines() == lines
    assert len(got) < 100


async def test_a_rotated_log_is_read_from_its_older_part_on(log: Path) -> None:
    written(log.with_name("log.1"), "old")
    written(log, "new")

    assert b"".join(await pieces(log)) == b"old\nnew\n"


async def test_the_tail_begins_at_a_line(log: Path) -> None:
    written(log, *"abcdef")

    assert b"".join(await pieces(log, tail=2)) == b"e\nf\n"
    assert await pieces(log, tail=0) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(1, "d"), (2, "cd"), (3, "bcd"), (4, "abcd"), (9, "abcd"), (0, "")],
)
async def test_the_tail_can_begin_before_a_rotation(log: Path, lines: int, expected: str) -> None:
    written(log.with_name("log.1"), "a", "b")
    written(log, "c", "d")

    shown = b"".join(await pieces(log, tail=lines)).decode()

    assert shown == "".join(f"{line}\n" for line in expected)


@pytest.mark.parametrize(("lines", "expected"), [(1, "c\n"), (2, "bB\nc\n"), (3, "a\nbB\nc\n")])
async def test_a_line_that_was_being_written_at_the_rotation_is_one_line(
    log: Path, lines: int, expected: str
) -> None:
    written(log.with_name("log.1"), "a", "b", end="")
    written(log, "B", "c")

    assert b"".join(await pieces(log, tail=lines)).decode() == expected


async def test_the_tail_of_a_log_just_rotated_is_in_its_older_part(log: Path) -> None:
    written(log.with_name("log.1"), "a", "b")
    written(log)

    assert b"".join(await pieces(log, tail=1)) == b"b\n"


async def test_a_limit_cuts_in_the_middle_of_a_line(log: Path) -> None:
    written(log, "abcdef")

    assert b"".join(await pieces(log, limit_bytes=3)) == b"abc"


@pytest.mark.parametrize("tail", [None, 50_000])
async def test_lines_written_while_reading_are_returned_only_with_follow(
    log: Path, tail: int | None
) -> None:
    lines = [f"line {number}" for number in range(50_000)]
    written(log, *lines)
    reading = container_log_reader.read(log, LogOptions("main", tail=tail), lambda: True)

    got = [await anext(reading)]
    with log.open("ab") as file:
        file.write(log_writer.records("stdout", b"later\n", NOW))
    got += [piece async for piece in reading]

    assert b"".join(got).decode().splitlines() == lines


@pytest.mark.parametrize("follow", [False, True])
async def test_a_rotation_while_one_reads_takes_nothing_away(log: Path, follow: bool) -> None:
    older = [f"older {number}" for number in range(50_000)]
    written(log.with_name("log.1"), *older)
    written(log, "newer")
    reading = container_log_reader.read(log, LogOptions("main", follow=follow), lambda: False)

    got = [await anext(reading)]
    os.replace(log, log.with_name("log.1"))
    written(log, "newest")
    got += [piece async for piece in reading]

    later = ["newest"] if follow else []
    assert b"".join(got).decode().splitlines() == [*older, "newer", *later]


@pytest.mark.parametrize("tail", [None, 1])
async def test_a_log_is_read_between_the_two_steps_of_a_rotation(
    log: Path, tail: int | None
) -> None:
    written(log.with_name("log.1"), "all there is")

    assert b"".join(await pieces(log, tail=tail)) == b"all there is\n"
