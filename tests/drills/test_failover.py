"""The second replica takes over from a leader that was killed, with the leases of an installation.

The times are printed; `benchmarks/results/drills.md` has them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Raw, read_timestamp
from muster.contract.job_kinds import TFJOBS
from tests.drills.cluster import COMPONENTS, LEASES, DrillCluster, drill_cluster
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.long]
ROUNDS = 5
AT_MOST = 25.0
"""Seconds: 15 of the lease, a retry, and some for a busy machine."""
READY = 8.0
"""Seconds of renewals after which a second replica has read the lease."""
TEMPLATE: Raw = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[DrillCluster]:
    """The replicas `a` lead."""
    with drill_cluster(control_plane_binaries) as started:
        for component in COMPONENTS:
            started.start(component, f"{component}-a", "--leader-elect")
            started.await_leader(component)
        for component in COMPONENTS:
            started.start(component, f"{component}-b", "--leader-elect")
        yield started


def renewed(cluster: DrillCluster, component: str) -> float:
    _, lease = cluster.plane.request("GET", f"{LEASES}/muster-{component}")
    moment = read_timestamp(lease["spec"]["renewTime"])
    assert moment is not None
    return moment.timestamp()


def is_renewed(cluster: DrillCluster, component: str, after: float) -> bool:
    return renewed(cluster, component) > after


def await_standbys(cluster: DrillCluster) -> None:
    """Wait until the second replicas have seen the leases being renewed."""
    for component in COMPONENTS:
        ready = partial(is_renewed, cluster, component, renewed(cluster, component) + READY)
        until(ready, timeout=60, every=0.5, what=f"renewals of muster-{component}")


def submit(cluster: DrillCluster, name: str) -> None:
    worker = {"replicas": 2, "template": TEMPLATE}
    spec = {
        "runPolicy": {"schedulingPolicy": {"minAvailable": 2}},
        "tfReplicaSpecs": {"Worker": worker},
    }
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    kind = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"}
    status, answer = cluster.plane.request("POST", TFJOBS.path("default"), {**kind, **body})
    assert status == 201, answer


def is_bound(cluster: DrillCluster, name: str) -> bool:
    labels = f"training.kubeflow.org%2Fjob-name%3D{name}"
    _, pods = cluster.plane.request("GET", f"{PODS.path('default')}?labelSelector={labels}")
    return [bool(pod["spec"].get("nodeName")) for pod in pods["items"]] == [True, True]


def test_the_second_replica_takes_over(cluster: DrillCluster) -> None:
    leads: dict[str, list[float]] = {component: [] for component in COMPONENTS}
    bound = []
    for number in range(ROUNDS):
        await_standbys(cluster)
        letter = "ab"[number % 2]
        before = {component: cluster.leader(component) for component in COMPONENTS}
        cluster.kill(*(f"{component}-{letter}" for component in COMPONENTS))
        killed = time.monotonic()
        submit(cluster, f"job-{number}")
        waiting = dict(before)
        while waiting:
            for component, former in list(waiting.items()):
                if cluster.leader(component) not in ("", former):
                    leads[component].append(time.monotonic() - killed)
                    del waiting[component]
            assert time.monotonic() - killed < 2 * AT_MOST, cluster.log_tails()
        until(partial(is_bound, cluster, f"job-{number}"), timeout=60, what="a gang is bound")
        bound.append(time.monotonic() - killed)
        for component in COMPONENTS:
            cluster.start_again(f"{component}-{letter}")

    for what, times in {**leads, "a gang submitted after the kill is bound": bound}.items():
        median, most = statistics.median(times), max(times)
        print(f"{what}: {min(times):.1f} to {most:.1f} s, median {median:.1f} s, {ROUNDS} times")
        assert most < AT_MOST
