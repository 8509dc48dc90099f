"""What this operator did that its informers do not show yet, per job UID.

Kept by `act`, laid over what informers hold by `watched`. Without it a second look at a job, right
after the first, would count a restart twice or bring back pods of a job that has just ended. An
entry goes when the informer has caught up with it, and in any case after a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from muster.kube.watch.informer_cache import identity_of
from muster.operator.observed import marked_for_deletion

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.kinds import Kind
    from muster.api.meta import Raw

T = TypeVar("T")

KEEP = 60.0
REFUSED_FOR = 15.0


@dataclass
class _JobWrites:
    """One job's entries; times are those at which they end."""

    made: dict[tuple[str, str], tuple[float, Any]] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    status: tuple[float, Raw] | None = None
    refused: tuple[float, str] = (0.0, "")
    hindered: Raw = field(default_factory=dict)
    begun: bool = False
    spec: Raw | None = None


class OwnWrites:
    """`clock` counts seconds, from anywhere."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, _JobWrites] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def record_created(self, job: str, kind: Kind[Any], made: Any) -> None:
        """We created this and the informer does not have it."""
        entry = (self._clock() + KEEP, made)
        self._of(job).made[(kind.resource, identity_of(made).key.name)] = entry

    def record_deleted(self, job: str, uid: str) -> None:
        """We asked for this to go."""
        self._of(job).gone[uid] = self._clock() + KEEP

    def record_job(self, job: str, raw: Raw) -> None:
        """The job as it is after our last write."""
        self._of(job).status = (self._clock() + KEEP, raw)

    def record_quota_refusal(self, job: str, why: str) -> None:
        """A quota stands in the way; no pods for a while."""
        self._of(job).refused = (self._clock() + REFUSED_FOR, why)

    def quota_refusal(self, job: str) -> str:
        until, why = self._jobs[job].refused if job in self._jobs else (0.0, "")
        return why if until > self._clock() else ""

    def drop_created(self, job: str, kind: Kind[Any], name: str) -> None:
        """What we hold of this object ourselves is not so any more."""
        self._of(job).made.pop((kind.resource, name), None)

    def record_blocked(self, job: str, why: Raw) -> bool:
        """Something that the job needs cannot be made, with reason and message; empty: it can.

        The answer is whether that is news.
        """
        if not why and job not in self._jobs:
            return False  # nor is anything kept of a job that is gone
        entries = self._of(job)
        before, entries.hindered = entries.hindered, why
        return before != why

    def blocked(self, job: str) -> Raw:
        return self._jobs[job].hindered if job in self._jobs else {}

    def mark_started(self, job: str) -> bool:
        """Whether this is the first time that something is done for this job."""
        entries = self._of(job)
        first, entries.begun = not entries.begun, True
        return first

    def has_started(self, job: str) -> bool:
        """Whether something was done for this job before."""
        return job in self._jobs and self._jobs[job].begun

    def record_valid_spec(self, job: str, spec: Raw) -> None:
        """The job's manifest makes sense as it is."""
        self._of(job).spec = spec

    def valid_spec(self, job: str) -> Raw | None:
        """The manifest when it last made sense, if that is known."""
        return self._jobs[job].spec if job in self._jobs else None

    def seen_by_informer(self, kind: Kind[Any], job: str, current: Any, *, leaving: bool) -> bool:
        """An informer shows this object; `leaving` if it is gone or on its way.

        The answer is whether that is news: the very state in which we made it is not.
        """
        entries = self._jobs.get(job)
        if entries is None:
            return True
        who = identity_of(current)
        _, made = entries.made.get((kind.resource, who.key.name), (0.0, None))
        ours = identity_of(made) if made is not None else None
        if ours is not None and ours.uid == who.uid:
            del entries.made[(kind.resource, who.key.name)]
        if leaving:
            entries.gone.pop(who.uid, None)
        return leaving or ours != who

    def is_own_write(self, old: Raw, new: Raw) -> bool:
        """Whether a job came from one state to the other by our own last write and nothing else."""
        entries = self._jobs.get(new["metadata"]["uid"])
        if entries is None or entries.status is None:
            return False
        written = entries.status[1]
        return _version(new) == _version(written) and _intent(old) == _intent(new)

    def forget(self, job: str) -> None:
        """The job is no more."""
        self._jobs.pop(job, None)

    def newest(self, raw: Raw) -> Raw:
        """The job: as the informer has it, or as we wrote it if that is newer."""
        entries = self._jobs.get(raw["metadata"]["uid"])
        if entries is None or entries.status is None:
            return raw
        until, written = entries.status
        if until < self._clock() or _version(raw) >= _version(written):
            entries.status = None
            return raw
        return written

    def with_created(self, job: str, kind: Kind[Any], cached: list[T]) -> list[T]:
        """What the informer holds of that kind, and what we made since."""
        entries = self._jobs.get(job)
        if entries is None or not entries.made:
            return cached
        names = {identity_of(one).key.name for one in cached}
        now = self._clock()
        return cached + [
            made
            for (resource, name), (until, made) in entries.made.items()
            if resource == kind.resource and name not in names and until > now
        ]

    def with_deletions(self, job: str, pods: list[Pod], now: datetime) -> list[Pod]:
        """These pods, those that we asked to go marked as going."""
        entries = self._jobs.get(job)
        if entries is None or not entries.gone:
            return pods
        return [
            marked_for_deletion(pod, now) if self._asked_to_go(entries, pod) else pod
            for pod in pods
        ]

    def _asked_to_go(self, entries: _JobWrites, pod: Pod) -> bool:
        leaving = pod.metadata.deletion_timestamp is not None
        return not leaving and entries.gone.get(pod.metadata.uid, 0.0) > self._clock()

    def _of(self, job: str) -> _JobWrites:
        return self._jobs.setdefault(job, _JobWrites())


def _intent(raw: Raw) -> tuple[Any, ...]:
    """All of a job that is not its status."""
    meta = raw["metadata"]
    said = (meta.get(name) for name in ("uid", "labels", "annotations", "deletionTimestamp"))
    return (*said, raw.get("spec"))


def _version(raw: Raw) -> int:
    text = str(raw["metadata"].get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0
