"""Whether one job or pod runs, and if not, why and where it stands in line.

Computed from objects of the API server: the pods, their PodScheduled conditions and the published
line. Pure, and imports no numpy, so that `muster explain` starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.meta import condition_is_true, find_condition, in_utc, timestamp
from muster.contract.gang_dialects import PDB, gang_named_by, role_of, single_pod_gang
from muster.contract.waiting_line_format import NOT_ENOUGH_MEMBERS, WaitingGang, ordinal, place_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod

RUNS, STARTS, WAITS, DONE, FAILED = "running", "starting", "waiting", "succeeded", "failed"
UNSEEN, EMPTY = "unseen", "empty"
PATIENCE = 5.0
"""Seconds that a scheduler may take to report on new pods."""
SHOWN_OF_ROW = (
    "gang",
    "dialect",
    "min_member",
    "place",
    "since",
    "priority",
    "held",
    "code",
    "reason",
)


class Member(msgspec.Struct, frozen=True, rename="camel"):
    """One pod: its node, or why it has none."""

    name: str
    role: str
    phase: str
    node: str
    why: str


class JobExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a job's gang; `place` is 0 for a gang that is not in line."""

    name: str
    state: str
    text: str
    gang: str = ""
    dialect: str = ""
    # Scripts read this key of the JSON.
    min_member: int = msgspec.field(name="least", default=0)
    place: int = 0
    in_line: int = 0
    since: str = ""
    quota: str = ""
    """The ResourceQuota in whose line the job stands; empty for the scheduler's line."""
    priority: int = 0
    held: int = 0
    code: str = ""
    reason: str = ""
    """Of a gang in line: why it waits, in one word and in a sentence without its place."""
    members: tuple[Member, ...] = ()
    last_lines: tuple[str, ...] = ()
    """Of a failed job: the end of the log of the pod that failed."""
    hint: str = ""
    """Of a failed job: the flag that would have helped, if one would."""
    next_try: str = ""
    """When a job that restarts is tried again, if that is known."""
    not_served: tuple[str, ...] = ()
    """The fields that the job or its gang names and that have no effect, and what holds instead."""

    def __repr__(self) -> str:  # of Python's prompt and of notebooks
        return f"{self.name} is {self.state}: {self.text}"


def explain_job(
    name: str, pods: Iterable[Pod], rows: Sequence[WaitingGang] | None, now: datetime | None = None
) -> JobExplanation:
    """Explain the state of the pods of one job, or of one pod.

    `rows` is the published line, None if the reader may not read it: then the pods tell the place.
    With `now`, new pods that no scheduler has reported on are not called unseen yet.
    """
    sorted_pods = sorted(pods, key=lambda pod: pod.metadata.name)
    row = _row(sorted_pods, rows or ())
    state, text = _verdict(sorted_pods, row)
    if state == UNSEEN and now is not None and _are_new(sorted_pods, now):
        state, text = WAITS, "the scheduler has not reported on its new pods yet"
    reason = row.reason if row is not None else ""
    members = tuple(_member(pod, reason) for pod in sorted_pods)
    if row is None:
        gang = str((gang_named_by(sorted_pods[0]) if sorted_pods else None) or "")
        explanation = JobExplanation(name, state, text, gang=gang, members=members)
        unread = rows is None and state == WAITS
        return _with_place_on_pods(explanation, sorted_pods) if unread else explanation
    shown = {field: getattr(row, field) for field in SHOWN_OF_ROW}
    return JobExplanation(name, state, text, in_line=len(rows or ()), members=members, **shown)


def _with_place_on_pods(explanation: JobExplanation, pods: Sequence[Pod]) -> JobExplanation:
    """The explanation with the place in line that the scheduler wrote on a pod, if it wrote one."""
    place, in_line = place_on(pods)
    rows = (find_condition(pod.status.conditions, "PodScheduled") for pod in pods)
    times = (in_utc(r.last_transition_time) for r in rows if r is not None and r.status == "False")
    since = min(filter(None, times), default=None)
    if not place or since is None:
        return explanation
    return msgspec.structs.replace(
        explanation,
        text=f"{explanation.text}; {ordinal(place)} in line",
        reason=explanation.text,
        place=place,
        in_line=in_line,
        since=timestamp(since),
    )


