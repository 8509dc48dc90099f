"""Members that no node would do for: the trouble concerns them, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, cluster_with_gang
from tests.muster.scheduler.placement.test_volume_rules import add_claim, add_volume
from tests.muster.scheduler.volume_builders import using

pytestmark = pytest.mark.looptime
RESOURCE_CLAIMS: dict[str, Any] = {"resourceClaims": [{"name": "gpu"}]}
troubles = pytest.mark.parametrize("spec", [using("missing"), RESOURCE_CLAIMS])


@troubles
async def test_unplaceable_surplus_does_not_hold_the_minimum_back(spec: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 3))
    cluster.add(pod("a-trouble", group="g", gpus=1, spec=spec), *gang("g", 3, gpus=1))
    await cluster.run(5)

    assert set(cluster.bound()) == {"g-0", "g-1", "g-2"}
    assert cluster.reason("g").startswith("a-trouble: ")


@troubles
async def test_a_replacement_is_bound_while_a_surplus_member_is_unplaceable(
    spec: dict[str, Any],
) -> None:
    cluster = cluster_with_gang(3)
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("a-trouble", group="g", gpus=1, spec=spec, created=5))
        await cluster.settle()
        cluster.delete_pod("g-1")
        cluster.add(pod("g-9", group="g", gpus=1, created=9))
        await cluster.settle()

    assert set(cluster.bound()) == {"g-0", "g-2", "g-9"}


async def test_a_gang_that_needs_an_unplaceable_member_waits_whole_and_names_it() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 3), *gang("g", 2, gpus=1))
    cluster.add(pod("g-2", group="g", gpus=1, spec=using("data")))
    async with cluster.running():
        await cluster.settle(5)
        assert cluster.bound() == {}
        assert cluster.reason("g") == "g-2: its claim data does not exist"
        before = len(cluster.reports)
        cluster.add(pod("else", gpus=1))
        await cluster.settle()
        assert [report for report in cluster.reports[before:] if report.gang.name == "g"] == []
        add_volume(cluster, "pv", "b")
        cluster.add(node("n1", gpus=4, labels={"zone": "b"}))
        add_claim(cluster, "data", "pv")
        await cluster.settle()

    assert len(cluster.bound("g")) == 3
    assert cluster.reason("g") == ""


async def test_the_room_of_a_dead_member_is_held_while_its_replacement_is_unplaceable() -> None:
    cluster = cluster_with_gang(3)
    async with cluster.running():
        await cluster.settle()
        cluster.delete_pod("g-1")
        cluster.add(pod("g-9", group="g", gpus=1, spec=using("missing"), created=9))
        cluster.add(pod("rival", gpus=1, created=10))
        await cluster.settle(60)

    assert cluster.bound("rival") == {}
    assert "g-9: its claim missing does not exist" in cluster.reason("g")


async def test_after_a_restart_an_unplaceable_member_does_not_look_half_bound() -> None:
    cluster = cluster_with_gang(3)
    cluster.add(pod("a-trouble", group="g", gpus=1, spec=using("missing")))
    await cluster.run()
    cluster.delete_pod("g-1")
    cluster.add(node("n1", gpus=2))

    cluster.restart()
    await cluster.run(60)

    assert cluster.deletes == []
