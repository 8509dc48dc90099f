"""Claims without a volume: pods wait until volumes are provisioned where they will run."""

from __future__ import annotations

import pytest

from kubekit.objects.meta import Key
from muster.scheduler.cluster.volumes import VolumeChoice
from muster.scheduler.decisions.volume_provisioning import YIELD_SECONDS
from muster.scheduler.settings import Settings
from tests.muster.scheduler.builders import gang, pod, volcano_group
from tests.muster.scheduler.volume_builders import choices, claim, cluster_of, using, volume

pytestmark = pytest.mark.looptime


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
        volume(cluster, "made", "n1", storage="late", claimed_by="data")
        claim(cluster, "data", volume="made")
        await cluster.settle()

    assert cluster.bound() == {"p": "n1"}
    assert choices(cluster) == {"data": ("n1", "")}
    assert len(cluster.provisions) == 1


async def test_a_pod_whose_claim_has_no_provisioner_and_no_volume_waits() -> None:
    cluster = cluster_of("n1")
    claim(cluster, "data", storage="static")
    cluster.add(pod("p", gpus=1, spec=using("data")))
    async with cluster.running():
        await cluster.settle(5)
        assert cluster.bound() == {}
        assert "1 node that cannot reach its volumes" in cluster.reason("p")
        cluster.add(pod("other", gpus=1, created=9))
        await cluster.settle()

    assert cluster.bound() == {"other": "n1"}
    assert cluster.provisions == []


async def test_a_gang_that_shares_a_claim_waits_for_its_volume() -> None:
    cluster = cluster_of("n1", "n2")
    claim(cluster, "data")
    cluster.add(volcano_group("g", 2), *gang("g", 2, gpus=1, spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        assert choices(cluster) == {"data": ("n1", "")}
        claim(cluster, "data", node="n1")
        await cluster.settle()
        assert cluster.bound() == {}
        assert cluster.reason("g") == "waits for a volume to be bound to its claims"
        volume(cluster, "made", storage="late", claimed_by="data")
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
        where = choices(cluster)["data"][0]
        volume(cluster, "made", where, storage="late", claimed_by="data")
        claim(cluster, "data", volume="made")
        await cluster.settle()

    assert cluster.bound("g-1") == {"g-1": where}


async def test_a_member_waits_for_its_volume_while_the_bind_of_another_is_in_flight() -> None:
    cluster = cluster_of("n1", "n2")
    claim(cluster, "data")
    cluster.add(volcano_group("g", 2), *gang("g", 2))
    async with cluster.running():
        await cluster.settle(0.0005)
        assert len(cluster.state.assumed) == 2
        cluster.delete_pod("g-0")
        cluster.add(pod("g-2", group="g", spec=using("data")))
        await cluster.settle(0.0001)
        assert len(cluster.state.assumed) == 1
        where = choices(cluster)["data"][0]
        volume(cluster, "made", where, storage="late", claimed_by="data")
        claim(cluster, "data", volume="made")
        await cluster.settle()

    assert set(cluster.bound()) == {"g-1", "g-2"}


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
        volume(cluster, "made", "n1", storage="late", claimed_by="data")
        claim(cluster, "data", volume="made")
        await cluster.settle(YIELD_SECONDS)

    assert cluster.bound() == {"p": "n1"}


async def test_a_claim_gets_another_node_when_its_selected_node_is_deleted() -> None:
    cluster = cluster_of("n1", "n2")
    claim(cluster, "data", node="gone")
    cluster.add(pod("p", spec=using("data")))
    await cluster.run()

    assert choices(cluster) == {"data": ("n1", "")}


async def test_a_claim_with_a_selected_node_of_another_scheduler_ties_its_pod_to_that_node() -> (
    None
):
    cluster = cluster_of("n1", "n2")
    claim(cluster, "data", node="n2")
    cluster.add(pod("p", gpus=1, spec=using("data")))
    async with cluster.running():
        await cluster.settle()
        volume(cluster, "made", storage="late", claimed_by="data")
        claim(cluster, "data", volume="made", node="n2")
        await cluster.settle()

    assert cluster.bound() == {"p": "n2"}
