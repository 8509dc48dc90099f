"""The state of a job in one word, and its reason in a sentence: from its status and its pods.

A job looks the same everywhere, because its word is decided only here.

The operator's message of a failed job begins with training-operator's sentence (`TFJob ns/j has
failed because 1 Worker replica(s) failed.`), which other clients read, and adds the first pod that
failed. A person reads `worker 1 exited with code 2: …` instead.

A container that crashed and is started again makes its job RESTARTING. The node writes no time of
the next try: it names its delay ("back-off 20s restarting …") and counts it from the last end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.meta import find_condition, shifted
from muster.jobs import log_tail, names, pod_status
from muster.jobs.job_status import BACKOFF, COMPLETED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.core import ContainerStatus, Pod
    from muster.jobs.job_status import JobStatus

PENDING, RUNNING, SUCCEEDED, FAILED = "PENDING", "RUNNING", "SUCCEEDED", "FAILED"
SUSPENDED, RESTARTING = "SUSPENDED", "RESTARTING"
STATES = (PENDING, RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED)

_SINGLE_ROLES = ("chief", "master", "launcher")
"""Roles of which a job has one replica: its index says nothing."""

# Patterns are compiled when they are first used: most commands meet no job that failed.
_BEGINNING = r"\w+ \S+ has failed because "
_FIRST = r"(?s)(?P<cause>.*?)\.? First: pod (?P<pod>\S+) (?P<ending>.*)"
_RESTARTING = r"job \S+ is restarting because (?P<cause>.*)"
_REPLICAS_FAILED = r"\w+ replica\(s\) failed\. First: pod (?P<pod>\S+) (?P<ending>.*)"
_LIMIT = (
    r"(?:Job \S+ has failed because )?it has reached the specified backoff limit "
    r"\(backoffLimit (?P<limit>\d+), (?P<failures>\d+) failures?\)"
)
_COUNT = r"(?P<count>\d+) (?P<role>\w+) replica\(s\) failed"
_REPLICA = r"(?P<role>[a-z]+)-(?P<index>\d+)"
_MEMBERS_FIT = r"^(\d+ of \d+) (\w+ fit)"
_DELAY = r"back-off (?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)? "

_FOR_A_NODE = ("Unschedulable", "SchedulingGated")
_SAME_CAUSE = 60.0
"""Crashes of several replicas within this time have one cause."""
_MAX_LINE = 120
"""Characters of a log line in a reason."""


class Crash(msgspec.Struct, frozen=True):
    """The last crash of a pod's container, after which the node starts it again."""

    container: str
    restarts: int
    exit_code: int
    ending: str
    """The rest of a sentence that begins with the name of the instance: `exited with code 3`."""
    last_line: str
    """The last line of its log, as far as the pod's status has it."""
    waits: bool
    """Whether it is not running again yet."""
    next_try: datetime | None = None
    ended_at: datetime | None = None

    @property
    def rest_of_sentence(self) -> str:
        """What comes after `worker 0`; without times, which change by themselves."""
        text = f"{self.ending}: {_shortened(self.last_line)}" if self.last_line else self.ending
        if not self.restarts:
            return text
        return f"restarted {times(self.restarts)}; the last time it {text}"


class JobState(msgspec.Struct, frozen=True):
    word: str
    reason: str = ""
    """Why it waits, restarts or failed, or which replica had failed or was stopped when it
    succeeded; without times, which change by themselves."""
    next_try: datetime | None = None
    """When a job that restarts is tried again, if that is known."""


def state_of(status: JobStatus, pods: Sequence[Pod]) -> JobState:
    true = {row.type: row.message for row in status.conditions if row.status == "True"}
    if "Succeeded" in true:
        failed = true["Succeeded"].partition(COMPLETED)[2].strip()
        stopped = status.stopped.message if status.stopped else ""
        return JobState(SUCCEEDED, f"{failed} {stopped}".strip())
    if "Failed" in true:
        return JobState(FAILED, true["Failed"])
    if "Suspended" in true:
        return JobState(SUSPENDED, true["Suspended"])
    crashes = {pod.metadata.name: (pod, crash) for pod in pods if (crash := crash_of(pod))}
    waiting_crashes = [(pod, crash) for pod, crash in crashes.values() if crash.waits]
    if waiting_crashes:
        return _crashing(waiting_crashes)
    if status.waiting is not None and status.waiting.reason == BACKOFF:
        return JobState(RESTARTING, status.waiting.message, status.waiting.until)
    # The Running condition alone is not enough: the operator sets it as soon as one pod that
    # decides the outcome runs, and other pods may still wait for a node.
    waiting = [pod for pod in pods if pod.status.phase in ("", "Pending")]
    if "Running" in true and not waiting:
        # A program that crashes after some time runs between two crashes.
        return JobState(RUNNING, _words(list(crashes.values())) or _recreated(status))
    if "Running" in true and (reason := _scaled_up(status, waiting, pods)):
        return JobState(RUNNING, reason)
    reason = _why_pending(waiting, len(pods))
    recorded = status.waiting.message if status.waiting else ""
    if pods and not waiting and status.waiting and status.waiting.reason in _FOR_A_NODE:
        recorded = ""  # the operator has not seen yet that all pods have nodes
    if "Restarting" in true and not reason:
        message = _after_preemption(status, recorded) if recorded else true["Restarting"]
        return JobState(RESTARTING, message)
    return JobState(PENDING, _after_preemption(status, reason or recorded))


