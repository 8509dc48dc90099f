"""The drills that take longer: partitions, lost nodes, lost CRDs, lost history."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.drills.cluster import (
    ELECTED,
    DrillCluster,
    drill_cluster,
    install,
    kill_and_start_again,
    start_both,
)
from tests.drills.drill import Drill, drill
from tests.drills.pod_history import read_events
from tests.kubekit.client.networks.intermediaries import Relay
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.long]
POD_GROUPS = "podgroups.scheduling.volcano.sh"
LEASES = {"short": ELECTED, "default": ("--leader-elect",)}
"""The flags for leases: short ones for quick drills, and those of an installation."""


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[DrillCluster]:
    with drill_cluster(control_plane_binaries, nodes=5) as started:
        start_both(started, *ELECTED)
        yield started


def test_etcd_restarted_again_and_again(cluster: DrillCluster) -> None:
    def restart() -> None:
        cluster.plane.kill_etcd()
        cluster.plane.start_etcd()
        cluster.plane.await_ready()
        cluster.restart_kwok()

    with drill(cluster, "etcd", at_once=7) as current:
        current.repeat(restart, times=3, after=3)


def test_api_server_killed_again_and_again(cluster: DrillCluster) -> None:
    def restart() -> None:
        cluster.plane.kill_apiserver()
        cluster.plane.start_apiserver()
        cluster.restart_kwok()

    with drill(cluster, "apiserver", at_once=7) as current:
        current.repeat(restart, times=3, after=3)


def test_operator_and_scheduler_killed_again_and_again(cluster: DrillCluster) -> None:
    with drill(cluster, "killed", at_once=7) as current:
        current.repeat(partial(kill_and_start_again, cluster), times=5, after=2)


def test_the_crd_of_pod_groups_removed_and_put_back(cluster: DrillCluster) -> None:
    with drill(cluster, "no-groups", at_once=7) as current:
        # Gangs that wait are written in the dialect that needs no PodGroup, and start.
        current.waiting_pods_may_change = True

        def remove_and_put_back() -> None:
            cluster.checked("delete", "crd", POD_GROUPS)
            current.traffic.until_more_end(5)
            install(cluster.plane)

        current.repeat(remove_and_put_back, times=3, after=3)


def test_the_crd_of_jobs_removed_and_put_back(cluster: DrillCluster) -> None:
    residents = ("PyTorchJob", "JAXJob")
    with drill(cluster, "no-tfjobs", at_once=7, residents=residents) as current:
        current.traffic.until_more_end(3)
        current.traffic.lost_kinds.add("TFJob")
        with current.trouble():
            cluster.checked("delete", "crd", "tfjobs.kubeflow.org")
            install(cluster.plane)
        current.traffic.until_more_end(10)


def pods_on(current: Drill, node: str) -> int:
    path = f"/api/v1/namespaces/{current.traffic.namespace}/pods?fieldSelector=spec.nodeName={node}"
    items = current.cluster.plane.request("GET", path)[1]["items"]
    return sum(pod["status"]["phase"] == "Running" for pod in items)


def test_a_node_deleted(cluster: DrillCluster) -> None:
    with drill(cluster, "node-deleted", at_once=7) as current:
        current.pods_may_be_lost = True
        node = busiest_node(current)
        with current.trouble():
            cluster.checked("delete", "node", node, "--wait=false")
            # The garbage collector of pods waits for 40 s before it deletes them.
            until(lambda: pods_on(current, node) == 0, timeout=180, what="pods of the node gone")
        cluster.plane.add_node(node, cpu=32, gpus=cluster.gpus[node])
    assert current.report
    assert current.report.recreated > 0


def test_a_node_whose_taint_evicts_its_pods(cluster: DrillCluster) -> None:
    with drill(cluster, "node-tainted", at_once=7) as current:
        current.pods_may_be_lost = True
        node = busiest_node(current)
        with current.trouble():
            cluster.checked("taint", "node", node, "drill=lost:NoExecute")
            until(lambda: pods_on(current, node) == 0, timeout=60, what="its pods are evicted")
        current.traffic.until_more_end(3)
        cluster.checked("taint", "node", node, "drill-")
    assert current.report
    assert current.report.recreated > 0


def busiest_node(current: Drill) -> str:
    """The node with most of the pods that run; residents are among them."""
    return max(current.cluster.gpus, key=lambda node: pods_on(current, node))


@pytest.mark.parametrize("leases", LEASES)
@pytest.mark.parametrize("kind", ["silence", "answers-lost"])
def test_partition_in_front_of_the_leading_scheduler(
    cluster: DrillCluster, leases: str, kind: str
) -> None:
    cluster.kill("scheduler")
    former = cluster.leader("scheduler")
    with Relay(cluster.address) as relay:
        cluster.start("scheduler", "scheduler-a", *LEASES[leases], relay=relay)
        first = cluster.await_leader("scheduler", other_than=former)
        cluster.start("scheduler", "scheduler-b", *LEASES[leases])
        with drill(cluster, f"partition-{leases}-{kind}", at_once=7) as current:
            for _ in range(2):
                current.traffic.until_more_end(3)
                with current.trouble():
                    if kind == "silence":
                        relay.go_dead()
                    else:
                        relay.loses_answers = True
                    second = cluster.await_leader("scheduler", other_than=first)
                current.traffic.until_more_end(5)
                relay.revive()
                with current.trouble():
                    cluster.kill("scheduler-b")
                    assert cluster.await_leader("scheduler", other_than=second) == first
                    cluster.start_again("scheduler-b")
        cluster.kill("scheduler-a", "scheduler-b")
    cluster.start_again("scheduler")
    cluster.await_leader("scheduler", other_than=first)


def test_history_compacted_behind_a_partition(control_plane_binaries: Path) -> None:
    # Without the API server's watch cache, a watch from a compacted version fails with 410.
    with (
        drill_cluster(control_plane_binaries, watch_cache=False) as cluster,
        Relay(cluster.address) as relay,
    ):
        start_both(cluster, relay=relay)

        def compact() -> None:
            relay.go_dead()
            label = f"round={len(cluster.troubles)}"
            cluster.checked("label", "nodes", "--all", label, "--overwrite")
            cluster.plane.compact()
            relay.revive()

        with drill(cluster, "compacted") as current:
            current.repeat(compact, times=3, after=2)
        assert lists_of_pods(cluster, "scheduler") >= 4
        assert lists_of_pods(cluster, "operator") >= 4


def lists_of_pods(cluster: DrillCluster, component: str) -> int:
    """How often a daemon listed all pods: once at its start, and after every 410."""
    user = f"system:serviceaccount:muster:muster-{component}"
    return sum(
        event["verb"] == "list"
        and event["objectRef"]["resource"] == "pods"
        and event["user"]["username"] == user
        for event in read_events(cluster.plane.audit_log)
    )
