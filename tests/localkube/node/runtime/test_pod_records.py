"""Removing a pod's record."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from localkube.node.runtime.pod_records import PodRecords
from tests.no_descriptors import no_descriptor_left


def test_a_record_that_cannot_be_removed_for_lack_of_descriptors_is_not_forgotten(
    tmp_path: Path,
) -> None:
    """Its files would fill the disk although the pod is deleted."""
    records = PodRecords(tmp_path / "pods")
    volume = records.pod("uid") / "volumes" / "v"
    volume.mkdir(parents=True)
    (volume / "file").write_text("large")

    with pytest.raises(OSError, match="Too many open files"), no_descriptor_left():
        records.forget("uid")
    records.forget("uid")

    assert records.uids() == []


def test_folders_that_are_nested_deeper_than_any_path_are_removed(tmp_path: Path) -> None:
    records = PodRecords(tmp_path / "pods")
    volume = records.pod("uid") / "volumes" / "v"
    volume.mkdir(parents=True)
    deepest = nest(volume, 1100)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=deepest))
    os.close(deepest)

    records.forget("uid")

    assert records.uids() == []


def test_links_in_a_record_are_removed_and_not_followed(tmp_path: Path) -> None:
    records = PodRecords(tmp_path / "pods")
    volume = records.pod("uid") / "volumes" / "v"
    (volume / "a" / "b").mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("stays")
    for place in (volume, volume / "a", volume / "a" / "b"):
        (place / "link").symlink_to(precious)
        (place / "file").symlink_to(precious / "file")
        os.mkfifo(place / "fifo")

    records.forget("uid")

    assert records.uids() == []
    assert (precious / "file").read_text() == "stays"


def test_folders_that_keep_their_owner_out_are_removed(tmp_path: Path) -> None:
    """Root is never kept out: this can only fail for an ordinary user."""
    records = PodRecords(tmp_path / "pods")
    volume = records.pod("uid") / "volumes" / "v"
    (volume / "a" / "b").mkdir(parents=True)
    (volume / "a" / "b").chmod(0o400)
    (volume / "a").chmod(0)

    records.forget("uid")

    assert records.uids() == []


def nest(folder: Path, levels: int) -> int:
    """Make so many folders in each other; returns the deepest, open."""
    opened = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("nest", dir_fd=opened)
        below = os.open("nest", os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = below
    return opened


def test_a_record_that_is_deleted_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    records = PodRecords(tmp_path / "pods")

    with contextlib.suppress(FileNotFoundError):
        records.write_closed("uid")
    with contextlib.suppress(FileNotFoundError):
        records.write_stopped("uid")

    assert records.uids() == []