def _after_preemption(status: JobStatus, reason: str) -> str:
    """Why the job waits, and by whom it was preempted before."""
    return "; ".join(filter(None, (status.preempted, reason)))


def _why_pending(waiting: Sequence[Pod], total: int) -> str:
    """Why pods wait; names the replica if other replicas run."""
    reasons = ((pod, why_not_running(pod)) for pod in waiting)
    pod, reason = next(((pod, reason) for pod, reason in reasons if reason), (None, ""))
    if pod is None or len(waiting) == total:
        return reason
    return f"{_replica_in_words(pod)}: {reason}"


def _scaled_up(status: JobStatus, waiting: Sequence[Pod], pods: Sequence[Pod]) -> str:
    """Why the new replicas of a job wait that runs on with its former replicas; else empty.

    A replica that was lost and waits again is no new one: it was created for the same size.
    """
    running = [pod for pod in pods if pod.status.phase == "Running"]
    sizes = {pod.metadata.annotations.get(names.CLUSTER_SIZE, "") for pod in running}
    new = (pod.metadata.annotations.get(names.CLUSTER_SIZE, "") for pod in waiting)
    if not (status.has_started and running and sizes.isdisjoint(new)):
        return ""
    reason = re.sub(_MEMBERS_FIT, r"\1 more \2", _why_pending(waiting, len(waiting)))
    return f"{len(running)} of {len(pods)} run; {reason or f'{len(waiting)} more start'}"


def _crashing(crashes: Sequence[tuple[Pod, Crash]]) -> JobState:
    """A job with replicas that wait for their next try; the time is that of the next try."""
    times = [crash.next_try for _, crash in crashes if crash.next_try is not None]
    return JobState(RESTARTING, _words(crashes), min(times, default=None))


def _words(crashes: Sequence[tuple[Pod, Crash]]) -> str:
    """The crash that came first, and how many other replicas crashed."""
    if not crashes:
        return ""
    pod, crash = _first_of_the_last(crashes)
    text = f"{_replica_in_words(pod)} {crash.rest_of_sentence}"
    others = len(crashes) - 1
    if not others:
        return text
    return f"{text}; {others} other {'replica' if others == 1 else 'replicas'} restarted too"


def _first_of_the_last(crashes: Sequence[tuple[Pod, Crash]]) -> tuple[Pod, Crash]:
    """The first of the crashes that belong to the newest one.

    When a replica is killed, its peers soon lose their connections and fail too: the first crash is
    the cause. A crash of an hour ago is not.
    """
    times = [crash.ended_at for _, crash in crashes if crash.ended_at is not None]
    if len(times) < len(crashes):
        return crashes[0]
    start = shifted(max(times), -_SAME_CAUSE)
    recent = (row for row in crashes if row[1].ended_at is not None and row[1].ended_at >= start)
    return min(recent, key=lambda row: row[1].ended_at or start, default=crashes[0])


def _shortened(line: str) -> str:
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"


def _recreated(status: JobStatus) -> str:
    """The replica that failed last and was recreated, and how often it failed of late."""
    rows = {name: row for name, row in status.failures.items() if row.ending}
    if not rows:
        return ""
    name = max(rows, key=lambda name: (rows[name].at, name))
    row = rows[name]
    role, _, index = name.rpartition("-")
    replica = in_words(role, int(index), name)
    return f"{replica} failed {times(row.count)}; the last time it {row.ending}"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _replica_in_words(pod: Pod) -> str:
    role = pod.metadata.labels.get(names.ROLE, "")
    return in_words(role, replica_index(pod), pod.metadata.name)


