"""Pods with claims: they go where their volumes can be reached, and gangs wait for them whole."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from muster.api.meta import Key
from muster.scheduler.volumes import Claim, PersistentVolume, StorageClass
from tests.scheduler.builders import node, pod, volcano_group
from tests.scheduler.fake import FakeCluster

pytestmark = pytest.mark.looptime


def using(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def add_claim(cluster: FakeCluster, name: str, volume: str = "", storage: str = "") -> None:
    raw = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeName": volume, "storageClassName": storage},
        "status": {"phase": "Bound" if volume else "Pending"},
    }
    cluster.state.claim_changed(Key("default", name), convert(raw, Claim))
    cluster.loop.wake()


def add_volume(cluster: FakeCluster, name: str, zone: str) -> None:
    row = {"key": "zone", "operator": "In", "values": [zone]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [row]}]}
    raw = {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": required}}}
    cluster.state.volume_changed(name, convert(raw, PersistentVolume))


def zoned() -> FakeCluster:
    cluster = FakeCluster()
    cluster.add(node("a", gpus=2, labels={"zone": "a"}), node("b", gpus=2, labels={"zone": "b"}))
    late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.state.storage_class_changed("late", convert(late, StorageClass))
    return cluster


async def test_a_pod_goes_where_its_volume_is() -> None:
    cluster = zoned()
    add_volume(cluster, "pv", "b")
    add_claim(cluster, "data", "pv")
    cluster.add(pod("p", spec=using("data")))
    async with cluster.running():
        await cluster.settle()

    assert cluster.bound() == {"p": "b"}


async def test_a_pod_without_its_claim_waits_and_says_so() -> None:
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


async def test_a_gang_is_bound_whole_once_volumes_are_made_where_it_was_placed() -> None:
    cluster = zoned()
    for i in range(2):
        add_claim(cluster, f"data-{i}", storage="late")
    cluster.add(volcano_group("g", 2))
    cluster.add(*(pod(f"g-{i}", gpus=1, group="g", spec=using(f"data-{i}")) for i in range(2)))
    async with cluster.running():
        await cluster.settle()
        told = [(key.name, where) for p in cluster.provisions for key, where in p.claims]
        assert told == [("data-0", "a"), ("data-1", "a")]
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
