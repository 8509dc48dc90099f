"""PodGroups of Volcano are accepted, since training-operator creates no pods before."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kubekit.client.client import Client
from kubekit.client.request import Request, Response
from kubekit.objects.meta import Key
from kubekit.request_errors import Unreachable
from muster.contract.pod_groups import COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS, VolcanoPodGroup
from muster.scheduler.effects.group_acceptor import RETRY_SECONDS, GroupAcceptor
from tests.api_in_memory import ApiInMemory

pytestmark = pytest.mark.looptime


def server_with(*names: str, failures: int = 0, of: type[ApiInMemory] = ApiInMemory) -> ApiInMemory:
    """A server with these groups, whose first answers are failures."""
    server = of()
    groups = ({"metadata": {"name": name, "namespace": "ns"}} for name in names)
    server.add(*groups, kind=VOLCANO_POD_GROUPS)
    server.answers.extend([Unreachable("no answer")] * failures)
    return server


def accepted(server: ApiInMemory) -> list[str]:
    """The groups that were written, in order."""
    assert all(ask.path.endswith("/status") for ask in server.requests)
    written = [(path, obj) for _, _, kind, path, obj, _ in server.history if kind == "MODIFIED"]
    assert all(obj["status"] == {"phase": "Inqueue"} for _, obj in written)
    return [path.rpartition("/")[2] for path, _ in written]


def group(name: str, phase: str = "") -> VolcanoPodGroup:
    raw = {"metadata": {"name": name, "namespace": "ns"}, "status": {"phase": phase}}
    return msgspec.convert(raw, VolcanoPodGroup)


async def accept(server: ApiInMemory, names: tuple[str, ...], *phases: str) -> None:
    acceptor = GroupAcceptor(Client(server), names)
    for number, phase in enumerate(phases):
        new = group(f"g{number}", phase)
        acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, new)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(acceptor.run())
        await asyncio.sleep(2 * RETRY_SECONDS + 1)
        running.cancel()


async def test_groups_that_nobody_has_accepted_are() -> None:
    server = server_with(*(f"g{number}" for number in range(5)))

    await accept(server, ("muster", "volcano"), "", "Pending", "Inqueue", "Running", "Completed")

    assert accepted(server) == ["g0", "g1"]


async def test_a_scheduler_of_other_names_leaves_them_to_volcano() -> None:
    server = server_with("g0", "g1")

    await accept(server, ("muster",), "", "Pending")

    assert accepted(server) == []


async def test_a_write_that_fails_is_tried_again() -> None:
    server = server_with("g0", failures=2)

    await accept(server, ("volcano",), "")

    assert accepted(server) == ["g0"]


async def test_a_group_that_arrives_while_others_are_written_does_not_wait() -> None:
    class Slow(ApiInMemory):
        async def send(self, request: Request) -> Response:
            await asyncio.sleep(0.1)
            return await super().send(request)

    server = server_with("first", "second", of=Slow)
    acceptor = GroupAcceptor(Client(server), ("volcano",))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(acceptor.run())
        for name in ("first", "second"):
            new = group(name)
            acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, new)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        running.cancel()

    assert accepted(server) == ["first", "second"]


async def test_a_group_that_arrives_does_not_hasten_the_retry_of_another() -> None:
    server = server_with("fails", "second", failures=1)
    acceptor = GroupAcceptor(Client(server), ("volcano",))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(acceptor.run())
        for name in ("fails", "second"):
            new = group(name)
            acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, new)
            await asyncio.sleep(0.1)
        assert accepted(server) == ["second"]
        await asyncio.sleep(RETRY_SECONDS)
        running.cancel()

    assert accepted(server) == ["second", "fails"]


async def test_groups_that_are_deleted_or_of_another_system_are_not_written() -> None:
    server = server_with("g", "other")
    acceptor = GroupAcceptor(Client(server), ("volcano",))
    new = group("g")
    acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, new)
    acceptor.group_changed(VOLCANO_POD_GROUPS, new.metadata.key, None)
    acceptor.group_changed(COSCHEDULING_POD_GROUPS, Key("ns", "other"), group("other"))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(acceptor.run())
        await asyncio.sleep(1)
        running.cancel()

    assert accepted(server) == []
