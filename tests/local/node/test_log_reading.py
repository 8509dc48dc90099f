"""Reading a container's log: whole, in blocks, across a rotation, from the tail."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.local.node import logs
from muster.local.node.logs import Wanted
from muster.local.node.standalone import crilog

NOW = 1_790_000_000_000_000_000


def written(path: Path, *lines: str) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(crilog.records("stdout", text, NOW))


async def pieces(path: Path, wanted: Wanted = Wanted()) -> list[bytes]:  # noqa: B008 - frozen
    return [piece async for piece in logs.read(path, wanted, lambda: False)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


async def test_a_big_log_comes_in_few_pieces_and_whole(log: Path) -> None:
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

    assert b"".join(await pieces(log, Wanted(tail=2))) == b"e\nf\n"
    assert await pieces(log, Wanted(tail=0)) == []


async def test_a_limit_cuts_in_the_middle_of_a_line(log: Path) -> None:
    written(log, "abcdef")

    assert b"".join(await pieces(log, Wanted(limit=3))) == b"abc"
