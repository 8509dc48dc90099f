"""Deleting whole gangs: finished whatever happens meanwhile, and nothing is placed beside them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kubekit.objects.core import Pod
from kubekit.objects.meta import Condition, Key, find_condition
from kubekit.request_errors import Forbidden
from muster.contract.gang import GangKey
from muster.contract.gang_dialects import single_pod_gang
from muster.scheduler.decisions import gang_deletion
from muster.scheduler.decisions.decision import Delete
from muster.scheduler.effects.deleter import LONGEST_PAUSE
from tests.muster.scheduler.builders import START, gang, node, pod, volcano_group
from tests.muster.scheduler.deleting_cluster import Server, full_server, wants_room
from tests.waiting import eventually

pytestmark = pytest.mark.looptime
replace = msgspec.structs.replace
DECIDED = START + timedelta(seconds=100)
DENIED = Forbidden("not allowed to delete pods x in namespace default: policy", status=403)


@pytest.mark.parametrize("left", [39, 30, 17, 8])
async def test_a_preemption_that_was_cut_short_is_finished_by_the_next_scheduler(left: int) -> None:
    server = await full_server()
    async with server.running():
        wants_room(server)
        await eventually(lambda: len(server.bound("low")) <= left, every=0.001)
    assert server.bound("low")

    server.restart()
    await server.run(2)

    assert not server.bound("low")
    assert len(server.bound("high")) == 20


async def test_a_preemption_with_only_its_first_marks_written_is_finished() -> None:
    server = await full_server()
    async with server.running():
        wants_room(server)
        await eventually(lambda: any(map(gang_deletion.mark_of, server.pods.values())), every=0.001)
    assert len(server.bound("low")) == 40

    server.restart()
    await server.run(2)

    assert not server.bound("low")


async def add_preemptor_without_deletions(server: Server) -> None:
    """Once the running gang has settled: a gang that preempts it, while deletions are denied."""
    await server.settle()
    server.denies = lambda verb, name: DENIED if verb == "delete" else None
    server.add(volcano_group("high", 2, created=9), *gang("high", 2, gpus=1, priority=5))


async def test_the_gang_of_evicted_surplus_is_not_deleted() -> None:
    server = Server()
    server.add(node("n1", gpus=5), volcano_group("low", 2), *gang("low", 5, gpus=1))
    async with server.running():
        await add_preemptor_without_deletions(server)
        await server.settle()
    server.denies = lambda verb, name: None

    server.restart()
    await server.run(10)

    assert len(server.bound("low")) == 3
    assert len(server.bound("high")) == 2


async def test_a_gang_that_waits_for_a_pod_that_cannot_be_deleted_says_why() -> None:
    server = Server()
    server.add(node("n1", gpus=2), volcano_group("low", 2), *gang("low", 2, gpus=1))
    async with server.running():
        await add_preemptor_without_deletions(server)
        await server.settle(3)
        assert "could not be deleted: not allowed to delete pods" in server.reason("high")
        assert "(and 1 more)" in server.reason("high")
        server.denies = lambda verb, name: None
        await server.settle(LONGEST_PAUSE + 1)

    assert server.reason("high") == ""
    assert len(server.bound("high")) == 2


async def test_a_gang_that_waits_later_gets_the_same_reason_and_the_log_has_it_once(
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
        server.deleter.submit(first)
        await server.settle(3)
        server.failures.clear()
        server.deleter.submit(second)

    assert sorted(server.failures) == [(pod.metadata.name, str(DENIED)) for pod in members]
    assert len([record for record in caplog.records if "policy" in record.message]) == 1


async def test_a_release_has_its_own_reason_and_is_finished_after_a_crash() -> None:
    server = Server()
    server.add(node("n1", gpus=4), volcano_group("g", 4), *gang("g", 4, gpus=1))
    async with server.running():
        await server.settle()
        server.denies = lambda verb, name: DENIED if verb == "delete" else None
        (key,) = server.state.index.gangs
        pods = tuple(server.pods.values())
        server.loop._do(Delete(key, pods, "cannot be made whole", "Released"))
        await server.settle(1)
    server.denies = lambda verb, name: None

    server.restart()
    await server.run(2)

    assert sorted(p.metadata.name for p in server.gone) == ["g-0", "g-1", "g-2", "g-3"]
    deleted = (pod.status.conditions for pod in server.gone)
    conditions = [find_condition(rows, "DisruptionTarget") for rows in deleted]
    assert {(condition.reason, condition.message) for condition in conditions if condition} == {
        ("ReleasedByMuster", "cannot be made whole")
    }
    assert server.deletes[-1].reason == "Released"


class WithKubelets(Server):
    """A server whose nodes take their time to stop a pod that is deleted."""

    async def delete(self, kind: Any, key: Key, *, uid: str) -> None:
        current = await self._call("delete", key, uid)
        self.gone.append(current)
        self.let_leave(current.metadata.name, grace=30)

    def let_leave(self, name: str, *, grace: int) -> None:
        old = self.pods[Key("default", name)]
        leaving = replace(
            old.metadata, deletion_timestamp=START, deletion_grace_period_seconds=grace
        )
        self.add(replace(old, metadata=leaving))


async def test_a_preempted_pod_is_deleted_and_counted_once() -> None:
    server = WithKubelets()
    server.add(node("n1", gpus=2), volcano_group("low", 2), *gang("low", 2, gpus=1))
    async with server.running():
        await server.settle()
        server.add(volcano_group("high", 2, created=9), *gang("high", 2, gpus=1, priority=5))
        await server.settle()
        for name in ("low-0", "low-1"):
            # The node has stopped the pod: the server writes that, and removes it a moment later.
            server.let_leave(name, grace=0)
            await server.settle(0.2)
            server.delete_pod(name)
        await server.settle(5)

    assert sorted(pod.metadata.name for pod in server.gone) == ["low-0", "low-1"]
    assert [len(delete.pods) for delete in server.deletes] == [2]
    assert len(server.bound("high")) == 2


async def test_recreated_members_are_not_placed_while_others_are_being_deleted() -> None:
    server = await full_server()
    server.denies = lambda verb, name: DENIED if (verb, name) == ("delete", "low-7") else None
    server.add(node("n2", gpus=40), pod("other", gpus=40, priority=9))
    async with server.running():
        await server.settle()
        server.add(volcano_group("high", 40, created=9), *gang("high", 40, gpus=1, priority=5))
        await server.settle(2)
        assert set(server.bound("low")) == {"low-7"}
        server.delete_pod("other")
        again = [p for p in gang("low", 40, gpus=1) if p.metadata.name != "low-7"]
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


def member(name: str, at: float, *, mark: str = "", grace: int | None = None, **each: Any) -> Pod:
    """A member that got its node so many seconds after the start."""
    notes = {gang_deletion.DELETION_ANNOTATION: f"{mark}/{DECIDED.isoformat()}"} if mark else {}
    plain = pod(name, group="g", annotations=notes, **each)
    when = START + timedelta(seconds=at)
    leaves = None if grace is None else START
    metadata = replace(
        plain.metadata, deletion_timestamp=leaves, deletion_grace_period_seconds=grace
    )
    return replace(
        plain,
        metadata=metadata,
        spec=replace(plain.spec, node_name="n" if at else ""),
        status=replace(
            plain.status,
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
def test_an_unfinished_deletion_covers_marked_and_bound_members(
    members: list[Pod], go: str
) -> None:
    unfinished = gang_deletion.unfinished_deletion(
        GangKey("volcano", "default", "g"), members, {"muster"}, first_look=True
    )

    assert "".join(p.metadata.name for p in (unfinished.pods if unfinished else ())) == go
