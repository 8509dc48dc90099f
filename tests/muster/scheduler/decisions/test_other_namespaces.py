"""Objects of one namespace do not name jobs, budgets or pods of another.

In every story two teams share a node; all that the scheduler writes for the one is searched for the
names of the other. The published line, for administrators, has the names, and so has everything
where all namespaces are one person's.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.conditions import preemption_message
from kubekit.objects.meta import Key
from muster.scheduler.decisions import gang_deletion
from muster.scheduler.decisions.reasons import ADMINISTRATOR, Reader, Reason, with_budgets
from muster.scheduler.effects import waiting_line_publisher
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests.muster.scheduler.builders import budget, gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster

pytestmark = pytest.mark.looptime


def shared(*, one_user: bool, **settings: Any) -> FakeCluster:
    """A node with four GPUs."""
    cluster = FakeCluster(Settings(**settings))
    cluster.scheduler(State(cluster.settings, one_user=one_user))
    cluster.add(node("n1", gpus=4))
    return cluster


def team(namespace: str, name: str, size: int, **each: Any) -> list[Any]:
    group = volcano_group(name, size, namespace=namespace, created=each.get("created", 0.0))
    return [group, *gang(name, size, gpus=1, namespace=namespace, **each)]


def written_for(cluster: FakeCluster, namespace: str) -> str:
    """All sentences that go to objects of a namespace."""
    reports = [r.reason.text for r in cluster.reports if r.gang.namespace == namespace and r.reason]
    deletes = [d.why for d in cluster.deletes if d.gang.namespace == namespace]
    return "\n".join(reports + deletes)


def line(cluster: FakeCluster) -> str:
    rows = waiting_line_publisher.waiting_gangs(cluster.state, cluster.state.now)
    return "\n".join(row.reason for row in rows)


def check(text: str, named: str, unnamed: str, *, one_user: bool) -> None:
    assert (named in text) is one_user, text
    assert (unnamed in text) is not one_user, text


@pytest.mark.parametrize("one_user", [False, True])
async def test_room_that_is_held(one_user: bool) -> None:
    cluster = shared(one_user=one_user)
    cluster.add(*team("red", "secret", 4))
    async with cluster.running():
        await cluster.settle()
        cluster.delete_pod("secret-1", "red")
        cluster.add(*team("blue", "b", 1, created=9.0))
        await cluster.settle()
        published = line(cluster)

    text = written_for(cluster, "blue")
    check(text, "for red/secret", "for a job of another namespace", one_user=one_user)
    assert "for red/secret" in published


@pytest.mark.parametrize("one_user", [False, True])
async def test_room_that_is_kept(one_user: bool) -> None:
    cluster = shared(one_user=one_user, starvation_after=100)
    cluster.add(*team("green", "early", 2))
    async with cluster.running():
        await cluster.settle()
        cluster.add(*team("red", "secret", 4, created=1.0))
        await cluster.settle(150)
        cluster.add(*team("blue", "b", 1, created=9.0))
        await cluster.settle()
        published = line(cluster)

    text = written_for(cluster, "blue")
    check(text, "for red/secret", "for a job of another namespace", one_user=one_user)
    assert "for red/secret" in published


@pytest.mark.parametrize("one_user", [False, True])
async def test_a_preemption(one_user: bool) -> None:
    cluster = shared(one_user=one_user)
    cluster.evict = lambda name, namespace: None  # the server does not delete them
    cluster.add(*team("blue", "b", 2), *team("red", "own", 2))
    async with cluster.running():
        await cluster.settle()
        cluster.add(*team("red", "secret", 4, priority=9))
        await cluster.settle()
        victim = cluster.pods[Key("blue", "b-0")]
        gang_deletion.deletion_failed(cluster.state, victim, 'pods "b-0" is protected')
        cluster.loop.wake()
        await cluster.settle()

    words = preemption_message("{}")
    text = written_for(cluster, "blue")
    check(
        text,
        words.format("red/secret"),
        words.format("a job of another namespace"),
        one_user=one_user,
    )
    assert {d.preemptor for d in cluster.deletes} == {("volcano", "red", "secret")}
    own = written_for(cluster, "red")
    assert words.format("red/secret") in own  # its own namespace may know
    check(own, "b-0", "a pod of another namespace could not be deleted", one_user=one_user)


@pytest.mark.parametrize(
    ("budgets", "text"),
    [
        (["blue/x"], "the budget blue/x protects them"),
        (["red/x"], "a budget of another namespace protects them"),
        (["red/x", "red/y"], "2 budgets of other namespaces protect them"),
        (["blue/x", "red/y"], "the budget blue/x and a budget of another namespace protect them"),
        (["blue/x", "blue/y"], "the budgets blue/x, blue/y protect them"),
    ],
)
def test_budgets_that_protect_others(budgets: list[str], text: str) -> None:
    keys = [Key(*name.split("/")) for name in budgets]
    before = Reason("NotEnoughRoom", "does not fit")

    reason = with_budgets(before, keys, Reader("blue"))

    assert reason.text.endswith(text)
    assert reason.for_administrator == with_budgets(before, keys, ADMINISTRATOR).text
    assert all(name in reason.for_administrator for name in budgets)
    assert reason.for_namespace.full == ""


async def test_a_budget_of_another_namespace_in_a_reason() -> None:
    cluster = shared(one_user=False)
    web = [
        pod(f"web-{i}", gpus=1, labels={"app": "web"}, controller="ReplicaSet") for i in range(4)
    ]
    cluster.add(budget("secret", "50%", {"app": "web"}), *web)
    async with cluster.running():
        await cluster.settle()
        cluster.add(*team("blue", "b", 1, priority=9, created=9.0))
        await cluster.settle()
        published = line(cluster)

    text = written_for(cluster, "blue")
    assert "a budget of another namespace protects them" in text
    assert "secret" not in text
    assert "the budget default/secret protects them" in published
