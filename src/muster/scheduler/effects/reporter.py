"""Writes pod conditions, events and group status, within a budget of writes.

A gang that waits is reported after a moment, again only when its reason changes, and not more often
than every half minute. Its pods get the condition PodScheduled=False, which cluster autoscalers
look for too: once per reason and, unless they are many, again when only the numbers change. A
group's status follows the counts of its members; the count of succeeded members is written soon,
because a restarted scheduler reads it there. Reports never delay a decision, and the report that a
gang no longer waits lets binds go first for some seconds. Failed reports are logged and retried,
except the events of deletions and binds.

A pod that is bound gets the event Scheduled, as from kube-scheduler. These events let binds go
first and have a separate budget. If it is too small for all pods of a plan, they share one event on
the object that declares their gang; in a long backlog there is none.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubekit.control.event_recorder import EventRecorder
from kubekit.errors import MusterError
from kubekit.objects.conditions import new_condition
from kubekit.objects.events import EventText, event_subject
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import timestamp
from kubekit.request_errors import Conflict, Forbidden, NotFound
from kubekit.rights import MISSING_RIGHT
from muster.contract.gang import GangKey, GroupCounts
from muster.contract.gang_dialects import DIALECT_BY_NAME, SINGLE_POD
from muster.contract.unserved_fields import EVENT as NOT_SERVED, Unserved, of_gang
from muster.contract.waiting_line_format import IN_LINE, LinePlace
from muster.scheduler.decisions.reasons import BIND_FAILED, NOT_ENOUGH_MEMBERS
from muster.scheduler.effects.binder import BindOutcome
from muster.scheduler.gangs.members import UNSCHEDULABLE
from muster.scheduler.isolated_errors import isolated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod
    from kubekit.objects.events import EventSubject
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw
    from kubekit.rights import MissingRight
    from muster.contract.waiting_line_format import WaitingGang
    from muster.scheduler.decisions.decision import Delete, Report
    from muster.scheduler.decisions.reasons import Reason
    from muster.scheduler.effects.binder import BindResult
    from muster.scheduler.gangs.gang_index import Gang
    from muster.scheduler.state import State

    ReportRight = Callable[[GangKey, Iterable[Pod], MissingRight], None]

log = logging.getLogger(__name__)

COMPONENT = "muster-scheduler"
MAX_REFRESHED_PODS = 100
"""Gangs up to this size are reported to their pods again when only the numbers change."""
RETRY_SECONDS = 10.0
"""Seconds until a write that failed is retried."""
EARLY_WRITES, EARLY_WRITES_PER_SECOND = 100.0, 2.0
"""Writes that may refresh reasons before `report_every` has passed: at once, and per second.

