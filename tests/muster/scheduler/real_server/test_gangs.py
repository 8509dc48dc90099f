"""The seeds' stories on a real kube-apiserver, in every dialect."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.objects.kinds import EVENTS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from kubekit.objects.meta import Key
from kubekit.telemetry.metrics import REGISTRY
from tests.controlplane.control_plane import ControlPlane
from tests.muster.scheduler.real_server import real_cluster
from tests.muster.words import short

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kube, pytest.mark.slow]
every_dialect = pytest.mark.parametrize("dialect", real_cluster.DIALECTS)


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane of one's own: these tests own its nodes."""
    with ControlPlane(control_plane_binaries) as cluster:
        yield cluster


@pytest.fixture
async def namespace(plane: ControlPlane) -> AsyncIterator[str]:
    """A namespace and two nodes of 4 GPUs; afterwards no pod and no node is left."""
    name = f"gangs-{secrets.token_hex(4)}"
    async with Client.connect(load(plane.kubeconfig)) as client:
        await real_cluster.install_crds(client)
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        await real_cluster.add_nodes(client, "n1", "n2", gpus=4)
        yield name
        await client.delete_collection(PODS, name)
        for pod in (await client.list(PODS, name)).items:
            await client.delete(PODS, pod.metadata.key, grace=0)
        await real_cluster.remove_nodes(client)


