"""Claims without a volume: pods wait for volumes made or chosen where they are to run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from muster.api.meta import Key
from muster.api.storage import NO_PROVISIONER, PersistentVolume, StorageClass, VolumeClaim
from muster.scheduler.cluster.volumes import VolumeChoice
from muster.scheduler.decisions.volume_provisioning import YIELD_SECONDS
from muster.scheduler.settings import Settings
from tests.scheduler.builders import gang, node, pod, volcano_group
from tests.scheduler.fake_cluster import FakeCluster

pytestmark = pytest.mark.looptime

LOST = "2026-01-01T00:00:00Z"
ZONE = "topology.kubernetes.io/zone"


def using(*claims: str) -> dict[str, Any]:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return {"volumes": volumes}


def claim(
    cluster: FakeCluster,
    name: str,
    *,
    storage: str = "late",
    size: str = "1Gi",
    volume: str = "",
    node: str = "",
    spec: dict[str, Any] | None = None,
    deleted: bool = False,
) -> None:
    """A claim that came or changed."""
    marks = {"volume.kubernetes.io/selected-node": node} if node else {}
    raw = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"claim-{name}",
            "annotations": marks,
        }
        | ({"deletionTimestamp": LOST} if deleted else {}),
        "spec": {
            "volumeName": volume,
            "storageClassName": storage,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **(spec or {}),
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }
    cluster.add(convert(raw, VolumeClaim))


def volume(
    cluster: FakeCluster,
    name: str,
    host: str = "",
    *,
    storage: str = "static",
    size: str = "1Gi",
    labels: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    kept_for: str = "",
) -> None:
    """A volume that came or changed; with `host`, on that node only."""
    row = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [row]}]}
    ref = {"namespace": "default", "name": kept_for, "uid": f"claim-{kept_for}"}
    raw = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            **({"nodeAffinity": {"required": required}} if host else {}),
            **({"claimRef": ref} if kept_for else {}),
            **(spec or {}),
        },
        "status": {"phase": "Bound" if kept_for else "Available"},
    }
    cluster.add(convert(raw, PersistentVolume))


def storage_class(cluster: FakeCluster, name: str, provisioner: str, **more: Any) -> None:
    mode = {"volumeBindingMode": "WaitForFirstConsumer"}
    raw = {"metadata": {"name": name}, "provisioner": provisioner, **mode, **more}
    cluster.add(convert(raw, StorageClass))


def cluster_of(*nodes: str, settings: Settings | None = None) -> FakeCluster:
    """Nodes of one GPU; a class `late` that makes volumes and a class `static` that does not."""
    cluster = FakeCluster(settings)
    cluster.add(*(node(name, gpus=1) for name in nodes))
    storage_class(cluster, "late", "disk.csi")
    storage_class(cluster, "static", NO_PROVISIONER)
    return cluster


def told(cluster: FakeCluster) -> dict[str, tuple[str, str]]:
    """Node and volume that claims were given, the last word of each."""
    claims = [pair for provision in cluster.provisions for pair in provision.claims]
    return {key.name: (one.node, one.volume) for key, one in claims}


async def test_a_pod_waits_for_its_volume_however_often_it_is_considered() -> None:
    cluster = cluster_of("n1")
    claim(cluster, "data")
    cluster.add(pod("p", spec=using("data")))
    async with cluster.running():
        for i in range(5):
            await cluster.settle()
            claim(cluster, f"other-{i}")
        claim(cluster, "data", node="n1")
        await cluster.settle()
        assert cluster.bound() == {}
        assert cluster.reason("p") == "waits for a volume to be bound to its claims"
        volume(cluster, "made", "n1", storage="late", kept_for="data")
        claim(cluster, "data", volume="made")
        await cluster.settle()

    assert cluster.bound() == {"p": "n1"}
    assert told(cluster) == {"data": ("n1", "")}
    assert len(cluster.provisions) == 1


async def test_a_pod_whose_claim_has_no_provisioner_and_no_volume_waits() -> None:
    cluster = cluster_of("n1")
    claim(cluster, "data", storage="static")
    cluster.add(pod("p", gpus=1, spec=using("data")))
    async with cluster.running():
        await cluster.settle(5)
        assert cluster.bound() == {}
        assert "1 node out of reach of its volumes" in cluster.reason("p")
        cluster.add(pod("other", gpus=1, created=9))
        await cluster.settle()

    assert cluster.bound() == {"other": "n1"}
    assert cluster.provisions == []


async def test_a_pod_goes_to_the_node_of_a_volume_that_suits_its_claim() -> None:
    cluster = cluster_of("n1", "n2")
    volume(cluster, "large", "n2", size="9Gi")
    volume(cluster, "small", "n2", size="2Gi")
    volume(cluster, "tiny", "n1", size="1Mi")
    claim(cluster, "data", storage="static")
    cluster.add(pod("p", spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        assert told(cluster) == {"data": ("n2", "small")}
        assert cluster.bound() == {}
        volume(cluster, "small", "n2", size="2Gi", kept_for="data")
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

    assert told(cluster) == {"a": ("n1", "pv"), "b": ("n1", "")}


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

    assert told(cluster) == {"a": ("n1", "pv-1"), "b": ("n2", "pv-2")}


async def test_a_volume_chosen_for_one_gang_is_not_given_to_the_next() -> None:
    cluster = cluster_of("n1")
    volume(cluster, "pv", "n1")
    claim(cluster, "a", storage="static")
    claim(cluster, "b", storage="static")
    cluster.add(pod("p", spec=using("a")), pod("q", spec=using("b"), created=9))
    await cluster.run()

    assert told(cluster) == {"a": ("n1", "pv")}


async def test_a_claim_with_several_volumes_leaves_the_only_volume_of_another_claim_alone() -> None:
    cluster = cluster_of("n1")
    volume(cluster, "ssd", "n1", labels={"kind": "ssd"})
    volume(cluster, "tape", "n1", size="2Gi")
    claim(cluster, "any", storage="static")
    claim(cluster, "picky", storage="static", spec={"selector": {"matchLabels": {"kind": "ssd"}}})
    cluster.add(pod("p", spec=using("any", "picky")))
    await cluster.run()

    assert told(cluster) == {"any": ("n1", "tape"), "picky": ("n1", "ssd")}


async def test_a_gang_that_shares_a_claim_waits_for_its_volume() -> None:
    cluster = cluster_of("n1", "n2")
    claim(cluster, "data")
    cluster.add(volcano_group("g", 2), *gang("g", 2, gpus=1, spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        assert told(cluster) == {"data": ("n1", "")}
        claim(cluster, "data", node="n1")
        await cluster.settle()
        assert cluster.bound() == {}
        assert cluster.reason("g") == "waits for a volume to be bound to its claims"
        volume(cluster, "made", storage="late", kept_for="data")
        claim(cluster, "data", volume="made", node="n1")
        await cluster.settle()

    assert sorted(cluster.bound().values()) == ["n1", "n2"]
    assert len(cluster.provisions) == 1


async def test_a_member_beyond_the_minimum_waits_for_its_volume_too() -> None:
    cluster = cluster_of("n1", "n2")
    claim(cluster, "data")
    cluster.add(volcano_group("g", 1))
    cluster.add(pod("g-0", group="g"), pod("g-1", group="g", spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        assert set(cluster.bound()) == {"g-0"}
        where = told(cluster)["data"][0]
        volume(cluster, "made", where, storage="late", kept_for="data")
        claim(cluster, "data", volume="made")
        await cluster.settle()

    assert cluster.bound("g-1") == {"g-1": where}


async def test_a_choice_that_could_not_be_written_is_decided_again() -> None:
    cluster = cluster_of("n1")
    claim(cluster, "data")
    cluster.add(pod("p", spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        [(key, _)] = cluster.provisions[0].claims
        cluster.state.not_provisioned(cluster.provisions[0].gang, key, when=2.0)
        cluster.loop.wake()
        await cluster.settle(5)

    assert len(cluster.provisions) == 2


async def test_choices_left_unwritten_when_the_lease_is_lost_are_written_in_the_next_term() -> None:
    cluster = cluster_of("n1")
    claim(cluster, "data")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()
    cluster.state.begin_writing()
    await cluster.run()

    assert [dict(p.claims) for p in cluster.provisions] == 2 * [
        {Key("default", "data"): VolumeChoice("n1")}
    ]


async def test_a_gang_whose_volumes_are_not_provisioned_yields_and_tries_again() -> None:
    cluster = cluster_of("n1", settings=Settings(hold_seconds=60))
    claim(cluster, "data")
    cluster.add(pod("p", gpus=1, spec=using("data")))
    async with cluster.running():
        await cluster.settle(30)
        claim(cluster, "data", node="n1")
        cluster.add(pod("other", gpus=1, created=9))
        await cluster.settle(20)
        assert cluster.bound() == {}
        await cluster.settle(20)
        assert cluster.bound() == {"other": "n1"}
        cluster.delete_pod("other")
        await cluster.settle(YIELD_SECONDS)
        volume(cluster, "made", "n1", storage="late", kept_for="data")
        claim(cluster, "data", volume="made")
        await cluster.settle(YIELD_SECONDS)

    assert cluster.bound() == {"p": "n1"}


async def test_a_claim_gets_another_node_when_its_selected_node_is_deleted() -> None:
    cluster = cluster_of("n1", "n2")
    claim(cluster, "data", node="gone")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert told(cluster) == {"data": ("n1", "")}


async def test_a_claim_with_a_selected_node_of_another_scheduler_ties_its_pod_to_that_node() -> (
    None
):
    cluster = cluster_of("n1", "n2")
    claim(cluster, "data", node="n2")
    cluster.add(pod("p", gpus=1, spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        volume(cluster, "made", storage="late", kept_for="data")
        claim(cluster, "data", volume="made", node="n2")
        await cluster.settle()

    assert cluster.bound() == {"p": "n2"}


async def test_a_claim_that_is_being_deleted_is_not_used() -> None:
    cluster = cluster_of("n1")
    volume(cluster, "pv", kept_for="data")
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
        volume(cluster, "pv", kept_for="data")
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
    volume(cluster, "pv", labels=labels, kept_for="data")
    claim(cluster, "data", volume="pv")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert cluster.bound() == ({"p": goes} if goes else {})


async def test_a_node_without_zone_labels_reaches_every_volume() -> None:
    cluster = cluster_of("n1")
    volume(cluster, "pv", labels={ZONE: "c"}, kept_for="data")
    claim(cluster, "data", volume="pv")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert cluster.bound() == {"p": "n1"}
