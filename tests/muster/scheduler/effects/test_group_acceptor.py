"""PodGroups of Volcano are accepted, since training-operator creates no pods before."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kubekit.errors import Unreachable
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Key, Raw
from muster.contract.pod_groups import COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS, VolcanoPodGroup
from muster.scheduler.effects.group_acceptor import RETRY_SECONDS, GroupAcceptor

pytestmark = pytest.mark.looptime


class Client:
    """Notes what is written; the first `failures` writes fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.log: list[tuple[str, Raw, str]] = []

    async def patch(self, kind: Kind[Any], key: Key, body: Raw, subresource: str) -> None:
        if self.failures:
            self.failures -= 1
            raise Unreachable("no answer")
        self.log.append((key.name, body["status"], subresource))


def group(name: str, phase: str = "") -> VolcanoPodGroup:
    raw = {"metadata": {"name": name, "namespace": "ns"}, "status": {"phase": phase}}
    return msgspec.convert(raw, VolcanoPodGroup)


async def accept(client: Client, names: tuple[str, ...], *phases: str) -> None:
    acceptor = GroupAcceptor(client, names)  # type: ignore[arg-type]
    for number, phase in enumerate(phases):
        new = group(f"g{number}", phase)
        acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, new)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(acceptor.run())
        await asyncio.sleep(2 * RETRY_SECONDS + 1)
        running.cancel()


async def test_groups_that_nobody_has_accepted_are() -> None:
    client = Client()

    await accept(client, ("muster", "volcano"), "", "Pending", "Inqueue", "Running", "Completed")

    assert client.log == [(name, {"phase": "Inqueue"}, "status") for name in ("g0", "g1")]


async def test_a_scheduler_of_other_names_leaves_them_to_volcano() -> None:
    client = Client()

    await accept(client, ("muster",), "", "Pending")

    assert client.log == []


async def test_a_write_that_fails_is_tried_again() -> None:
    client = Client(failures=2)

    await accept(client, ("volcano",), "")

    assert client.log == [("g0", {"phase": "Inqueue"}, "status")]


async def test_a_group_that_arrives_while_others_are_written_does_not_wait() -> None:
    class Slow(Client):
        async def patch(self, kind: Kind[Any], key: Key, body: Raw, subresource: str) -> None:
            await asyncio.sleep(0.1)
            await super().patch(kind, key, body, subresource)

    client = Slow()
    acceptor = GroupAcceptor(client, ("volcano",))  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(acceptor.run())
        for name in ("first", "second"):
            new = group(name)
            acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, new)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        running.cancel()

    assert [name for name, _, _ in client.log] == ["first", "second"]


async def test_a_group_that_arrives_does_not_hasten_the_retry_of_another() -> None:
    client = Client(failures=1)
    acceptor = GroupAcceptor(client, ("volcano",))  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(acceptor.run())
        for name in ("fails", "second"):
            new = group(name)
            acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, new)
            await asyncio.sleep(0.1)
        assert [name for name, _, _ in client.log] == ["second"]
        await asyncio.sleep(RETRY_SECONDS)
        running.cancel()

    assert [name for name, _, _ in client.log] == ["second", "fails"]


async def test_groups_that_are_deleted_or_of_another_system_are_not_written() -> None:
    client = Client()
    acceptor = GroupAcceptor(client, ("volcano",))  # type: ignore[arg-type]
    new = group("g")
    acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, new)
    acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, None)
    acceptor.group_changed(COSCHEDULING_POD_GROUPS, Key("ns", "other"), group("other"))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(acceptor.run())
        await asyncio.sleep(1)
        running.cancel()

    assert client.log == []