def in_words(role: str, index: int, pod: str) -> str:
    """`worker 0`, `chief`; the pod's name if it has no role."""
    if role in _SINGLE_ROLES and not index:
        return role
    return f"{role} {index}" if role else pod


def replica_index(pod: Pod) -> int:
    return max(names.replica_index(pod.metadata.labels), 0)


def why_not_running(pod: Pod) -> str:
    """Why a pod does not run, in the words of the component that knows."""
    if pod.status.phase == "Failed":
        return pod_status.failure(pod)
    placed = find_condition(pod.status.conditions, "PodScheduled")
    if placed is not None and placed.status == "False":
        return placed.message
    for container in pod.status.all_container_statuses:
        waiting = container.state.waiting
        if waiting is not None and waiting.message:
            return f"{waiting.reason}: {waiting.message}"
    return pod.status.message


def crash_of(pod: Pod) -> Crash | None:
    """The crash after which a container of this pod is started again; None if there was none.

    A container that waits for its next try comes before a container that runs again.
    """
    if pod.finished or pod.metadata.deletion_timestamp is not None:
        return None
    rows = pod.status.all_container_statuses
    crashes = [crash for row in rows if (crash := _crash(pod, row)) is not None]
    return next((crash for crash in crashes if crash.waits), crashes[0] if crashes else None)


def _crash(pod: Pod, row: ContainerStatus) -> Crash | None:
    waiting, ended = row.state.waiting, row.state.terminated
    if waiting is None and ended is None and not row.restart_count:
        return None  # nearly every container
    waits = row.waits_for_restart
    end = row.last_state.terminated
    if ended is not None and ended.exit_code and pod.spec.restart_policy != "Never":
        waits, end = True, ended  # a moment before the node starts it again
    if end is None or not (waits or (row.restart_count and row.state.running and end.exit_code)):
        return None
    delay = _delay(waiting.message) if waiting is not None else None
    return Crash(
        container=row.name,
        restarts=row.restart_count,
        exit_code=end.exit_code,
        ending=pod_status.container_ending(pod, row.name, end),
        last_line=log_tail.last_line(pod_status.end_of_log(end)),
        waits=waits,
        next_try=shifted(end.finished_at, delay) if waits and end.finished_at and delay else None,
        ended_at=end.finished_at,
    )


def _delay(message: str) -> float | None:
    match = re.match(_DELAY, message)
    if match is None:
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


class Failure(msgspec.Struct, frozen=True):
    reason: str
    last_lines: tuple[str, ...] = ()
    pod: str = ""
    """The pod that failed first; empty if the message names none."""


def read_failure(message: str, job: str) -> Failure:
    """The parts of the message of a failed job of this name, whoever wrote it."""
    sentence, lines = pod_status.split_failure(message)
    sentence = re.sub(_BEGINNING, "", sentence, count=1)
    first = re.fullmatch(_FIRST, sentence)
    if first is None:
        return Failure(re.sub(_LIMIT, _used_up, sentence), lines)
    cause, pod, ending = first.groups()
    cause, replica = re.sub(_LIMIT, _used_up, cause), _replica(pod, job)
    counted = re.fullmatch(_COUNT, cause)
    if counted is None:
        return Failure(f"{cause}; {replica} {ending}", lines, pod)
    if counted["count"] == "1":
        return Failure(f"{replica} {ending}", lines, pod)
    roles = f"{counted['role'].lower()}s"
    return Failure(f"{counted['count']} {roles} failed; the first, {replica}, {ending}", lines, pod)


def read_restart(message: str, job: str) -> str:
    """The cause in the message of a job of this name that restarts, as a person reads it.

    The state says already that it restarts, and the first replica that failed says that some have.
    """
    restarting = re.fullmatch(_RESTARTING, message)
    if restarting is None:
        return message
    cause = restarting["cause"]
    failed = re.fullmatch(_REPLICAS_FAILED, cause)
    return f"{_replica(failed['pod'], job)} {failed['ending']}" if failed else cause


def _used_up(match: re.Match[str]) -> str:
    often = times(int(match["failures"]))
    return f"it failed {often}, the limit --retry={match['limit']} (backoffLimit) is used up"


def _replica(pod: str, job: str) -> str:
    """`worker 1`; the name of a pod whose name does not tell."""
    rest = pod.removeprefix(f"{job}-")
    if rest.startswith("launcher-"):
        return "launcher"
    replica = re.fullmatch(_REPLICA, rest)
    return in_words(replica["role"], int(replica["index"]), pod) if replica else f"pod {pod}"