A person who frees room sees true numbers within a second or two. When thousands of gangs wait, the
first in line share the writes and the others are refreshed every `report_every` seconds.
"""
PLACED_AT_ONCE, PLACED_PER_SECOND = 300.0, 10.0
"""Events about pods that are bound: at once, and per second."""
PLACED_PATIENCE = 30.0
"""Seconds for which these events give way to binds."""
MAX_NAMES = 8
"""Pods that one event names."""
MAX_DEFERRALS = 10
"""How often the report of a gang that no longer waits is deferred, by one second each."""


@dataclass
class _Reported:
    """The last report about a gang, and the UID of the object it was about."""

    subject: str
    reason: Reason | None = None
    at: float = -math.inf
    status: Raw | None = None
    succeeded: int = 0
    deferred: int = 0
    place: tuple[str, LinePlace] = ("", LinePlace())
    """The place in line that was written last, and the UID of the pod."""
    place_written_at: float = -math.inf


class WriteBudget:
    """So many writes at once, and so many per second."""

    def __init__(self, at_once: float, per_second: float) -> None:
        self._at_once, self._per_second = at_once, per_second
        self._left, self._at = at_once, 0.0

    def take(self, writes: int) -> bool:
        """Take that many writes; False if so many are not left, and none is taken."""
        now = asyncio.get_running_loop().time()
        self._left = min(self._at_once, self._left + (now - self._at) * self._per_second)
        self._at = now
        if writes > self._left:
            return False
        self._left -= writes
        return True


class Reporter:
    """Reports that are due, and the last report about each gang and pod."""

    def __init__(
        self,
        client: Client,
        state: State,
        busy: Callable[[], bool] = lambda: False,
        served_kind: Callable[[Kind[Any]], Kind[Any]] = lambda kind: kind,
    ) -> None:
        self._client, self._state, self._busy = client, state, busy
        self._served_kind = served_kind
        """The kind of a group object in the version that the server serves."""
        self._recorder = EventRecorder(client, lambda: datetime.now(UTC))
        # Apart from the others, which must not wait behind thousands of these.
        self._placed = EventRecorder(client, lambda: datetime.now(UTC), busy, PLACED_PATIENCE)
        self._due: dict[GangKey, float] = {}
        self._reported: dict[GangKey, _Reported] = {}
        self._pods: dict[str, Reason] = {}
        self._wake = asyncio.Event()
        self._refusals = Refusals(log, self.missing_right)
        self._not_deleted: dict[GangKey, float] = {}
        self._not_served: dict[GangKey, tuple[str, frozenset[Unserved]]] = {}
        self._early = WriteBudget(EARLY_WRITES, EARLY_WRITES_PER_SECOND)
        self._of_placed = WriteBudget(PLACED_AT_ONCE, PLACED_PER_SECOND)
        self._plans: dict[str, tuple[int, list[tuple[Pod, str]]]] = {}
        """How many binds of a plan are open, and the pods that got their nodes."""
        self._places: dict[GangKey, LinePlace] = {}

    def report(self, report: Report) -> None:
        """Report a gang soon: its reason to wait or its counts have changed."""
        reported = self._reported.get(report.gang)
        if reported is not None and reported.subject != self._subject_uid(report.gang):
            # A new gang of the same name: nothing was reported of it.
            del self._reported[report.gang]
            self._due.pop(report.gang, None)
            reported = None
        if report.reason is None and reported is None:
            self._due.pop(report.gang, None)
            if DIALECT_BY_NAME[report.gang.dialect].status is None:
                return
        if report.reason is not None:
            self.not_served(report.gang)
        now = asyncio.get_running_loop().time()
        soon = now + self._state.settings.report_after
        not_before = reported.at + self._state.settings.report_every if reported else soon
        if reported is not None and (
            reported.succeeded != self._succeeded(report.gang) or _is_complete(reported, report)
        ):
            not_before = soon
        if soon < min(not_before, self._due.get(report.gang, math.inf)):
            not_before = soon if self._may_refresh(report) else not_before
        due = max(soon, not_before)
        if due < self._due.get(report.gang, math.inf):
            self._due[report.gang] = due
            self._wake.set()

    def line_moved(self, line: Sequence[WaitingGang]) -> None:
        """Write the places that have changed, not too often: soon if the first was not written."""
        n, every = len(line), self._state.settings.report_every
        names = ((row, row.gang.partition("/")) for row in line)
        self._places = {
            GangKey(row.dialect, namespace, name): LinePlace(row.place, n)
            for row, (namespace, _, name) in names
        }
        now = asyncio.get_running_loop().time()
        for key, place in self._places.items():
            reported = self._reported.get(key)
            if reported is None or reported.reason is None:
                continue
            due = max(now, reported.place_written_at + every)
            if _has_moved(reported.place[1], place) and due < self._due.get(key, math.inf):
                self._due[key] = due
                self._wake.set()

    def _may_refresh(self, report: Report) -> bool:
        """Whether a gang may be reported early; takes the writes from the budget if so."""
        gang, reason = self._state.index.gangs.get(report.gang), report.reason
        if gang is None or reason is None:
            return False
        pending = self._state.members(gang).pending
        if len(pending) > MAX_REFRESHED_PODS:
            return False
        # One write for each pod, and two for the event and the group's status.
        shown = reason.for_namespace
        cost = 2 + sum(self._pods.get(pod.metadata.uid) != shown for pod in pending)
        return self._early.take(cost)

    def settled(self, result: BindResult) -> None:
        """Report later, once the last bind of a plan is settled, which pods got their nodes."""
        bind, pod, node = result.binding
        left, placed = self._plans.pop(bind.plan, (len(bind.pairs), []))
        if result.outcome is BindOutcome.BOUND:
            placed.append((pod, node))
        if left > 1:
            self._plans[bind.plan] = (left - 1, placed)
        elif placed:
            log.info("%s: bound %s", bind.gang, _in_words(placed))
            self._record_placed(bind.gang, placed)

    def _record_placed(self, key: GangKey, placed: Sequence[tuple[Pod, str]]) -> None:
        if self._of_placed.take(len(placed)):
            for pod, node in placed:
                text = f"Successfully assigned {pod.metadata.key} to {node}"
                about = event_subject(PODS, pod.metadata, COMPONENT)
                self._placed.record(about, EventText("Scheduled", text))
        elif len(placed) > 1 and self._of_placed.take(1):
            gang = self._state.index.gangs.get(key)
            subject = self._subject(gang, (pod for pod, _ in placed))
            if subject is not None:
                text = f"Successfully assigned {_in_words(placed)}"
                self._placed.record(subject, EventText("Scheduled", text))

    def deleted(self, delete: Delete) -> None:
        """Report at once, by an event, that members are being deleted."""
        self._record(delete.gang, delete.pods, EventText(delete.reason, delete.why, "Warning"))

    def not_deleted(self, delete: Delete, pod: Pod, why: str) -> None:
        """Report by an event, not too often, that the server does not delete a member."""
        now, every = asyncio.get_running_loop().time(), self._state.settings.report_every
        recent = {gang: at for gang, at in self._not_deleted.items() if now - at < every}
        self._not_deleted = {delete.gang: now} | recent
        if delete.gang not in recent:
            text = f"{pod.metadata.name} could not be deleted, and is tried again: {why}"
            event = EventText("FailedDelete", f"{text} ({delete.why})", "Warning")
            self._record(delete.gang, (pod,), event)

    def not_served(self, key: GangKey) -> None:
        """Report by events, each once, what a gang names and Muster does not serve.

        Called when a gang waits or is bound: gangs that run since before a restart were told.
        """
        gang, uid = self._state.index.gangs.get(key), self._subject_uid(key)
        names = self._state.index.names
        if gang is None or all(pod.spec.scheduler_name not in names for pod in gang.pods.values()):
            return
        found = of_gang(key.dialect, gang.declared, gang.pods.values())
        if not found:
            return
        subject, told = self._not_served.get(key, (uid, frozenset[Unserved]()))
        told = told if subject == uid else frozenset()
        if len(self._not_served) > 2 * len(self._state.index.gangs) + 100:
            alive = self._state.index.gangs
            self._not_served = {k: row for k, row in self._not_served.items() if k in alive}
        self._not_served[key] = (uid, told | {*found})
        for row in found:
            if row not in told:
                self._record(key, (), EventText(NOT_SERVED, str(row), "Warning"))

    def missing_right(self, gang: GangKey, pods: Iterable[Pod], missing: MissingRight) -> None:
        """Report by an event that the scheduler lacks a right that the gang needs."""
        self._record(gang, pods, EventText(MISSING_RIGHT, str(missing), "Warning"))

    def _record(self, gang: GangKey, pods: Iterable[Pod], event: EventText) -> None:
        subject = self._subject(self._state.index.gangs.get(gang), pods)
        if subject is not None:
            self._recorder.record(subject, event)

    async def run(self) -> None:
        """Report until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            group.create_task(self._placed.run())
            group.create_task(self._report_due())

    async def _report_due(self) -> None:
        while True:
            self._wake.clear()
            now = asyncio.get_running_loop().time()
            for key in [key for key, due in self._due.items() if due <= now]:
                if self._due.get(key, math.inf) > now:
                    continue  # withdrawn, or put off, while others were written
                del self._due[key]
                with isolated("report", key):
                    await self._report(key, now)
            await self._sleep()

    async def _sleep(self) -> None:
        now = asyncio.get_running_loop().time()
        wait = min(self._due.values(), default=None)
        try:
            async with asyncio.timeout(None if wait is None else max(0.0, wait - now)):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _report(self, key: GangKey, now: float) -> None:
        gang, record = self._state.index.gangs.get(key), self._state.records.get(key)
        if gang is None or record is None:
            self._reported.pop(key, None)
            return
        reported = self._reported.setdefault(key, _Reported(self._subject_uid(key)))
        # The reason of now, not of the time when the report was asked for.
        reason = record.rest.reason and record.rest.reason.for_namespace
        if reason is None and self._busy() and reported.deferred < MAX_DEFERRALS:
            reported.deferred += 1
            self._due[key] = now + 1.0
            return
        reported.deferred = 0
        is_complete = await self._report_group(gang, reason, reported, now)
        if reason != reported.reason:
            reported.at = now
            written = await self._report_event(gang, reason)
            reported.reason = reason if written else reported.reason
            is_complete = is_complete and written
        if reason is not None:
            is_complete = await self._report_pods(gang, reason) and is_complete
            await self._report_place(gang, reported, now)
        if not is_complete:
            self._due[key] = now + RETRY_SECONDS

    def _succeeded(self, key: GangKey) -> int:
        gang = self._state.index.gangs.get(key)
        return 0 if gang is None else self._state.count_succeeded(gang)

    def _subject_uid(self, key: GangKey) -> str:
        """A UID that tells a gang from an earlier gang of the same name."""
        gang = self._state.index.gangs.get(key)
        if gang is None:
            return ""
        if gang.declared is not None:
            return gang.declared.metadata.uid
        return min(gang.pods, default="") if key.dialect == SINGLE_POD.name else ""

    async def _report_group(
        self, gang: Gang, reason: Reason | None, reported: _Reported, now: float
    ) -> bool:
        """Write the group's status if it has changed; False if that failed."""
        if gang.kind is None or gang.declared is None:
            return True
        group, kind = gang.declared, self._served_kind(gang.kind)
        status = group_status(self._state, gang, reason, "", kind.version)
        if status is None or status == reported.status:
            return True
        stamp = timestamp(datetime.now(UTC))  # left out above: the time alone is not a change
        body = {"status": group_status(self._state, gang, reason, stamp, kind.version)}
        reported.at = now
        patch = self._client.patch(kind, group.metadata.key, body, subresource="status")
        done = await self._try(patch, gang)
        if done:
            reported.status, reported.succeeded = status, self._succeeded(gang.key)
        return done

    async def _report_pods(self, gang: Gang, reason: Reason) -> bool:
        """Write the condition of pods that wait; False if a write failed: the rest is for later."""
        alive = self._state.index.of_pod
        if len(self._pods) > 2 * len(alive) + 100:
            self._pods = {uid: reported for uid, reported in self._pods.items() if uid in alive}
        members = self._state.members(gang)
        # A pod whose bind fails again and again counts as bound while it is tried, without a node.
        retried = (pod for pod in members.bound if not pod.spec.node_name)
        pending = (*members.pending, *(retried if reason.code == BIND_FAILED else ()))
        for pod in pending:
            if reason.code != BIND_FAILED and self._has_node(gang, pod.metadata.uid):
                continue  # since the others were written
            reported = self._pods.get(pod.metadata.uid)
            is_large = len(pending) > MAX_REFRESHED_PODS
            has_same_code = reported is not None and reported.code == reason.code
            if reported == reason or (is_large and has_same_code):
                continue
            since = self._waits_since(gang, pod)
            condition = new_condition("PodScheduled", "False", UNSCHEDULABLE, reason.text, since)
            status = {"conditions": [condition]}
            patch = self._client.patch_status(PODS, pod.metadata, status)
            if not await self._try(patch, gang, pod):
                return False
            self._pods[pod.metadata.uid] = reason
        return True

    async def _report_place(self, gang: Gang, reported: _Reported, now: float) -> None:
        """Write the place in line to the first pod that waits: its job's status tells it."""
        place, pending = self._places.get(gang.key), self._state.members(gang).pending
        if place is None or not pending:
            return
        metadata, (uid, before) = pending[0].metadata, reported.place
        if metadata.uid == uid and not _has_moved(before, place):
            return
        not_before = reported.place_written_at + self._state.settings.report_every
        if now < not_before:
            self._due[gang.key] = min(not_before, self._due.get(gang.key, math.inf))
            return
        condition = new_condition(IN_LINE, "True", UNSCHEDULABLE, str(place), datetime.now(UTC))
        patch = self._client.patch_status(PODS, metadata, {"conditions": [condition]})
        reported.place_written_at = now
        if await self._try(patch, gang, pending[0]):
            reported.place = (metadata.uid, place)

    def _waits_since(self, gang: Gang, pod: Pod) -> datetime:
        """Since when a pod has waited: the next process reads it in the pod's condition."""
        since, now = self._state.record(gang.key).rest.since, datetime.now(UTC)
        if since is None:
            return now
        waits = datetime.fromtimestamp(since + self._state.wall_offset, UTC)
        return max(waits, pod.metadata.creation_timestamp or waits)

    def _has_node(self, gang: Gang, uid: str) -> bool:
        """Whether a member is bound or being bound."""
        pod = gang.pods.get(uid)
        return uid in self._state.assumed or (pod is not None and bool(pod.spec.node_name))

    async def _report_event(self, gang: Gang, reason: Reason | None) -> bool:
        subject = self._subject(gang)
        if reason is None or subject is None:
            return True
        event = EventText("FailedScheduling", reason.text, "Warning")
        # No gang: an event about a missing right could not be written either.
        return await self._try(self._recorder.write(subject, event), None)

    def _subject(self, gang: Gang | None, pods: Iterable[Pod] = ()) -> EventSubject | None:
        """The subject of an event on a gang: the object that declares it, else its first member.

        A pod that had its node before we first saw it is in no gang: then the pod is the subject.
        """
        if gang is not None and gang.declared is not None and gang.kind is not None:
            kind = self._served_kind(gang.kind)
            return event_subject(kind, gang.declared.metadata, COMPONENT)
        others = gang.pods.values() if gang is not None else ()
        members = sorted((*pods, *others), key=lambda pod: pod.metadata.name)
        return event_subject(PODS, members[0].metadata, COMPONENT) if members else None

    async def _try(self, write: Awaitable[object], gang: Gang | None, *pods: Pod) -> bool:
        """Whether the write succeeded, or its object is gone."""
        try:
            await write
        except (NotFound, Conflict):
            return True
        except Forbidden as error:
            self._refusals.take(error, None if gang is None else gang.key, pods)
        except MusterError as error:
            log.info("not reported: %s", error)
        else:
            return True
        return False