def _row(pods: Sequence[Pod], rows: Sequence[WaitingGang]) -> WaitingGang | None:
    """The row of these pods' gang; the gang of a budget has the name of the pods' controller."""
    names = set()
    for pod in pods:
        key = gang_named_by(pod) or single_pod_gang(pod)
        names.add((key.dialect, str(key)))
        owner = pod.metadata.controller
        if owner is not None:
            names.add((PDB.name, f"{pod.metadata.namespace}/{owner.name}"))
    own = [row for row in rows if (row.dialect, row.gang) in names and not _is_outdated(row, pods)]
    return min(own, key=lambda row: row.place, default=None)


def _is_outdated(row: WaitingGang, pods: Sequence[Pod]) -> bool:
    """Whether members that the row misses exist by now; the line is up to a second old."""
    present = sum(
        not (pod.finished or pod.spec.scheduling_gates or pod.metadata.deletion_timestamp)
        for pod in pods
    )
    return row.code == NOT_ENOUGH_MEMBERS and present > row.bound + row.pending


def _verdict(pods: Sequence[Pod], row: WaitingGang | None) -> tuple[str, str]:
    """A state, and a sentence that explains it."""
    if not pods:
        return EMPTY, "has no pods yet"
    if row is not None:
        return WAITS, str(row)
    waiting = [pod for pod in pods if not pod.spec.node_name and not pod.finished]
    if waiting:
        return _unplaced(waiting, len(pods))
    return _placed(pods)


def _unplaced(waiting: Sequence[Pod], n: int) -> tuple[str, str]:
    """Pods without a node whose gang is not in the line."""
    message = next(filter(None, map(_condition_message, waiting)), "")
    if message:
        return WAITS, message
    gated = sum(1 for pod in waiting if pod.spec.scheduling_gates)
    if gated:
        return WAITS, f"{gated} of {n} pods are held back by scheduling gates"
    names = " and ".join(sorted({pod.spec.scheduler_name for pod in waiting}))
    return UNSEEN, (
        f"{len(waiting)} of {n} pods have no node and no scheduler has reported a reason; "
        f"their schedulerName is {names}"
    )


def _are_new(pods: Sequence[Pod], now: datetime) -> bool:
    """Whether the newest pod is younger than a scheduler needs to report a reason."""
    times = [pod.metadata.creation_timestamp for pod in pods]
    newest = max((time for time in times if time is not None), default=None)
    return newest is not None and (now - newest).total_seconds() < PATIENCE


def _placed(pods: Sequence[Pod]) -> tuple[str, str]:
    phases = [pod.status.phase for pod in pods]
    if all(phase == "Succeeded" for phase in phases):
        return DONE, f"has ended: {len(pods)} of {len(pods)} pods succeeded"
    if "Running" not in phases and "Failed" in phases:
        return FAILED, f"has ended: {phases.count('Failed')} of {len(pods)} pods failed"
    placed = [pod.spec.node_name for pod in pods if not pod.finished]
    nodes, alive = len(set(placed)), [pod for pod in pods if pod.status.phase == "Running"]
    silent = sum(pod.unreachable_since is not None for pod in alive)
    leaving = [pod for pod in alive if pod.metadata.deletion_timestamp is not None]
    ending = sum(pod.unreachable_since is None for pod in leaving)
    parts = [f"{len(alive) - silent - ending} running"]
    parts += [f"{ending} ending"] if ending else []
    parts += [f"{silent} on a node that does not answer"] if silent else []
    have_nodes = f"{len(placed)} of {len(pods)} pods have a node"
    text = f"{have_nodes}, on {nodes} node{'s' * (nodes != 1)}; {', '.join(parts)}"
    return (RUNS if alive else STARTS), text


def _member(pod: Pod, reason: str) -> Member:
    """One pod; `reason` is why its gang waits, which is newer than the pods' conditions."""
    name, phase, node = pod.metadata.name, pod.status.phase, pod.spec.node_name
    waits_with_gang = not (node or pod.finished or pod.spec.scheduling_gates)
    why = (reason if waits_with_gang else "") or _condition_message(pod)
    return Member(name, role_of(pod), phase, node, why)


def _condition_message(pod: Pod) -> str:
    """The message that a scheduler wrote into the pod's condition."""
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is None or condition_is_true((scheduled,), "PodScheduled"):
        return ""
    return scheduled.message or scheduled.reason


def place_in_words(explanation: JobExplanation) -> str:
    """`2nd of 7 in line`; empty for a gang that is not in line."""
    place = explanation.place
    line = f"the line of the quota {explanation.quota}" if explanation.quota else "line"
    return f"{ordinal(place)} of {explanation.in_line} in {line}" if place else ""
