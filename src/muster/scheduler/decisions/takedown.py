"""What says that a gang is being taken down, and who of it must still go. No await, no client.

`takedown` marks a pod before it deletes it, with the condition that Kubernetes has for that and, in
the same write, with an annotation of ours. `decide` asks here before it thinks of a gang: as long
as members that are to go are not yet being deleted, nothing is placed beside them.

Promise: a gang that somebody began to take down goes whole, also if the scheduler that began was
killed: members that are marked, and those that had their nodes when it was decided. Members made
anew since then are left alone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import find_condition, timestamp
from muster.scheduler.decisions.decision import PREEMPTED, Action, Delete, say
from muster.scheduler.decisions.reasons import Reason
from muster.scheduler.gangs.holds import drop_holds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from muster.api.core import Pod
    from muster.api.gang_dialects import GangKey
    from muster.api.meta import Raw
    from muster.scheduler.gangs.phase import GangRecord
    from muster.scheduler.gangs.roster import Gang, Members
    from muster.scheduler.state import State

TAKEDOWN_ANNOTATION = "muster.dev/takedown"
"""On a pod whose whole gang goes: why, and when that was decided. The condition alone would not do:
other schedulers write it too, and the cluster's controllers take it back after two minutes."""
DISRUPTION_TARGET = "DisruptionTarget"
REASONS = {PREEMPTED: "PreemptionByScheduler"}
RELEASED_REASON = "ReleasedByMuster"
LEAVING = "Leaving"
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
    """When it was decided, by a clock that is not behind the server's: not before the last bind."""
    bound = (bound_at(pod) for pod in delete.pods)
    return delete.since or max((now, *(when for when in bound if when is not None)))


def bound_at(pod: Pod) -> datetime | None:
    """When a pod got its node, by the server's clock."""
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    return scheduled.last_transition_time if scheduled and scheduled.status == "True" else None


def unfinished_takedown(
    key: GangKey, members: Iterable[Pod], names: Container[str]
) -> Delete | None:
    """What finishes a takedown that was begun and broken off; None if nobody has to go.

    `names` are the schedulers that we are: a release, unlike a preemption, takes only our pods.
    """
    placed = [pod for pod in members if pod.spec.node_name]
    found = [mark for mark in map(mark_of, placed) if mark is not None]
    if not found:
        return None
    reason, since = min(found, key=lambda mark: mark.since)
    everybody = reason == PREEMPTED
    pods = tuple(
        pod
        for pod in placed
        if not _is_leaving(pod)
        if mark_of(pod)
        or (_was_bound_by(pod, since) and (everybody or _would_be_recreated(pod, names)))
    )
    if not pods:
        return None
    why = next((text for text in map(_condition_message, pods) if text), "it was being taken down")
    return Delete(key, pods, why, reason, since=since)


def _is_leaving(pod: Pod) -> bool:
    """Whether it goes by itself. A caller that dies in a deletion without grace may leave a pod
    that is being deleted and, where no kubelet sees to it, always will be."""
    return pod.metadata.deletion_timestamp is not None and (
        pod.metadata.deletion_grace_period_seconds != 0 or mark_of(pod) is None
    )


def _was_bound_by(pod: Pod, when: datetime) -> bool:
    bound = bound_at(pod)
    return bound is not None and bound.replace(microsecond=0) <= when


def _would_be_recreated(pod: Pod, names: Container[str]) -> bool:
    return pod.metadata.controller is not None and pod.spec.scheduler_name in names


def _condition_message(pod: Pod) -> str:
    found = find_condition(pod.status.conditions, DISRUPTION_TARGET)
    return found.message if found is not None else ""


# -- what a decision makes of it -------------------------------------------------------------------


def takedown_started(state: State, delete: Delete) -> None:
    """A whole gang is being deleted from now on."""
    if delete.whole and delete.gang in state.roster.gangs:
        record = state.record(delete.gang)
        record.going |= {pod.metadata.uid for pod in delete.pods}


def continue_takedown(state: State, gang: Gang, members: Members) -> list[Action] | None:
    """What is done about a gang that is being taken down, and nothing else; None if it is not."""
    record = state.record(gang.key)
    record.going = record.going.intersection(gang.pods)
    others = (
        pod for pod in (*members.bound, *members.leaving) if pod.metadata.uid not in record.going
    )
    rest = unfinished_takedown(gang.key, others, state.roster.names)
    if rest is None and not any(pod.metadata.uid in record.going for pod in members.bound):
        return None
    record.gave_up = True
    drop_holds(state, gang.key)
    actions: list[Action] = []
    if rest is not None:
        takedown_started(state, rest)
        actions.append(rest)
    text = f"waits for members that are being deleted{failed_deletions(record, record.going)}"
    return [*actions, *say(state, gang.key, Reason(LEAVING, text) if members.pending else None)]


def deletion_failed(state: State, pod: Pod, why: str) -> None:
    """A pod could not be deleted, or (no `why`) at last was: who waits for that says it."""
    uid = pod.metadata.uid
    for key, record in state.records.items():
        if why and (uid in record.victims or uid in record.going):
            record.stuck[uid] = f"{pod.metadata.name} could not be deleted: {why}"
        elif why or record.stuck.pop(uid, None) is None:
            continue
        state.mark_due(key)


def failed_deletions(record: GangRecord, uids: Container[str]) -> str:
    """Why those that are awaited to go do not, to be put behind what is said of a gang."""
    said = [text for uid, text in record.stuck.items() if uid in uids]
    more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
    return f"; {said[0]}{more}" if said else ""
