"""What follows when the number of a job's replicas changes."""

from __future__ import annotations

import pytest

from muster.jobs.build import scaling
from muster.jobs.build.job_manifest import REQUESTED
from tests.muster.jobs.builders import manifest, template


@pytest.mark.parametrize("gpus", ["²", "9" * 5000, "many"], ids=["superscript", "digits", "word"])
def test_a_number_of_gpus_that_cannot_be_read_counts_as_none(gpus: str) -> None:
    pod = template("pytorch")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    raw = manifest({"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": pod}}})
    raw["metadata"]["annotations"] = {REQUESTED: "0"}

    assert {"op": "add", "path": "/spec/pytorchReplicaSpecs/Worker/replicas", "value": 3} in (
        scaling.operations(raw, {"worker": 3})
    )
