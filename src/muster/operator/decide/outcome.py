"""What a job's pods say about it: its status moves on, and some pods must make way for new ones.

Pure. Called by `decide` for a job that is neither finished nor suspended. Success is looked for
before failure, so a chief that finished is not undone by a worker that died with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.api.meta import timestamp
from muster.jobs import pod_status
from muster.operator.actions import EmitEvent
from muster.operator.build.labels import index_of, role_of
from muster.operator.decide import backoff, conditions, gang_restart, limits, pod_failure
from muster.operator.decide.pod_failure import FailureAction
from muster.operator.frameworks import registry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica

STARTING_DEADLINE = "starting-deadline-seconds"
_DIGITS = 10
_NOBODY = "all its pods have ended and none of them was its success."


@dataclass(frozen=True)
class Assessment:
    status: Raw
    events: tuple[EmitEvent, ...]
    leaving: tuple[Pod, ...]
    """Pods to delete so that others take their place."""


def assess(
    job: Job, before: Raw, mine: Sequence[Pod], wanted: Sequence[Replica], now: datetime
) -> Assessment:
    """The status after a look at the job's current pods, which should be those of `wanted`."""
    return _Assessor(job, before, mine, now).look(wanted)


def seconds_to_deadline(job: Job, current: Raw, now: datetime) -> float | None:
    """Seconds that the job may still be active; None if it may be for ever."""
    start = conditions.time(current, "startTime")
    if job.policy.active_deadline is None or start is None:
        return None
    return job.policy.active_deadline - (now - start).total_seconds()


def seconds_to_start(job: Job, current: Raw, now: datetime) -> float | None:
    """Seconds in which the job must have begun to run; None if it has, or may wait for ever."""
    limit = job.annotation(STARTING_DEADLINE)
    start = conditions.time(current, "startTime")
    written = limit.isdecimal() and len(limit) <= _DIGITS
    if start is None or not written or _has_begun(current, start):
        return None
    return int(limit) - (now - start).total_seconds()


def _has_begun(current: Raw, start: datetime) -> bool:
    running = conditions.time(conditions.condition(current, "Running") or {}, "lastTransitionTime")
    return running is not None and running >= start  # an older one is from before a suspension


def ended_by_limit(job: Job, final: Raw) -> bool:
    """Whether a finished job ended by backoffLimit or a deadline: told by its status alone."""
    if not conditions.is_true(final, "Failed"):
        return False
    if limits.backoff_limit_reached(job, final):
        return True
    end = conditions.time(final, "completionTime")
    if end is None:
        return False
    both = (seconds_to_deadline(job, final, end), seconds_to_start(job, final, end))
    return any(left is not None and left <= 0 for left in both)


def finish(job: Job, current: Raw, type_: str, message: str, now: datetime) -> Raw:
    """The status of a job that ends now."""
    after = conditions.with_condition(current, type_, "True", f"{job.kind}{type_}", message, now)
    after = {**after, "completionTime": timestamp(now)}
    after = {
        name: value for name, value in after.items() if name not in conditions.TRANSIENT_FIELDS
    }
    rows = {}
    for role, row in (current.get("replicaStatuses") or {}).items():
        rows[role] = kept = dict(row)
        if type_ == "Succeeded" and (active := kept.pop("active", 0)):
            kept["succeeded"] = kept.get("succeeded", 0) + active
    return {**after, "replicaStatuses": rows}


