"""The sentences about a job, its failures and restarts, each made in one place: from the status.

A condition's message begins with training-operator's words (`TFJob ns/j has failed because 1 Worker
replica(s) failed.`), which other clients show, and adds the first pod that failed. A person reads
`worker 1 exited with code 2: …` instead. No code reads either of them: it reads the fields.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from muster.jobs import pod_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.objects.meta import Key
    from muster.jobs.job_status import Ending, JobFailure, JobRestart, ReplicaFailures

REPLICAS_FAILED = "ReplicasFailed"
"""The code of a failure or a restart for replicas that failed."""
NONE_SUCCEEDED = "NoneSucceeded"
BACKOFF_LIMIT = "BackoffLimitExceeded"
DEADLINE = "DeadlineExceeded"
STARTING_DEADLINE = "StartingDeadlineExceeded"
"""Codes of failures."""
LIMITS = (BACKOFF_LIMIT, DEADLINE, STARTING_DEADLINE)
INTERRUPTED = "Interrupted"
PREEMPTED = "Preempted"
WORKER_DELETED = "WorkerDeleted"
REPLICA_GONE = "ReplicaGone"
RESTARTED_IN_PLACE = "RestartedInPlace"
NONE_RUNS = "NoneRuns"
"""Codes of restarts."""

_SINGLE_ROLES = ("chief", "master", "launcher")
"""Roles of which a job has one replica: its index says nothing."""


def replica_in_words(role: str, index: int, pod: str) -> str:
    """`worker 0`, `chief`; the pod's name if it has no role."""
    if role in _SINGLE_ROLES and not index:
        return role
    return f"{role} {index}" if role else pod


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def sentence(text: str) -> str:
    """The text with a full stop, unless the message that it quotes has one."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


# -- a job that failed ---------------------------------------------------------------------------


def failure_message(kind: str, key: Key, failure: JobFailure, *, lines: bool = True) -> str:
    """The message of the Failed condition; without the last lines, of the event."""
    job = f"Job {key.name}" if failure.code in LIMITS else f"{kind} {key}"
    text = f"{job} has failed because {_cause(failure)}"
    first = failure.first
    if first is None:
        return text
    text = " ".join(filter(None, [sentence(text), remedy(failure)]))
    text = f"{text} First: pod {first.pod} "
    if lines and len(first.last_lines) > 1:
        end = "\n".join(first.last_lines)
        return f"{text}{pod_status.in_words(first)}. Its last lines:\n{end}"
    return f"{text}{_told(first)}"


def remedy(failure: JobFailure) -> str:
    """The flag with which the job would have been tried again; empty if none would have helped."""
    first = failure.first
    if first is None or not pod_status.may_end_well_next_time(first):
        return ""
    if failure.at_once:
        return (
            "Several replicas failed at once and each counted; with the annotation "
            "muster.dev/restart: gang (--restart=gang) they would restart together and count once."
        )
    if not failure.without_retry:
        return ""
    return "With --retry=3 (restartPolicy: OnFailure, backoffLimit: 3) it would be tried again."


def _cause(failure: JobFailure) -> str:
    """In training-operator's words, as far as it has them."""
    if failure.code == REPLICAS_FAILED:
        return f"{failure.count} {failure.role} replica(s) failed"
    if failure.code == BACKOFF_LIMIT:
        failures = f"{failure.failures} failure{'' if failure.failures == 1 else 's'}"
        numbers = f"(backoffLimit {failure.limit}, {failures})"
        return f"it has reached the specified backoff limit {numbers}"
    if failure.code == DEADLINE:
        seconds = f"(activeDeadlineSeconds {failure.limit})"
        return f"it was active longer than specified deadline {seconds}"
    return _without_replica(failure)


def _without_replica(failure: JobFailure) -> str:
    limit, often = failure.limit, times(failure.failures)
    return {
        NONE_SUCCEEDED: "all its pods have ended and none that decides its success succeeded.",
        BACKOFF_LIMIT: f"it failed {often}, the limit --retry={limit} (backoffLimit) is used up",
        DEADLINE: f"it had not ended after {limit} seconds, the limit --running-timeout={limit}s "
        "(activeDeadlineSeconds)",
        STARTING_DEADLINE: f"it had not started after {limit} seconds, the limit "
        f"--starting-timeout={limit}s",
    }.get(failure.code, failure.code)


def failure_reason(failure: JobFailure) -> str:
    """Why a job failed, as a person reads it, with the line of the log that tells most."""
    first = failure.first
    if first is None:
        return _without_replica(failure)
    return f"{_subject(failure, first)} {_told(first)}"


def short_reason(failure: JobFailure) -> str:
    """`failure_reason` without a line of the log, for views that print these lines."""
    first = failure.first
    if first is None:
        return _without_replica(failure)
    return f"{_subject(failure, first)} {pod_status.in_words(first)}"


