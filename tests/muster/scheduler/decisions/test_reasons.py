"""Reasons of waiting gangs: every pod gets one, and its numbers are those of now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.contract.gang import GangTerms
from muster.scheduler.decisions import reasons
from muster.scheduler.gangs.members import Members
from tests.muster.scheduler.builders import budget, gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, cluster_with_gang
from tests.muster.words import short, tells

pytestmark = pytest.mark.looptime

NOBODY = Members((), (), (), (), ())


@pytest.mark.parametrize(
    ("terms", "members", "roles", "text"),
    [
        (GangTerms(min=3), NOBODY, {}, "0 of 3 members exist"),
        (
            GangTerms(min=6),
            replace(NOBODY, bound=(pod("a"),), pending=(pod("b"),), succeeded=(pod("c"),)),
            {"worker": 2, "chief": 1},
            "3 of 6 members exist; needs 1 more chief and 2 more workers",
        ),
        (
            GangTerms(min=4),
            replace(NOBODY, pending=(pod("a"),), gated=2, foreign=1),
            {},
            "1 of 4 members exist; 2 held back by scheduling gates; "
            "1 addressed to another scheduler and not bound yet",
        ),
    ],
)
def test_a_gang_without_all_its_members_says_how_many_exist_and_which_it_needs(
    terms: GangTerms, members: Members, roles: dict[str, int], text: str
) -> None:
    reason = reasons.too_few(terms, members, roles)

    assert (reason.code, reason.text) == (reasons.NOT_ENOUGH_MEMBERS, text)


def count_reports(cluster: FakeCluster, name: str) -> int:
    return sum(
        1 for report in cluster.reports if report.gang.name == name and report.reason is not None
    )


async def test_replacements_get_the_reason_that_was_reported_before_they_existed() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=2), node("n2", gpus=2))
    cluster.add(volcano_group("g", 4), *gang("g", 4, gpus=1))
    async with cluster.running():
        await cluster.settle()
        gone = [name for name, home in cluster.bound().items() if home == "n2"]
        cluster.delete_node("n2")
        for name in gone:
            cluster.delete_pod(name)
        await cluster.settle(3)
        before = count_reports(cluster, "g")
        cluster.add(*(pod(name, gpus=1, group="g", created=50) for name in gone))
        await cluster.settle(3)
        assert "0 of 2" in cluster.reason("g")
        assert count_reports(cluster, "g") > before

        before = count_reports(cluster, "g")
        cluster.add(node("n3", gpus=1))  # looked at again; nobody new, and something changed
        await cluster.settle(3)
        cluster.add(node("n3", gpus=1, labels={"a": "b"}))  # and nothing changed
        await cluster.settle(3)
        assert count_reports(cluster, "g") == before + 1


async def test_a_new_surplus_pod_gets_the_reason_of_the_other_one() -> None:
    cluster = cluster_with_gang(2)
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("g-s1", gpus=1, group="g"))
        await cluster.settle()
        before, text = count_reports(cluster, "g"), cluster.reason("g")
        cluster.delete_pod("g-s1")
        cluster.add(pod("g-s2", gpus=1, group="g"))
        await cluster.settle()

    assert cluster.reason("g") == text
    assert count_reports(cluster, "g") == before + 1


async def test_a_new_unplaceable_member_gets_the_reason_of_the_other_one() -> None:
    claims = {"resourceClaims": [{"name": "x", "resourceClaimName": "x"}]}
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=4), volcano_group("g", 1), pod("g-0", gpus=1, group="g"))
    async with cluster.running():
        await cluster.settle()
        cluster.add(pod("g-1", group="g", spec=claims))
        await cluster.settle()
        before = count_reports(cluster, "g")
        cluster.delete_pod("g-1")
        cluster.add(pod("g-1", group="g", spec=claims))
        await cluster.settle()

    assert count_reports(cluster, "g") == before + 1


async def test_a_gang_like_one_that_failed_before_gets_the_numbers_of_now() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8), node("n2", gpus=8))
    async with cluster.running():
        cluster.add(volcano_group("big1", 20), *gang("big1", 20, gpus=1))
        await cluster.settle()
        assert "16 of 20" in cluster.reason("big1")
        assert short(4) in cluster.reason("big1")
        cluster.add(volcano_group("run", 16, created=5), *gang("run", 16, gpus=1))
        await cluster.settle()
        assert len(cluster.bound("run")) == 16
        cluster.add(volcano_group("big2", 20, created=9), *gang("big2", 20, gpus=1))
        await cluster.settle()
        assert "0 of 20" in cluster.reason("big2")
        assert short(20) in cluster.reason("big2")


async def test_a_gang_that_is_considered_again_gets_new_numbers_after_half_a_minute() -> None:
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=8), node("n2", gpus=8))
    async with cluster.running():
        cluster.add(volcano_group("big", 20), *gang("big", 20, gpus=1))
        await cluster.settle()
        cluster.add(volcano_group("run", 16, created=5), *gang("run", 16, gpus=1))
        await cluster.settle(40)
        cluster.add(volcano_group("big", 20, annotations={"a": "b"}))
        await cluster.settle()

    assert "0 of 20" in cluster.reason("big")
    assert short(20) in cluster.reason("big")


async def test_a_gang_that_only_a_budget_keeps_from_evicting_names_the_budget() -> None:
    cluster = FakeCluster()
    web = {"app": "web"}
    cluster.add(node("n1", gpus=2), budget("keep", "100%", web))
    cluster.add(*(pod(f"web-{i}", gpus=1, labels=web, controller="Job") for i in range(2)))
    async with cluster.running():
        await cluster.settle()
        cluster.add(volcano_group("high", 2, created=9), *gang("high", 2, gpus=1, priority=5))
        cluster.add(volcano_group("huge", 3, created=9), *gang("huge", 3, gpus=1, priority=5))
        await cluster.settle(5)

    assert cluster.deletes == []
    words = "; it would fit in place of pods of lower priority, but "
    assert tells(cluster.reason("high").partition(words)[2], "default/keep")
    assert "budget" not in cluster.reason("huge")
