"""What this operator wrote and its informers do not show yet, per job UID.

An informer lags behind the API server: for a moment after a write it still shows the old state. A
reconcile in that moment would count a restart twice, or recreate pods of a job that has just ended.
So every decision sees the informers' objects with our own latest writes laid over them. An entry is
dropped when the informer has caught up with it. Creations, deletions and the job are ignored after
a minute, a refusal by a quota after 15 seconds; the other fields are kept until the job is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.quantity import MAX_INT64
from kubekit.watch.informer_cache import identity_of
from muster.operator.decide.owned_objects import QUOTA_PAUSE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw
    from muster.jobs.job_status import Waiting

T = TypeVar("T")

KEEP = 60.0
"""Seconds after which an entry is ignored even if no informer has shown the write."""


@dataclass
class JobWrites:
    """The entries of one job; a float is the time from which its entry is ignored."""

    created: dict[tuple[str, str], tuple[float, Any]] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)
    job: tuple[float, Raw] | None = None
    quota_refusal: tuple[float, str] = (0.0, "")
    quota_hurried: bool = False
    """Whether the pause ended early, because the quota had room by its numbers."""
    quota_patient: bool = False
    """Whether that was in vain, so that this pause does not end early."""
    blocked: Waiting | None = None
    """Why an object that the job needs cannot be created."""
    template_rejection: tuple[int, str] = (0, "")
    started: bool = False
    """Whether we have acted on this job."""
    reported_exits: frozenset[str] = frozenset()
    """The ends of containers that events have reported."""
    removal: str = ""
    """By whom and why a pod was taken away: it may be gone before the job is reconciled."""
    valid_spec: Raw | None = None
    """The last valid spec that we have seen."""


_NO_WRITES = JobWrites()


class OwnWrites:
    """`clock` counts seconds from any moment."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, JobWrites] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def record_created(self, job: str, kind: Kind[Any], created: Any) -> None:
        """Remember an object that we created or adopted and the informer does not show yet."""
        entry = (self._clock() + KEEP, created)
        self.of(job).created[(kind.resource, identity_of(created).key.name)] = entry

    def drop_created(self, job: str, kind: Kind[Any], name: str) -> None:
        """Forget our copy of this object, which is out of date."""
        self.of(job).created.pop((kind.resource, name), None)

    def record_deleted(self, job: str, uid: str) -> None:
        """Remember that we requested the deletion of this object."""
        self.of(job).deleted[uid] = self._clock() + KEEP

    def record_job(self, job: str, raw: Raw) -> None:
        """Remember the job as the API server returned it after our last write."""
        self.of(job).removal = ""  # The status has it now.
        self.of(job).job = (self._clock() + KEEP, raw)

    def record_quota_refusal(self, job: str, message: str) -> None:
        """Remember that a quota refused a pod; none is created for a while."""
        writes = self.of(job)
        if not self.quota_refusal(job):  # the first of several pods
            writes.quota_patient, writes.quota_hurried = writes.quota_hurried, False
        writes.quota_refusal = (self._clock() + QUOTA_PAUSE, message)

    def quota_has_room(self, job: str) -> bool:
        """End the pause after a refusal. Returns whether the job may ask now.

        That is not so twice in a row: a refused gang gives back what it got, which looks like room,
        and the server may count more for a pod than its manifest says.
        """
        if self.quota_refusal(job):
            if self.read(job).quota_patient:
                return False
            writes = self.of(job)
            writes.quota_hurried, writes.quota_refusal = True, (0.0, "")
        return True

    def quota_refusal(self, job: str) -> str:
        until, message = self.read(job).quota_refusal
        return message if until > self._clock() else ""

    def record_template_rejection(self, job: str, generation: int, message: str) -> None:
        """Remember that the API server rejected a pod made from this generation of the job."""
        self.of(job).template_rejection = (generation, message)

    def template_rejection(self, job: str, generation: int) -> str:
        rejected, message = self.read(job).template_rejection
        return message if rejected == generation else ""

    def record_blocked(self, job: str, waiting: Waiting | None) -> bool:
        """Remember why an object that the job needs cannot be created (None: no such object).

        Returns whether the reason has changed.
        """
        changed = self.read(job).blocked != waiting
        if changed:
            self.of(job).blocked = waiting
        return changed

    def seen_by_informer(self, kind: Kind[Any], job: str, current: Any, *, leaving: bool) -> bool:
        """Drop the entries that an informer has caught up with, as it shows this object.

        `leaving`: the object is gone or being deleted. Returns whether the state is new to us: the
        very state that our own write returned is not.
        """
        entries = self._jobs.get(job)
        if entries is None:
            return True
        shown = identity_of(current)
        _, created = entries.created.get((kind.resource, shown.key.name), (0.0, None))
        own = identity_of(created) if created is not None else None
        # The informer has caught up: from now on it shows this object.
        if own is not None and own.uid == shown.uid:
            del entries.created[(kind.resource, shown.key.name)]
        if leaving:
            entries.deleted.pop(shown.uid, None)
        return leaving or own != shown

    def is_own_write(self, old: Raw, new: Raw) -> bool:
        """Whether our own last write is the whole difference between `old` and `new`."""
        entry = self.read(new["metadata"]["uid"]).job
        if entry is None:
            return False
        return _version(new) == _version(entry[1]) and _intent(old) == _intent(new)

    def forget(self, job: str) -> None:
        """Drop all entries of a job that is gone."""
        self._jobs.pop(job, None)

    def newest(self, raw: Raw) -> Raw:
        """The job as the informer shows it, or as we wrote it if that is newer."""
        entries = self.read(raw["metadata"]["uid"])
        if entries.job is None:
            return raw
        until, written = entries.job
        if until < self._clock() or _version(raw) >= _version(written):
            entries.job = None
            return raw
        return written

    def with_created(self, job: str, kind: Kind[Any], cached: list[T]) -> list[T]:
        """The informer's objects of that kind, and the objects that we created since."""
        entries = self.read(job).created
        if not entries:
            return cached  # The usual case, for which the names of thousands of pods are not read.
        names, now = {identity_of(obj).key.name for obj in cached}, self._clock()
        return cached + [
            created
            for (resource, name), (until, created) in entries.items()
            if resource == kind.resource and name not in names and until > now
        ]

    def deleted(self, job: str) -> set[str]:
        """The UIDs of the objects whose deletion we requested."""
        now = self._clock()
        return {uid for uid, until in self.read(job).deleted.items() if until > now}

    def of(self, job: str) -> JobWrites:
        """The entries of a job, to be changed."""
        return self._jobs.setdefault(job, JobWrites())

    def read(self, job: str) -> JobWrites:
        """The entries of a job, never to be changed: a job without any has the empty ones.

        Reading adds no entry: `forget` runs once per job and may have run already.
        """
        return self._jobs.get(job, _NO_WRITES)


def _intent(raw: Raw) -> tuple[Any, ...]:
    """The part of a job that its user writes: all but the status."""
    meta = raw["metadata"]
    fields = (meta.get(name) for name in ("uid", "labels", "annotations", "deletionTimestamp"))
    return (*fields, raw.get("spec"))


def _version(raw: Raw) -> int:
    """The resourceVersion as a number, to tell which of two states of an object is newer.

    Kubernetes calls it opaque, but etcd's revisions and the local server's are growing numbers.
    """
    text = str(raw["metadata"].get("resourceVersion") or "")
    return read_integer(text, most=MAX_INT64) or 0
