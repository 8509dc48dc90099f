"""What follows when the number of a job's replicas changes."""

from __future__ import annotations

import pytest

from kubekit.objects.meta import Raw
from muster.jobs.build import scaling
from muster.jobs.build.flags import Jax, Mpi, Submission
from muster.jobs.build.job_manifest import REQUESTED, bundle
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


@pytest.mark.parametrize(
    ("kind", "flags", "count", "restart"),
    [
        (Jax, {}, 3, "gang"),
        (Jax, {"restart": "replica"}, 3, None),
        (Jax, {"workers": 2}, 3, None),
        (Jax, {}, 1, None),
        (Mpi, {"command": ("horovodrun --host-discovery-script ./hosts t.py",)}, 3, None),
    ],
)
def test_a_single_replica_that_gets_peers_restarts_with_them(
    kind: type[Submission], flags: Raw, count: int, restart: str | None
) -> None:
    raw = bundle(kind(**{"name": "j", "command": ("t",), "image": "i", **flags})).job

    rows = {row["path"]: row["value"] for row in scaling.operations(raw, {"worker": count})}
    assert rows.get("/metadata/annotations/muster.dev~1restart") == restart


def test_scaling_the_job_of_a_manifest_does_not_change_how_it_restarts() -> None:
    replicas = {"Worker": {"replicas": 1, "template": template("jax")}}
    rows = scaling.operations(manifest({"jaxReplicaSpecs": replicas}), {"worker": 3})

    assert not any("annotations" in row["path"] for row in rows)
