"""Binds that fail half-way, schedulers that die: gangs are made whole again or released whole."""

from __future__ import annotations

import pytest

from kubekit.errors import ConfigError
from kubekit.objects.core import Pod
from kubekit.request_errors import Forbidden, NotFound, ServerError, Unauthorized, Unreachable
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, cluster_with_gang

pytestmark = pytest.mark.looptime


async def test_a_bind_that_gets_a_server_error_is_retried_until_the_gang_is_whole() -> None:
    cluster = cluster_with_gang(4)
    troubles = ["g-2", "g-2", "g-1"]

    def fault(pod: Pod, node: str) -> Exception | None:
        if pod.metadata.name in troubles:
            troubles.remove(pod.metadata.name)
            return ServerError("etcd is away", status=500)
        return None

    cluster.fault = fault
    await cluster.run(5)

    assert len(cluster.bound("g")) == 4
    assert troubles == []


@pytest.mark.parametrize(
    "error", [ConfigError("the plugin failed"), Unauthorized("not yet", status=401)]
)
async def test_a_credential_that_fails_for_a_moment_neither_stops_the_binder_nor_counts_as_refused(
    error: Exception,
) -> None:
    cluster = cluster_with_gang(2)
    failing = ["g-1"]
    cluster.fault = lambda pod, node: error if pod.metadata.name in failing else None
    async with cluster.running():
        await cluster.settle(0.1)
        failing.clear()
        await cluster.settle(1)

    assert len(cluster.bound("g")) == 2
    assert len(cluster.plans) == 1


async def test_a_bind_whose_answer_is_lost_does_not_count_as_failed() -> None:
    cluster = cluster_with_gang(2)
    cluster.fault_after = lambda pod, node: Unreachable("timed out")
    await cluster.run(5)

    assert len(cluster.bound("g")) == 2
    assert len(cluster.binds) == 2


def delete_node_of_second_bind(cluster: FakeCluster) -> None:
    """From now on the bind of g-1 is refused, and the node that it names is deleted."""

    def fault(pod: Pod, name: str) -> Exception | None:
        if pod.metadata.name == "g-1" and name in cluster.nodes:
            cluster.delete_node(name)
            return Forbidden("no", status=403)
        return None

    cluster.fault = fault


async def test_a_half_bound_gang_that_cannot_be_made_whole_is_released_within_ten_seconds() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1), node("n2", gpus=1), volcano_group("g", 2))
    cluster.add(*gang("g", 2, gpus=1))
    delete_node_of_second_bind(cluster)
    await cluster.run(10)

    assert cluster.bound("g") == {}
    assert [d.reason for d in cluster.deletes] == ["Released"]
    assert [p.metadata.name for p in cluster.deletes[0].pods] == ["g-0"]


async def test_pods_without_a_controller_are_never_deleted() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1), node("n2", gpus=1), volcano_group("g", 2))
    cluster.add(*gang("g", 2, gpus=1, controller=""))
    delete_node_of_second_bind(cluster)
    await cluster.run(60)

    assert list(cluster.bound("g")) == ["g-0"]
    assert cluster.deletes == []


async def test_no_other_pod_takes_the_room_of_a_rejected_bind() -> None:
    cluster = cluster_with_gang(2)
    cluster.add(pod("rival", gpus=1, created=9))
    refused = ["g-1"] * 3

    def fault(pod: Pod, node: str) -> Exception | None:
        if pod.metadata.name in refused:
            refused.pop()
            return Forbidden("not yet", status=403)
        return None

    cluster.fault = fault
    await cluster.run(10)

    assert len(cluster.bound("g")) == 2
    assert cluster.bound("rival") == {}


async def test_a_pod_deleted_while_its_gang_is_bound_leaves_its_room_to_the_replacement() -> None:
    cluster = cluster_with_gang(2)
    cluster.add(pod("rival", gpus=1, created=9))

    def vanish(pod: Pod, node: str) -> Exception | None:
        if pod.metadata.name == "g-1" and pod.metadata.key in cluster.pods:
            cluster.fault = lambda pod, node: None
            cluster.delete_pod("g-1")
            return NotFound("gone", status=404)
        return None

    cluster.fault = vanish
    async with cluster.running():
        await cluster.settle(5)
        assert list(cluster.bound()) == ["g-0"]
        cluster.add(pod("g-1", gpus=1, group="g", created=10))
        await cluster.settle(5)

    assert set(cluster.bound()) == {"g-0", "g-1"}


async def test_after_a_restart_a_half_bound_gang_is_completed_before_anything_else() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 4, created=5), *gang("g", 4, gpus=1))
    stuck: list[str] = []

    def die(pod: Pod, node: str) -> Exception | None:
        if len(cluster.binds) >= 2:
            stuck.append(pod.metadata.name)
            return Unreachable("killed")
        return None

    cluster.fault = die
    await cluster.run(0.01)
    assert len(cluster.bound("g")) == 2

    cluster.fault = lambda pod, node: None
    polite = {"priority": 100, "spec": {"preemptionPolicy": "Never"}}
    cluster.add(volcano_group("a-rival", 2), *gang("a-rival", 2, gpus=1, **polite))
    cluster.restart()
    await cluster.run(5)

    assert len(cluster.bound("g")) == 4
    assert cluster.bound("a-rival") == {}


async def test_after_a_restart_a_half_bound_gang_without_room_is_released() -> None:
    cluster = cluster_with_gang(2)

    def die(pod: Pod, node: str) -> Exception | None:
        return Unreachable("killed") if cluster.binds else None

    cluster.fault = die
    await cluster.run(0.01)
    assert len(cluster.bound("g")) == 1
    cluster.fault = lambda pod, node: None
    cluster.add(node("n1", gpus=1))

    cluster.restart()
    await cluster.run(10)

    assert cluster.bound("g") == {}
    assert [d.reason for d in cluster.deletes] == ["Released"]


async def test_after_a_restart_the_room_of_a_lost_member_is_held_before_rivals_are_placed() -> None:
    cluster = cluster_with_gang(4)
    await cluster.run()
    cluster.delete_pod("g-2")
    cluster.add(volcano_group("a-rival", 1), *gang("a-rival", 1, gpus=1))

    cluster.restart()
    async with cluster.running():
        await cluster.settle(5)
        assert cluster.bound("a-rival") == {}
        cluster.add(pod("g-2", gpus=1, group="g", created=2_000_000))
        await cluster.settle(5)

    assert len(cluster.bound("g")) == 4
    assert cluster.bound("a-rival") == {}
    assert cluster.deletes == []


async def test_binds_in_flight_when_the_lead_is_lost_are_settled_in_the_next_term() -> None:
    cluster = cluster_with_gang(4)
    cluster.fault = lambda pod, node: Unreachable("cut off") if len(cluster.binds) >= 2 else None
    await cluster.run(0.02)
    assert len(cluster.bound("g")) == 2

    cluster.fault = lambda pod, node: None
    async with cluster.running():  # this process leads again, with the same state
        await cluster.settle(5)

    assert len(cluster.bound("g")) == 4
    assert cluster.state.assumed == {}


async def test_a_bind_that_succeeds_after_the_lead_is_lost_is_not_sent_twice() -> None:
    cluster = cluster_with_gang(2)
    cluster.fault_after = lambda pod, node: Unreachable("cut off")
    await cluster.run(0.0015)

    cluster.fault_after = lambda pod, node: None
    await cluster.run(5)

    assert len(cluster.bound("g")) == 2
    assert len(cluster.binds) == 2
