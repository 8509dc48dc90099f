"""Reading a container's log: whole, in blocks, across a rotation, from the tail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from localkube.node import container_log_reader
from localkube.node.standalone import shim
from localkube.node_interface import LogOptions

NOW = 1_790_000_000_000_000_000


def write_log(path: Path, *lines: str, end: str = "\n") -> None:
    text = ("\n".join(lines) + end if lines else "").encode()
    path.write_bytes(shim.records("stdout", text, NOW))


async def read_blocks(path: Path, **options: Any) -> list[bytes]:
    return [
        block
        async for block in container_log_reader.read(
            path, LogOptions("main", **options), lambda: False
        )
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


async def test_a_large_log_is_read_completely_in_few_blocks(log: Path) -> None:
    lines = [f"line {number}" for number in range(50_000)]
    write_log(log, *lines)

    blocks = await read_blocks(log)

    assert b"".join(blocks).decode().splitlines() == lines
    assert len(blocks) < 100


async def test_a_rotated_log_is_read_from_the_older_file_on(log: Path) -> None:
    write_log(log.with_name("log.1"), "old")
    write_log(log, "new")

    assert b"".join(await read_blocks(log)) == b"old\nnew\n"


async def test_the_tail_begins_at_a_line(log: Path) -> None:
    write_log(log, *"abcdef")

    assert b"".join(await read_blocks(log, tail=2)) == b"e\nf\n"
    assert await read_blocks(log, tail=0) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(1, "d"), (2, "cd"), (3, "bcd"), (4, "abcd"), (9, "abcd"), (0, "")],
)
async def test_the_tail_can_begin_before_a_rotation(log: Path, lines: int, expected: str) -> None:
    write_log(log.with_name("log.1"), "a", "b")
    write_log(log, "c", "d")

    text = b"".join(await read_blocks(log, tail=lines)).decode()

    assert text == "".join(f"{line}\n" for line in expected)


@pytest.mark.parametrize(("lines", "expected"), [(1, "c\n"), (2, "bB\nc\n"), (3, "a\nbB\nc\n")])
async def test_a_line_that_was_being_written_at_the_rotation_is_one_line(
    log: Path, lines: int, expected: str
) -> None:
    write_log(log.with_name("log.1"), "a", "b", end="")
    write_log(log, "B", "c")

    assert b"".join(await read_blocks(log, tail=lines)).decode() == expected


async def test_the_tail_of_a_log_just_rotated_is_in_the_older_file(log: Path) -> None:
    write_log(log.with_name("log.1"), "a", "b")
    write_log(log)

    assert b"".join(await read_blocks(log, tail=1)) == b"b\n"


async def test_a_limit_cuts_in_the_middle_of_a_line(log: Path) -> None:
    write_log(log, "abcdef")

    assert b"".join(await read_blocks(log, limit_bytes=3)) == b"abc"


@pytest.mark.parametrize("tail", [None, 50_000])
async def test_lines_written_while_reading_are_returned_only_with_follow(
    log: Path, tail: int | None
) -> None:
    lines = [f"line {number}" for number in range(50_000)]
    write_log(log, *lines)
    reader = container_log_reader.read(log, LogOptions("main", tail=tail), lambda: True)

    blocks = [await anext(reader)]
    with log.open("ab") as file:
        file.write(shim.records("stdout", b"later\n", NOW))
    blocks += [block async for block in reader]

    assert b"".join(blocks).decode().splitlines() == lines


@pytest.mark.parametrize("follow", [False, True])
async def test_a_rotation_while_reading_loses_no_line(log: Path, follow: bool) -> None:
    older = [f"older {number}" for number in range(50_000)]
    write_log(log.with_name("log.1"), *older)
    write_log(log, "newer")
    reader = container_log_reader.read(log, LogOptions("main", follow=follow), lambda: False)

    blocks = [await anext(reader)]
    os.replace(log, log.with_name("log.1"))
    write_log(log, "newest")
    blocks += [block async for block in reader]

    later = ["newest"] if follow else []
    assert b"".join(blocks).decode().splitlines() == [*older, "newer", *later]


@pytest.mark.parametrize("tail", [None, 1])
async def test_a_log_is_read_between_the_two_steps_of_a_rotation(
    log: Path, tail: int | None
) -> None:
    write_log(log.with_name("log.1"), "all there is")

    assert b"".join(await read_blocks(log, tail=tail)) == b"all there is\n"
