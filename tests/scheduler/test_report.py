"""Telling people, within a budget of writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.api.kinds import EVENTS, PODS, VOLCANO_GROUPS, Kind
from muster.api.meta import Key
from muster.scheduler.actions import Say
from muster.scheduler.decide import consider
from muster.scheduler.explain import Reason
from muster.scheduler.gangs import own_gang
from muster.scheduler.report import REFRESHED, Reporter
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests.scheduler.builders import KIND_OF, gang, node, pod, volcano_group

pytestmark = pytest.mark.looptime


class Writes:
    """A client that notes what is written."""

    def __init__(self) -> None:
        self.made: list[tuple[Kind[Any], str, Any]] = []

    async def patch(self, kind: Kind[Any], key: Key, body: Any, **_: Any) -> None:
        self.made.append((kind, key.name, body))

    async def create(self, kind: Kind[Any], body: Any, **_: Any) -> None:
        self.made.append((kind, body["metadata"]["name"], body))

    def count(self, kind: Kind[Any]) -> int:
        return sum(made[0] is kind for made in self.made)


def waiting() -> tuple[State, Say]:
    """A gang of three on a node for two, looked at once."""
    state = State(Settings())
    state.node_changed(None, node("n", gpus=2))
    group = volcano_group("g", 3)
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    for member in gang("g", 3, gpus=1, role="worker"):
        state.pod_changed(None, member)
    (key,) = state.due(0.0)
    (say,) = consider(state, key, 0.0)
    assert isinstance(say, Say)
    return state, say


@asynccontextmanager
async def reporting(state: State) -> AsyncIterator[tuple[Reporter, Writes]]:
    writes = Writes()
    reporter = Reporter(writes, state)  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reporter.run())
        yield reporter, writes
        task.cancel()


async def test_a_waiting_gang_is_told_of_once_in_every_place_people_look() -> None:
    state, say = waiting()
    async with reporting(state) as (reporter, writes):
        reporter.say(say)
        await asyncio.sleep(120)

    assert (writes.count(PODS), writes.count(EVENTS), writes.count(VOLCANO_GROUPS)) == (3, 1, 1)
    status = next(body["status"] for kind, _, body in writes.made if kind is VOLCANO_GROUPS)
    assert status["phase"] == "Pending"
    assert "short 1 nvidia.com/gpu" in status["conditions"][0]["message"]
    condition = next(b["status"]["conditions"][0] for k, _, b in writes.made if k is PODS)
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "Unschedulable"


async def test_a_gang_that_waits_only_a_moment_is_not_spoken_of_to_its_pods() -> None:
    state, say = waiting()
    async with reporting(state) as (reporter, writes):
        reporter.say(say)
        await asyncio.sleep(0.5)
        state.entry(say.gang).reason = None
        reporter.say(Say(say.gang, None))
        await asyncio.sleep(60)

    assert (writes.count(PODS), writes.count(EVENTS)) == (0, 0)


async def test_a_reason_that_changes_every_second_is_written_every_half_minute() -> None:
    state, say = waiting()
    async with reporting(state) as (reporter, writes):
        for second in range(90):
            reason = Reason("NotEnoughRoom", f"short {second} nvidia.com/gpu")
            state.entry(say.gang).reason = reason
            reporter.say(Say(say.gang, reason))
            await asyncio.sleep(1)

    assert writes.count(EVENTS) <= 4
    assert writes.count(VOLCANO_GROUPS) <= 4
    assert writes.count(PODS) <= 3 * 4


async def test_a_new_pod_of_an_old_name_is_told_as_soon_as_any_other() -> None:
    state = State(Settings())
    key = own_gang(pod("p"))
    async with reporting(state) as (reporter, writes):
        for _ in range(2):
            made = pod("p", gpus=1)
            state.pod_changed(None, made)
            for action in consider(state, key, 0.0):
                assert isinstance(action, Say)
                reporter.say(action)
            await asyncio.sleep(2)  # pace: virtual
            state.pod_changed(made, None)
            consider(state, key, 0.0)

    told = [body["metadata"]["uid"] for kind, _, body in writes.made if kind is PODS]
    assert len(told) == len(set(told)) == 2


@pytest.mark.parametrize(("size", "refreshed"), [(3, 3), (REFRESHED + 1, 0)])
async def test_pods_of_a_gang_that_is_not_large_are_told_new_numbers(
    size: int, refreshed: int
) -> None:
    state = State(Settings())
    group = volcano_group("g", size)
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    for member in gang("g", size, gpus=1):
        state.pod_changed(None, member)
    (key,) = state.due(0.0)
    async with reporting(state) as (reporter, writes):
        for text in ("short 1", "short 2"):
            state.entry(key).reason = Reason("NotEnoughRoom", text)
            reporter.say(Say(key, state.entry(key).reason))
            await asyncio.sleep(40)  # pace: virtual

    messages = [
        body["status"]["conditions"][0]["message"] for kind, _, body in writes.made if kind is PODS
    ]
    assert messages.count("short 1") == size
    assert messages.count("short 2") == refreshed
