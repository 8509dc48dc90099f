"""A job's status: the fields that the operator writes, read leniently, written as a merge patch.

Anybody may write a status: an earlier operator, another operator, a person. A field that does not
have the expected form is read as absent, and so is a condition without a type. Fields unknown to us
are not in the struct, so no patch names them and they stay as they are.
"""

# No `from __future__ import annotations`: msgspec would have to compile each of them again.

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import replace

from kubekit.objects.core import Pod
from kubekit.objects.kinds import convert
from kubekit.objects.meta import Raw, merge_patch

FINAL = ("Succeeded", "Failed")
BACKOFF = "BackOff"
"""The reason of a job that waits before it recreates replicas that failed."""
QUOTA_EXCEEDED = "QuotaExceeded"
"""The reason of a job whose pods a ResourceQuota refuses, or that waits for such a job."""
TERMINATING = "Terminating"
"""The reason of a job that waits until pods that are to be replaced have ended."""
INVALID_SPEC = "InvalidSpec"
"""The reason of a job that failed for its manifest, and the condition of a job that runs on."""

Time = Annotated[datetime, Meta(tz=True)]
_YEARS = range(1970, 3000)
"""Of times that are believed: arithmetic with times near the limits of `datetime` fails."""
_Seconds = Annotated[int, Meta(ge=0, le=10**10)]


def _check_time(moment: datetime | None) -> None:
    """ValueError for a time that is not believed: msgspec then does not convert the struct."""
    if moment is not None and moment.year not in _YEARS:
        raise ValueError(f"{moment} cannot be right")


