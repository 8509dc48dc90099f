"""Deleting a whole gang: the marks on its pods, and finishing a deletion that was cut short.

A half-bound gang looks for room a little longer and is then released, so that it does not occupy
room that it cannot use.

The deleter marks a pod before it deletes the pod: with Kubernetes' condition DisruptionTarget and,
in the same write, with an annotation of ours. While members to be deleted are still there, no other
member of the gang is placed.

Promise: a deletion that was begun is finished even if the scheduler that began it was killed. It
covers the members that are marked, and the members that were bound when it was decided. Members
recreated since then are left alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.annotation_values import read_time
from kubekit.objects.conditions import PREEMPTION, disruption_condition
from kubekit.objects.meta import find_condition, timestamp
from muster.scheduler.decisions import reasons
from muster.scheduler.decisions.decision import PREEMPTED, RELEASED, Delete, Verdict
from muster.scheduler.decisions.reasons import Reader
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.phase import Leaving
from muster.scheduler.gangs.waiting_line import InFlight, Parked, Wake

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from datetime import datetime

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Raw
    from muster.contract.gang import GangKey
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.gangs.phase import Preempting
    from muster.scheduler.state import State

DELETION_ANNOTATION = "muster.dev/takedown"
"""On a pod whose whole gang is deleted: why, and when that was decided. The condition alone is not
enough: other schedulers write it too, and the cluster's controllers remove it after two minutes."""
MAX_MESSAGE = 1000


class DeletionMark(NamedTuple):
    """The annotation of a marked pod: the event's reason, and when the deletion was decided."""

    reason: str
    since: datetime


def mark_of(pod: Pod) -> DeletionMark | None:
    """The mark on a pod; None if there is none, or none that this scheduler would write."""
    reason, _, when = pod.metadata.annotations.get(DELETION_ANNOTATION, "").partition("/")
    since = read_time(when)
    # The reason becomes an event's reason and the label of a metric: anybody may write the rest.
    return DeletionMark(reason, since) if since and reason in (PREEMPTED, RELEASED) else None


def mark_patch(delete: Delete, pod: Pod, since: datetime, now: datetime) -> Raw:
    """The patch of a pod's status that marks the pod."""
    reason = PREEMPTION if delete.reason == PREEMPTED else "ReleasedByMuster"
    condition = disruption_condition(reason, delete.why[:MAX_MESSAGE], now)
    metadata: Raw = {"uid": pod.metadata.uid}
    if delete.whole:
        metadata["annotations"] = {DELETION_ANNOTATION: f"{delete.reason}/{timestamp(since)}"}
    return {"metadata": metadata, "status": {"conditions": [condition]}}


def decided_at(delete: Delete, now: datetime) -> datetime:
    """When the deletion was decided, but not before the last bind: server clocks may be ahead."""
    bound = (pod.bound_at for pod in delete.pods)
    return delete.since or max((now, *(when for when in bound if when is not None)))


def unfinished_deletion(
    key: GangKey, members: Iterable[Pod], names: Container[str], *, first_look: bool
) -> Delete | None:
    """The rest of a deletion that was cut short; None if no pod is left to delete.

    `names` are our scheduler names: a release, unlike a preemption, deletes only our pods.
    `first_look`: this process has not considered the gang before.
    """
    placed = [pod for pod in members if pod.spec.node_name]
    marks = [mark for mark in map(mark_of, placed) if mark is not None]
    if not marks:
        return None
    reason, since = min(marks, key=lambda mark: mark.since)
    every_pod = reason == PREEMPTED
    pods = tuple(
        pod
        for pod in placed
        if pod.metadata.deletion_timestamp is None or (first_look and _may_stay(pod))
        if mark_of(pod)
        or (_was_bound_by(pod, since) and (every_pod or _would_be_recreated(pod, names)))
    )
    if not pods:
        return None
    why = next(filter(None, map(_condition_message, pods)), reasons.DELETION_UNDER_WAY)
    return Delete(key, pods, why, reason, since=since)


def _may_stay(pod: Pod) -> bool:
    """Whether the deletion of a marked pod may never end, so that it must be repeated."""
    # The server writes a grace of 0 a moment before a pod is gone. If it breaks off in between and
    # the caller is dead, no one repeats the deletion. A caller that lives does: so this matters
    # only for pods that this process finds, and not for those that it sees leave.
    return pod.metadata.deletion_grace_period_seconds == 0 and mark_of(pod) is not None


