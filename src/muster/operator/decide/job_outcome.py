"""The outcome of a job, from its pods: succeeded, failed, restarting or running.

For a job that is neither finished nor suspended. The result is the new status, and the pods to
delete so that new pods replace them. The checks run in this order: success, failure for good,
restarts, limits, running. Success comes before failure, because workers of a finished chief often
die with it; limits come after restarts, because a restart may be the one that exceeds the limit.

One crash is one failure. The replicas that lose their peer fail too, and their node may report them
first. So a failure that may be a consequence waits a few seconds for its cause; failures that are
consequences are not counted, and the first other one is to blame. The end of an MPI launcher that
restarts with its workers may always be a consequence, even with exit code 0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.objects.conditions import is_preemption
from kubekit.objects.meta import shifted
from muster.jobs import job_sentences, names, pod_status
from muster.jobs.job_status import Ending, FailedAttempt, JobFailure, JobRestart
from muster.operator.build.labels import index_of, replica_spec_of, role_of
from muster.operator.decide import job_conditions, pod_failure, restarts
from muster.operator.decide.job_end import unfinished_replicas
from muster.operator.decide.pod_failure import FailureAction
from muster.operator.decision_types import EmitEvent
from muster.operator.frameworks import framework_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus


@dataclass(frozen=True)
class Assessment:
    status: JobStatus
    events: tuple[EmitEvent, ...]
    replaced: tuple[Pod, ...]
    """Pods to delete, so that new pods replace them."""
    waits: tuple[float, ...] = ()
    """Seconds until ends whose cause is not known yet are judged."""


_PATIENCE = 5.0
"""Seconds in which the failure that caused another becomes known: nodes report every second."""
_LAUNCHER_PATIENCE = 2.0
"""Seconds after the end of an MPI launcher in which a worker's failure before it becomes known."""
_SAME_CAUSE = 60.0
"""Seconds in which a replica that crashed and restarts in place makes another fail."""


def assess(
    job: Job, status: JobStatus, pods: Sequence[Pod], wanted: Sequence[Replica], now: datetime
) -> Assessment:
    """Assess the job by its current pods, of which there should be one per replica in `wanted`."""
    return _Assessor(job, status, pods, now).assess(wanted)


