"""Removing a pod's record."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.local.node.runtime.pod_records import PodRecords
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