def _was_bound_by(pod: Pod, when: datetime) -> bool:
    bound = pod.bound_at  # whole seconds, as the mark has them
    return bound is not None and bound.replace(microsecond=0) <= when


def _would_be_recreated(pod: Pod, names: Container[str]) -> bool:
    return pod.metadata.controller is not None and pod.spec.scheduler_name in names


def _condition_message(pod: Pod) -> str:
    condition = find_condition(pod.status.conditions, "DisruptionTarget")
    return condition.message if condition is not None else ""


# -- decisions -------------------------------------------------------------------------------------


def continue_deletion(view: GangView) -> Verdict | None:
    """Finish deleting a whole gang; None once no pod to be deleted is left."""
    members, current = view.members, view.phase
    awaited = current.awaited if isinstance(current, Leaving) else frozenset[str]()
    known = awaited.intersection(view.gang.pods)
    others = [p for p in (*members.bound, *members.leaving) if p.metadata.uid not in known]
    first_look = isinstance(view.phase, phase.Unseen)
    names = view.known.index.names
    unfinished = unfinished_deletion(view.key, others, names, first_look=first_look)
    if unfinished is None and not any(pod.metadata.uid in known for pod in members.bound):
        return None
    view.drop_holds()
    return decide_deletion(view, () if unfinished is None else (unfinished,))


def decide_deletion(view: GangView, deletes: tuple[Delete, ...]) -> Verdict:
    """Decide to delete the whole gang; its pending members wait for that."""
    uids = {pod.metadata.uid for delete in deletes for pod in delete.pods}
    leaving = phase.leaving(view.phase, uids)
    leaving = replace(leaving, awaited=leaving.awaited.intersection(view.gang.pods))
    if not view.members.pending:
        return Verdict(InFlight(), deletes, leaving)
    reason = reasons.leaving(failed_deletions(leaving))
    return Verdict(Parked(reason, Wake.OWN), deletes, leaving)


def deletion_failed(state: State, pod: Pod, why: str) -> None:
    """Note that a pod could not be deleted, or (no `why`) now was, for the gangs that wait."""
    for key, record in list(state.records.items()):
        reader = Reader(key.namespace, state.one_user)
        text = reasons.not_deleted(pod.metadata.key, why, reader) if why else ""
        current = phase.deletion_failed(record.phase, pod.metadata.uid, text)
        if current != record.phase:
            state.note(key, phase=current)
            state.mark_due(key)


def failed_deletions(current: Leaving | Preempting) -> list[str]:
    """Why pods that are to leave could not be deleted."""
    return [why for uid, why in current.failed_deletions.items() if uid in current.awaited]


# -- half-bound gangs ------------------------------------------------------------------------------


def repair_or_release(view: GangView, parked: Parked) -> Verdict:
    """A half-bound gang looks for room a little longer; then its bound members are deleted."""
    current = phase.standing(view.phase)
    if isinstance(current, phase.Mending):
        return Verdict(parked, (), current)
    current = current if isinstance(current, phase.HalfBound) else phase.HalfBound()
    if not current.undeletable:
        repair = view.known.settings.repair_seconds
        release_at = view.now + repair if current.release_at is None else current.release_at
        if view.now < release_at:
            waits = replace(parked, until=release_at)
            return Verdict(waits, (), replace(current, release_at=release_at))
        released = release(view, reasons.half_bound(parked.reason.text))
        if released is not None:
            return released
        if view.members.being_bound:  # released once they have landed
            return Verdict(parked, (), current)
        current = phase.HalfBound(undeletable=True, holds_ended=True)
    reason = replace(parked.reason.and_also(reasons.CANNOT_DELETE), short=())
    return Verdict(replace(parked, reason=reason), (), current)


def release(view: GangView, why: str) -> Verdict | None:
    """Delete the bound members that a controller will recreate; None if there are none (yet)."""
    view.drop_holds()
    names = view.known.index.names
    bound = (pod for pod in view.members.bound if pod.spec.node_name and pod.metadata.controller)
    pods = tuple(pod for pod in bound if pod.spec.scheduler_name in names)
    if pods:
        return decide_deletion(view, (Delete(view.key, pods, why, RELEASED),))
    if not view.members.being_bound:
        view.phase = phase.cannot_release(view.phase)
    return None
