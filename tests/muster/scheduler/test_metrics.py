"""What is counted: how long binds take, and how often gangs are mended or released."""

from __future__ import annotations

import pytest

from kubekit.objects.core import Pod
from kubekit.request_errors import Invalid
from kubekit.telemetry.metrics import REGISTRY
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, cluster_with_gang

pytestmark = pytest.mark.looptime


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"muster_{name}", labels) or 0.0


async def test_every_bind_is_timed_from_its_plan_until_it_is_settled() -> None:
    binds, seconds = counted("bind_seconds_count"), counted("bind_seconds_sum")
    cluster = cluster_with_gang(4)
    await cluster.run()

    assert counted("bind_seconds_count") == binds + 4
    assert counted("bind_seconds_sum") - seconds == pytest.approx(0.004, rel=0.01)


async def test_a_gang_that_gets_a_replacement_counts_as_mended() -> None:
    before = counted("repairs_total", outcome="mended")
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 2), *gang("g", 3, gpus=1))
    async with cluster.running():
        await cluster.settle()
        assert counted("repairs_total", outcome="mended") == before
        cluster.delete_pod("g-0")
        cluster.delete_pod("g-1")
        cluster.add(pod("g-9", group="g", gpus=1))
        await cluster.settle()

    assert counted("repairs_total", outcome="mended") == before + 1


async def test_a_gang_that_cannot_be_mended_counts_as_released() -> None:
    before = counted("repairs_total", outcome="released")
    cluster = FakeCluster()

    def refuse(member: Pod, where: str) -> Exception | None:
        if member.metadata.name != "g-1":
            return None
        cluster.delete_node("n2")
        return Invalid("no", status=422)

    cluster.fault = refuse
    cluster.add(node("n1", gpus=1), node("n2", gpus=1))
    cluster.add(volcano_group("g", 2), *gang("g", 2, gpus=1))
    await cluster.run(60)

    assert [d.reason for d in cluster.deletes] == ["Released"]
    assert counted("repairs_total", outcome="released") == before + 1
