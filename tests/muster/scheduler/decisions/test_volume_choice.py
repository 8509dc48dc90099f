"""Existing volumes: which claim gets which volume, and where its pods go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.muster.scheduler.builders import node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster
from tests.muster.scheduler.volume_builders import choices, claim, cluster_of, using, volume

pytestmark = pytest.mark.looptime

ZONE = "topology.kubernetes.io/zone"


async def test_a_pod_goes_to_the_node_of_a_volume_that_suits_its_claim() -> None:
    cluster = cluster_of("n1", "n2")
    volume(cluster, "large", "n2", size="9Gi")
    volume(cluster, "small", "n2", size="2Gi")
    volume(cluster, "tiny", "n1", size="1Mi")
    claim(cluster, "data", storage="static")
    cluster.add(pod("p", spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        assert choices(cluster) == {"data": ("n2", "small")}
        assert cluster.bound() == {}
        volume(cluster, "small", "n2", size="2Gi", claimed_by="data")
        await cluster.settle()
        assert cluster.bound() == {}
        claim(cluster, "data", storage="static", volume="small")
        await cluster.settle()

    assert cluster.bound() == {"p": "n2"}


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ({"volumeMode": "Block"}, {}),
        ({"accessModes": ["ReadWriteMany"]}, {}),
        ({"selector": {"matchLabels": {"kind": "ssd"}}}, {}),
        ({"resources": {"requests": {"storage": "2Gi"}}}, {}),
        ({}, {"storageClassName": "another"}),
    ],
)
async def test_a_volume_that_does_not_suit_the_claim_is_not_taken(
    asked: dict[str, Any], offered: dict[str, Any]
) -> None:
    cluster = cluster_of("n1")
    volume(cluster, "pv", "n1", spec=offered)
    claim(cluster, "data", storage="static", spec=asked)
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert cluster.provisions == []
    assert cluster.bound() == {}


async def test_an_existing_volume_is_taken_before_one_is_provisioned() -> None:
    cluster = cluster_of("n1", "n2")
    volume(cluster, "pv", "n1", storage="late")
    for name in ("a", "b"):
        claim(cluster, name)
    cluster.add(volcano_group("g", 2))
    cluster.add(*(pod(f"g-{n}", group="g", spec=using(n)) for n in ("a", "b")))
    await cluster.run()

    assert choices(cluster) == {"a": ("n1", "pv"), "b": ("n1", "")}


async def test_members_of_a_gang_do_not_count_on_the_same_volume() -> None:
    cluster = cluster_of("n1", "n2")
    volume(cluster, "pv-1", "n1")
    for name in ("a", "b"):
        claim(cluster, name, storage="static")
    cluster.add(volcano_group("g", 2))
    cluster.add(*(pod(f"g-{n}", group="g", spec=using(n)) for n in ("a", "b")))
    async with cluster.running():
        await cluster.settle()
        assert cluster.provisions == []
        volume(cluster, "pv-2", "n2")
        await cluster.settle()

    assert choices(cluster) == {"a": ("n1", "pv-1"), "b": ("n2", "pv-2")}


async def test_a_volume_chosen_for_one_gang_is_not_given_to_the_next() -> None:
    cluster = cluster_of("n1")
    volume(cluster, "pv", "n1")
    claim(cluster, "a", storage="static")
    claim(cluster, "b", storage="static")
    cluster.add(pod("p", spec=using("a")), pod("q", spec=using("b"), created=9))
    await cluster.run()

    assert choices(cluster) == {"a": ("n1", "pv")}


async def test_a_claim_with_several_volumes_leaves_the_only_volume_of_another_claim_alone() -> None:
    cluster = cluster_of("n1")
    volume(cluster, "ssd", "n1", labels={"kind": "ssd"})
    volume(cluster, "tape", "n1", size="2Gi")
    claim(cluster, "any", storage="static")
    claim(cluster, "picky", storage="static", spec={"selector": {"matchLabels": {"kind": "ssd"}}})
    cluster.add(pod("p", spec=using("any", "picky")))
    await cluster.run()

    assert choices(cluster) == {"any": ("n1", "tape"), "picky": ("n1", "ssd")}


async def test_a_claim_that_is_being_deleted_is_not_used() -> None:
    cluster = cluster_of("n1")
    volume(cluster, "pv", claimed_by="data")
    claim(cluster, "data", volume="pv", deleted=True)
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert cluster.bound() == {}
    assert cluster.reason("p") == "its claim data is being deleted"


async def test_a_claim_whose_volume_is_deleted_is_not_used() -> None:
    cluster = cluster_of("n1")
    claim(cluster, "data", volume="pv")
    cluster.add(pod("p", spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        assert cluster.reason("p") == "the volume pv of its claim data does not exist"
        volume(cluster, "pv", claimed_by="data")
        await cluster.settle()

    assert cluster.bound() == {"p": "n1"}


@pytest.mark.parametrize(
    ("labels", "goes"),
    [
        ({ZONE: "b"}, "in-b"),
        ({ZONE: "c__b"}, "in-b"),
        ({"failure-domain.beta.kubernetes.io/zone": "b"}, "in-b"),
        ({"topology.kubernetes.io/region": "eu"}, "in-eu"),
        ({ZONE: "c"}, ""),
    ],
)
async def test_a_pod_goes_to_the_zone_of_its_volumes_label(
    labels: dict[str, str], goes: str
) -> None:
    cluster = FakeCluster()
    cluster.add(
        node("in-a", labels={ZONE: "a"}),
        node("in-b", labels={ZONE: "b"}),
        node("in-eu", labels={"topology.kubernetes.io/region": "eu"}),
    )
    volume(cluster, "pv", labels=labels, claimed_by="data")
    claim(cluster, "data", volume="pv")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert cluster.bound() == ({"p": goes} if goes else {})


async def test_a_node_without_zone_labels_reaches_every_volume() -> None:
    cluster = cluster_of("n1")
    volume(cluster, "pv", labels={ZONE: "c"}, claimed_by="data")
    claim(cluster, "data", volume="pv")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert cluster.bound() == {"p": "n1"}
