"""Faults between Muster and a real kube-apiserver, judged by the server's audit log alone."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.objects.kinds import NAMESPACES, NODES, PODS
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import AlreadyExists, NotFound
from muster.scheduler.daemon import Options, run
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.muster.scheduler.real_server import audit_log, real_cluster
from tests.muster.scheduler.real_server.faulty_proxy import FAULTS, FaultyProxy
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kube, pytest.mark.slow]
SIZE = 8
GANGS = ("red", "green", "blue")


@pytest.fixture
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    with ControlPlane(control_plane_binaries, audit="Request") as cluster:
        yield cluster


def member(namespace: str, gang: str, number: int) -> Raw:
    """A pod of a gang that some controller owns, and that ends at once when it is deleted."""
    pod = real_cluster.member("volcano", namespace, gang, f"{gang}-{number}", SIZE, 1)
    pod["spec"]["terminationGracePeriodSeconds"] = 0
    owner = {"apiVersion": "v1", "kind": "TFJob", "name": gang, "uid": gang, "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


async def controller(client: Client, namespace: str) -> None:
    """Makes every member anew that is not there."""
    while True:
        there = {p.metadata.name for p in (await client.list(PODS, namespace)).items}
        for gang in GANGS:
            for i in range(SIZE):
                if f"{gang}-{i}" not in there:
                    try:
                        await client.create(PODS, member(namespace, gang, i))
                    except AlreadyExists:
                        continue
        await asyncio.sleep(0.2)  # pace: a controller's own


@asynccontextmanager
async def cluster(plane: ControlPlane, room_for: int) -> AsyncIterator[tuple[Client, str]]:
    """Nodes with room for so many gangs, the gangs, and their controller."""
    namespace = "faults"
    async with Client.connect(load(plane.kubeconfig)) as client, asyncio.TaskGroup() as group:
        await real_cluster.install_crds(client)
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await real_cluster.add_nodes(
            client, *(f"n{i}" for i in range(room_for * 2)), gpus=SIZE // 2
        )
        for gang in GANGS:
            await real_cluster.declare(client, "volcano", namespace, gang, SIZE)
        task = group.create_task(controller(client, namespace))
        yield client, namespace
        task.cancel()


async def whole_gangs(client: Client, namespace: str) -> list[str]:
    """The gangs that are whole, once no gang is half."""
    counts = {gang: len(await real_cluster.bound(client, namespace, gang)) for gang in GANGS}
    calm = all(n in (0, SIZE) for n in counts.values())
    return [gang for gang, n in counts.items() if n == SIZE] if calm else []


async def assert_calm(plane: ControlPlane, client: Client, namespace: str, room_for: int) -> None:
    """Ten seconds after the last trouble as many gangs are whole as there is room for."""
    ended = time.time()

    async def settled() -> bool:
        return len(await whole_gangs(client, namespace)) == room_for

    await real_cluster.eventually_true(settled, what=f"{room_for} whole gangs")
    took = time.time() - ended
    assert took < 10, f"{took:.1f} s after the last fault"
    # A bind shows a moment before the server has written it down.
    await eventually(
        lambda: audit_log.half_gangs(plane.audit_log, SIZE, ended + 10) == set(),
        what="no half gang in the audit log",
    )
    assert max(audit_log.most_bound_per_node(plane.audit_log).values()) <= SIZE // 2


def has_seen_enough(faults: Counter[str]) -> bool:
    """Every way for a bind to fail in some measure, and watches that were late and that broke."""
    kinds = [fault for fault in FAULTS if faults[fault]]
    return len(kinds) >= 6 and faults["watch delayed"] > 0 and faults["watch dropped"] > 0


async def start_again(client: Client, namespace: str) -> None:
    """Delete every pod, one by one: the judge reads no other kind of deletion."""
    for pod in (await client.list(PODS, namespace)).items:
        try:
            await client.delete(PODS, pod.metadata.key)
        except NotFound:
            continue


@pytest.mark.parametrize("room_for", [1, 3])
async def test_no_half_gang_remains_after_binds_and_watches_fail_in_every_way(
    plane: ControlPlane, room_for: int
) -> None:
    stop = asyncio.Event()
    async with (
        cluster(plane, room_for) as (client, namespace),
        FaultyProxy(plane) as proxy,
        Client.connect(Endpoint.with_token(proxy.url, plane.token)) as its,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(run(its, Options(), stop))

        async def enough() -> bool:
            if await whole_gangs(client, namespace):
                await start_again(client, namespace)
            return has_seen_enough(proxy.faults)

        await real_cluster.eventually_true(enough, what="faults of every kind", timeout=90)
        proxy.bad = False
        await assert_calm(plane, client, namespace, room_for)
        stop.set()


@pytest.mark.parametrize("room_for", [1, 3])
async def test_no_half_gang_remains_after_the_scheduler_is_killed_between_binds(
    plane: ControlPlane, room_for: int, tmp_path: Path
) -> None:
    slowly, config = tmp_path / "settings.yaml", tmp_path / "kubeconfig"
    slowly.write_text("bindsInFlight: 1\n")
    command = [sys.executable, "-m", "muster", "scheduler", "--kubeconfig", str(config)]
    command += ["--scheduler-config", str(slowly)]
    caught: list[dict[str, int]] = []
    async with (
        cluster(plane, room_for) as (client, namespace),
        FaultyProxy(plane, bad=False, pause=0.5) as proxy,
    ):
        raw = kubeconfig(proxy.url, plane.ca_file.read_bytes(), token=plane.token)
        config.write_text(json.dumps(raw))

        async def halves() -> dict[str, int]:
            counts = {
                gang: len(await real_cluster.bound(client, namespace, gang)) for gang in GANGS
            }
            return {gang: n for gang, n in counts.items() if 0 < n < SIZE}

        for _ in range(2):
            before = await halves()

            async def moved(before: dict[str, int] = before) -> bool:
                return await halves() != before

            child = await asyncio.create_subprocess_exec(*command)
            try:
                await real_cluster.eventually_true(moved, what="binds going on", timeout=60)
            finally:
                child.kill()
                await child.wait()
            caught.append(await halves())
        assert any(caught), "no gang was caught half-bound"
        proxy.pause = 0.0
        proxy.asked.clear()
        child = await asyncio.create_subprocess_exec(*command)
        try:
            await eventually(proxy.asked.is_set, what="a scheduler that lives", timeout=60)
            await assert_calm(plane, client, namespace, room_for)
        finally:
            child.terminate()
            await child.wait()
        assert len((await client.list(NODES)).items) == room_for * 2
        assert (await client.get(PODS, Key(namespace, "red-0"))).metadata.name == "red-0"
