"""Two schedulers on the same nodes: no node is over-committed and no gang stays half bound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.objects.meta import Raw
from tests.controlplane.processes import Child
from tests.drills.cluster import DrillCluster, drill_cluster
from tests.drills.drill import drill
from tests.drills.kubelet_admission import KubeletAdmission
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]
REJECTED_WITHIN = 5.0


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[DrillCluster]:
    with drill_cluster(control_plane_binaries) as started:
        started.start("operator")
        yield started


def refuses(child: Child) -> bool:
    return not child.is_running() and "the scheduler of muster is alive" in child.log.read_text()


@pytest.mark.long
def test_of_two_without_an_election_one_works_and_the_other_refuses(cluster: DrillCluster) -> None:
    names = ("scheduler-a", "scheduler-b")
    children = {name: cluster.start("scheduler", name) for name in names}
    until(lambda: any(map(refuses, children.values())), timeout=30, what="one refuses")
    (loser,) = [name for name, child in children.items() if refuses(child)]
    (winner,) = set(names) - {loser}
    cluster.forget(loser)
    with drill(cluster, "no-election") as current:
        current.traffic.until_more_end(2)
        with current.trouble():
            cluster.kill(winner)
            cluster.start_again(loser)
    cluster.kill(loser)


@pytest.mark.long
def test_two_of_ours_that_are_forced(cluster: DrillCluster) -> None:
    for name in ("scheduler-a", "scheduler-b"):
        cluster.start("scheduler", name, "--force")
    with KubeletAdmission(cluster) as kubelets, drill(cluster, "forced", at_once=10) as current:
        current.pods_may_be_lost, current.rejects_within = True, REJECTED_WITHIN
        current.traffic.until_more_end(30)
    print(f"the kubelets rejected {len(kubelets.rejected)} pods")
    cluster.kill("scheduler-a", "scheduler-b")


@pytest.mark.long
def test_ours_beside_kubernetes_own(cluster: DrillCluster) -> None:
    cluster.plane.start_scheduler()
    cluster.start("scheduler")
    with KubeletAdmission(cluster) as kubelets, drill(cluster, "beside", at_once=8) as current:
        current.pods_may_be_lost, current.rejects_within = True, REJECTED_WITHIN
        body: Raw = deployment(replicas=4)
        for number in range(10):
            body["metadata"] = {"name": f"other-{number}", "namespace": "default"}
            cluster.plane.request("POST", "/apis/apps/v1/namespaces/default/deployments", body)
            current.traffic.until_more_end(3)
            cluster.checked("delete", "deployment", f"other-{number}")
    print(f"the kubelets rejected {len(kubelets.rejected)} pods: {kubelets.rejected}")
    cluster.kill("scheduler")


def deployment(replicas: int) -> Raw:
    """Pods of one GPU each, for the cluster's own scheduler."""
    limits = {"limits": {"nvidia.com/gpu": 1}}
    labels = {"app": "other"}
    spec = {"containers": [{"name": "main", "image": "i", "resources": limits}]}
    return {
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }
    }