def _subject(failure: JobFailure, first: Ending) -> str:
    name = _named(first)
    if failure.code != REPLICAS_FAILED:
        return f"{_without_replica(failure)}; {name}"
    if failure.count == 1:
        return name
    return f"{failure.count} {failure.role.lower()}s failed; the first, {name},"


def _told(ending: Ending) -> str:
    text = pod_status.with_line(ending)
    return text if len(ending.last_lines) > 1 else sentence(text)


def _named(ending: Ending) -> str:
    return replica_in_words(ending.role, ending.index, f"pod {ending.pod}")


# -- a job that restarts -------------------------------------------------------------------------


def restart_message(job: str, restart: JobRestart) -> str:
    """The message of the Restarting condition, and of its event."""
    cause, first = _cause_of_restart(restart), restart.first
    if restart.code == REPLICAS_FAILED and first is not None:
        role = first.role.capitalize() if len(first.role) > 2 else first.role.upper()
        cause = f"{role} replica(s) failed. First: pod {first.pod} {pod_status.with_line(first)}"
    return sentence(f"job {job} is restarting because {cause}")


def restart_reason(restart: JobRestart) -> str:
    """Why a job restarts, as a person reads it.

    The state says already that it restarts, and the first replica that failed says that some have.
    """
    return sentence(_cause_of_restart(restart))


def _cause_of_restart(restart: JobRestart) -> str:
    first = restart.first
    if restart.preempted and first is None:
        return f"it was {restart.preempted}"
    if first is None:
        return "none of its pods runs any more"
    name, ending = _named(first), pod_status.with_line(first)
    if restart.code == INTERRUPTED:
        ending = pod_status.interruption_in_words(first)
        ending = f"was {restart.preempted}" if restart.preempted else ending
        several = f"{restart.count} pods were interrupted. First: " * (restart.count > 1)
        return f"{several}pod {first.pod} {ending}"
    return {
        WORKER_DELETED: f"{name} was deleted while the launcher ran",
        REPLICA_GONE: f"{name} is gone",
        RESTARTED_IN_PLACE: f"{name} restarted after it {ending}",
    }.get(restart.code, f"{name} {ending}")


# -- replicas that failed of late ----------------------------------------------------------------


def failed_of_late(name: str, row: ReplicaFailures, *, with_gang: bool = False) -> str:
    """How often a replica failed, with its whole gang or alone, and how it failed last."""
    subject = "the gang" if with_gang else name
    text = f"{subject} failed {times(row.count)}"
    if row.last is None:
        return text
    return f"{text}; the last time {name if with_gang else 'it'} {pod_status.with_line(row.last)}"


def unfinished(name: str, text: str, others: int, remedy: str) -> str:
    """That a replica had not finished when its job succeeded."""
    more = f"; {others} other {'replica' if others == 1 else 'replicas'} failed too" * bool(others)
    return f"When the job succeeded, {name} {text}{more}{remedy}."


def suspended(kind: str, name: str) -> str:
    return f"{kind} {name} is suspended; `arena resume {name}` starts it again"


def stopped(replicas: Sequence[str], decided: str, remedy: str) -> str:
    """That replicas were stopped when their job had succeeded."""
    several = len(replicas) > 1
    subject = " and ".join([", ".join(replicas[:-1]), replicas[-1]] if several else replicas)
    subject = f"{subject[0].upper()}{subject[1:]} {'were' if several else 'was'} stopped"
    return f"{subject} because the job had succeeded{decided}{remedy}."


# -- how many replicas are in which state ---------------------------------------------------------

_STAYING = {state: f"still {state}" for state in ("pending", "running", "restarting")}
_STOPPED = {"pending": "stopping", "running": "stopping", "restarting": "failed"}
"""Words for the replicas of a failed job that have not ended."""


def replica_counts(
    listed: Counter[str], *, ended: Counter[str] | None, replicas: int, pods_stay: bool | None
) -> str:
    """`1 running, 2 pending of 3`; empty if no replica has a state.

    `ended` are the ends that a finished job records, and `pods_stay` is for a failed job alone:
    whether its policy keeps the pods that have not ended.
    """
    states = listed if ended is None else _with_ended(listed, ended, replicas)
    words = {} if pods_stay is None else _STAYING if pods_stay else _STOPPED
    counts = Counter[str]()
    for state, number in states.items():
        counts[words.get(state, state)] += number
    parts = [f"{number} {state}" for state, number in counts.items() if number]
    total = max(replicas, counts.total())
    return f"{', '.join(parts)} of {total}" if parts else ""


def _with_ended(listed: Counter[str], ended: Counter[str], replicas: int) -> Counter[str]:
    """The states of listed pods and the ends that the job records; no replica counts twice."""
    if ended.total() >= replicas > 0:
        return ended
    states = listed | ended
    # The job may record the end of a replica whose pod is still listed as running.
    surplus = states.total() - max(replicas, listed.total())
    states["running"] -= min(states["running"], max(0, surplus))
    return states
