"""Taking members down: some at a time, until it is done, whatever the server does meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.api.gang_dialects import GangKey, single_pod_gang
from muster.api.kinds import PODS
from muster.api.meta import Condition, Key, find_condition
from muster.errors import Conflict, Forbidden, MusterError, NotFound, ServerError, Unreachable
from muster.scheduler.decisions import takedown
from muster.scheduler.decisions.decision import Delete
from muster.scheduler.effects.deleter import IN_FLIGHT, LONGEST_PAUSE, Deleter
from muster.scheduler.loop import Loop
from muster.scheduler.state import State
from tests.scheduler.builders import START, gang, node, pod, volcano_group
from tests.scheduler.fake_cluster import FakeCluster, FakeEffects
from tests.waiting import eventually

pytestmark = pytest.mark.looptime
replace = msgspec.structs.replace
Fault = Callable[[str, str], MusterError | None]
DENIED = Forbidden("not allowed to delete pods x in namespace default: policy", status=403)


class Server(FakeCluster):
    """A cluster whose pods are marked and deleted through calls that can fail and take a while."""

    def __init__(self) -> None:
        self.denies: Fault = lambda verb, name: None
        self.calls: list[tuple[str, str, float]] = []
        self.under_way = self.most = 0
        self.said_of: list[tuple[str, str]] = []
        self.leads = True
        self.gone: list[Pod] = []
        super().__init__()

    def scheduler(self, state: State) -> None:
        super().scheduler(state)
        self.takedown = Deleter(self, self._heard, may_act=lambda: self.leads)
        self.loop = Loop(state, _Orders(self), clock=lambda: asyncio.get_running_loop().time())
        self.binder._settled = self.loop.settled

    def _heard(self, delete: Delete, pod: Pod, why: str) -> None:
        self.said_of.append((pod.metadata.name, why))
        takedown.deletion_failed(self.state, pod, why)
        self.loop.wake()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FakeCluster]:
        async with super().running(), asyncio.TaskGroup() as group:
            task = group.create_task(self.takedown.run())
            try:
                yield self
            finally:
                task.cancel()

    async def patch(self, kind: Any, key: Key, body: Any, **how: Any) -> None:
        assert (kind, how["subresource"]) == (PODS, "status")
        found = await self._call("mark", key, body["metadata"]["uid"])
        (made,) = body["status"]["conditions"]
        when = datetime.fromisoformat(made["lastTransitionTime"])
        told = Condition(made["type"], made["status"], made["reason"], made["message"], when)
        notes = {**found.metadata.annotations, **body["metadata"].get("annotations", {})}
        conditions = (*found.status.conditions, told)
        self.add(
            replace(
                found,
                metadata=replace(found.metadata, annotations=notes),
                status=replace(found.status, conditions=conditions),
            )
        )

    async def delete(self, kind: Any, key: Key, *, uid: str) -> None:
        assert kind is PODS
        found = await self._call("delete", key, uid)
        self.gone.append(found)
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
        found = self.pods.get(key)
        if found is None:
            raise NotFound(f"{key} not found", status=404)
        if found.metadata.uid != uid:
            raise Conflict(f"{key} is another pod", status=409)
        return found

    def times(self, verb: str, name: str) -> list[float]:
        return [when for what, who, when in self.calls if (what, who) == (verb, name)]


class _Orders(FakeEffects):
    def delete(self, delete: Delete) -> None:
        self._server.deletes.append(delete)
        self._server.takedown.submit(delete)

    @property
    def _server(self) -> Server:
        assert isinstance(self._cluster, Server)
        return self._cluster


@pytest.fixture
async def server() -> Server:
    """Forty GPUs, all used by a low gang that needs every member, and who wants half of them."""
    made = Server()
    made.add(node("n1", gpus=40))
    made.add(volcano_group("low", 40), *gang("low", 40, gpus=1))
    async with made.running():
        await made.settle()
    assert len(made.bound("low")) == 40
    return made


def wants_room(server: Server) -> None:
    server.add(volcano_group("high", 20, created=9), *gang("high", 20, gpus=1, priority=5))


async def test_deletions_are_carried_out_some_at_a_time_and_no_more(server: Server) -> None:
    async with server.running():
        wants_room(server)
        await server.settle(2)

    assert server.most == IN_FLIGHT
    assert not server.bound("low")
    assert len(server.bound("high")) == 20


async def test_victims_are_marked_as_kubernetes_does_it_before_they_are_deleted(
    server: Server,
) -> None:
    async with server.running():
        wants_room(server)
        await server.settle(2)

    assert len(server.gone) == 40
    for victim in server.gone:
        told = find_condition(victim.status.conditions, "DisruptionTarget")
        assert told is not None
        assert (told.status, told.reason) == ("True", "PreemptionByScheduler")
        assert "default/high" in told.message


async def test_an_outage_in_the_middle_of_a_preemption_leaves_nobody_behind(server: Server) -> None:
    async with server.running():
        wants_room(server)
        await eventually(lambda: len(server.bound("low")) < 40, every=0.001)
        server.denies = lambda verb, name: Unreachable("connection refused")
        await server.settle(25)
        assert server.bound("low")
        server.denies = lambda verb, name: None
        await server.settle(LONGEST_PAUSE + 1)

    assert not server.bound("low")
    assert len(server.bound("high")) == 20


@pytest.mark.parametrize("left", [39, 30, 17, 8])
async def test_a_scheduler_killed_in_the_middle_has_its_preemption_finished_by_the_next(
    server: Server, left: int
) -> None:
    async with server.running():
        wants_room(server)
        await eventually(lambda: len(server.bound("low")) <= left, every=0.001)
    assert server.bound("low")

    server.restart()
    async with server.running():
        await server.settle(2)

    assert not server.bound("low")
    assert len(server.bound("high")) == 20


async def test_only_the_first_marks_were_written_when_it_was_killed(server: Server) -> None:
    async with server.running():
        wants_room(server)
        await eventually(lambda: any(map(takedown.mark_of, server.pods.values())), every=0.001)
    assert len(server.bound("low")) == 40

    server.restart()
    async with server.running():
        await server.settle(2)

    assert not server.bound("low")


async def test_surplus_that_was_being_taken_does_not_drag_its_gang_along() -> None:
    server = Server()
    server.add(node("n1", gpus=5), volcano_group("low", 2), *gang("low", 5, gpus=1))
    async with server.running():
        await server.settle()
        server.denies = lambda verb, name: DENIED if verb == "delete" else None
        server.add(volcano_group("high", 2, created=9), *gang("high", 2, gpus=1, priority=5))
        await server.settle()
    server.denies = lambda verb, name: None

    server.restart()
    async with server.running():
        await server.settle(10)

    assert len(server.bound("low")) == 3
    assert len(server.bound("high")) == 2


async def test_a_policy_that_refuses_is_told_of_and_tried_again_until_it_relents(
    server: Server,
) -> None:
    server.denies = lambda verb, name: DENIED if (verb, name) == ("delete", "low-7") else None
    async with server.running():
        wants_room(server)
        await server.settle(5)
        assert set(server.bound("low")) == {"low-7"}, "one that fails holds up nobody"
        tried = server.times("delete", "low-7")
        await server.settle(60)
        pauses = [b - a for a, b in pairwise(tried)]
        assert pauses == sorted(pauses)
        assert 10 <= len(server.times("delete", "low-7")) - len(tried) <= 13
        assert len(server.times("mark", "low-7")) == 2, "controllers take marks back"
        server.denies = lambda verb, name: None
        await server.settle(LONGEST_PAUSE + 1)

    assert not server.bound("low")
    assert server.said_of == [("low-7", str(DENIED)), ("low-7", "")]


async def test_who_waits_for_a_pod_that_cannot_be_deleted_says_why() -> None:
    server = Server()
    server.add(node("n1", gpus=2), volcano_group("low", 2), *gang("low", 2, gpus=1))
    async with server.running():
        await server.settle()
        server.denies = lambda verb, name: DENIED if verb == "delete" else None
        server.add(volcano_group("high", 2, created=9), *gang("high", 2, gpus=1, priority=5))
        await server.settle(3)
        assert "could not be deleted: not allowed to delete pods" in server.reason("high")
        assert "(and 1 more)" in server.reason("high")
        server.denies = lambda verb, name: None
        await server.settle(LONGEST_PAUSE + 1)

    assert server.reason("high") == ""
    assert len(server.bound("high")) == 2


async def test_who_comes_to_wait_later_hears_why_too_and_the_log_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    members = gang("low", 3, gpus=1)
    server.denies = lambda verb, name: DENIED if verb == "delete" else None
    server.add(node("n1", gpus=3), volcano_group("low", 3), *members)
    first, second = (
        Delete(single_pod_gang(members[0]), (*members,), why, "Preempted") for why in "ab"
    )
    async with server.running():
        await server.settle()
        server.takedown.submit(first)
        await server.settle(3)
        server.said_of.clear()
        server.takedown.submit(second)

    assert sorted(server.said_of) == [(pod.metadata.name, str(DENIED)) for pod in members]
    assert len([one for one in caplog.records if "policy" in one.message]) == 1


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("not allowed to patch pods/status x in namespace default", status=403),
        NotFound("not found", status=404),
        Conflict("written by another", status=409),
        ServerError("a webhook is down", status=500),
    ],
)
async def test_pods_that_cannot_be_marked_are_deleted_all_the_same(
    server: Server, error: MusterError, caplog: pytest.LogCaptureFixture
) -> None:
    server.denies = lambda verb, name: error if verb == "mark" else None
    with caplog.at_level(logging.WARNING, "muster.scheduler.effects.deleter"):
        async with server.running():
            wants_room(server)
            await server.settle(8)

    assert not server.bound("low")
    assert len(caplog.messages) <= 1, "one line for the right that is missing"


async def test_nothing_is_deleted_without_the_lead_and_the_rest_goes_once_it_is_back(
    server: Server,
) -> None:
    async with server.running():
        wants_room(server)
        await eventually(lambda: len(server.bound("low")) <= 30, every=0.001)
        server.leads = False
    left, calls = len(server.bound("low")), len(server.calls)
    assert left
    async with server.running():
        await server.settle(1)
        assert len(server.calls) == calls
        server.leads = True
        await server.settle(LONGEST_PAUSE + 1)

    assert not server.bound("low")


async def test_a_successor_of_the_same_name_is_not_deleted() -> None:
    server = Server()
    old, new = pod("p"), pod("p")
    server.add(new)
    async with server.running():
        server.takedown.submit(Delete(single_pod_gang(old), (old,), "why", "Released"))
        await server.settle(5)

    assert server.gone == []
    assert len(server.times("delete", "p")) == 1


async def test_a_release_is_marked_with_a_reason_of_its_own_and_finished_after_a_crash() -> None:
    server = Server()
    server.add(node("n1", gpus=4), volcano_group("g", 4), *gang("g", 4, gpus=1))
    async with server.running():
        await server.settle()
        server.denies = lambda verb, name: DENIED if verb == "delete" else None
        (key,) = server.state.roster.gangs
        pods = tuple(server.pods.values())
        server.loop._do(Delete(key, pods, "cannot be made whole", "Released"))
        await server.settle(1)
    server.denies = lambda verb, name: None

    server.restart()
    async with server.running():
        await server.settle(2)

    assert sorted(one.metadata.name for one in server.gone) == ["g-0", "g-1", "g-2", "g-3"]
    told = [find_condition(one.status.conditions, "DisruptionTarget") for one in server.gone]
    assert {(one.reason, one.message) for one in told if one} == {
        ("ReleasedByMuster", "cannot be made whole")
    }
    assert server.deletes[-1].reason == "Released"


async def test_members_made_anew_are_not_placed_beside_members_that_are_to_go(
    server: Server,
) -> None:
    server.denies = lambda verb, name: DENIED if (verb, name) == ("delete", "low-7") else None
    server.add(node("n2", gpus=40), pod("other", gpus=40, priority=9))
    async with server.running():
        await server.settle()
        server.add(volcano_group("high", 40, created=9), *gang("high", 40, gpus=1, priority=5))
        await server.settle(2)
        assert set(server.bound("low")) == {"low-7"}
        server.delete_pod("other")
        again = [one for one in gang("low", 40, gpus=1) if one.metadata.name != "low-7"]
        server.add(*again)
        await server.settle(10)
        assert set(server.bound("low")) == {"low-7"}
        assert "low-7 could not be deleted" in server.reason("low")
        server.denies = lambda verb, name: None
        await server.settle(LONGEST_PAUSE + 1)
        server.add(pod("low-7", group="low", gpus=1))
        await server.settle(2)

    assert len(server.bound("low")) == 40
    assert len(server.bound("high")) == 40


# -- who must go, after a restart ------------------------------------------------------------------

DECIDED = START + timedelta(seconds=100)


def member(name: str, at: float, *, mark: str = "", grace: int | None = None, **each: Any) -> Pod:
    """A member that got its node so many seconds after the start."""
    notes = {takedown.TAKEDOWN_ANNOTATION: f"{mark}/{DECIDED.isoformat()}"} if mark else {}
    made = pod(name, group="g", annotations=notes, **each)
    when = START + timedelta(seconds=at)
    leaves = None if grace is None else START
    metadata = replace(
        made.metadata, deletion_timestamp=leaves, deletion_grace_period_seconds=grace
    )
    return replace(
        made,
        metadata=metadata,
        spec=replace(made.spec, node_name="n" if at else ""),
        status=replace(
            made.status,
            phase="Running",
            conditions=(Condition("PodScheduled", "True", last_transition_time=when),),
        ),
    )


@pytest.mark.parametrize(
    ("members", "go"),
    [
        pytest.param([member("a", 1), member("b", 1)], "", id="nobody is marked"),
        pytest.param([member("a", 1, mark="Preempted"), member("b", 1)], "ab", id="bound before"),
        pytest.param([member("a", 1, mark="Preempted"), member("b", 100)], "ab", id="that second"),
        pytest.param([member("a", 1, mark="Preempted"), member("b", 101)], "a", id="made anew"),
        pytest.param([member("a", 1, mark="Preempted"), member("b", 0)], "a", id="waits"),
        pytest.param(
            [member("a", 1, mark="Preempted"), member("b", 1, scheduler="other", controller="")],
            "ab",
            id="a preemption takes all",
        ),
        pytest.param(
            [
                member("a", 1, mark="Released"),
                member("b", 1, scheduler="other"),
                member("c", 1, controller=""),
                member("d", 1),
            ],
            "ad",
            id="a release takes what is ours and comes back",
        ),
        pytest.param(
            [member("a", 1, mark="Preempted", grace=30), member("b", 1)], "b", id="leaves by itself"
        ),
        pytest.param(
            [member("a", 1, mark="Preempted", grace=0), member("b", 1, grace=0), member("c", 1)],
            "ac",
            id="its deletion was broken off in the server",
        ),
        pytest.param([member("a", 1, mark="Preempted/never")], "", id="nonsense"),
    ],
)
def test_who_must_go_when_a_takedown_was_broken_off(members: list[Pod], go: str) -> None:
    found = takedown.unfinished_takedown(GangKey("volcano", "default", "g"), members, {"muster"})

    assert "".join(one.metadata.name for one in (found.pods if found else ())) == go
