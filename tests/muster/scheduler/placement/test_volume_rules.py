"""Pods with claims: they go where their volumes can be reached, and gangs wait for them whole."""

from __future__ import annotations

import pytest
from msgspec import convert

from kubekit.objects.storage import CsiNode, PersistentVolume, StorageClass, VolumeClaim
from tests.muster.scheduler.builders import node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster
from tests.muster.scheduler.volume_builders import choices, using

pytestmark = pytest.mark.looptime


def add_claim(cluster: FakeCluster, name: str, volume: str = "", storage: str = "") -> None:
    raw = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeName": volume, "storageClassName": storage},
        "status": {"phase": "Bound" if volume else "Pending"},
    }
    cluster.add(convert(raw, VolumeClaim))


def add_volume(cluster: FakeCluster, name: str, zone: str) -> None:
    row = {"key": "zone", "operator": "In", "values": [zone]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [row]}]}
    raw = {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": required}}}
    cluster.add(convert(raw, PersistentVolume))


def zoned() -> FakeCluster:
    cluster = FakeCluster()
    cluster.add(node("a", gpus=2, labels={"zone": "a"}), node("b", gpus=2, labels={"zone": "b"}))
    late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.add(convert(late, StorageClass))
    return cluster


async def test_a_pod_goes_to_the_node_of_its_volume() -> None:
    cluster = zoned()
    add_volume(cluster, "pv", "b")
    add_claim(cluster, "data", "pv")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert cluster.bound() == {"p": "b"}


async def test_a_pod_without_its_claim_waits_with_a_reason() -> None:
    cluster = zoned()
    cluster.add(pod("p", spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        assert cluster.reason("p") == "its claim data does not exist"
        add_claim(cluster, "data")
        await cluster.settle()
        assert cluster.reason("p") == "its claim data is not bound to a volume yet"
        add_volume(cluster, "pv", "a")
        add_claim(cluster, "data", "pv")
        await cluster.settle()

    assert cluster.bound() == {"p": "a"}


async def test_a_gang_is_bound_whole_once_volumes_are_provisioned_where_it_was_placed() -> None:
    cluster = zoned()
    for i in range(2):
        add_claim(cluster, f"data-{i}", storage="late")
    cluster.add(volcano_group("g", 2))
    cluster.add(*(pod(f"g-{i}", gpus=1, group="g", spec=using(f"data-{i}")) for i in range(2)))
    async with cluster.running():
        await cluster.settle()
        assert choices(cluster) == {"data-0": ("a", ""), "data-1": ("a", "")}
        assert cluster.bound() == {}
        cluster.add(pod("rival", gpus=2, created=9), pod("rival-2", gpus=1, created=10))
        await cluster.settle()
        assert cluster.bound() == {"rival": "b"}  # the gang's rooms are kept
        add_volume(cluster, "pv", "a")
        add_claim(cluster, "data-0", "pv")
        await cluster.settle()
        assert cluster.bound("g") == {}
        add_claim(cluster, "data-1", "pv")
        await cluster.settle()

    assert cluster.bound("g") == {"g-0": "a", "g-1": "a"}


def one_pod_claim(cluster: FakeCluster, name: str) -> None:
    cluster.add(convert({"metadata": {"name": "pv"}}, PersistentVolume))
    raw = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeName": "pv", "accessModes": ["ReadWriteOncePod"]},
        "status": {"phase": "Bound"},
    }
    cluster.add(convert(raw, VolumeClaim))


async def test_a_claim_for_one_pod_is_used_by_one_pod_at_a_time() -> None:
    cluster = zoned()
    one_pod_claim(cluster, "alone")
    cluster.add(pod("p", spec=using("alone")), pod("q", spec=using("alone"), created=1))
    async with cluster.running():
        await cluster.settle()
        assert set(cluster.bound()) == {"p"}
        assert "its ReadWriteOncePod claim is in use" in cluster.reason("q")
        cluster.finish("p", "Succeeded")
        await cluster.settle()

    assert "q" in cluster.bound()


async def test_a_gang_whose_members_share_a_claim_for_one_pod_is_not_started() -> None:
    cluster = zoned()
    one_pod_claim(cluster, "alone")
    cluster.add(volcano_group("g", 2))
    cluster.add(*(pod(f"g-{i}", group="g", spec=using("alone")) for i in range(2)))
    await cluster.run()

    assert cluster.bound() == {}


def csi(cluster: FakeCluster, *names: str, handle: str = "") -> None:
    """Bound claims on volumes of one driver, each its own volume unless they share a handle."""
    for name in names:
        source = {"driver": "disk.csi", "volumeHandle": handle or name}
        raw = {"metadata": {"name": f"pv-{name}"}, "spec": {"csi": source}}
        cluster.add(convert(raw, PersistentVolume))
        add_claim(cluster, name, f"pv-{name}")


def attachable(cluster: FakeCluster, node: str, most: int) -> None:
    drivers = [{"name": "disk.csi", "allocatable": {"count": most}}]
    raw = {"metadata": {"name": node}, "spec": {"drivers": drivers}}
    cluster.add(convert(raw, CsiNode))


async def test_no_node_gets_more_volumes_than_its_driver_can_attach() -> None:
    cluster = zoned()
    attachable(cluster, "a", 1)
    attachable(cluster, "b", 1)
    csi(cluster, "one", "two", "three")
    names = ("one", "two", "three")
    cluster.add(*(pod(n, spec=using(n), created=i) for i, n in enumerate(names)))
    async with cluster.running():
        await cluster.settle()
        assert sorted(cluster.bound().values()) == ["a", "b"]
        assert "2 nodes at the volume attach limit" in cluster.reason("three")
        attachable(cluster, "b", 2)
        cluster.loop.wake()
        await cluster.settle()

    assert len(cluster.bound()) == 3


async def test_a_volume_that_is_already_attached_counts_once_towards_the_limit() -> None:
    cluster = zoned()
    attachable(cluster, "a", 1)
    attachable(cluster, "b", 0)
    csi(cluster, "one", "two", handle="shared")
    cluster.add(*(pod(n, spec=using(n)) for n in ("one", "two")))
    await cluster.run()

    assert cluster.bound() == {"one": "a", "two": "a"}


async def test_a_volume_is_provisioned_only_where_its_storage_class_allows_it() -> None:
    cluster = zoned()
    row = {"key": "zone", "values": ["b", "c"]}
    late = {
        "metadata": {"name": "late"},
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [row]}],
    }
    cluster.add(convert(late, StorageClass))
    add_claim(cluster, "data", storage="late")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert choices(cluster) == {"data": ("b", "")}
