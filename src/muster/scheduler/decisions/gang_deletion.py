"""Deleting a whole gang: the marks on its pods, and finishing what was begun.

The deleter marks a pod before it deletes it: with the condition that Kubernetes has for that and,
in the same write, with an annotation of ours. As long as members to be deleted are still there,
nothing is placed beside them.

Promise: once begun, the deletion of a gang is finished, also if the scheduler that began it was
killed: it concerns members that are marked, and members that were bound when it was decided.
Members recreated since then are left alone.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import find_condition, timestamp
from muster.scheduler.decisions.decision import PREEMPTED, Decision, Delete
from muster.scheduler.decisions.reasons import LEAVING, Reason
from muster.scheduler.gangs import phase
from muster.scheduler.gangs.holds import drop_holds
from muster.scheduler.gangs.phase import Leaving
from muster.scheduler.gangs.waiting_line import InFlight, Parked, Wake

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from muster.api.core import Pod
    from muster.api.gang_dialects import GangKey
    from muster.api.meta import Raw
    from muster.scheduler.decisions.decision import GangView
    from muster.scheduler.gangs.phase import Preempting
    from muster.scheduler.state import State

TAKEDOWN_ANNOTATION = "muster.dev/takedown"
"""On a pod whose whole gang is deleted: why, and when that was decided. The condition alone is not
enough: other schedulers write it too, and the cluster's controllers remove it after two minutes."""
DISRUPTION_TARGET = "DisruptionTarget"
REASONS = {PREEMPTED: "PreemptionByScheduler"}
RELEASED_REASON = "ReleasedByMuster"
MAX_MESSAGE = 1000


class TakedownMark(NamedTuple):
    """What a pod's annotation says: the event's reason, and when it was decided."""

    reason: str
    since: datetime


def mark_of(pod: Pod) -> TakedownMark | None:
    """The mark on a pod; None if it has none that can be read."""
    reason, _, when = pod.metadata.annotations.get(TAKEDOWN_ANNOTATION, "").partition("/")
    try:
        since = datetime.fromisoformat(when)
    except ValueError:
        return None
    return TakedownMark(reason, since if since.tzinfo else since.replace(tzinfo=UTC))


def mark_patch(delete: Delete, pod: Pod, since: datetime, now: datetime) -> Raw:
    """The change of a pod's status that marks it."""
    target = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": REASONS.get(delete.reason, RELEASED_REASON),
        "message": delete.why[:MAX_MESSAGE],
        "lastTransitionTime": timestamp(now),
    }
    metadata: Raw = {"uid": pod.metadata.uid}
    if delete.whole:
        metadata["annotations"] = {TAKEDOWN_ANNOTATION: f"{delete.reason}/{timestamp(since)}"}
    return {"metadata": metadata, "status": {"conditions": [target]}}


def decided_at(delete: Delete, now: datetime) -> datetime:
    """When it was decided, but not before the last bind: the server's clock may be ahead."""
    bound = (pod.bound_at for pod in delete.pods)
    return delete.since or max((now, *(when for when in bound if when is not None)))


def unfinished_takedown(
    key: GangKey, members: Iterable[Pod], names: Container[str]
) -> Delete | None:
    """The deletion that finishes one that was cut short; None if no pod is left to delete.

    `names` are the schedulers that we are: a release, unlike a preemption, takes only our pods.
    """
    placed = [pod for pod in members if pod.spec.node_name]
    found = [mark for mark in map(mark_of, placed) if mark is not None]
    if not found:
        return None
    reason, since = min(found, key=lambda mark: mark.since)
    every_pod = reason == PREEMPTED
    pods = tuple(
        pod
        for pod in placed
        if not _is_leaving(pod)
        if mark_of(pod)
        or (_was_bound_by(pod, since) and (every_pod or _would_be_recreated(pod, names)))
    )
    if not pods:
        return None
    why = next(
        (text for text in map(_condition_message, pods) if text), "its gang was being deleted"
    )
    return Delete(key, pods, why, reason, since=since)


def _is_leaving(pod: Pod) -> bool:
    """Whether its deletion will end by itself. A caller that dies in a deletion without grace may
    leave a pod that is being deleted and, where no kubelet looks after it, always will be."""
    return pod.metadata.deletion_timestamp is not None and (
        pod.metadata.deletion_grace_period_seconds != 0 or mark_of(pod) is None
    )


def _was_bound_by(pod: Pod, when: datetime) -> bool:
    bound = pod.bound_at
    return bound is not None and bound.replace(microsecond=0) <= when


def _would_be_recreated(pod: Pod, names: Container[str]) -> bool:
    return pod.metadata.controller is not None and pod.spec.scheduler_name in names


def _condition_message(pod: Pod) -> str:
    found = find_condition(pod.status.conditions, DISRUPTION_TARGET)
    return found.message if found is not None else ""


# -- what a decision makes of it -------------------------------------------------------------------


def continue_takedown(view: GangView) -> Decision | None:
    """Finish deleting a gang that is being deleted whole; None once nothing of it is in the way."""
    state, members, now = view.state, view.members, view.record.phase
    going = now.pods.intersection(view.gang.pods) if isinstance(now, Leaving) else frozenset[str]()
    others = [p for p in (*members.bound, *members.leaving) if p.metadata.uid not in going]
    rest = unfinished_takedown(view.key, others, state.index.names)
    if rest is None and not any(pod.metadata.uid in going for pod in members.bound):
        return None
    drop_holds(state, view.key)
    return leave(view, () if rest is None else (rest,))


def leave(view: GangView, deletes: tuple[Delete, ...]) -> Decision:
    """The gang is being deleted whole; members that wait say what they wait for."""
    uids = {pod.metadata.uid for delete in deletes for pod in delete.pods}
    leaving = phase.leaving(view.record.phase, uids)
    leaving = replace(leaving, pods=leaving.pods.intersection(view.gang.pods))
    if not view.members.pending:
        return Decision(InFlight(), deletes, leaving)
    text = f"waits for members that are being deleted{failed_deletions(leaving, leaving.pods)}"
    return Decision(Parked(Reason(LEAVING, text), Wake.OWN), deletes, leaving)


def deletion_failed(state: State, pod: Pod, why: str) -> None:
    """A pod could not be deleted, or (no `why`) at last was: the gangs that wait for it say so."""
    text = f"{pod.metadata.name} could not be deleted: {why}" if why else ""
    for key, record in state.records.items():
        if phase.deletion_failed(record, pod.metadata.uid, text):
            state.mark_due(key)


def failed_deletions(now: Leaving | Preempting, uids: Container[str]) -> str:
    """Why pods being deleted are still there, to be appended to a reason."""
    texts = [text for uid, text in now.failed_deletions.items() if uid in uids]
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"; {texts[0]}{more}" if texts else ""