class _Assessor:
    def __init__(self, job: Job, status: JobStatus, pods: Sequence[Pod], now: datetime) -> None:
        self.job = job
        self.status = status
        self.pods = pods
        self.now = now
        self.started_before = _started(status)
        self.framework = framework_of(job)
        self.events: list[EmitEvent] = []
        self.restarting: list[Pod] = []
        self.new_restarts = 0
        """Recreated pods that this assessment adds to the restarts."""
        self.waits: tuple[float, ...] = ()
        # A pod that is to be replaced no longer counts, even if it succeeds before it is deleted.
        self.present = [pod for pod in pods if pod.metadata.uid not in status.replaced_uids]
        self.counted = [pod for pod in self.present if not self._is_interrupted(pod)]
        self.by_role = self._by_role(self.counted)
        self.failures = self._failures()
        self.broken: restarts.GangBreak | None = None

    def assess(self, wanted: Sequence[Replica]) -> Assessment:
        self._count_replicas(self.by_role)
        self.status = pod_failure.record_launcher_start(self.job, self.status, self.present)
        restarted = self._count_in_place(self.present)
        self._find_break(wanted, restarted)
        replaced: list[Pod] = []
        replaced_before = {*self.status.replaced_uids}
        if self._has_succeeded():
            if left := self._seconds_to_success():
                self.waits = (left,)
            else:
                self._succeed(wanted)
        elif (left := self._seconds_to_cause()) and not self._end_by_limit():
            self.waits = (left,)
        elif self.status.outcome is None and not self._fail(wanted):
            replaced = self._replace()
            if self._end_by_limit():
                # The job has failed: cleanPodPolicy decides about its pods now.
                replaced = []
            elif replaced or self.restarting:
                new = [pod for pod in self.restarting if pod.metadata.uid not in replaced_before]
                self.status = restarts.count_earlier(self.job, self.status, new)
                leaving = {id(pod) for pod in (*replaced, *self.restarting)}
                staying = [pod for pod in self.counted if id(pod) not in leaving]
                # Pods that are replaced no longer count, neither as failed nor with their restarts.
                self._count_replicas(self._by_role(staying))
                self._count_in_place(staying)
            else:
                self._run(len(wanted))
        return Assessment(self.status, tuple(self.events), tuple(replaced), self.waits)

    def _by_role(self, pods: Sequence[Pod]) -> dict[str, list[Pod]]:
        roles: dict[str, list[Pod]] = {}
        for pod in pods:
            roles.setdefault(role_of(self.job, pod), []).append(pod)
        return roles

    def _count_replicas(self, pods: dict[str, list[Pod]]) -> None:
        counts = job_conditions.replica_counts(self.job, pods)
        self.status = replace(self.status, replica_statuses=counts)

    def _count_in_place(self, pods: Sequence[Pod]) -> list[Pod]:
        staying = job_conditions.not_terminating(pods)
        self.status, restarted = restarts.count_in_place(self.job, self.status, staying)
        return restarted

    def _has_succeeded(self) -> bool:
        job = self.job
        role, index = job.chief or (job.chief_role, None)
        if role is None:
            return self.framework.succeeded(job, self.by_role)
        pods = self.by_role.get(role, [])
        chiefs = [pod for pod in pods if index is None or index_of(pod) == index]
        wanted = job.count(role) if index is None else 1
        return len(chiefs) >= wanted > 0 and all(pod.status.phase == "Succeeded" for pod in chiefs)

    def _succeed(self, wanted: Sequence[Replica]) -> None:
        message = f"{self.job.kind} {self.job.key} successfully completed."
        rest = unfinished_replicas(self.job, self.status, self.counted, wanted)
        self.status = replace(self.status, unfinished=rest)
        message = f"{message} {rest.message}" if rest is not None else message
        self._end("Succeeded", message, message)

    def _fail(self, wanted: Sequence[Replica]) -> bool:
        """Fail the job if a pod failed for good, or if no pod is left that could succeed."""
        failed = [pod for pod, action in self.failures if action is FailureAction.FATAL]
        if not failed and self._is_hopeless(wanted):
            failed = [pod for pod, _ in self.failures]
        elif not failed:
            return False
        if not failed:
            self._end_failed(JobFailure(job_sentences.NONE_SUCCEEDED))
            return True
        first = self._first([*failed, *self._crashed_before(failed)])
        role = role_of(self.job, first)
        count = sum(role_of(self.job, pod) == role for pod in _causes(failed, first))
        ending = pod_status.ending_of(first)
        specs = [replica_spec_of(self.job, pod) for pod in failed]
        never = any(spec is not None and spec.restart == "Never" for spec in specs)
        final = never and not self.job.policy.backoff_limit
        failure = JobFailure(
            job_sentences.REPLICAS_FAILED, ending, role, count, without_retry=final
        )
        self._end_failed(failure, first)
        return True

    def _first(self, failed: Sequence[Pod]) -> Pod:
        """The pod that is to blame: not a launcher, if a worker failed."""
        workers = [pod for pod in failed if not self._is_launcher(pod)]
        return pod_status.first_failed(workers or failed)

    def _crashed_before(self, failed: Sequence[Pod]) -> list[Pod]:
        """The pods whose container crashed just before these failed, and restarts in place."""
        ends = [at for pod in failed if (at := pod_status.ended_at(pod)) is not None]
        if not ends or not all(pod_status.lost_peer(pod) for pod in failed):
            return []
        earliest = shifted(min(ends), -_SAME_CAUSE)
        living = [pod for pod in job_conditions.not_terminating(self.counted) if not pod.finished]
        return [pod for pod in living if (at := pod_status.ended_at(pod)) and at >= earliest]

    def _seconds_to_cause(self) -> float:
        """Seconds for which failures that may be consequences wait for their cause; 0: no more."""
        failed = [
            pod
            for pod, action in self.failures
            if action is FailureAction.FATAL
            or (action is FailureAction.RETRY and self._restarts_together(pod))
        ]
        if self._is_lost():
            return 0.0
        ends = [pod_status.ended_at(pod) for pod in failed]
        return self._seconds_left(ends, min(map(self._patience, failed), default=0.0))

    def _patience(self, failed: Pod) -> float:
        """Seconds for which this failure waits for its cause."""
        if pod_status.may_be_consequence(failed):
            return _PATIENCE
        is_launcher = pod_failure.ends_with_workers(self.job, failed)
        return _LAUNCHER_PATIENCE if is_launcher else 0.0

    def _seconds_to_success(self) -> float:
        """Seconds for which the success of a launcher waits; 0: it is believed."""
        launchers = [p for p in self.counted if pod_failure.ends_with_workers(self.job, p)]
        ends = [pod_failure.ended_at(self.job, pod) for pod in launchers]
        return self._seconds_left(ends, _LAUNCHER_PATIENCE)

    def _seconds_left(self, ends: Sequence[datetime | None], patience: float) -> float:
        """Seconds until the other pods had this long after the first of these ends to fail."""
        known = [at for at in ends if at is not None]
        others = any(not pod.finished for pod in job_conditions.not_terminating(self.counted))
        if not known or not others:
            return 0.0
        # A node whose clock differs from ours is not waited for.
        elapsed = (self.now - min(known)).total_seconds()
        return patience - elapsed if 0 <= elapsed < patience else 0.0

    def _find_break(self, wanted: Sequence[Replica], restarted: Sequence[Pod]) -> None:
        """Find out whether the gang is broken; what its other replicas do then does not count."""
        staying = job_conditions.not_terminating(self.counted)
        self.status = restarts.record_running_gang(self.job, self.status, wanted, staying)
        self.broken = restarts.find_break(self.job, self.status, wanted, staying, restarted)
        if self._is_lost():
            self.failures = [
                (pod, FailureAction.REPLACE if self._is_consequence(pod) else action)
                for pod, action in self.failures
            ]

    def _is_lost(self) -> bool:
        """Whether the cluster or a person took a replica of the gang away."""
        if self.broken is not None and self.broken.failed is None:
            return True
        return any(
            action is FailureAction.REPLACE
            and restarts.breaks_gang(self.job, role_of(self.job, pod))
            for pod, action in self.failures
        )

    def _is_consequence(self, pod: Pod) -> bool:
        return self._restarts_together(pod) and pod_status.may_be_consequence(pod)

    def _restarts_together(self, pod: Pod) -> bool:
        return role_of(self.job, pod) in self.job.restarts_together

    def _is_hopeless(self, wanted: Sequence[Replica]) -> bool:
        """Whether every pod whose success could be the job's has ended, and none is recreated."""
        staying = job_conditions.not_terminating(self.counted)
        ended = {pod.metadata.name for pod in staying if pod.finished}
        deciding = _deciding_replicas(self.job, wanted)
        settled = all(action is FailureAction.IGNORED for _, action in self.failures)
        return settled and bool(deciding) and all(replica.name in ended for replica in deciding)

    def _failures(self) -> list[tuple[Pod, FailureAction]]:
        failures = []
        for pod in job_conditions.not_terminating(self.present):
            replica_spec = replica_spec_of(self.job, pod)
            failed = pod.status.phase == "Failed" or self._is_interrupted(pod)
            if failed and replica_spec is not None:
                lost = self._lost_any_worker(pod)
                action = pod_failure.action_on_failure(self.job, replica_spec, pod)
                failures.append((pod, FailureAction.REPLACE if lost else action))
        return failures

    def _is_interrupted(self, pod: Pod) -> bool:
        """Whether the pod was ended from outside before its training was complete."""
        replica_spec = replica_spec_of(self.job, pod)
        container = replica_spec.container if replica_spec else ""
        stopped = pod_failure.ended_by_deletion(pod, container)
        return stopped or self._lost_any_worker(pod)

    def _lost_any_worker(self, pod: Pod) -> bool:
        """Whether this is a launcher that ended because a worker was deleted or had failed."""
        if pod_failure.lost_failed_worker(self.job, pod, self.present):
            return True
        return self._lost_worker(pod) is not None

    def _lost_worker(self, pod: Pod) -> int | None:
        if not self._is_launcher(pod):
            return None
        return pod_failure.lost_worker(self.job, self.status, pod, self.present, self.now)

    def _replace(self) -> list[Pod]:
        """Count the pods to replace, before any of them is deleted, and return them.

        `replaced_uids` names the counted pods until they are gone: an operator that is killed
        between counting and deleting neither counts twice nor forgets to delete.
        """
        broken = self.broken
        recreated = [
            (pod, action)
            for pod, action in self.failures
            if action in (FailureAction.RETRY, FailureAction.REPLACE)
        ]
        if recreated:
            self._restart_failed(recreated)
        elif broken is not None:
            self._report_restarting(self._cause_of_break(broken))
            self._restart_gang([])
            if broken.failed is not None:
                self._record_failures(self.restarting, [broken.failed])
        # A failed launcher stays for its log: the next attempt has another name.
        leaving = {
            pod.metadata.uid
            for pod in self.restarting
            if not (pod.finished and self._is_launcher(pod))
        }
        present = {pod.metadata.uid for pod in self.pods}
        replaced = sorted(({*self.status.replaced_uids} | leaving) & present)
        self.status = replace(self.status, replaced_uids=tuple(replaced))
        living = job_conditions.not_terminating(self.pods)
        return [pod for pod in living if pod.metadata.uid in replaced]

    def _restart_failed(self, recreated: Sequence[tuple[Pod, FailureAction]]) -> None:
        failed = self.restarting = [pod for pod, _ in recreated]
        retried = [pod for pod, action in recreated if action is FailureAction.RETRY]
        as_gang = self.broken is not None or any(
            restarts.breaks_gang(self.job, role_of(self.job, pod)) for pod in failed
        )
        self.new_restarts = self._count(retried) if as_gang else len(retried)
        self.status = restarts.add_restarts(self.status, self.new_restarts)
        # At the limit the job fails instead of restarting.
        if not restarts.backoff_limit_reached(self.job, self.status):
            if any(self._is_launcher(pod) for pod in failed):
                attempt = self.status.launcher_attempt + 1
                self.status = replace(self.status, launcher_attempt=attempt)
            self._report_restarting(self._cause_of_restart(failed, retried))
        # A pod that the cluster ended has no backoff. The exception is a pod that never started:
        # its node rejected it, and would probably reject the next pod at once.
        delayed = [
            pod
            for pod, action in recreated
            if action is FailureAction.RETRY or not pod_failure.ever_started(pod)
        ]
        if not as_gang:
            self._record_failures(delayed, delayed)
            return
        self._restart_gang(failed)
        if delayed:
            self._record_failures(self.restarting, [self._first(delayed)])

    def _count(self, retried: Sequence[Pod]) -> int:
        """The restarts of a gang some of whose replicas failed together: one in all."""
        alone = sum(not self._restarts_together(pod) for pod in retried)
        # A restart in place is counted already.
        is_new = self.broken is None or self.broken.failed is None
        return alone + (is_new and len(retried) > alone)

    def _cause_of_break(self, broken: restarts.GangBreak) -> JobRestart:
        by = self.status.preempted if broken.failed is None else ""
        if not by:
            return broken.cause
        pod = next((pod for pod in self.pods if pod_status.removal(pod) == by), None)
        if pod is None or is_preemption(by):
            return _removal(by)
        return JobRestart(job_sentences.INTERRUPTED, pod_status.interruption_of(pod), 1, by)

    def _cause_of_restart(self, failed: Sequence[Pod], retried: Sequence[Pod]) -> JobRestart:
        """The pods that failed; or that the cluster ended, which is not the job's failure."""
        if self.broken is not None and not retried:
            return self._cause_of_break(self.broken)
        ended = [pod for pod in failed if pod_failure.ended_by_cluster(pod)]
        first = self._first(retried or ended or failed)
        if not retried and pod_failure.ever_started(first):
            worker = self._lost_worker(first)
            if worker is not None:
                lost = Ending(names.replica(self.job.name, "Worker", worker), "worker", worker)
                return JobRestart(job_sentences.WORKER_DELETED, lost, 1)
            by, ending = pod_status.removal(first), pod_status.interruption_of(first)
            return JobRestart(job_sentences.INTERRUPTED, ending, len(ended or failed), by)
        ending = pod_status.brief(pod_status.ending_of(first))
        return JobRestart(job_sentences.REPLICAS_FAILED, ending, len(_causes(failed, first)))

    def _record_failures(self, delayed: Sequence[Pod], failed: Sequence[Pod]) -> None:
        self.status = restarts.record_failures(self.job, self.status, delayed, failed, self.now)

    def _restart_gang(self, failed: Sequence[Pod]) -> None:
        """Replace all pods of the gang, and clear its record so that it breaks only once.

        `failed` are replaced too: a replica that trains alone may have failed as well.
        """
        alone = {pod.metadata.uid for pod in failed}
        self.restarting = [
            pod for pod in self.pods if self._restarts_together(pod) or pod.metadata.uid in alone
        ]
        self.status = replace(self.status, gang_sizes={})

    def _is_launcher(self, pod: Pod) -> bool:
        return role_of(self.job, pod) == "Launcher"

    def _end_by_limit(self) -> bool:
        """End the job if it restarted too often, was active for too long or started too late."""
        job, status, failed = self.job, self.status, None
        left = restarts.seconds_to_deadline(job, status, self.now)
        if restarts.backoff_limit_reached(job, status):
            failed = self._last_restarted()
            failure = JobFailure(
                job_sentences.BACKOFF_LIMIT,
                pod_status.ending_of(failed) if failed else None,
                limit=str(job.policy.backoff_limit),
                failures=status.restarts,
                at_once=failed is not None and self._failed_at_once(failed),
            )
        elif left is not None and left <= 0:
            limit = str(job.policy.active_deadline)
            failure = JobFailure(job_sentences.DEADLINE, limit=limit)
        elif self._is_late():
            limit = job.annotations[names.STARTING_DEADLINE]
            failure = JobFailure(job_sentences.STARTING_DEADLINE, limit=limit)
        else:
            return False
        self._end_failed(failure, failed)
        return True

    def _failed_at_once(self, last: Pod) -> bool:
        """Whether others failed within seconds of this pod, and counted since it is no gang."""
        end = pod_status.ended_at(last)
        if end is None or self.job.restarts_together:
            return False
        ends = {
            f"{role_of(self.job, pod).lower()}-{index_of(pod)}": at
            for pod in self.counted
            if (at := pod_status.ended_at(pod)) is not None
        }
        # Of replicas whose pods are replaced already, the status knows when they failed.
        of_late = {name: row.at for name, row in self.status.failures.items() if row.last}
        times = [at for name, at in (of_late | ends).items() if not name.startswith("evaluator")]
        return sum(abs((at - end).total_seconds()) <= _PATIENCE for at in times) > 1

    def _is_late(self) -> bool:
        left = restarts.seconds_to_start(self.job, self.status, self.now)
        return left is not None and left <= 0 and not self.framework.running(self.job, self.by_role)

    def _last_restarted(self) -> Pod | None:
        """The pod whose restart exceeded the limit, if it still exists."""
        staying = job_conditions.not_terminating(self.counted)
        restarted = self.restarting or [pod for pod in staying if restarts.restarts_of_pod(pod)]
        # Of a gang that restarts, most pods have not failed.
        failed = [pod for pod in restarted if pod.finished or pod_status.ended_at(pod)]
        return self._first(failed) if failed else next(iter(restarted), None)

    def _run(self, wanted: int) -> None:
        """Set Running once a deciding pod runs; after a restart, once all pods run.

        A job that was Running and whose last running pod is lost is Restarting. It is not if its
        pods have only ended well: pods that have not run yet start later.
        """
        staying = job_conditions.not_terminating(self.counted)
        phases = Counter(pod.status.phase for pod in staying)
        complete = phases["Running"] + phases["Succeeded"] >= wanted
        lost = not phases["Running"] and _started(self.status) < self.started_before
        if complete:
            self.status = replace(self.status, preempted="")
        if self.framework.running(self.job, self.by_role):
            if complete or not self.status.is_true("Restarting"):
                self.status = replace(self.status, restart=None)
                self._set_condition("Running", f"{self.job.kind} {self.job.key} is running.")
        elif self.status.is_true("Running") and lost and not complete:
            by = self.status.preempted
            self._report_restarting(_removal(by) if by else JobRestart(job_sentences.NONE_RUNS))

    def _report_restarting(self, restart: JobRestart) -> None:
        message = job_sentences.restart_message(self.job.name, restart)
        self.status = replace(self.status, restart=restart)
        self._set_condition("Restarting", message)
        self._emit("Restarting", message, "Warning")

    def _end_failed(self, failure: JobFailure, failed: Pod | None = None) -> None:
        """Fail the job; `failed` is the pod that is to blame."""
        self.status = replace(self.status, failure=failure)
        attempt = pod_status.failed_attempt(failed) if failed is not None else None
        if failed is not None and attempt is not None:
            record = FailedAttempt(failed.metadata.name, failed.metadata.uid, *attempt)
            self.status = replace(self.status, failed_attempt=record)
        kind, key = self.job.kind, self.job.key
        message = job_sentences.failure_message(kind, key, failure)
        self._end("Failed", message, job_sentences.failure_message(kind, key, failure, lines=False))

    def _end(self, type_: str, message: str, of_event: str) -> None:
        to_come = self.status.restarts_to_come(self.present)
        unstarted = self.new_restarts + to_come.total()
        # They stay, for people: the pods may be deleted now.
        happened = dict(Counter(self.status.in_place_restarts) - to_come)
        self.status = job_conditions.finished(self.job, self.status, type_, message, self.now)
        self.status = replace(self.status, unstarted=unstarted, in_place_restarts=happened)
        self._emit(type_, of_event)

    def _set_condition(self, type_: str, message: str) -> None:
        reason = f"{self.job.kind}{type_}"
        self.status = job_conditions.with_condition(
            self.status, type_, "True", reason, message, self.now
        )

    def _emit(self, suffix: str, message: str, type_: str = "Normal") -> None:
        self.events.append(EmitEvent(f"{self.job.kind}{suffix}", message, type_))


def _removal(by: str) -> JobRestart:
    """A restart because pods were taken away; `by` whom and why."""
    code = job_sentences.PREEMPTED if is_preemption(by) else job_sentences.INTERRUPTED
    return JobRestart(code, preempted=by)


def _causes(failed: Sequence[Pod], first: Pod) -> list[Pod]:
    """The pods whose failure is not the consequence of another's; at least the first."""
    causes = [pod for pod in failed if not pod_status.lost_peer(pod)]
    return causes or [first]


def _deciding_replicas(job: Job, wanted: Sequence[Replica]) -> list[Replica]:
    """The replicas whose success can be the job's; all replicas, before there is a launcher."""
    role, index = job.chief or (job.chief_role or "Worker", None)
    deciding = [r for r in wanted if r.role == role and index in (None, r.index)]
    return deciding or list(wanted)


def _started(status: JobStatus) -> int:
    """The pods that run or have succeeded."""
    return sum(row.active + row.succeeded for row in status.counts.values())
