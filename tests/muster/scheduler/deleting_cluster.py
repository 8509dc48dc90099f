"""A cluster in memory whose pods are marked and deleted by calls that can fail and take a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec

from kubekit.errors import MusterError
from kubekit.objects.core import Pod
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Condition, Key
from kubekit.request_errors import Conflict, NotFound
from muster.scheduler.decisions import gang_deletion
from muster.scheduler.decisions.decision import Delete
from muster.scheduler.effects.deleter import Deleter
from muster.scheduler.loop import Loop
from muster.scheduler.state import State
from tests.muster.scheduler.builders import gang, node, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster, FakeEffects

replace = msgspec.structs.replace
Fault = Callable[[str, str], MusterError | None]


class Server(FakeCluster):
    """A cluster whose pods are marked and deleted through calls that can fail and take a while."""

    def __init__(self) -> None:
        self.denies: Fault = lambda verb, name: None
        self.calls: list[tuple[str, str, float]] = []
        self.under_way = self.most = 0
        self.failures: list[tuple[str, str]] = []
        self.leads = True
        self.gone: list[Pod] = []
        super().__init__()

    def scheduler(self, state: State) -> None:
        super().scheduler(state)
        client: Any = self
        self.deleter = Deleter(client, self._heard, may_act=lambda: self.leads)
        self.loop = Loop(state, _Orders(self), clock=lambda: asyncio.get_running_loop().time())
        self.binder._settled = self.loop.settled

    def _heard(self, delete: Delete, pod: Pod, why: str) -> None:
        self.failures.append((pod.metadata.name, why))
        gang_deletion.deletion_failed(self.state, pod, why)
        self.loop.wake()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FakeCluster]:
        async with super().running(), asyncio.TaskGroup() as group:
            task = group.create_task(self.deleter.run())
            try:
                yield self
            finally:
                task.cancel()

    async def patch(self, kind: Any, key: Key, body: Any, **options: Any) -> None:
        assert (kind, options["subresource"]) == (PODS, "status")
        current = await self._call("mark", key, body["metadata"]["uid"])
        (written,) = body["status"]["conditions"]
        when = datetime.fromisoformat(written["lastTransitionTime"])
        condition = Condition(
            written["type"], written["status"], written["reason"], written["message"], when
        )
        notes = {**current.metadata.annotations, **body["metadata"].get("annotations", {})}
        conditions = (*current.status.conditions, condition)
        self.add(
            replace(
                current,
                metadata=replace(current.metadata, annotations=notes),
                status=replace(current.status, conditions=conditions),
            )
        )

    async def delete(self, kind: Any, key: Key, *, uid: str) -> None:
        assert kind is PODS
        current = await self._call("delete", key, uid)
        self.gone.append(current)
        self.delete_pod(key.name)

    async def _call(self, verb: str, key: Key, uid: str) -> Pod:
        self.calls.append((verb, key.name, asyncio.get_running_loop().time()))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0.05)  # pace: virtual
        finally:
            self.under_way -= 1
        error = self.denies(verb, key.name)
        if error is not None:
            raise error
        current = self.pods.get(key)
        if current is None:
            raise NotFound(f"{key} not found", status=404)
        if current.metadata.uid != uid:
            raise Conflict(f"{key} is another pod", status=409)
        return current

    def times(self, verb: str, name: str) -> list[float]:
        return [time for call, pod, time in self.calls if (call, pod) == (verb, name)]


class _Orders(FakeEffects):
    def delete(self, delete: Delete) -> None:
        self._server.deletes.append(delete)
        self._server.deleter.submit(delete)

    @property
    def _server(self) -> Server:
        assert isinstance(self._cluster, Server)
        return self._cluster


def wants_room(server: Server) -> None:
    server.add(volcano_group("high", 20, created=9), *gang("high", 20, gpus=1, priority=5))


async def full_server() -> Server:
    """Forty GPUs, all used by a gang of low priority that needs every member."""
    server = Server()
    server.add(node("n1", gpus=40))
    server.add(volcano_group("low", 40), *gang("low", 40, gpus=1))
    await server.run()
    assert len(server.bound("low")) == 40
    return server