class JobCondition(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    type: Annotated[str, Meta(min_length=1)]
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: str = ""
    last_transition_time: str = ""
    observed_generation: int | None = None
    others: dict[str, Any] = {}
    """Fields of other writers, which are written back."""

    @property
    def transitioned_at(self) -> datetime | None:
        try:
            moment = msgspec.convert(self.last_transition_time, Time)
        except msgspec.ValidationError:
            return None
        return moment if moment.year in _YEARS else None


_CONDITION_FIELDS = {*JobCondition.__struct_encode_fields__} - {"others"}


class ReplicaStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many pods of one role are in which phase."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    selector: str = ""
    """How an autoscaler finds the pods of the role."""


class Ending(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How a container of a replica's pod ended, or the pod itself."""

    pod: str
    role: str = ""
    """In lower case (`worker`); empty if the pod is not a replica."""
    index: int = 0
    container: str = ""
    """Only if the pod has several."""
    reason: str = ""
    """A node's word (`OOMKilled`, `Evicted`); empty if the exit code says all."""
    exit_code: int | None = None
    """None if the pod itself ended."""
    signal: int = 0
    memory_limit: str = ""
    """Of a container that exceeded it."""
    last_lines: tuple[str, ...] = ()
    """Of its log, or the pod's message."""


class JobFailure(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Why a job failed."""

    code: str
    """`ReplicasFailed`, `NoneSucceeded`, or the limit: `BackoffLimitExceeded`, `DeadlineExceeded`,
    `StartingDeadlineExceeded`."""
    first: Ending | None = None
    """The pod that failed first, if one is to blame."""
    role: str = ""
    count: int = 0
    """How many replicas of the role failed."""
    limit: str = ""
    """The number that was exceeded."""
    failures: int = 0
    """How often the job failed before it exceeded the limit."""
    without_retry: bool = False
    """Whether the first failure ended the job only because it names no number of retries."""
    at_once: bool = False
    """Whether several replicas failed within seconds, and each counted towards the limit."""


class JobRestart(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Why a job restarts."""

    code: str
    """`ReplicasFailed`, `Interrupted`, `Preempted`, `WorkerDeleted`, `ReplicaGone`,
    `RestartedInPlace` or `NoneRuns`."""
    first: Ending | None = None
    """The first pod that failed, was interrupted or is gone."""
    count: int = 0
    """How many pods are recreated for that reason."""
    preempted: str = ""
    """By whom and why (`preempted by …`, `evicted from node …`)."""


class ReplicaFailures(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often one replica has failed of late, for its backoff."""

    count: int
    at: Time
    """When it failed last."""
    last: Ending | None = None
    """How it failed last; None if another replica of its gang did."""

    def __post_init__(self) -> None:
        _check_time(self.at)


class FailedAttempt(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The attempt at a container whose failure ended the job."""

    pod_name: str
    pod_uid: str
    container: str = ""
    attempt: int = 0
    """The number of earlier attempts at the container in the same pod."""


class LauncherStart(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The present attempt of an MPI launcher, and the workers that it started with."""

    pod_uid: str
    workers: int
    restarts: int = 0
    """Earlier attempts in the same pod."""


class StoppedPods(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pods that still trained when they were stopped, because their job had succeeded."""

    names: tuple[str, ...]
    """The first of them, if there are many."""
    message: str
    """A sentence that names the replicas, the cause and the remedy."""
    count: int = 0
    """How many, if there are more than names."""

    @property
    def total(self) -> int:
        return self.count or len(self.names)


class UnfinishedReplicas(msgspec.Struct, frozen=True, omit_defaults=True):
    """Replicas that had failed or still restarted when their job succeeded."""

    names: tuple[str, ...]
    """Of their pods; the first, if there are many."""
    message: str
    """A sentence about the first, and how many others there are."""


class QuotaWait(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a job needs of a ResourceQuota, and what decides on its place in the quota's line."""

    name: str
    needs: dict[str, str] = {}
    """Of the resources that the quota lacked, in the quota's words (`requests.nvidia.com/gpu`)."""
    limits: dict[str, str] = {}
    """What the quota allows of them in all."""
    priority: int = 0
    has_place: bool = False
    """Whether the job ran before and only replaces pods: it goes first."""
    since: str = ""


class Waiting(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Why pods wait."""

    reason: str = ""
    message: str = ""
    until: Time | None = None
    """When the pods are tried again, if that is known."""
    quota: QuotaWait | None = None
    """Of a job that stands in the line of a quota."""
    place: int = 0
    """The place in the scheduler's line, 1 for the first; 0 if it is not known."""
    in_line: int = 0

    def __post_init__(self) -> None:
        _check_time(self.until)


class JobStatus(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    conditions: tuple[JobCondition, ...] = ()
    replica_statuses: dict[str, ReplicaStatus] | UnsetType = UNSET
    """Unset until pods are counted for the first time."""
    start_time: Time | None = None
    earlier_seconds: _Seconds = 0
    """Seconds that the job was active before its suspensions, which start_time is not about."""
    completion_time: Time | None = None
    observed_generation: int | None = None
    restarts: int = 0
    launcher_attempt: int = 0
    launcher_start: LauncherStart | None = None
    # Statuses in clusters have the names given by `name=`, so these names never change.
    has_started: bool = field(name="formed", default=False)
    """Whether at some moment all replicas existed and none was Pending."""
    failures: dict[str, ReplicaFailures] = {}
    """By role and index (`worker-0`)."""
    in_place_restarts: dict[str, int] = field(name="restarted", default_factory=dict)
    """Container restarts that are counted already, by pod; at the end, of the last pods."""
    gang_sizes: dict[str, int] = field(name="whole", default_factory=dict)
    """Replicas per role when the gang last ran complete."""
    unclaimed_pods: tuple[str, ...] = field(name="unclaimed", default=())
    replaced_uids: tuple[str, ...] = field(name="replaced", default=())
    """Pods whose replacement is counted but whose deletion may not be requested yet."""
    waiting: Waiting | None = None
    preempted: str = ""
    """Since pods were taken away and until all of them run again: by whom and why (`preempted by
    …`, `evicted from node …`)."""
    earlier_restarts: dict[str, int] = {}
    """Restarts of a replica before its present pod, by role and index (`worker-0`)."""
    failed_attempt: FailedAttempt | None = None
    """Of a failed job, if an attempt at a container is to blame."""
    failure: JobFailure | None = None
    """Of a failed job."""
    restart: JobRestart | None = None
    """Of a job that restarts."""
    stopped: StoppedPods | None = None
    unfinished: UnfinishedReplicas | None = None
    """Both of a succeeded job."""
    unstarted: int = 0
    """The restarts that are counted in `restarts`, but that the end of the job prevented."""
    # For clients of v1alpha1:
    phase: str = ""
    state: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        _check_time(self.start_time)
        _check_time(self.completion_time)

    def condition(self, type_: str) -> JobCondition | None:
        return next((row for row in self.conditions if row.type == type_), None)

    def is_true(self, type_: str) -> bool:
        return any(row.type == type_ and row.status == "True" for row in self.conditions)

    @property
    def outcome(self) -> str | None:
        """Succeeded or Failed, once the job has ended."""
        return next((type_ for type_ in FINAL if self.is_true(type_)), None)

    @property
    def finished_at(self) -> datetime | None:
        """When the job ended, as far as the status tells."""
        final = self.condition(self.outcome or "")
        return self.completion_time or (final.transitioned_at if final else None)

    @property
    def is_rejected(self) -> bool:
        """Whether the job failed for its manifest, and not for its pods."""
        failed = self.condition("Failed")
        return failed is not None and failed.reason == INVALID_SPEC

    @property
    def counts(self) -> dict[str, ReplicaStatus]:
        """`replica_statuses`, empty while they are unset."""
        return self.replica_statuses or {}

    def restarts_to_come(self, pods: Iterable[Pod]) -> Counter[str]:
        """The restarts that `restarts` counts and that nodes still delay, by pod."""
        counted = self.in_place_restarts
        rows = [(pod, counted.get(pod.metadata.name, 0)) for pod in pods]
        # Of a pod that is gone and known from its log alone, nothing is to come.
        return +Counter(
            {
                pod.metadata.name: n - sum(row.restart_count for row in containers)
                for pod, n in rows
                if (containers := pod.status.all_container_statuses)
            }
        )

    def without_transient(self) -> "JobStatus":
        """The status without fields that mean nothing while no pod is to run."""
        return replace(
            self,
            waiting=None,
            restart=None,
            preempted="",
            replaced_uids=(),
            failures={},
            in_place_restarts={},
            gang_sizes={},
            launcher_start=None,
        )


def decode_status(raw: object) -> JobStatus:
    """The status, without the fields that do not have the form that we write."""
    if not isinstance(raw, dict):
        return JobStatus()
    try:
        status = convert(raw, JobStatus)
    except msgspec.ValidationError:
        # Field by field is slow, and nearly every status is our own.
        raw = dict(_readable(raw))
        status = convert(raw, JobStatus)
    rows = raw.get("conditions") or ()
    if all(row.keys() <= _CONDITION_FIELDS for row in rows):
        return status
    return replace(
        status,
        conditions=tuple(
            replace(condition, others={k: v for k, v in row.items() if k not in _CONDITION_FIELDS})
            for condition, row in zip(status.conditions, rows, strict=True)
        ),
    )


def _readable(raw: Raw) -> Iterator[tuple[str, Any]]:
    types = _field_types()
    for name, value in raw.items():
        if name == "conditions" and isinstance(value, list):
            yield name, [row for row in value if _converts(row, JobCondition)]
        elif name in types and _converts(value, types[name]):
            yield name, value


@functools.cache
def _field_types() -> dict[str, Any]:
    return {row.encode_name: row.type for row in msgspec.structs.fields(JobStatus)}


def _converts(value: object, type_: Any) -> bool:
    try:
        converted = convert(value, type_)
        _check_time(converted if isinstance(converted, datetime) else None)
    except ValueError:  # a ValidationError too
        return False
    return True


def status_change(before: JobStatus, after: JobStatus) -> Raw:
    """The merge patch of the status that makes `after` of `before`.

    It compares the encoded forms, so that a time in another notation is not a change.
    """
    return {} if before == after else merge_patch(_encode(before), _encode(after))


def _encode(status: JobStatus) -> Raw:
    raw: Raw = msgspec.json.decode(msgspec.json.encode(status))
    for row in raw.get("conditions", ()):
        row.update(row.pop("others", {}))
    return raw


def ended_at(job: Raw) -> float | None:
    """When a job of the API ended, as a timestamp; 0 if it does not say, None while it goes on."""
    status = decode_status(job.get("status"))
    if status.outcome is None:
        return None
    return status.finished_at.timestamp() if status.finished_at is not None else 0.0
