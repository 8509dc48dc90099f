"""A job and its pods -> the view of a person, as commands print it.

Lenient: a job with an invalid manifest still has a name, an age and a reason.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.objects.conditions import FILES_DISCARDED
from kubekit.objects.meta import Key, Raw, find_condition, read_timestamp, shifted
from muster.contract.job_fields import InvalidJob
from muster.jobs import job_sentences, names, parse
from muster.jobs.job_state import (
    FAILED,
    PENDING,
    SUCCEEDED,
    SUSPENDED,
    clean_pod_policy,
    crash_of,
    replica_index,
    state_of,
)
from muster.jobs.job_status import Ending, FailedAttempt, JobStatus, StoppedPods, decode_status
from muster.jobs.pod_status import any_running, ended_at
from muster.jobs.view.instance import Instance, gpus, gpus_of_limits, instance, order, pods_of_job
from muster.jobs.view.units import named_or_counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kubekit.objects.core import Pod
    from muster.jobs.job import Job, ReplicaSpec

OPERATOR_PATIENCE = 10.0
"""Seconds that an operator may take before a new job says that no operator runs."""


class JobSummary(msgspec.Struct, frozen=True):
    """One job, as a person sees it."""

    kind: str
    key: Key
    uid: str
    status: str
    trainer: str
    """tfjob, mpijob, …"""
    created: datetime | None
    started: datetime | None
    finished: datetime | None
    priority: str
    instances: tuple[Instance, ...]
    reason: str
    """Why it waits, restarts or failed, or which replica had failed or was stopped when it
    succeeded; else empty."""
    requested_gpus: int
    """GPUs of all its replicas, whether or not their pods exist."""
    lead: str = ""
    """The instance whose log is the job's, in words, whether or not it exists."""
    short_reason: str = ""
    """Of a failed job: the reason without a line of the log, and without a full stop."""
    last_lines: tuple[str, ...] = ()
    """Of a failed job: the end of the log of the pod that failed."""
    ending: Ending | None = None
    """The end of a replica that the reason is about, if the status has it."""
    remedy: str = ""
    """Of a failed job: the flag that would have helped, if one would."""
    failed_attempt: FailedAttempt | None = None
    """Of a failed job: the attempt that failed, if the operator recorded it."""
    next_try: datetime | None = None
    """When a job that restarts is tried again, if that is known."""
    restarts: int = 0
    """How often its replicas have restarted."""
    suspended: datetime | None = None
    """Since when it is suspended."""
    earlier_seconds: int = 0
    """Seconds that it ran before its suspensions; `started` is its last start."""
    gone_restarts: dict[str, int] = {}
    """Restarts of replicas that have no pod now, by role and index (`worker-0`)."""
    replicas: int = 0
    """The replicas that it should have; 0 if its manifest is invalid."""
    ended: dict[str, int] = {}
    """Of a finished job: how many replicas ended in which way, also those whose pods are gone."""
    preempted: str = ""
    """By whom its pods were taken away, until all run again (`preempted by …`); else empty."""
    discarded: str = ""
    """The files that its pods wrote and that are deleted with them; empty if none."""
    settling: bool = False
    """Whether it has succeeded and other replicas may still end by themselves, or are stopped."""
    stopped: StoppedPods | None = None
    """The pods that still trained when they were stopped, because the job had succeeded."""
    pods_stay: bool = False
    """Whether its policy keeps the pods that have not ended when the job ends."""
    left_pods: str = ""
    """Of a finished job: the pods that nodes still run or restart, and why; empty if none."""

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def over(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.status in (SUCCEEDED, FAILED)

    @property
    def failed_pod(self) -> str:
        """Of a failed job: the name of the pod that failed first, if that is known."""
        return self.ending.pod if self.status == FAILED and self.ending is not None else ""

    @property
    def because(self) -> str:
        """The reason as the end of a sentence about the job; empty if there is none."""
        return f": {self.reason}" if self.reason else ""

    @property
    def headline(self) -> str:
        """The reason, for views that also print `last_lines`: without a line of these."""
        return f"{self.short_reason}." if self.last_lines else self.reason

    @property
    def cause(self) -> str:
        """Why it failed, as the end of `the job x failed: …`, and the last lines."""
        text = self.headline
        return "".join([text and f": {text}", *(f"\n  {line}" for line in self.last_lines)])

    @property
    def counts(self) -> str:
        """How many replicas are in which state: `1 running, 2 pending of 3`; empty if none is."""
        return job_sentences.replica_counts(
            Counter(instance.state for instance in self.instances if not instance.replaced),
            ended=Counter(self.ended) if self.over else None,
            replicas=self.replicas,
            pods_stay=self.pods_stay if self.status == FAILED else None,
        )

    @property
    def chief(self) -> Instance | None:
        """The instance whose log is the job's."""
        return next((instance for instance in self.instances if instance.chief), None)

    @property
    def allocated_gpus(self) -> int:
        """GPUs of the pods that run now."""
        return sum(i.gpus for i in self.instances if i.phase == "Running")

    def age(self, now: datetime) -> timedelta:
        """Since it was created."""
        return now - self.created if self.created else timedelta()

    def duration(self, now: datetime) -> timedelta:
        """How long it has run, or ran, without the time for which it was suspended."""
        start = self.started or self.created
        last = (self.finished or self.suspended or now) - start if start else timedelta()
        return timedelta(seconds=self.earlier_seconds) + last

    def running_since(self, now: datetime) -> datetime | None:
        """The start of its duration, without suspensions; None if the duration does not grow."""
        grows = self.started is not None and not self.over and self.status != SUSPENDED
        return shifted(now, -self.duration(now).total_seconds()) if grows else None

    @property
    def only_waited(self) -> bool:
        """Whether it waits and has never run."""
        return self.status == PENDING and not (self.earlier_seconds or self.restarts)


def summarize(raw: Raw, pods: Iterable[Pod], now: datetime | None = None) -> JobSummary:
    """The view of this job. `pods` may contain other pods too.

    With `now`, a job that no operator has accepted after a while says so.
    """
    meta = raw.get("metadata") or {}
    kind = str(raw.get("kind") or "")
    key = Key(str(meta.get("namespace") or ""), str(meta.get("name") or ""))
    uid = str(meta.get("uid") or "")
    own_pods = sorted(pods_of_job(kind, key, uid, pods), key=order)
    job, problem = _read(raw)
    leading = _leading(job, own_pods)
    status = decode_status(raw.get("status"))
    job_state = state_of(status, own_pods)
    state, reason, suspended = job_state.word, job_state.reason, status.condition("Suspended")
    created = read_timestamp(meta.get("creationTimestamp"))
    if state == SUSPENDED:
        reason = job_sentences.suspended(kind, key.name)
    if now is not None and created is not None and not own_pods:
        reason = reason or _unseen(status, (now - created).total_seconds())
    return JobSummary(
        kind=kind,
        key=key,
        uid=uid,
        status=state,
        trainer=kind.lower(),
        created=created,
        started=status.start_time,
        finished=status.finished_at if state in (SUCCEEDED, FAILED) else None,
        priority=_priority(job, own_pods),
        instances=_instances(own_pods, leading, status),
        reason=problem if problem and state != SUCCEEDED else reason,
        requested_gpus=_requested(job, own_pods),
        lead=_lead(job),
        short_reason=job_state.short_reason,
        last_lines=job_state.last_lines,
        ending=job_state.ending if state == FAILED or not problem else None,
        remedy=job_state.remedy,
        failed_attempt=status.failed_attempt if state == FAILED else None,
        next_try=job_state.next_try,
        restarts=status.restarts - status.unstarted - status.restarts_to_come(own_pods).total(),
        suspended=suspended.transitioned_at if suspended and state == SUSPENDED else None,
        earlier_seconds=status.earlier_seconds,
        gone_restarts=_gone_restarts(key.name, own_pods, status),
        replicas=job.total if job is not None else 0,
        ended=replica_ends(job, status, own_pods) if state in (SUCCEEDED, FAILED) else {},
        preempted=status.preempted,
        discarded=_discarded(own_pods),
        settling=state == SUCCEEDED and is_settling(job, status),
        stopped=status.stopped,
        pods_stay=job is not None and clean_pod_policy(job, status) == "None",
        left_pods=left_pods(job, status, own_pods) if status.outcome else "",
    )


def _instances(pods: Sequence[Pod], leading: Pod | None, status: JobStatus) -> tuple[Instance, ...]:
    """The pods; the newest pod of a replica counts the restarts of the earlier ones too."""
    newest = {id(pod) for pod in {order(pod)[:2]: pod for pod in sorted(pods, key=_stamp)}.values()}
    return tuple(
        instance(
            pod,
            leads=pod is leading,
            restarts=_restarts(pod, status, newest=id(pod) in newest),
            replaced=pod.finished and order(pod)[0] == "launcher" and id(pod) not in newest,
        )
        for pod in pods
    )


def _restarts(pod: Pod, status: JobStatus, *, newest: bool) -> int:
    """The restarts of this pod's replica: those that the status counts, and its own."""
    earlier = status.earlier_restarts.get(_replica_key(pod), 0)
    leaving = pod.metadata.deletion_timestamp or pod.metadata.uid in status.replaced_uids
    containers = pod.status.all_container_statuses
    own = sum(row.restart_count for row in containers)
    if not newest:
        return 0 if earlier else own
    if not containers or (earlier and leaving):
        # Gone, or its own restarts may be among the earlier ones already.
        own = status.in_place_restarts.get(pod.metadata.name, 0)
    return earlier + own


def _gone_restarts(job: str, pods: Iterable[Pod], status: JobStatus) -> dict[str, int]:
    counts = Counter(status.earlier_restarts)
    for name, count in status.in_place_restarts.items():
        counts[names.replica_key(job, name)] += count
    present = {_replica_key(pod) for pod in pods}
    return {name: n for name, n in sorted(counts.items()) if n and name not in present}


def _replica_key(pod: Pod) -> str:
    role, index, _ = order(pod)
    return f"{role}-{index}"


def _discarded(pods: Sequence[Pod]) -> str:
    """The message of the first pod whose files are discarded."""
    rows = ((pod, find_condition(pod.status.conditions, FILES_DISCARDED)) for pod in pods)
    return next((f"{pod.metadata.name}: {row.message}" for pod, row in rows if row), "")


def _read(raw: Raw) -> tuple[Job | None, str]:
    try:
        return parse.parse_job(raw), ""
    except InvalidJob as error:
        return None, error.with_hint


def _leading(job: Job | None, pods: Sequence[Pod]) -> Pod | None:
    """The newest chief that is not Pending; if all are, the newest.

    There are several while failed launchers are kept beside their replacement.
    """
    if job is None:
        return None
    leaders = []
    for pod in pods:
        labels = pod.metadata.labels
        role = job.job_kind.role(labels.get(names.ROLE, ""))
        if role and job.leads(role, replica_index(pod)):
            leaders.append(pod)
    started = [pod for pod in leaders if pod.status.phase != "Pending"]
    return max(started or leaders, key=_stamp, default=None)


def _lead(job: Job | None) -> str:
    """`launcher`, `chief`, `worker 0`; empty if no replica leads."""
    if job is None:
        return ""
    if job.chief_role is not None:
        return job.chief_role.lower()
    return "worker 0" if job.count("Worker") else ""


def _stamp(pod: Pod) -> tuple[float, bool, float]:
    """Orders the pods of a replica. Of two created within a second, the failed one is older."""
    created, end = pod.metadata.creation_timestamp, ended_at(pod)
    return (
        created.timestamp() if created else 0.0,
        pod.status.phase != "Failed",
        end.timestamp() if end else 0.0,
    )


def _unseen(status: JobStatus, seconds: float) -> str:
    """That no operator seems to run: every operator writes a condition at once."""
    if status.conditions or seconds < OPERATOR_PATIENCE:
        return ""
    return "no operator has accepted this job; `muster doctor` says why, `muster install` adds one"


def _requested(job: Job | None, pods: Sequence[Pod]) -> int:
    """GPUs that the job's templates request; of an invalid job, GPUs that its pods request."""
    if job is None:
        return sum(gpus(pod) for pod in pods)
    return sum(spec.count * gpus_of_limits(_limits(spec)) for spec in job.replica_specs)


def _limits(replica_spec: ReplicaSpec) -> Iterator[Mapping[str, Any]]:
    for container in replica_spec.spec.get("containers") or ():
        yield (container.get("resources") or {}).get("limits") or {}


def limited_resources(raw: Raw) -> set[str]:
    """The resources that a container of the job has a limit of; none if the job is invalid."""
    job = parse.parse_valid(raw)
    specs = () if job is None else job.replica_specs
    return {resource for spec in specs for limits in _limits(spec) for resource in limits}


def _priority(job: Job | None, pods: Sequence[Pod]) -> str:
    for pod in pods:
        if pod.spec.priority_class_name:
            return pod.spec.priority_class_name
    if job is None:
        return ""
    declared = (str(spec.spec.get("priorityClassName") or "") for spec in job.replica_specs)
    return next((name for name in declared if name), job.policy.scheduling.priority_class)


def replica_ends(job: Job | None, status: JobStatus, pods: Sequence[Pod]) -> dict[str, int]:
    """How the replicas of a finished job ended; complete once no pod of a succeeded job runs."""
    deleted = (pod.metadata.deletion_timestamp for pod in pods if pod.status.phase == "Running")
    rows = status.counts.values()
    counts = {
        "succeeded": sum(row.succeeded for row in rows),
        "failed": sum(row.failed for row in rows),
    }
    if status.outcome != "Succeeded" or not rows or None in deleted or any(r.active for r in rows):
        return counts
    rest = max(0, (job.total if job is not None else 0) - sum(counts.values()))
    stopped = min(rest, status.stopped.total if status.stopped else 0)
    return counts | {"stopped": stopped, "not finished": rest - stopped}


def is_settling(job: Job | None, status: JobStatus) -> bool:
    """Whether other replicas of a succeeded job may still end by themselves, or are stopped."""
    # With the policy None, the pods run on.
    stops = job is not None and clean_pod_policy(job, status) != "None"
    return stops and any(row.active for row in status.counts.values())


def left_pods(job: Job | None, status: JobStatus, pods: Sequence[Pod]) -> str:
    """The pods that nodes still run or restart, and why; empty if none."""
    # With the policies Running and All, the operator deletes such pods.
    if job is None or clean_pod_policy(job, status) != "None":
        return ""
    crashing = [pod.metadata.name for pod in pods if crash_of(pod) is not None]
    running = [
        pod.metadata.name
        for pod in pods
        if any_running([pod]) and pod.metadata.name not in crashing
    ]
    clauses = []
    if crashing:
        be = "is" if len(crashing) == 1 else "are"
        clauses.append(
            f"{named_or_counted(crashing, 'pod')} {be} still restarted after every failure"
        )
    if running:
        rest = "runs and holds its room" if len(running) == 1 else "run and hold their room"
        clauses.append(f"{named_or_counted(running, 'pod')} still {rest}")
    if not clauses:
        return ""
    return (
        f"{' and '.join(clauses)}, because the job's cleanPodPolicy is None; "
        f"`arena delete {job.name}` ends that"
    )