def _in_words(placed: Sequence[tuple[Pod, str]]) -> str:
    """Pods and their nodes: `3 pods: g-0 to n1, g-1 to n1, g-2 to n2`."""
    named = ", ".join(f"{pod.metadata.name} to {node}" for pod, node in placed[:MAX_NAMES])
    more = f" and {len(placed) - MAX_NAMES} more" if placed[MAX_NAMES:] else ""
    return f"{len(placed)} {'pods' if placed[1:] else 'pod'}: {named}{more}"


def group_status(
    state: State, gang: Gang, reason: Reason | None, stamp: str, version: str
) -> Raw | None:
    """The status of a gang's group object in its dialect; None if we write none."""
    write, terms = DIALECT_BY_NAME[gang.key.dialect].status, gang.terms
    members = state.members(gang)
    if write is None or terms is None:
        return None
    status = getattr(gang.declared, "status", None)
    counts = GroupCounts(
        min=terms.min,
        bound=len(members.bound),
        pending=len(members.pending),
        running=members.running,
        failed=len(members.failed),
        succeeded=state.count_succeeded(gang),
        reason=reason.text if reason is not None else "",
        version=version,
        conditions=status.conditions if status is not None else (),
    )
    return write(counts, stamp)


def _has_moved(before: LinePlace, now: LinePlace) -> bool:
    """Whether a place is worth a write: it or the line's length changed by more than a tenth."""
    return any(abs(b - n) > b // 10 for b, n in zip(before, now, strict=True))


def _is_complete(reported: _Reported, report: Report) -> bool:
    """Whether members that were reported missing exist now."""
    before, reason = reported.reason, report.reason
    missing = before is not None and before.code == NOT_ENOUGH_MEMBERS
    return missing and (reason is None or reason.code != NOT_ENOUGH_MEMBERS)


# -- rejected writes -------------------------------------------------------------------------------


def report_to_nobody(gang: GangKey, pods: Iterable[Pod], missing: MissingRight) -> None:
    """Default for `report`: does nothing."""


class Refusals:
    """The writes of one part of the scheduler that the API server rejects.

    A missing RBAC rule concerns a verb on a resource, not one pod, so the log has it once. `report`
    gets the gang concerned, pods of it and the missing right.
    """

    def __init__(self, log: logging.Logger, report: ReportRight = report_to_nobody) -> None:
        self._log, self._report, self._known = log, report, set[str]()

    def take(self, error: MusterError, gang: GangKey | None, pods: Iterable[Pod] = ()) -> None:
        """Log an error unless the same rule was missing before; tell the gang, if one is given."""
        missing = error.missing_right
        action = error.action if isinstance(error, Forbidden) else ""
        about = str(missing or action or error)
        if about not in self._known:
            self._known.add(about)
            self._log.warning("%s", error)
        if missing and gang is not None:
            self._report(gang, pods, missing)
