"""The outcome of a job, from its pods: succeeded, failed, restarting or running.

For a job that is neither finished nor suspended. The result is the new status, and the pods to
delete so that new pods replace them. The checks run in this order: success, failure for good,
restarts, limits, running. Success comes before failure, because workers of a finished chief often
die with it; limits come after restarts, because a restart may be the one that exceeds the limit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

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
        # A pod that is to be replaced no longer counts, even if it succeeds before it is deleted.
        self.present = [pod for pod in pods if pod.metadata.uid not in status.replaced_uids]
        self.counted = [pod for pod in self.present if not self._is_interrupted(pod)]
        self.by_role = self._by_role(self.counted)
        self.failures = self._failures()

    def assess(self, wanted: Sequence[Replica]) -> Assessment:
        self._count_replicas(self.by_role)
        self.status = pod_failure.record_launcher_start(self.job, self.status, self.present)
        restarted = self._count_in_place(self.present)
        replaced: list[Pod] = []
        replaced_before = {*self.status.replaced_uids}
        if self._has_succeeded():
            self._succeed(wanted)
        elif not self._fail(wanted):
            replaced = self._replace(wanted, restarted)
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
        return Assessment(self.status, tuple(self.events), tuple(replaced))

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
        first = pod_status.first_failed(failed)
        role = role_of(self.job, first)
        count = sum(role_of(self.job, pod) == role for pod in failed)
        ending = pod_status.ending_of(first)
        failure = JobFailure(job_sentences.REPLICAS_FAILED, ending, role, count)
        self._end_failed(failure, first)
        return True

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
                lost = self._lost_worker(pod) is not None
                action = pod_failure.action_on_failure(self.job, replica_spec, pod)
                failures.append((pod, FailureAction.REPLACE if lost else action))
        return failures

    def _is_interrupted(self, pod: Pod) -> bool:
        """Whether the pod was ended from outside before its training was complete."""
        replica_spec = replica_spec_of(self.job, pod)
        container = replica_spec.container if replica_spec else ""
        stopped = pod_failure.ended_by_deletion(pod, container)
        return stopped or self._lost_worker(pod) is not None

    def _lost_worker(self, pod: Pod) -> int | None:
        if not self._is_launcher(pod):
            return None
        return pod_failure.lost_worker(self.job, self.status, pod, self.present, self.now)

    def _replace(self, wanted: Sequence[Replica], restarted: Sequence[Pod]) -> list[Pod]:
        """Count the pods to replace, before any of them is deleted, and return them.

        `replaced_uids` names the counted pods until they are gone: an operator that is killed
        between counting and deleting neither counts twice nor forgets to delete.
        """
        staying = job_conditions.not_terminating(self.counted)
        self.status = restarts.record_running_gang(self.job, self.status, wanted, staying)
        recreated = [
            (pod, action)
            for pod, action in self.failures
            if action in (FailureAction.RETRY, FailureAction.REPLACE)
        ]
        if recreated:
            self._restart_failed(recreated)
        elif broken := restarts.find_break(self.job, self.status, wanted, staying, restarted):
            preempted = self.status.preempted if broken.failed is None else ""
            by_preemption = JobRestart(job_sentences.PREEMPTED, preempted=preempted)
            self._report_restarting(by_preemption if preempted else broken.cause)
            self._restart_gang()
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
        retries = sum(action is FailureAction.RETRY for _, action in recreated)
        as_gang = restarts.restarts_as_gang(self.job)
        # A gang that restarts as a whole restarts once, however many of its pods failed together.
        self.new_restarts = min(retries, 1) if as_gang else retries
        self.status = restarts.add_restarts(self.status, self.new_restarts)
        # At the limit the job fails instead of restarting.
        if not restarts.backoff_limit_reached(self.job, self.status):
            if any(self._is_launcher(pod) for pod in failed):
                attempt = self.status.launcher_attempt + 1
                self.status = replace(self.status, launcher_attempt=attempt)
            self._report_restarting(self._cause_of_restart(failed, interrupted=not retries))
        # A pod that the cluster ended has no backoff. The exception is a pod that never started:
        # its node rejected it, and would probably reject the next pod at once.
        delayed = [
            pod
            for pod, action in recreated
            if action is FailureAction.RETRY or not pod_failure.ever_started(pod)
        ]
        if as_gang:
            self._restart_gang()
        self._record_failures(self.restarting if as_gang and delayed else delayed, delayed)

    def _cause_of_restart(self, failed: Sequence[Pod], *, interrupted: bool) -> JobRestart:
        """The pods that failed; or that the cluster ended, which is not the job's failure."""
        first = pod_status.first_failed(failed)
        if interrupted and pod_failure.ever_started(first):
            worker = self._lost_worker(first)
            if worker is not None:
                lost = Ending(names.replica(self.job.name, "Worker", worker), "worker", worker)
                return JobRestart(job_sentences.WORKER_DELETED, lost, 1)
            by, ending = pod_status.preemption(first), pod_status.interruption_of(first)
            return JobRestart(job_sentences.INTERRUPTED, ending, len(failed), by)
        ending = pod_status.brief(pod_status.ending_of(first))
        return JobRestart(job_sentences.REPLICAS_FAILED, ending, len(failed))

    def _record_failures(self, delayed: Sequence[Pod], failed: Sequence[Pod]) -> None:
        self.status = restarts.record_failures(self.job, self.status, delayed, failed, self.now)

    def _restart_gang(self) -> None:
        """Replace all pods of the gang, and clear its record so that it breaks only once."""
        self.restarting = list(self.pods)
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

    def _is_late(self) -> bool:
        left = restarts.seconds_to_start(self.job, self.status, self.now)
        return left is not None and left <= 0 and not self.framework.running(self.job, self.by_role)

    def _last_restarted(self) -> Pod | None:
        """The pod whose restart exceeded the limit, if it still exists."""
        staying = job_conditions.not_terminating(self.counted)
        restarted = self.restarting or [pod for pod in staying if restarts.restarts_of_pod(pod)]
        return pod_status.first_failed(restarted) if restarted else None

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
            code = job_sentences.PREEMPTED if by else job_sentences.NONE_RUNS
            self._report_restarting(JobRestart(code, preempted=by))

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
        unstarted = self.new_restarts + self.status.restarts_to_come(self.present)
        self.status = job_conditions.finished(self.job, self.status, type_, message, self.now)
        self.status = replace(self.status, unstarted=unstarted)
        self._emit(type_, of_event)

    def _set_condition(self, type_: str, message: str) -> None:
        reason = f"{self.job.kind}{type_}"
        self.status = job_conditions.with_condition(
            self.status, type_, "True", reason, message, self.now
        )

    def _emit(self, suffix: str, message: str, type_: str = "Normal") -> None:
        self.events.append(EmitEvent(f"{self.job.kind}{suffix}", message, type_))


def _deciding_replicas(job: Job, wanted: Sequence[Replica]) -> list[Replica]:
    """The replicas whose success can be the job's; all replicas, before there is a launcher."""
    role, index = job.chief or (job.chief_role or "Worker", None)
    deciding = [r for r in wanted if r.role == role and index in (None, r.index)]
    return deciding or list(wanted)


def _started(status: JobStatus) -> int:
    """The pods that run or have succeeded."""
    return sum(row.active + row.succeeded for row in status.counts.values())
