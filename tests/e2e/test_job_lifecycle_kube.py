"""Operator and scheduler as separate processes on a real kube-apiserver.

Nodes are objects that kwok keeps Ready; it also sets the status of bound pods. So these tests cover
Muster's part: the life of a job, and the nodes of its pods.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kube_cluster import Kube, kube_cluster
from tests.misspelt_job import MISSPELT_JOB
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.kube]


@pytest.fixture(scope="module")
def kube(control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    with kube_cluster(control_plane_binaries, tmp_path_factory.mktemp("kube")) as started:
        yield started


def test_a_gang_that_does_not_fit_is_not_bound_and_has_a_reason(kube: Kube) -> None:
    kube.submit("big", workers=3)

    def explained() -> dict[str, Any] | None:
        job = kube.job("big")
        pods = job["instances"]
        return job if len(pods) == 4 and all(pod["reason"] for pod in pods) else None

    job = until(explained, timeout=40, every=0.2, what="every instance has a reason")

    assert job["status"] == "PENDING"
    assert {pod["node"] for pod in job["instances"]} == {""}
    assert "nvidia.com/gpu" in job["reason"]
    kube.arena("delete", "big")


def test_a_gang_that_fits_is_bound_whole_and_the_job_succeeds(kube: Kube) -> None:
    # No controller manager runs here, so the test deletes the objects of the deleted job itself.
    kube.plane.kubectl("delete", "pods,services,podgroups.scheduling.volcano.sh", "--all")
    kube.submit("fits", workers=2)

    def bound() -> dict[str, str] | None:
        pods = kube.job("fits")["instances"]
        nodes = {pod["name"]: pod["node"] for pod in pods if pod["node"]}
        return nodes if len(nodes) == 3 else None

    nodes = until(bound, timeout=40, every=0.2, what="three pods bound")
    kube.until_job("fits", "RUNNING")
    assert set(nodes.values()) == {"n0", "n1"}
    assert nodes["fits-worker-0"] != nodes["fits-worker-1"]
    kube.plane.kubectl("annotate", "pods", "--all", "muster.dev/test-exit-code=0")
    kube.until_job("fits", "SUCCEEDED")


def test_typos_that_the_server_stores_in_silence_are_reported_in_an_event(kube: Kube) -> None:
    applied = kube.plane.kubectl("apply", "-f", "-", input=json.dumps(MISSPELT_JOB))
    assert (applied.returncode, applied.stderr) == (0, "")

    def reported() -> list[str]:
        rows = kube.plane.kubectl(
            *("get", "events", "--field-selector=reason=UnknownField", "-o"),
            "jsonpath={range .items[*]}{.type} {.count} {.message}{'\\n'}{end}",
        )
        return rows.stdout.splitlines()

    assert until(reported, timeout=40, every=0.2, what="the event") == [
        "Warning 1 unknown fields: spec.tfReplicaSpecs.Worker.replica (did you mean replicas?), "
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].comand (did you mean command?)"
    ]
    kube.arena("delete", "typos")
