"""Informers against a real kube-apiserver that is killed, restarted and compacted."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.client.request import Request, Response
from kubekit.client.streams.websocket import WebSocket
from kubekit.client.transport.http_transport import HttpTransport
from kubekit.objects.core import Pod
from kubekit.objects.kinds import PODS, Kind
from kubekit.objects.meta import Key
from kubekit.request_errors import Forbidden, Gone, Unauthorized, Unreachable
from kubekit.watch.informer import Informer
from kubekit.watch.informer_cache import Change
from muster.contract.pod_groups import VolcanoPodGroup
from tests.controlplane.control_plane import ControlPlane
from tests.kubekit.builders import pod
from tests.waiting import eventually, in_parallel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path


# Of a group that no other test installs: the control plane is shared by the whole session.
LATE_GROUPS = Kind("late.muster.dev", "v1beta1", "podgroups", "PodGroup", VolcanoPodGroup)
PODS_WATCHED = 5000
pytestmark = [pytest.mark.kube, pytest.mark.slow]


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.synced()
        yield
        task.cancel()


class Ledger:
    """The changes of each pod: the numbers written into a label, 'gone' for deletions."""

    def __init__(self) -> None:
        self.heard: dict[str, list[str]] = defaultdict(list)
        self.versions: list[int] = []

    def __call__(self, change: Change[Pod]) -> None:
        name = change.current.metadata.name
        if change.new is None:
            self.heard[name].append("gone")
            return
        self.heard[name].append(change.new.metadata.labels["n"])
        self.versions.append(int(change.new.metadata.resource_version))


class Cable:
    """A transport that can be disconnected, so that a test decides which changes are missed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.plugged = True
        self.lists = 0
        self._inner = HttpTransport(endpoint)

    async def send(self, request: Request) -> Response:
        self._check()
        self.lists += request.method == "GET"
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self._check()
        return self._inner.stream(request)

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        raise NotImplementedError

    async def close(self) -> None:
        await self._inner.close()

    def _check(self) -> None:
        if not self.plugged:
            raise Unreachable("the cable is out")


async def test_an_informer_reports_every_change_once_in_order_across_kills_and_compaction(
    control_plane_binaries: Path,
) -> None:
    # Without the watch cache a restarted server still has the history, so that resuming must not
    # lose a single change; compaction then takes the history away.
    with ControlPlane(control_plane_binaries, watch_cache=False) as plane:
        endpoint = kube_config.load(plane.kubeconfig)
        cable = Cable(endpoint)
        async with Client.connect(endpoint) as writer, Client(cable) as reader:
            names = [f"p{i}" for i in range(PODS_WATCHED)]
            await in_parallel(writer.create(PODS, pod(name, "default", n="0")) for name in names)
            informer, ledger = Informer(reader, PODS), Ledger()
            informer.subscribe(ledger)
            async with running(informer):
                assert len(informer.all()) == PODS_WATCHED
                listed = cable.lists
                await _resumed_after_a_kill(plane, writer, ledger, cable)
                assert cable.lists == listed, "the history was there: no reason to list"
                await _relisted_after_a_kill_and_compaction(plane, writer, ledger, cable)
                assert cable.lists > listed, "the history was gone"
            listing = await writer.list(PODS)
            assert {p.metadata.key: p for p in listing.items} == {
                p.metadata.key: p for p in informer.all()
            }


async def _resumed_after_a_kill(
    plane: ControlPlane, client: Client, ledger: Ledger, cable: Cable
) -> None:
    names = [f"p{i}" for i in range(300)]
    start = len(ledger.versions)
    async with asyncio.TaskGroup() as group:
        group.create_task(_count(client, names, range(1, 5)))
        await eventually(lambda: len(ledger.versions) > start + 300, timeout=60)
        # A server that starts refuses everybody for a moment, and a refusal may cost a list.
        cable.plugged = False
        await asyncio.to_thread(plane.kill_apiserver)
        await asyncio.to_thread(plane.start_apiserver)
        cable.plugged = True
    await eventually(lambda: all(ledger.heard[name][-1] == "4" for name in names), timeout=60)
    for name in names:
        assert ledger.heard[name] == ["0", "1", "2", "3", "4"]
    after = ledger.versions[start:]
    assert after == sorted(after), "changes of all pods together come in the server's order"


async def _relisted_after_a_kill_and_compaction(
    plane: ControlPlane, writer: Client, ledger: Ledger, cable: Cable
) -> None:
    changed = [f"p{i}" for i in range(300)]
    deleted = [f"p{i}" for i in range(300, 400)]
    reborn = [f"p{i}" for i in range(400, 500)]
    untouched = [f"p{i}" for i in range(500, PODS_WATCHED)]
    cable.plugged = False
    await asyncio.to_thread(plane.kill_apiserver)
    await asyncio.to_thread(plane.start_apiserver)
    await _count(writer, changed, range(5, 7))
    await in_parallel(writer.delete(PODS, Key("default", n), grace=0) for n in deleted + reborn)
    await in_parallel(writer.create(PODS, pod(n, "default", n="new")) for n in reborn)
    await asyncio.to_thread(plane.compact)
    with pytest.raises(Gone):
        await anext(writer.watch(PODS, since="1"))
    cable.plugged = True
    await _count(writer, changed, range(7, 8))
    await eventually(lambda: all(ledger.heard[name][-1] == "7" for name in changed), timeout=60)
    # What happened unseen shows as its sum; "6" is heard of pods that reached 7 after the list.
    seen = {tuple(ledger.heard[name]) for name in changed}
    assert seen <= {("0", "1", "2", "3", "4", "6", "7"), ("0", "1", "2", "3", "4", "7")}
    assert {tuple(ledger.heard[name]) for name in deleted} == {("0", "gone")}
    assert {tuple(ledger.heard[name]) for name in reborn} == {("0", "gone", "new")}
    assert {tuple(ledger.heard[name]) for name in untouched} == {("0",)}


async def _count(client: Client, names: list[str], numbers: range) -> None:
    """Write each number into each pod, and try again after every error."""

    async def write(name: str, number: int) -> None:
        while True:
            try:
                await client.patch(
                    PODS, Key("default", name), {"metadata": {"labels": {"n": str(number)}}}
                )
            except (Unreachable, Unauthorized, Forbidden):  # a server that starts knows nobody
                await asyncio.sleep(0.05)  # pace: how often it is tried
            else:
                return

    for number in numbers:
        await in_parallel(write(name, number) for name in names)


async def test_an_informer_of_a_kind_not_yet_installed_finds_it(
    control_plane: ControlPlane, client: Client, fresh_namespace: str
) -> None:
    name = f"{LATE_GROUPS.plural}.{LATE_GROUPS.group}"
    informer = Informer(client, LATE_GROUPS, fresh_namespace)
    async with running(informer):
        assert not informer.installed
        created = control_plane.kubectl("create", "-f", "-", input=json.dumps(_definition(name)))
        assert created.returncode == 0, created.stderr
        try:
            await eventually(lambda: informer.installed, timeout=20)
            group = {
                "metadata": {"name": "g", "namespace": fresh_namespace},
                "spec": {"minMember": 3},
            }
            await client.create(LATE_GROUPS, group)
            cached = await eventually(lambda: informer.get(Key(fresh_namespace, "g")))
            assert cached is not None
            assert cached.spec.min_member == 3
        finally:
            control_plane.kubectl("delete", "crd", name)
        await eventually(lambda: not informer.all(), timeout=30)


def _definition(name: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": LATE_GROUPS.group,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
            "versions": [
                {
                    "name": LATE_GROUPS.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