@every_dialect
async def test_five_by_two_on_eight_gpus_all_pend_with_a_reason(
    plane: ControlPlane, namespace: str, dialect: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.submit(client, dialect, namespace, "big", 5, 2)

        await real_cluster.all_have_reason(client, namespace, "big", "4 of 5 pods", short(2))
        assert await real_cluster.bound(client, namespace, "big") == {}


@every_dialect
async def test_four_by_two_on_eight_gpus_are_all_bound(
    plane: ControlPlane, namespace: str, dialect: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.submit(client, dialect, namespace, "fits", 4, 2)

        await real_cluster.all_bound(client, namespace, "fits", 4)

        pods = await real_cluster.pods_of(client, namespace, "fits")
        assert sorted(p.spec.node_name for p in pods) == ["n1", "n1", "n2", "n2"]
        assert all("muster.dev/plan" in p.metadata.annotations for p in pods)


@every_dialect
async def test_of_two_gangs_with_room_for_one_the_other_waits_and_then_runs(
    plane: ControlPlane, namespace: str, dialect: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.submit(client, dialect, namespace, "one", 3, 2)
        await real_cluster.all_bound(client, namespace, "one", 3)
        await real_cluster.submit(client, dialect, namespace, "two", 3, 2)
        await real_cluster.all_have_reason(client, namespace, "two")

        assert await real_cluster.bound(client, namespace, "two") == {}
        for i in range(3):
            await client.delete(PODS, Key(namespace, f"one-{i}"), grace=0)
        kind = real_cluster.GROUPS.get(dialect)
        if kind is not None:
            await client.delete(kind, Key(namespace, "one"))

        await real_cluster.all_bound(client, namespace, "two", 3)


@every_dialect
@pytest.mark.parametrize("death", ["deleted", "failed"])
async def test_a_member_dies_and_its_replacement_gets_the_room_while_a_rival_waits(
    plane: ControlPlane, namespace: str, dialect: str, death: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.submit(client, dialect, namespace, "gang", 4, 2)
        await real_cluster.all_bound(client, namespace, "gang", 4)
        await client.create(PODS, real_cluster.member("none", namespace, "rival", "rival-0", 1, 2))
        await real_cluster.all_have_reason(client, namespace, "rival")

        if death == "deleted":
            await client.delete(PODS, Key(namespace, "gang-1"), grace=0)
        else:
            await real_cluster.fail(client, namespace, "gang-1")
        # A rival that is created now, when the room is empty, must not get it either.
        await client.create(PODS, real_cluster.member("none", namespace, "late", "late-0", 1, 2))
        await real_cluster.all_have_reason(client, namespace, "late")
        assert await real_cluster.bound(client, namespace, "rival") == {}

        await client.create(PODS, real_cluster.member(dialect, namespace, "gang", "gang-9", 4, 2))

        async def replaced() -> bool:
            return "gang-9" in await real_cluster.bound(client, namespace, "gang")

        await real_cluster.eventually_true(replaced, what="the replacement bound")
        assert await real_cluster.bound(client, namespace, "rival") == {}
        assert await real_cluster.bound(client, namespace, "late") == {}


async def test_a_node_is_lost_and_its_members_get_room_before_a_rival(
    plane: ControlPlane, namespace: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.submit(client, "volcano", namespace, "gang", 4, 2)
        await real_cluster.all_bound(client, namespace, "gang", 4)
        await client.create(PODS, real_cluster.member("none", namespace, "rival", "rival-0", 1, 4))
        await real_cluster.all_have_reason(client, namespace, "rival")

        await client.delete(NODES, Key("", "n2"))
        for name, node in (await real_cluster.bound(client, namespace, "gang")).items():
            if node == "n2":
                await client.delete(PODS, Key(namespace, name), grace=0)
        await real_cluster.add_nodes(client, "n3", gpus=4)
        for i in (8, 9):
            pod = real_cluster.member("volcano", namespace, "gang", f"gang-{i}", 4, 2)
            await client.create(PODS, pod)

        await real_cluster.all_bound(client, namespace, "gang", 4)
        assert await real_cluster.bound(client, namespace, "rival") == {}


async def test_nodes_freed_one_by_one_go_to_the_first_gang_that_waited_too_long(
    plane: ControlPlane, namespace: str
) -> None:
    """All wait longer than that, and the scheduler restarts when one of two nodes is free."""
    options = real_cluster.options_reporting_at_once(plane, "starvationAfter: 3\n")
    async with real_cluster.scheduling(plane, options) as client:
        for i in range(2):
            old = real_cluster.member("none", namespace, "old", f"old-{i}", 1, 4)
            await client.create(PODS, old)
        await real_cluster.all_bound(client, namespace, "old", 2)
        await real_cluster.submit(client, "volcano", namespace, "big", 2, 4)
        nodes = set((await real_cluster.bound(client, namespace, "old")).values())
        await real_cluster.all_have_reason(client, namespace, "big", "2 nodes", *nodes)
        for i in range(2):
            small = real_cluster.member("none", namespace, "small", f"small-{i}", 1, 4)
            await client.create(PODS, small)
        await real_cluster.all_have_reason(client, namespace, "small", f"{namespace}/big")
        await client.delete(PODS, Key(namespace, "old-0"), grace=0)
        await real_cluster.all_have_reason(client, namespace, "big", "1 of 2 pods")
    async with real_cluster.scheduling(plane, options) as client:
        await client.delete(PODS, Key(namespace, "old-1"), grace=0)
        await real_cluster.all_bound(client, namespace, "big", 2)

        assert await real_cluster.bound(client, namespace, "small") == {}


async def test_without_a_gang_four_of_five_are_bound_and_one_pends(
    plane: ControlPlane, namespace: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        for i in range(5):
            await client.create(
                PODS, real_cluster.member("none", namespace, "loose", f"loose-{i}", 1, 2)
            )

        await real_cluster.all_bound(client, namespace, "loose", 4)

        async def one_told() -> bool:
            pods = await real_cluster.pods_of(client, namespace, "loose")
            waiting = [p for p in pods if not p.spec.node_name]
            return len(waiting) == 1 and any(
                c.reason == "Unschedulable" for c in waiting[0].status.conditions
            )

        await real_cluster.eventually_true(one_told, what="the fifth told why it waits")


async def test_all_dialects_live_on_one_cluster_at_once(
    plane: ControlPlane, namespace: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.add_nodes(client, "n3", "n4", gpus=4)
        for dialect in real_cluster.DIALECTS:
            await real_cluster.submit(client, dialect, namespace, f"big-{dialect}", 5, 4)
        for dialect in real_cluster.DIALECTS:
            await real_cluster.submit(client, dialect, namespace, f"fits-{dialect}", 2, 1)
        lone = real_cluster.member("", namespace, "lone", "lone-0", 1, 0)
        await client.create(PODS, lone)

        for dialect in real_cluster.DIALECTS:
            await real_cluster.all_bound(client, namespace, f"fits-{dialect}", 2)
            assert await real_cluster.bound(client, namespace, f"big-{dialect}") == {}
            await real_cluster.all_have_reason(client, namespace, f"big-{dialect}", "of 5 pods")
        await real_cluster.all_bound(client, namespace, "lone", 1)


@pytest.mark.parametrize("dialect", ["volcano", "coscheduling", "native"])
async def test_a_second_run_of_a_gang_is_all_or_nothing_also_after_a_restart(
    plane: ControlPlane, namespace: str, dialect: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.submit(client, dialect, namespace, "gang", 4, 2)
        await real_cluster.all_bound(client, namespace, "gang", 4)
        for i in range(4):
            await real_cluster.finish_pod(client, namespace, f"gang-{i}", "Succeeded")
            await client.delete(PODS, Key(namespace, f"gang-{i}"), grace=0)
        await client.create(
            PODS, real_cluster.member("none", namespace, "filler", "filler-0", 1, 4)
        )
        await real_cluster.all_bound(client, namespace, "filler", 1)
        for i in range(4):
            member = real_cluster.member(dialect, namespace, "gang", f"gang-{i}", 4, 2)
            await client.create(PODS, member)
        await real_cluster.all_have_reason(client, namespace, "gang", "2 of 4 pods")
    async with real_cluster.scheduling(plane) as client:
        await client.create(PODS, real_cluster.member("none", namespace, "late", "late-0", 1, 8))
        await real_cluster.all_have_reason(client, namespace, "late")
        assert await real_cluster.bound(client, namespace, "gang") == {}


async def test_members_of_another_scheduler_are_counted_and_not_bound(
    plane: ControlPlane, namespace: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.declare(client, "volcano", namespace, "gang", 2)
        ours = real_cluster.member("volcano", namespace, "gang", "ours", 2, 1)
        theirs = real_cluster.member("volcano", namespace, "gang", "theirs", 2, 1)
        theirs["spec"]["schedulerName"] = "someone-else"
        await client.create(PODS, ours)
        await client.create(PODS, theirs)

        async def waits() -> bool:
            pods = {
                p.metadata.name: p for p in await real_cluster.pods_of(client, namespace, "gang")
            }
            return any("another" in c.message for c in pods["ours"].status.conditions)

        await real_cluster.eventually_true(
            waits, what="ours told that it waits for another scheduler"
        )
        assert await real_cluster.bound(client, namespace, "gang") == {}
        foreign = await client.get(PODS, Key(namespace, "theirs"))
        await client.bind(
            foreign.metadata.key, uid=foreign.metadata.uid, node="n1", annotations={"by": "else"}
        )
        await real_cluster.all_bound(client, namespace, "gang", 2)


async def end_what_is_deleted(client: Client, namespace: str) -> None:
    """What kubelets do: stop the pods that are being deleted, and confirm it."""
    while True:
        for pod in (await client.list(PODS, namespace)).items:
            if pod.metadata.deletion_timestamp is not None:
                await client.delete(PODS, pod.metadata.key, grace=0)
        await asyncio.sleep(0.1)  # pace: a node


async def test_preempted_pods_are_counted_once_and_bound_pods_get_the_event_that_describe_shows(
    plane: ControlPlane, namespace: str
) -> None:
    number = ("muster_pods_deleted_total", {"reason": "Preempted"})
    before = REGISTRY.get_sample_value(*number) or 0.0
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.submit(client, "volcano", namespace, "low", 8, 1)
        await real_cluster.all_bound(client, namespace, "low", 8)
        priority = {"metadata": {"name": f"{namespace}-high"}, "value": 1000}
        await client.create(PRIORITY_CLASSES, priority)
        nodes = asyncio.create_task(end_what_is_deleted(client, namespace))
        await real_cluster.declare(client, "volcano", namespace, "high", 2)
        for i in range(2):
            pod = real_cluster.member("volcano", namespace, "high", f"high-{i}", 2, 1)
            pod["spec"]["priorityClassName"] = f"{namespace}-high"
            await client.create(PODS, pod)
        await real_cluster.all_bound(client, namespace, "high", 2)
        assert (REGISTRY.get_sample_value(*number) or 0.0) - before == 8

        async def told() -> set[str]:
            events = (await client.list(EVENTS.read_as(dict), namespace)).items
            rows = [row for row in events if row["reason"] == "Scheduled"]
            names = {row["involvedObject"]["name"] for row in rows}
            return names if names >= {"high-0", "high-1"} else set()

        await real_cluster.eventually_true(told, what="the events Scheduled")
        nodes.cancel()
