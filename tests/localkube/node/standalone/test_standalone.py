"""The programs that outlive the daemon: few imports, exact streams and logs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from localkube.node import container_log_reader
from localkube.node.runtime.processes import _SOURCE
from localkube.node.standalone import shim, shim_socket

AT = 1_767_323_045_000_000_123
STAMP = "2026-01-02T03:04:05.000000123Z"


@pytest.mark.parametrize("program", ["shim", "pause"])
def test_a_standalone_program_loads_the_standard_library_only(program: str) -> None:
    script = (
        f"import sys; sys.path.insert(0, {_SOURCE!r}); "
        f"import localkube.node.standalone.{program}; "
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )

    loaded = set(result.stdout.split())
    assert loaded - set(sys.stdlib_module_names) - {"localkube", "__main__"} == set()
    assert not loaded & {"asyncio", "dataclasses", "logging", "pathlib", "subprocess", "ssl"}


@pytest.mark.parametrize("module", ["handshake", "spawn"])
def test_a_process_that_no_longer_sees_python_can_become_another_program(module: str) -> None:
    """`os.execvpe` imports `warnings`, which Python 3.13 has not loaded at its start."""
    script = (
        f"import os, sys, typing; sys.path.insert(0, {_SOURCE!r}); del sys.modules['warnings']; "
        f"import localkube.node.standalone.{module}; "
        "sys.meta_path.clear(); os.execvpe('true', ['true'], {})"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_a_line_is_one_record_and_the_rest_waits_for_more() -> None:
    assert shim.records("stdout", b"one\ntw", AT).decode() == (
        f"{STAMP} stdout F one\n{STAMP} stdout P tw\n"
    )


def test_carriage_returns_do_not_end_a_line() -> None:
    assert shim.records("stderr", b"10%\r20%\n", AT).count(b"\n") == 1


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_log_records_are_read_back_from_chunks_of_any_size(pieces: list[bytes]) -> None:
    written = b"".join(shim.records("stdout", piece, AT) for piece in pieces)
    renderer = container_log_reader.LogRenderer(timestamps=False, since=None)

    shown = b"".join(renderer.render(record) for record in written.split(b"\n")[:-1])

    assert shown == b"".join(pieces)


def test_a_very_long_line_is_cut_into_pieces_and_joined_again() -> None:
    line = b"x" * 100_000 + b"\n"
    records = shim.records("stdout", line, AT).split(b"\n")[:-1]
    renderer = container_log_reader.LogRenderer(timestamps=True, since=None)

    shown = b"".join(renderer.render(record) for record in records)

    assert max(map(len, records)) < 20_000
    assert shown == STAMP.encode() + b" " + line


def test_only_records_since_a_time_are_shown() -> None:
    record = shim.records("stdout", b"x\n", AT)[:-1]
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    later = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)

    assert container_log_reader.LogRenderer(timestamps=False, since=at).render(record) == b"x\n"
    assert container_log_reader.LogRenderer(timestamps=False, since=later).render(record) == b""


@given(
    st.lists(st.text(alphabet="ab", max_size=3), max_size=12),
    st.integers(min_value=0, max_value=14),
    st.booleans(),
)
def test_the_tail_is_the_last_lines(lines: list[str], wanted: int, whole: bool) -> None:
    text = "".join(f"{line}\n" for line in lines) + ("" if whole else "rest")
    with tempfile.NamedTemporaryFile() as file:
        path = Path(file.name)
        path.write_bytes(shim.records("stdout", text.encode(), AT))
        tail = path.read_bytes()[container_log_reader.tail(path, wanted, path.stat().st_size)[1] :]
    renderer = container_log_reader.LogRenderer(timestamps=False, since=None)

    shown = b"".join(renderer.render(record) for record in tail.split(b"\n")[:-1]).decode()

    expected = text.splitlines(keepends=True)
    assert shown == "".join(expected[max(0, len(expected) - wanted) :])


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=50))), st.integers(1, 7))
def test_frames_are_read_from_chunks_of_any_size(
    frames: list[tuple[int, bytes]], step: int
) -> None:
    data = b"".join(shim_socket.frame(channel, payload) for channel, payload in frames)
    reader = shim_socket.FrameReader()

    received = [f for i in range(0, len(data), step) for f in reader.feed(data[i : i + step])]

    assert received == frames


def test_a_frame_over_the_limit_is_rejected() -> None:
    with pytest.raises(ValueError, match="frame"):
        shim_socket.FrameReader().feed(b"\x01\xff\xff\xff\xff")
