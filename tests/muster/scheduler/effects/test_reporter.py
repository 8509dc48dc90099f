"""The reporter writes conditions, events and group status within a budget of writes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubekit.objects.core import Pod
from kubekit.objects.kinds import EVENTS, PODS, Kind
from kubekit.objects.meta import Condition, Key, ObjectMeta, timestamp
from kubekit.request_errors import Forbidden, Unreachable
from kubekit.rights import MissingRight, Rule
from muster.contract.gang import GangKey
from muster.contract.gang_dialects import single_pod_gang
from muster.contract.pod_groups import NATIVE_POD_GROUPS, VOLCANO_POD_GROUPS
from muster.contract.waiting_line_format import IN_LINE, WaitingGang
from muster.jobs import names
from muster.scheduler.decisions.decision import Bind, Delete, Report
from muster.scheduler.decisions.gang_decision import consider
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.effects.binder import BindOutcome, BindResult, PendingBind
from muster.scheduler.effects.reporter import (
    EARLY_WRITES,
    EARLY_WRITES_PER_SECOND,
    MAX_REFRESHED_PODS,
    PLACED_AT_ONCE,
    PLACED_PATIENCE,
    Reporter,
)
from muster.scheduler.gangs.waiting_line import Idle, Parked, Wake
from muster.scheduler.settings import Settings
from muster.scheduler.state import State
from tests.muster.scheduler.builders import (
    KIND_OF,
    START,
    gang,
    native_group,
    node,
    pod,
    volcano_group,
)
from tests.muster.words import short

pytestmark = pytest.mark.looptime


class Writes:
    """A client that notes what is written."""

    def __init__(self) -> None:
        self.log: list[tuple[Kind[Any], str, Any]] = []

    async def patch(self, kind: Kind[Any], key: Key, body: Any, **_: Any) -> None:
        self.log.append((kind, key.name, body))

    async def patch_status(self, kind: Kind[Any], meta: ObjectMeta, status: Any) -> None:
        await self.patch(kind, meta.key, {"metadata": {"uid": meta.uid}, "status": status})

    async def create(self, kind: Kind[Any], body: Any, **_: Any) -> None:
        self.log.append((kind, body["metadata"]["name"], body))

    def count(self, kind: Kind[Any]) -> int:
        return sum(written is kind for written, _, _ in self.log)


def waiting() -> tuple[State, Report]:
    """A gang of three on a node for two, looked at once."""
    state = State(Settings())
    state.node_changed(None, node("n", gpus=2))
    group = volcano_group("g", 3)
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    for member in gang("g", 3, gpus=1, role="worker"):
        state.pod_changed(None, member)
    (key,) = state.due(0.0)
    (report,) = consider(state, key, 0.0).actions
    assert isinstance(report, Report)
    return state, report


def replace_rest(state: State, key: GangKey, **changes: Any) -> Parked:
    rest = state.record(key).rest
    assert isinstance(rest, Parked)
    return dataclasses.replace(rest, **changes)


@asynccontextmanager
async def reporting(
    state: State,
    writes: Writes | None = None,
    busy: Callable[[], bool] = lambda: False,
    **options: Any,
) -> AsyncIterator[tuple[Reporter, Writes]]:
    writes = writes or Writes()
    reporter = Reporter(writes, state, busy, **options)  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reporter.run())
        yield reporter, writes
        task.cancel()


async def test_a_waiting_gang_is_reported_once_in_conditions_event_and_status() -> None:
    state, report = waiting()
    async with reporting(state) as (reporter, writes):
        reporter.report(report)
        await asyncio.sleep(120)

    assert (writes.count(PODS), writes.count(EVENTS), writes.count(VOLCANO_POD_GROUPS)) == (3, 1, 1)
    status = next(body["status"] for kind, _, body in writes.log if kind is VOLCANO_POD_GROUPS)
    assert status["phase"] == "Inqueue"
    assert short(1) in status["conditions"][0]["message"]
    condition = next(b["status"]["conditions"][0] for k, _, b in writes.log if k is PODS)
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "Unschedulable"


async def test_a_pod_that_got_its_node_while_others_are_reported_is_left_out() -> None:
    state = State(Settings())
    state.node_changed(None, node("n", gpus=1))
    first, second = (pod(name, gpus=2) for name in ("p", "q"))
    for one in (first, second):
        state.pod_changed(None, one)
    reports = [a for key in state.due(0.0) for a in consider(state, key, 0.0).actions]
    writes = Writes()

    async with reporting(state, writes) as (reporter, _):
        patch = writes.patch

        async def bound_meanwhile(*args: Any, **options: Any) -> None:
            reporter.report(Report(single_pod_gang(second), None))
            await patch(*args, **options)

        writes.patch = bound_meanwhile  # type: ignore[method-assign]
        for report in reports:
            assert isinstance(report, Report)
            reporter.report(report)
        await asyncio.sleep(5)

    assert [name for kind, name, _ in writes.log if kind is PODS] == ["p"]


def line_with(place: int, *, of: int) -> list[WaitingGang]:
    """A line in which the gang `g` has this place."""
    names = [f"default/{'g' if i == place else f'other{i}'}" for i in range(1, of + 1)]
    return [
        WaitingGang(name, i, "NotEnoughRoom", "why", "", "volcano")
        for i, name in enumerate(names, start=1)
    ]


def places(writes: Writes) -> list[tuple[str, str]]:
    """The places in line that were written, each with its pod."""
    rows = ((name, b["status"]["conditions"][0]) for kind, name, b in writes.log if kind is PODS)
    return [(name, row["message"]) for name, row in rows if row["type"] == IN_LINE]


async def test_the_place_in_line_is_written_to_one_pod_and_at_most_every_half_minute() -> None:
    state, report = waiting()
    async with reporting(state) as (reporter, writes):
        reporter.line_moved(line_with(7, of=9))
        reporter.report(report)
        await asyncio.sleep(5)
        assert places(writes) == [("g-0", "7/9")]
        for place in (6, 5, 4, 3):
            reporter.line_moved(line_with(place, of=8))
            await asyncio.sleep(1)
        assert places(writes) == [("g-0", "7/9")]
        await asyncio.sleep(60)

    assert places(writes) == [("g-0", "7/9"), ("g-0", "3/8")]


async def test_the_first_in_line_learns_how_many_have_come_after_it() -> None:
    state, report = waiting()
    async with reporting(state) as (reporter, writes):
        reporter.line_moved(line_with(1, of=1))
        reporter.report(report)
        await asyncio.sleep(5)
        for length in (12, 13):
            reporter.line_moved(line_with(1, of=length))
            await asyncio.sleep(60)

    assert places(writes) == [("g-0", "1/1"), ("g-0", "1/12")]


async def test_the_next_pod_gets_the_place_when_the_first_one_is_gone() -> None:
    state, report = waiting()
    gone = next(iter(state.index.gangs[report.gang].pods.values()))
    async with reporting(state) as (reporter, writes):
        reporter.line_moved(line_with(1, of=1))
        reporter.report(report)
        await asyncio.sleep(40)
        state.pod_changed(gone, None)
        (key,) = state.due(40.0)
        for action in consider(state, key, 40.0).actions:
            assert isinstance(action, Report)
            reporter.report(action)
        await asyncio.sleep(40)

    assert places(writes) == [("g-0", "1/1"), ("g-1", "1/1")]


@pytest.mark.parametrize(("far", "writes_again"), [(91, False), (80, True)])
async def test_far_back_in_line_only_large_moves_are_written(far: int, writes_again: bool) -> None:
    state, report = waiting()
    async with reporting(state) as (reporter, writes):
        reporter.line_moved(line_with(100, of=100))
        reporter.report(report)
        await asyncio.sleep(40)
        reporter.line_moved(line_with(far, of=100))
        await asyncio.sleep(40)

    assert (len(places(writes)) == 2) is writes_again


async def test_the_condition_of_a_pod_tells_since_when_its_gang_waits() -> None:
    state, report = waiting()
    state.wall_offset = START.timestamp() + 60 - asyncio.get_running_loop().time()
    state.rest(report.gang, replace_rest(state, report.gang, since=0.0), None)
    state.pod_changed(None, pod("g-9", gpus=1, group="g", created=3600))  # younger than the gang
    async with reporting(state) as (reporter, writes):
        reporter.report(report)
        await asyncio.sleep(120)

    written = {name: b["status"]["conditions"][0] for k, name, b in writes.log if k is PODS}
    offset = state.wall_offset
    assert written["g-0"]["lastTransitionTime"] == timestamp(datetime.fromtimestamp(offset, UTC))
    assert written["g-9"]["lastTransitionTime"] == timestamp(START + timedelta(hours=1))


@pytest.mark.parametrize(
    ("version", "was_true", "type_", "status"),
    [
        ("v1alpha2", False, "PodGroupScheduled", "False"),
        ("v1beta1", False, "PodGroupInitiallyScheduled", "False"),
        ("v1beta1", True, "PodGroupInitiallyScheduled", "True"),
    ],
)
async def test_a_native_group_gets_its_status_in_the_served_version(
    version: str, was_true: bool, type_: str, status: str
) -> None:
    state = State(Settings())
    group = native_group("g", 2)
    if was_true:
        before = Condition("PodGroupInitiallyScheduled", "True")
        group = replace(group, status=replace(group.status, conditions=(before,)))
    state.group_changed(NATIVE_POD_GROUPS, group.metadata.key, group)
    for member in gang("g", 2, gpus=1, dialect="native"):
        state.pod_changed(None, member)
    (key,) = state.due(0.0)
    (report,) = consider(state, key, 0.0).actions
    assert isinstance(report, Report)
    served = replace(NATIVE_POD_GROUPS, version=version)
    async with reporting(state, served_kind=lambda _: served) as (reporter, writes):
        reporter.report(report)
        await asyncio.sleep(60)

    (body,) = [body for kind, _, body in writes.log if kind == served]
    condition = body["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == (type_, status)
    (event,) = [body for kind, _, body in writes.log if kind is EVENTS]
    assert event["involvedObject"]["apiVersion"] == f"scheduling.k8s.io/{version}"


async def test_a_gang_that_waits_only_a_moment_is_not_reported() -> None:
    state, report = waiting()
    async with reporting(state) as (reporter, writes):
        reporter.report(report)
        await asyncio.sleep(0.5)
        state.rest(report.gang, Idle(), None)
        reporter.report(Report(report.gang, None))
        await asyncio.sleep(60)

    assert (writes.count(PODS), writes.count(EVENTS)) == (0, 0)


async def test_pods_that_get_a_node_while_others_are_reported_are_left_out() -> None:
    state, report = waiting()

    class Room(Writes):
        async def patch_status(self, kind: Kind[Any], meta: ObjectMeta, status: Any) -> None:
            await super().patch_status(kind, meta, status)
            state.node_changed(None, node("n2", gpus=1))
            for key in state.due(1.0):
                consider(state, key, 1.0)

    async with reporting(state, Room()) as (reporter, writes):
        reporter.report(report)
        await asyncio.sleep(120)

    assert len(state.assumed) == 3
    assert writes.count(PODS) == 1


async def test_a_reason_that_changes_is_refreshed_at_once() -> None:
    state, report = waiting()
    async with reporting(state) as (reporter, writes):
        for text in ("short 3 cpu", "short 1 cpu"):
            reason = Reason("NotEnoughRoom", text)
            state.rest(report.gang, Parked(reason, Wake.ROOM), None)
            reporter.report(Report(report.gang, reason))
            await asyncio.sleep(1.1)

        texts = [b["status"]["conditions"][0]["message"] for k, _, b in writes.log if k is PODS]
    assert texts == ["short 3 cpu"] * 3 + ["short 1 cpu"] * 3


async def test_a_recreated_pod_of_a_reported_gang_gets_its_reason_at_once() -> None:
    state, report = waiting()
    async with reporting(state) as (reporter, writes):
        reporter.report(report)
        await asyncio.sleep(1.1)
        (old,) = (p for p in gang("g", 3, gpus=1, role="worker") if p.metadata.name == "g-0")
        new = msgspec.structs.replace(
            old, metadata=msgspec.structs.replace(old.metadata, uid="another")
        )
        state.pod_changed(old, None)
        state.pod_changed(None, new)
        for action in consider(state, report.gang, 1.1).actions:
            assert isinstance(action, Report)
            reporter.report(action)
        await asyncio.sleep(1.1)

        uids = [body["metadata"]["uid"] for kind, _, body in writes.log if kind is PODS]
    assert uids[3:] == ["another"]


async def test_reasons_that_change_every_second_cost_a_bounded_number_of_writes() -> None:
    state, report = waiting()
    async with reporting(state) as (reporter, writes):
        for second in range(900):
            reason = Reason("NotEnoughRoom", f"short {second} nvidia.com/gpu")
            state.rest(report.gang, Parked(reason, Wake.ROOM), None)
            reporter.report(Report(report.gang, reason))
            await asyncio.sleep(1)

    regular = 5 * 900 / Settings().report_every
    assert len(writes.log) <= EARLY_WRITES + 900 * EARLY_WRITES_PER_SECOND + regular


async def test_a_gang_reported_with_missing_members_is_reported_again_once_it_is_complete() -> None:
    state, report = waiting()
    missing = Reason("NotEnoughMembers", "2 of 3 members exist")
    async with reporting(state) as (reporter, writes):
        for reason in (missing, report.reason):
            assert reason is not None
            state.rest(report.gang, Parked(reason, Wake.ROOM), None)
            reporter.report(Report(report.gang, reason))
            await asyncio.sleep(3)  # pace: virtual

    texts = [b["status"]["conditions"][0]["message"] for k, _, b in writes.log if k is PODS]
    assert texts[:3] == [missing.text] * 3
    assert report.reason is not None
    assert texts[3:] == [report.reason.text] * 3


async def test_a_new_pod_of_an_old_name_is_reported_as_soon_as_any_other() -> None:
    state = State(Settings())
    key = single_pod_gang(pod("p"))
    async with reporting(state) as (reporter, writes):
        for _ in range(2):
            new = pod("p", gpus=1)
            state.pod_changed(None, new)
            for action in consider(state, key, 0.0).actions:
                assert isinstance(action, Report)
                reporter.report(action)
            await asyncio.sleep(2)  # pace: virtual
            state.pod_changed(new, None)
            consider(state, key, 0.0)

    uids = [body["metadata"]["uid"] for kind, _, body in writes.log if kind is PODS]
    assert len(uids) == len(set(uids)) == 2


@pytest.mark.parametrize(("size", "refreshed"), [(3, 3), (MAX_REFRESHED_PODS + 1, 0)])
async def test_pods_of_a_gang_that_is_not_large_get_new_numbers(size: int, refreshed: int) -> None:
    state = State(Settings())
    group = volcano_group("g", size)
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    for member in gang("g", size, gpus=1):
        state.pod_changed(None, member)
    (key,) = state.due(0.0)
    async with reporting(state) as (reporter, writes):
        for text in ("short 1", "short 2"):
            state.rest(key, Parked(Reason("NotEnoughRoom", text), Wake.ROOM), None)
            reporter.report(Report(key, state.record(key).rest.reason))
            await asyncio.sleep(40)  # pace: virtual

    messages = [
        body["status"]["conditions"][0]["message"] for kind, _, body in writes.log if kind is PODS
    ]
    assert messages.count("short 1") == size
    assert messages.count("short 2") == refreshed


class Failing(Writes):
    """A client that fails until it is mended."""

    broken = True
    tries = 0

    async def patch(self, kind: Kind[Any], key: Key, body: Any, **_: Any) -> None:
        self._fail()
        await super().patch(kind, key, body)

    async def create(self, kind: Kind[Any], body: Any, **_: Any) -> None:
        self._fail()
        await super().create(kind, body)

    def _fail(self) -> None:
        self.tries += 1
        if self.broken:
            raise Unreachable("cut off")


async def test_a_report_that_failed_is_written_when_the_server_is_back() -> None:
    state, report = waiting()
    writes = Failing()
    async with reporting(state, writes) as (reporter, _):
        reporter.report(report)
        await asyncio.sleep(60)  # pace: virtual
        assert writes.log == []
        assert writes.tries < 40
        writes.broken = False
        await asyncio.sleep(30)  # pace: virtual

    assert (writes.count(PODS), writes.count(EVENTS), writes.count(VOLCANO_POD_GROUPS)) == (3, 1, 1)


async def test_a_deletion_event_that_cannot_be_written_does_not_delay_the_next() -> None:
    class Choosy(Writes):
        async def create(self, kind: Kind[Any], body: Any, **options: Any) -> None:
            if body["message"] == "refused":
                raise Forbidden("no events in this namespace")
            await super().create(kind, body)

    state, report = waiting()
    async with reporting(state, Choosy()) as (reporter, writes):
        for why in ("refused", "to make room"):
            reporter.deleted(Delete(report.gang, (), why, "Released"))
        await asyncio.sleep(1)  # pace: virtual

    assert [body["message"] for _, _, body in writes.log] == ["to make room"]


async def running_gang() -> tuple[State, GangKey, list[Pod]]:
    """A gang of three that has its nodes and runs."""
    state = State(Settings())
    group = volcano_group("g", 3)
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    members = [bound_to(member, "Running") for member in gang("g", 3)]
    for member in members:
        state.pod_changed(None, member)
    return state, next(iter(state.index.gangs)), members


def bound_to(pod: Pod, phase: str) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name="n")
    status = msgspec.structs.replace(pod.status, phase=phase)
    return msgspec.structs.replace(pod, spec=spec, status=status)


async def test_the_counts_in_a_groups_status_follow_its_pods() -> None:
    state, key, members = await running_gang()
    async with reporting(state) as (reporter, writes):

        async def look(seconds: float) -> None:
            for action in consider(state, key, asyncio.get_running_loop().time()).actions:
                assert isinstance(action, Report)
                reporter.report(action)
            await asyncio.sleep(seconds)  # pace: virtual

        await look(2)
        state.pod_changed(members[0], bound_to(members[0], "Succeeded"))
        await look(2)
        state.pod_changed(members[1], bound_to(members[1], "Failed"))
        await look(60)
        for _ in range(5):
            await look(10)

    statuses = [body["status"] for kind, _, body in writes.log if kind is VOLCANO_POD_GROUPS]
    counts = [(s["running"], s["succeeded"], s["failed"]) for s in statuses]
    assert counts == [(3, 0, 0), (2, 1, 0), (1, 1, 1)]


async def test_the_report_that_a_gang_no_longer_waits_lets_binds_go_first_but_not_for_long() -> (
    None
):
    state, key, members = await running_gang()
    backlog = [True]
    async with reporting(state, busy=lambda: backlog[0]) as (reporter, writes):

        async def look(seconds: float) -> int:
            for action in consider(state, key, asyncio.get_running_loop().time()).actions:
                assert isinstance(action, Report)
                reporter.report(action)
            await asyncio.sleep(seconds)  # pace: virtual
            return writes.count(VOLCANO_POD_GROUPS)

        assert await look(5) == 0
        backlog[0] = False
        assert await look(2) == 1
        backlog[0] = True
        state.pod_changed(members[0], bound_to(members[0], "Succeeded"))
        assert await look(5) == 1
        assert await look(20) == 2, "a backlog may have no end"


def bind_of(key: GangKey, pods: list[Pod], plan: str = "1") -> Bind:
    return Bind(key, plan, tuple((pod, "n") for pod in pods), "")


def settle(reporter: Reporter, bind: Bind, *, refused: int = 0) -> None:
    for number, (member, on) in enumerate(bind.pairs):
        outcome = BindOutcome.REFUSED if number < refused else BindOutcome.BOUND
        reporter.settled(BindResult(PendingBind(bind, member, on), outcome))


def scheduled(writes: Writes) -> list[tuple[str, str]]:
    """The objects of the events about binds, and their messages."""
    events = [body for kind, _, body in writes.log if kind is EVENTS]
    return [
        (f"{row['involvedObject']['kind']} {row['involvedObject']['name']}", row["message"])
        for row in events
        if (row["reason"], row["type"]) == ("Scheduled", "Normal")
    ]


async def test_every_pod_that_is_bound_gets_an_event_and_its_gang_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state, key, members = await running_gang()
    with caplog.at_level(logging.INFO):
        async with reporting(state) as (reporter, writes):
            settle(reporter, bind_of(key, members), refused=1)
            await asyncio.sleep(1)  # pace: virtual

    bound = [member.metadata.name for member in members[1:]]
    assert scheduled(writes) == [
        (f"Pod {name}", f"Successfully assigned default/{name} to n") for name in bound
    ]
    told = ", ".join(f"{name} to n" for name in bound)
    assert caplog.messages == [f"default/g: bound {len(bound)} pods: {told}"]


async def test_events_about_binds_let_binds_go_first_and_are_bounded_in_number() -> None:
    state, key, members = await running_gang()
    most = int(PLACED_AT_ONCE)
    backlog = [pod(f"p{i}") for i in range(2 * most)]
    busy = True
    async with reporting(state, busy=lambda: busy) as (reporter, writes):
        for i, one in enumerate(backlog):
            settle(reporter, bind_of(single_pod_gang(one), [one], str(i)))
        await asyncio.sleep(PLACED_PATIENCE / 2)  # pace: virtual
        assert scheduled(writes) == []
        busy = False
        await asyncio.sleep(1)  # pace: virtual
        assert len(scheduled(writes)) == most
        # Now the budget suffices for one of many gangs, and for the pods of none.
        settle(reporter, bind_of(key, members * most, "large"))
        await asyncio.sleep(1)  # pace: virtual

    about, message = scheduled(writes)[-1]
    assert len(scheduled(writes)) == most + 1
    assert about == "PodGroup g"
    assert message.startswith(f"Successfully assigned {len(members) * most} pods: g-0 to n, ")
    assert message.endswith(f" and {len(members) * most - 8} more")


async def test_a_pod_that_was_running_when_first_seen_gets_an_event_when_it_is_preempted() -> None:
    state = State(Settings())
    victim = bound_to(pod("alone"), "Running")
    state.pod_changed(None, victim)
    assert single_pod_gang(victim) not in state.index.gangs
    async with reporting(state) as (reporter, writes):
        reporter.deleted(
            Delete(single_pod_gang(victim), (victim,), "makes room for g", "Preempted")
        )
        await asyncio.sleep(1)  # pace: virtual

    ((_, _, event),) = writes.log
    assert (event["reason"], event["message"]) == ("Preempted", "makes room for g")
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == ("Pod", "alone", victim.metadata.uid)


async def test_a_pod_that_cannot_be_deleted_is_reported_on_its_gang_and_not_too_often() -> None:
    state, key, members = await running_gang()
    delete = Delete(key, tuple(members), "makes room for h", "Preempted")
    async with reporting(state) as (reporter, writes):
        for member in members:
            reporter.not_deleted(delete, member, "the policy says no")
        await asyncio.sleep(1)  # pace: virtual

    ((_, _, event),) = writes.log
    assert (event["reason"], event["involvedObject"]["kind"]) == ("FailedDelete", "PodGroup")
    assert "g-0 could not be deleted, and is tried again: the policy says no" in event["message"]


NO_RIGHT = MissingRight("muster-scheduler", Rule(("",), ("pods/status",), ("patch",)))


class Rightless(Writes):
    """A client that may not write the status of pods: each write is rejected."""

    async def patch(self, kind: Kind[Any], key: Key, body: Any, **options: Any) -> None:
        if kind is PODS:
            error = Forbidden(f"{NO_RIGHT} in the namespace {key.namespace}")
            error.missing_right = NO_RIGHT
            raise error
        await super().patch(kind, key, body)


async def test_a_missing_permission_is_logged_once_and_not_for_every_pod(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = State(Settings())
    for i in range(5):
        state.pod_changed(None, pod(f"p{i}", gpus=1))
    with caplog.at_level(logging.WARNING):
        async with reporting(state, Rightless()) as (reporter, writes):
            for key in list(state.due(0.0)):
                for action in consider(state, key, 0.0).actions:
                    assert isinstance(action, Report)
                    reporter.report(action)
            await asyncio.sleep(60)  # pace: virtual

    assert len(caplog.messages) == 1
    assert str(NO_RIGHT) in caplog.text
    events = [body for _, _, body in writes.log if body.get("reason") == "MissingRight"]
    assert {event["message"] for event in events} == {str(NO_RIGHT)}
    assert sorted({event["involvedObject"]["name"] for event in events}) == [
        f"p{i}" for i in range(5)
    ]


def naming(*, spec: dict[str, Any], marks: dict[str, str] | None = None) -> tuple[State, GangKey]:
    """A gang of one that fits, whose group names these fields."""
    state = State(Settings())
    state.node_changed(None, node("n", gpus=2))
    group = volcano_group("g", 1, spec=spec, annotations=marks)
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    state.pod_changed(None, gang("g", 1, gpus=1)[0])
    (key,) = state.due(0.0)
    return state, key


def told(writes: Writes) -> list[str]:
    """The messages of the events about fields without effect."""
    bodies = [body for kind, _, body in writes.log if kind is EVENTS]
    return [body["message"] for body in bodies if body["reason"] == "NotServed"]


async def test_a_field_that_is_not_served_has_one_event_on_the_group() -> None:
    state, key = naming(spec={"queue": "research"}, marks={"volcano.sh/qos-level": "LS"})
    async with reporting(state) as (reporter, writes):
        for _ in range(3):
            reporter.not_served(key)
            await asyncio.sleep(400)

    texts = [text.partition(" has no effect: ")[0] for text in told(writes)]
    assert texts == ["queue (research)", "volcano.sh/qos-level (LS)"]
    event = next(body for kind, _, body in writes.log if kind is EVENTS)
    assert (event["involvedObject"]["kind"], event["type"]) == ("PodGroup", "Warning")


async def test_a_field_that_the_operator_copied_from_a_job_is_told_on_the_job_alone() -> None:
    state, key = naming(spec={"queue": "research"}, marks={"volcano.sh/qos-level": "LS"})
    before = state.index.gangs[key].declared
    assert before is not None
    copied = replace(before.metadata, labels=names.selector("tfjob-controller", "g"))
    written = volcano_group("g", 1, spec={"queue": "research"})
    group = replace(written, metadata=copied)
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    async with reporting(state) as (reporter, writes):
        reporter.not_served(key)
        await asyncio.sleep(1)

    assert [text.partition(" has no effect: ")[0] for text in told(writes)] == [
        "volcano.sh/qos-level (LS)"
    ]


async def test_another_value_has_another_event() -> None:
    state, key = naming(spec={"queue": "research"})
    async with reporting(state) as (reporter, writes):
        reporter.not_served(key)
        before = state.index.gangs[key].declared
        assert before is not None
        group = replace(volcano_group("g", 1, spec={"queue": "other"}), metadata=before.metadata)
        state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
        reporter.not_served(key)
        await asyncio.sleep(1)

    assert [text[:12] for text in told(writes)] == ["queue (resea", "queue (other"]


@pytest.mark.parametrize("queue", ["", "default", None])
async def test_the_default_queue_is_not_worth_an_event(queue: str | None) -> None:
    state, key = naming(spec={"queue": queue})
    async with reporting(state) as (reporter, writes):
        reporter.not_served(key)
        await asyncio.sleep(1)

    assert told(writes) == []


async def test_a_gang_of_another_scheduler_is_not_told_what_muster_serves() -> None:
    state = State(Settings(names=("other",)))
    group = volcano_group("g", 1, spec={"queue": "research"})
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    state.pod_changed(None, gang("g", 1)[0])
    async with reporting(state) as (reporter, writes):
        for key in state.index.gangs:
            reporter.not_served(key)
        await asyncio.sleep(1)

    assert told(writes) == []


async def test_a_gang_that_waits_is_told_too() -> None:
    state, report = waiting()
    group = volcano_group("g", 3, spec={"queue": "research"})
    state.group_changed(KIND_OF[type(group)], group.metadata.key, group)
    async with reporting(state) as (reporter, writes):
        reporter.report(report)
        await asyncio.sleep(5)

    assert len(told(writes)) == 1
