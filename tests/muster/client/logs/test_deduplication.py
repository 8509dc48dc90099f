"""A followed log is printed exactly once, wherever the stream breaks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.client.logs.deduplication import ResumableLog

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def log(ticks: list[tuple[int, bytes]]) -> list[bytes]:
    """Lines with timestamps that never decrease; several may be equal."""
    at, lines = 0, []
    for more, text in ticks:
        at += more
        lines.append(b"2026-01-02T03:04:05.%09dZ %s\n" % (at, text))
    return lines


words = st.binary(max_size=12).filter(lambda text: b"\n" not in text)
logs = st.lists(st.tuples(st.integers(0, 1), words), max_size=12).map(log)


@given(logs, st.lists(st.integers(0, 400), max_size=4), st.integers(1, 7))
def test_nothing_is_printed_twice_or_left_out(
    lines: list[bytes], breaks: list[int], size: int
) -> None:
    """Each stream begins at the beginning, as a server does whose clock is coarse."""
    whole = b"".join(lines)
    tail = ResumableLog()
    printed = b""
    for end in (*breaks, len(whole)):
        # A server sends whole lines: a broken line was never a line of the log.
        part = whole[: whole.rfind(b"\n", 0, end) + 1]
        for start in range(0, len(part), size):
            printed += tail.feed(part[start : start + size])
        tail.reopened()

    assert printed == b"".join(line.partition(b" ")[2] for line in lines)


def test_no_line_is_dropped_when_the_clock_of_the_node_is_set_back() -> None:
    first, earlier, last = log([(5, b"a"), (-3, b"b"), (0, b"c")])
    tail = ResumableLog()

    assert tail.feed(first + earlier) == b"a\nb\n"
    tail.reopened()
    assert tail.feed(earlier + last) == b"c\n"
    assert tail.feed(log([(1, b"d")])[0]) == b"d\n"


def test_timestamps_stay_on_request() -> None:
    line = b"2026-01-02T03:04:05.1Z hello\n"

    assert ResumableLog(timestamps=True).feed(line) == line
    assert ResumableLog().feed(line) == b"hello\n"


def test_the_beginning_of_a_line_is_not_held_back() -> None:
    tail = ResumableLog()

    assert tail.feed(b"2026-01-02T03:04:05.1Z 10%") == b"10%"
    assert tail.feed(b"\r20%") == b"\r20%"
    assert tail.feed(b"\n") == b"\n"


def test_a_line_without_a_timestamp_passes_unchanged() -> None:
    assert ResumableLog().feed(b"failed to open the log\n") == b"failed to open the log\n"


@pytest.mark.parametrize(("later", "back"), [(0, 2.0), (10, 12.0)])
def test_a_new_stream_begins_a_little_before_the_last_line(later: int, back: float) -> None:
    tail = ResumableLog()
    assert tail.since(BEGIN) is None
    tail.feed(b"2026-01-02T03:04:05.123456789Z x\n")

    assert tail.since(BEGIN.replace(second=5 + later)) == back