class _Assessor:
    def __init__(self, job: Job, before: Raw, mine: Sequence[Pod], now: datetime) -> None:
        self.job = job
        self.status = dict(before)
        self.mine = mine
        self.now = now
        self.rules = registry.framework_of(job)
        self.events: list[EmitEvent] = []
        self.going: list[Pod] = []
        known = before.get("replaced") or ()
        # A pod that is to be replaced counts for nothing any more, not even with its success.
        self.present = [pod for pod in mine if pod.metadata.uid not in known]
        self.counted = [pod for pod in self.present if not self._cut_short(pod)]
        self.by_role = self._roles(self.counted)
        self.fates = self._failures()

    def look(self, wanted: Sequence[Replica]) -> Assessment:
        self.status["replicaStatuses"] = conditions.replica_counts(self.job, self.by_role)
        grown = self._count_in_place(self.present)
        leaving: list[Pod] = []
        if self._succeeded():
            self._end("Succeeded", f"{self.job.kind} {self.job.key} successfully completed.")
        elif not self._failed(wanted):
            leaving = self._replaced(wanted, grown)
            if self._over_limit():
                leaving = []
            elif leaving or self.going:
                out = {id(pod) for pod in (*leaving, *self.going)}
                staying = [pod for pod in self.counted if id(pod) not in out]
                self.status["replicaStatuses"] = conditions.replica_counts(
                    self.job, self._roles(staying)
                )
                self._count_in_place(staying)
            else:
                self._run(len(wanted))
        return Assessment(self.status, tuple(self.events), tuple(leaving))

    def _roles(self, pods: Sequence[Pod]) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in pods:
            found.setdefault(role_of(self.job, pod), []).append(pod)
        return found

    def _succeeded(self) -> bool:
        job = self.job
        role, index = job.chief or (job.chief_role, None)
        if role is None:
            return self.rules.succeeded(job, self.by_role)
        chiefs = [p for p in self.by_role.get(role, []) if index is None or index_of(p) == index]
        wanted = job.count(role) if index is None else 1
        return len(chiefs) >= wanted > 0 and all(p.status.phase == "Succeeded" for p in chiefs)

    def _failed(self, wanted: Sequence[Replica]) -> bool:
        """End the job if a pod failed in a way that no policy forgives, or if no pod is left."""
        failed = [pod for pod, fate in self.fates if fate is FailureAction.FATAL]
        if not failed and self._hopeless(wanted):
            failed = [pod for pod, _ in self.fates]
        elif not failed:
            return False
        self._exited(failed)
        why = self._who(failed) if failed else _NOBODY
        self._end("Failed", f"{self.job.kind} {self.job.key} has failed because {why}")
        return True

    def _who(self, failed: Sequence[Pod]) -> str:
        first = pod_status.first_failed(failed)
        role = role_of(self.job, first)
        count = sum(role_of(self.job, pod) == role for pod in failed)
        return f"{count} {role} replica(s) failed. {_told(first)}"

    def _hopeless(self, wanted: Sequence[Replica]) -> bool:
        """Whether all that could still succeed have ended, and none is made anew."""
        ended = {
            pod.metadata.name for pod in conditions.not_terminating(self.counted) if pod.finished
        }
        deciding = _deciding(self.job, wanted)
        settled = all(fate is FailureAction.IGNORED for _, fate in self.fates)
        return settled and bool(deciding) and all(replica.name in ended for replica in deciding)

    def _failures(self) -> list[tuple[Pod, FailureAction]]:
        found = []
        for pod in conditions.not_terminating(self.present):
            replica_spec = self.job.replica_spec(role_of(self.job, pod))
            over = pod.status.phase == "Failed" or self._cut_short(pod)
            if over and replica_spec is not None:
                found.append((pod, pod_failure.action_on_failure(self.job, replica_spec, pod)))
        return found

    def _cut_short(self, pod: Pod) -> bool:
        replica_spec = self.job.replica_spec(role_of(self.job, pod))
        return pod_failure.ended_by_deletion(pod, replica_spec.container if replica_spec else "")

    def _replaced(self, wanted: Sequence[Replica], grown: Sequence[Pod]) -> list[Pod]:
        """Account for pods that are to be replaced, before any is deleted.

        `replaced` keeps the UIDs that were accounted for until they are gone: an operator killed
        between counting and deleting neither counts twice nor forgets to delete.
        """
        known = set(self.status.get("replaced") or ())
        there = conditions.not_terminating(self.counted)
        self.status = gang_restart.record_running_gang(self.job, self.status, wanted, there)
        anew = [
            (p, fate)
            for p, fate in self.fates
            if fate in (FailureAction.RETRY, FailureAction.REPLACE)
        ]
        if anew:
            self._restart_failed(anew)
        elif found := gang_restart.find_break(self.job, self.status, wanted, there, grown):
            self._say_restarting(f"{found.why}.")
            self._take_down()
            self._note(self.going if found.failed else ())
        # A failed launcher stays for its log: the next attempt has another name.
        gone = {p.metadata.uid for p in self.going if not (p.finished and self._launches(p))}
        present = {pod.metadata.uid for pod in self.mine}
        replaced = sorted((known | gone) & present)
        self.status.pop("replaced", None)
        if replaced:
            self.status["replaced"] = replaced
        return [
            pod for pod in conditions.not_terminating(self.mine) if pod.metadata.uid in replaced
        ]

    def _restart_failed(self, anew: Sequence[tuple[Pod, FailureAction]]) -> None:
        failed = self.going = [pod for pod, _ in anew]
        tried = sum(fate is FailureAction.RETRY for _, fate in anew)
        as_one = gang_restart.restarts_as_gang(self.job)
        self.status = limits.add_restarts(self.status, min(tried, 1) if as_one else tried)
        self._exited(failed)
        if not limits.backoff_limit_reached(self.job, self.status):
            if any(self._launches(pod) for pod in failed):
                self.status["launcherAttempt"] = int(self.status.get("launcherAttempt") or 0) + 1
            self._say_restarting(f"{role_of(self.job, failed[0])} replica(s) failed.")
        # The cluster's doing makes nobody wait, unless it may well be done again at once.
        guilty = [
            p for p, fate in anew if fate is FailureAction.RETRY or not pod_failure.ever_started(p)
        ]
        if as_one:
            self._take_down()
            guilty = self.going if guilty else []
        self._note(guilty)

    def _note(self, failed: Sequence[Pod]) -> None:
        self.status = backoff.record_failures(self.job, self.status, failed, self.now)

    def _take_down(self) -> None:
        """All pods of the gang make way; what it was is forgotten, so that it falls once only."""
        self.going = list(self.mine)
        self.status.pop(gang_restart.FIELD, None)

    def _launches(self, pod: Pod) -> bool:
        return role_of(self.job, pod) == "Launcher"

    def _count_in_place(self, pods: Sequence[Pod]) -> list[Pod]:
        self.status, grown = limits.count_in_place(
            self.job, self.status, conditions.not_terminating(pods)
        )
        return grown

    def _say_restarting(self, why: str) -> None:
        message = f"job {self.job.name} is restarting because {why}"
        self._condition("Restarting", message)
        self._tell("Restarting", message, "Warning")

    def _over_limit(self) -> bool:
        """End the job if it restarted too often or has been active for too long."""
        job = self.job
        if limits.backoff_limit_reached(job, self.status):
            why = f"it has reached the specified backoff limit{self._last_straw()}"
        elif (left := seconds_to_deadline(job, self.status, self.now)) is not None and left <= 0:
            why = "it was active longer than specified deadline"
        elif self._is_late():
            why = f"it had not started after {job.annotation(STARTING_DEADLINE)} seconds"
        else:
            return False
        self._end("Failed", f"Job {job.name} has failed because {why}")
        return True

    def _is_late(self) -> bool:
        left = seconds_to_start(self.job, self.status, self.now)
        return left is not None and left <= 0 and not self.rules.running(self.job, self.by_role)

    def _last_straw(self) -> str:
        """The pod whose restart was one too many, if it is still there to be asked."""
        restarted = [
            pod for pod in conditions.not_terminating(self.counted) if limits.restarts_of_pod(pod)
        ]
        found = self.going or restarted
        return f". {_told(pod_status.first_failed(found))}" if found else ""

    def _run(self, wanted: int) -> None:
        """Running: from the first pod that matters, but after a restart only with all of them.

        A job none of whose pods runs any more is not Running: it restarts when they come back.
        """
        there = conditions.not_terminating(self.counted)
        phases = Counter(pod.status.phase for pod in there)
        complete = phases["Running"] + phases["Succeeded"] >= wanted
        if self.rules.running(self.job, self.by_role):
            if complete or not conditions.is_true(self.status, "Restarting"):
                self._condition("Running", f"{self.job.kind} {self.job.key} is running.")
        elif conditions.is_true(self.status, "Running") and not phases["Running"] and not complete:
            self._say_restarting("none of its pods runs any more.")

    def _end(self, type_: str, message: str) -> None:
        self.status = finish(self.job, self.status, type_, message, self.now)
        self._tell(type_, message)

    def _condition(self, type_: str, message: str) -> None:
        reason = f"{self.job.kind}{type_}"
        self.status = conditions.with_condition(
            self.status, type_, "True", reason, message, self.now
        )

    def _tell(self, what: str, message: str, type_: str = "Normal") -> None:
        self.events.append(EmitEvent(f"{self.job.kind}{what}", message, type_))

    def _exited(self, failed: list[Pod]) -> None:
        for pod in failed:
            replica_spec = self.job.replica_spec(role_of(self.job, pod))
            code = pod_failure.exit_code(pod, replica_spec.container) if replica_spec else None
            if code is not None:
                where = f"{pod.metadata.namespace}.{pod.metadata.name}"
                self.events.append(
                    EmitEvent("ExitedWithCode", f"Pod: {where} exited with code {code}")
                )


def _deciding(job: Job, wanted: Sequence[Replica]) -> list[Replica]:
    """Those by whose success the job may succeed; a launcher that waits for others is not there."""
    role, index = job.chief or (job.chief_role or "Worker", None)
    found = [m for m in wanted if m.role == role and index in (None, m.index)]
    return found or list(wanted)


def _told(pod: Pod) -> str:
    """The sentence about the pod that failed first."""
    return f"First: pod {pod.metadata.name} {pod_status.failure(pod)}."
