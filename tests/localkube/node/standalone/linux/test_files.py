"""Reading files that a program of a pod may have written."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from localkube.node.standalone.linux import files, kernel
from tests.no_descriptors import no_descriptor_left


def test_only_the_end_of_a_huge_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "message"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
        sparse.seek(0, os.SEEK_END)
        sparse.write(b"the reason")

    tracemalloc.start()
    try:
        end = files.read_end(file, 4096)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (len(end), end[-10:]) == (4096, b"the reason")
    assert peak < 100_000


def test_a_fifo_a_link_and_a_missing_file_have_no_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "secret").write_text("token")
    (tmp_path / "link").symlink_to("secret")

    for name in ("fifo", "link", "missing", "."):
        assert files.read_end(tmp_path / name, 10) == b""
    assert files.read_end(tmp_path / "secret", 10) == b"token"


def test_a_process_without_descriptors_cannot_tell_whether_a_file_or_a_process_exists(
    tmp_path: Path,
) -> None:
    """To take both for gone would end a pod that runs."""
    for question in (
        lambda: files.read_json(tmp_path / "pod"),
        lambda: kernel.start_time(os.getpid()),
        lambda: kernel.is_exiting(os.getpid()),
    ):
        with pytest.raises(OSError, match="Too many open files"), no_descriptor_left():
            question()
    assert files.read_json(tmp_path / "pod") == {}
