"""The state of a job in one word, and its reason in a sentence: from its status and its pods.

A job looks the same everywhere, because its word is decided only here.

A container that crashed and is started again makes its job RESTARTING. The node writes no time of
the next try: it names its delay ("back-off 20s restarting …") and counts it from the last end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import find_condition, shifted
from muster.jobs import error_lines, job_sentences, names, pod_status
from muster.jobs.job_sentences import LIMITS, replica_in_words, times
from muster.jobs.job_status import BACKOFF, QUOTA_EXCEEDED, TERMINATING, Ending

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.core import ContainerStatus, Pod
    from muster.jobs.job import Job
    from muster.jobs.job_status import JobStatus

PENDING, RUNNING, SUCCEEDED, FAILED = "PENDING", "RUNNING", "SUCCEEDED", "FAILED"
SUSPENDED, RESTARTING = "SUSPENDED", "RESTARTING"
STATES = (PENDING, RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED)

# Compiled when first used: most commands meet no such job.
_DELAY = r"back-off (?:(\d{1,4})h)?(?:(\d{1,4})m)?(?:(\d{1,4}(?:\.\d{1,9})?)s)? "
# Of training-operator's jobs, whose status has only sentences.
_FOREIGN_FAILURE = r"^\w+ \S+ has failed because "
_FOREIGN_RESTART = r"^job \S+ is restarting because "

_FOR_A_NODE = ("Unschedulable", "SchedulingGated")
_SAME_CAUSE = 60.0
"""Crashes of several replicas within this time have one cause."""
_MAX_LINE = 120
"""Characters of a log line in a reason."""
_MAX_INDEX = 10**9


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
    short_reason: str = ""
    """Of a failed job: the reason without a line of the log."""
    last_lines: tuple[str, ...] = ()
    """Of a failed job, if its log had several."""
    ending: Ending | None = None
    """The end of a replica that the reason is about, if the status has it."""
    remedy: str = ""
    """Of a failed job: the flag that would have helped, if one would."""


def state_of(status: JobStatus, pods: Sequence[Pod]) -> JobState:
    true = {row.type: row.message for row in status.conditions if row.status == "True"}
    if "Succeeded" in true:
        return JobState(SUCCEEDED, _unfinished_and_stopped(status))
    if "Failed" in true:
        return _failed(status, true["Failed"])
    if "Suspended" in true:
        return JobState(SUSPENDED, true["Suspended"])
    crashes = [(pod, crash) for pod in pods if (crash := crash_of(pod))]
    return (
        _unreachable(status, pods)
        or _between_tries(status, crashes)
        or _going_on(status, true, pods, crashes)
    )


def _between_tries(status: JobStatus, crashes: Sequence[tuple[Pod, Crash]]) -> JobState | None:
    """A job that waits before it restarts replicas that crashed."""
    waiting = [(pod, crash) for pod, crash in crashes if crash.waits]
    if waiting:
        return _crashing(waiting)
    if status.waiting is None or status.waiting.reason != BACKOFF:
        return None
    message, until = status.waiting.message, status.waiting.until
    return JobState(RESTARTING, message, until, ending=_ending_in(status, message))


def _going_on(
    status: JobStatus,
    true: dict[str, str],
    pods: Sequence[Pod],
    crashes: Sequence[tuple[Pod, Crash]],
) -> JobState:
    """A job that runs or is to run; `true` are its true conditions with their messages."""
    # The Running condition alone is not enough: the operator sets it as soon as one pod that
    # decides the outcome runs, and other pods may still wait for a node.
    waiting = [pod for pod in pods if pod.status.phase in ("", "Pending")]
    if "Running" in true and status.waiting is not None and status.waiting.reason == TERMINATING:
        return JobState(RESTARTING, _after_removal(status, status.waiting.message))
    if "Running" in true and not waiting:
        if status.waiting is not None and status.waiting.reason == QUOTA_EXCEEDED:
            return JobState(RUNNING, f"the other replicas wait: {status.waiting.message}")
        # A program that crashes after some time runs between two crashes.
        return JobState(RUNNING, words) if (words := _words(crashes)) else _ran(status)
    if "Running" in true and (reason := _scaled_up(status, waiting, pods)):
        return JobState(RUNNING, reason)
    reason = _why_pending(waiting, len(pods))
    recorded = status.waiting.message if status.waiting else ""
    if pods and not waiting and status.waiting and status.waiting.reason in _FOR_A_NODE:
        recorded = ""  # the operator has not seen yet that all pods have nodes
    if "Restarting" in true and not reason:
        cause = _cause_of_restart(status, true["Restarting"])
        return JobState(RESTARTING, _after_removal(status, recorded) if recorded else cause)
    return JobState(PENDING, _after_removal(status, reason or recorded))


def _unreachable(status: JobStatus, pods: Sequence[Pod]) -> JobState | None:
    """A job with pods on nodes that do not answer: it restarts once such a pod is to end."""
    silent = pod_status.unreachable_pods(pods)
    if not silent:
        return None
    is_leaving = silent[0].metadata.deletion_timestamp is not None
    if not (is_leaving or status.is_true("Running")):
        return None
    return JobState(RESTARTING if is_leaving else RUNNING, pod_status.first_unreachable(silent))


def _unfinished_and_stopped(status: JobStatus) -> str:
    """Which replicas of a job that succeeded had failed, or were stopped."""
    rows = (status.unfinished, status.stopped)
    return " ".join(row.message for row in rows if row is not None)


def _failed(status: JobStatus, message: str) -> JobState:
    failure = status.failure
    if failure is None or status.is_rejected:
        reason = re.sub(_FOREIGN_FAILURE, "", message, count=1)
        return JobState(FAILED, reason, short_reason=reason.removesuffix("."))
    first = failure.first
    return JobState(
        FAILED,
        job_sentences.failure_reason(failure),
        short_reason=job_sentences.short_reason(failure),
        last_lines=first.last_lines if first is not None and len(first.last_lines) > 1 else (),
        ending=first,
        remedy=job_sentences.remedy(failure),
    )


def _cause_of_restart(status: JobStatus, message: str) -> str:
    if status.restart is not None:
        return job_sentences.restart_reason(status.restart)
    return re.sub(_FOREIGN_RESTART, "", message, count=1)


def _after_removal(status: JobStatus, reason: str) -> str:
    """Why the job waits, and by whom its pods were taken away before."""
    by = status.preempted.removesuffix(".") if reason else status.preempted
    return "; ".join(filter(None, (by, reason)))


def _why_pending(waiting: Sequence[Pod], total: int) -> str:
    """Why pods wait; names the replica if other replicas run."""
    reasons = ((pod, why_not_running(pod)) for pod in waiting)
    pod, reason = next(((pod, reason) for pod, reason in reasons if reason), (None, ""))
    if pod is None or len(waiting) == total:
        return reason
    return f"{_replica_in_words(pod)}: {reason}"


def _scaled_up(status: JobStatus, waiting: Sequence[Pod], pods: Sequence[Pod]) -> str:
    """Why the new replicas of a job wait that runs on with its former replicas; else empty.

    A replica that was lost and waits again is not new: it was created for the same size.
    """
    running = [pod for pod in pods if pod.status.phase == "Running"]
    sizes = {pod.metadata.annotations.get(names.CLUSTER_SIZE, "") for pod in running}
    new = (pod.metadata.annotations.get(names.CLUSTER_SIZE, "") for pod in waiting)
    if not (status.has_started and running and sizes.isdisjoint(new)):
        return ""
    reason = _why_pending(waiting, len(waiting))
    rest = f"the others wait: {reason}" if reason else f"{len(waiting)} more start"
    return f"{len(running)} of {len(pods)} run; {rest}"


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


def _ran(status: JobStatus) -> JobState:
    """A job that runs, with the replica that failed last and was recreated."""
    name = _failed_last(status)
    if not name:
        return JobState(RUNNING)
    row = status.failures[name]
    return JobState(RUNNING, job_sentences.failed_of_late(_named(name), row), ending=row.last)


def _failed_last(status: JobStatus) -> str:
    """The replica that failed last and is to blame, as the status names it; empty if none is."""
    rows = {name: row for name, row in status.failures.items() if row.last}
    return max(rows, key=lambda name: (rows[name].at, name), default="")


def _ending_in(status: JobStatus, message: str) -> Ending | None:
    """The end that a message about a backoff tells: the last to be tried may not be the newest."""
    for name, row in status.failures.items():
        for with_gang in (False, True):
            if message == job_sentences.failed_of_late(_named(name), row, with_gang=with_gang):
                return row.last
    return None


def _named(replica: str) -> str:
    """A replica that the status names, in words; the name itself if we did not write it."""
    role, _, index = replica.rpartition("-")
    number = read_integer(index, most=_MAX_INDEX)
    return replica if number is None else replica_in_words(role, number, replica)


def _replica_in_words(pod: Pod) -> str:
    role = pod.metadata.labels.get(names.ROLE, "")
    return replica_in_words(role, replica_index(pod), pod.metadata.name)


def clean_pod_policy(job: Job, status: JobStatus) -> str:
    """Which pods of the finished job are deleted: All, Running or None."""
    policy, failure = job.policy.clean_pod_policy, status.failure
    by_limit = status.is_true("Failed") and failure is not None and failure.code in LIMITS
    if policy == "None" and (by_limit or status.is_rejected):
        return "Running"  # A job that exceeded a limit or can never start must not run on.
    return policy


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
        ending=pod_status.in_words(pod_status.container_ending(pod, row.name, end)),
        last_line=error_lines.last_line(pod_status.end_of_log(end)),
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
