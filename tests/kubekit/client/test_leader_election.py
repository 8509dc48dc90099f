"""Leader election on a server in memory, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.client import Client
from kubekit.control.leader_election import LeaderElection, LeaseLost
from kubekit.errors import UsageError
from kubekit.request_errors import Unreachable
from tests.api_in_memory import ApiInMemory
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.looptime

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/muster"


def election(server: ApiInMemory, identity: str, **options: Any) -> LeaderElection:
    return LeaderElection(
        Client(server),
        name="muster",
        namespace="ns",
        identity=identity,
        clock=asyncio.get_running_loop().time,
        **options,
    )


def now() -> float:
    return asyncio.get_running_loop().time()


def held_until_cancelled(log: list[str], name: str) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        log.append(f"{name} leads")
        try:
            await asyncio.Event().wait()
        finally:
            log.append(f"{name} stops")

    return work


async def test_the_first_contender_leads_and_releases_the_lease() -> None:
    server = ApiInMemory()
    holder = election(server, "one")
    led = []

    async def work() -> None:
        led.append(holder.is_leader())

    await holder.run_as_leader(work)
    assert led == [True]
    assert not holder.is_leader()
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


async def test_the_second_contender_waits_and_leads_at_once_when_the_first_ends() -> None:
    server, log = ApiInMemory(), list[str]()
    holder, rival = election(server, "one"), election(server, "two")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(holder.run_as_leader(held_until_cancelled(log, "one")))
        await eventually(holder.is_leader)
        second = group.create_task(rival.run_as_leader(held_until_cancelled(log, "two")))
        await asyncio.sleep(120)
        assert log == ["one leads"]
        assert holder.is_leader()
        assert not rival.is_leader()
        first.cancel()
        began = now()
        await eventually(rival.is_leader, timeout=60)
        assert now() - began < 5
        second.cancel()
    assert log == ["one leads", "one stops", "two leads", "two stops"]
    assert server.objects[PATH]["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_cannot_renew_stops_before_another_may_start() -> None:
    server, log = ApiInMemory(), list[str]()
    holder, rival = election(server, "one"), election(server, "two")
    cut_off = ApiInMemory()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(_caught(holder.run_as_leader(held_until_cancelled(log, "one"))))
        await eventually(holder.is_leader)
        second = group.create_task(rival.run_as_leader(held_until_cancelled(log, "two")))
        await asyncio.sleep(20)
        cut_off.reachable = False
        holder._client.transport = cut_off
        began = now()
        await eventually(lambda: not holder.is_leader(), timeout=60)
        assert now() - began <= 10.1
        lost_at = now()
        await eventually(rival.is_leader, timeout=60)
        assert now() - lost_at >= 2.0, "the margin for requests already sent"
        assert isinstance(await first, LeaseLost)
        second.cancel()
    assert log[:3] == ["one leads", "one stops", "two leads"]


async def test_a_hanging_renewal_does_not_prolong_leadership() -> None:
    server = ApiInMemory()
    holder = election(server, "one")
    log: list[str] = []

    class Hanging(ApiInMemory):
        async def send(self, request: Any) -> Any:
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        leading = group.create_task(_caught(holder.run_as_leader(held_until_cancelled(log, "one"))))
        await eventually(holder.is_leader)
        holder._client.transport = Hanging()
        began = now()
        assert isinstance(await leading, LeaseLost)
        assert now() - began <= 10.1
    assert log == ["one leads", "one stops"]


async def test_leadership_ends_by_the_clock_alone() -> None:
    """`is_leader` is right even if the event loop is stuck."""
    server = ApiInMemory()
    time = [0.0]
    holder = LeaderElection(
        Client(server), name="muster", namespace="ns", identity="one", clock=lambda: time[0]
    )
    answers = []

    async def work() -> None:
        answers.append(holder.is_leader())
        time[0] += 9.9
        answers.append(holder.is_leader())
        time[0] += 0.2
        answers.append(holder.is_leader())

    await holder.run_as_leader(work)
    assert answers == [True, True, False]


async def test_time_counts_from_before_the_renewal_was_sent() -> None:
    server = ApiInMemory()
    holder = election(server, "one")

    class Slow:
        async def send(self, request: Any) -> Any:
            await asyncio.sleep(4)
            return await server.send(request)

        async def close(self) -> None: ...

    holder._client.transport = Slow()  # type: ignore[assignment]
    async with asyncio.TaskGroup() as group:
        leading = group.create_task(_caught(holder.run_as_leader(held_until_cancelled([], "one"))))
        await eventually(holder.is_leader, timeout=30)
        renewed = holder._renewed_at
        assert renewed is not None
        assert now() - renewed >= 8  # a GET and a POST of 4 s each
        leading.cancel()


async def test_the_loser_of_a_race_for_a_free_lease_waits() -> None:
    server = ApiInMemory()
    several = [election(server, f"n{i}") for i in range(5)]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_caught(e.run_as_leader(held_until_cancelled([], "x"))))
            for e in several
        ]
        for _ in range(300):
            await asyncio.sleep(0.1)
            assert sum(e.is_leader() for e in several) <= 1
        assert sum(e.is_leader() for e in several) == 1
        for task in tasks:
            task.cancel()


async def test_an_error_in_the_work_is_raised_and_the_lease_released() -> None:
    server = ApiInMemory()

    async def work() -> None:
        raise Unreachable("broken")

    with pytest.raises(Unreachable, match="broken"):
        await election(server, "one").run_as_leader(work)
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


async def test_times_that_could_allow_two_leaders_are_rejected() -> None:
    with pytest.raises(UsageError, match="renew deadline < duration"):
        election(ApiInMemory(), "one", duration=5.0, renew_deadline=5.0)


async def _caught(leading: Awaitable[None]) -> Exception | None:
    try:
        await leading
    except LeaseLost as error:
        return error
    return None
