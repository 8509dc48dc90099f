"""The objects the operator watches, and what they show of one job.

Made by `run`, read by `reconcile`. Everything a job owns carries its labels, so only labelled
objects are watched, and an index by owner finds a job's own without a scan.

A watch that others do not wait for: what we may not list is taken for not installed.

Used by `watched` for every kind without which most jobs can be served (one kind of job, one gang
dialect, what only MPIJobs own). A right that is missing then costs those who need that kind, and
nobody else. It is logged once, told by /readyz, which does not hang on it, and tried for again and
again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from muster.api.kinds import JOB_KINDS, PODS, PRIORITY_CLASSES, SERVICES, Kind
from muster.api.meta import Key, Raw
from muster.errors import Forbidden
from muster.jobs import names
from muster.jobs.job_kinds import JOB_KIND_BY_NAME
from muster.kube.watch.informer import Informer
from muster.kube.watch.informer_cache import identity_of
from muster.operator import metrics
from muster.operator.build.gang_dialect import GROUP_KIND_BY_RESOURCE
from muster.operator.decide.invalid_spec import any_running
from muster.operator.frameworks.registry import OWNED
from muster.operator.observed import Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from muster.api.core import Pod, PriorityClass, Service
    from muster.errors import MusterError
    from muster.jobs.job import Job
    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change
    from muster.operator.observe.own_writes import OwnWrites


T = TypeVar("T")
log = logging.getLogger(__name__)


class OptionalInformer(Informer[T]):
    """An informer that counts as synced, and as empty, while its kind may not be listed."""

    lacking = ""
    """Which right is missing, in one sentence; empty if none is."""

    def _failed(self, error: MusterError) -> float:
        if not isinstance(error, Forbidden) or (self.has_synced and not self.lacking):
            return super()._failed(error)
        if not self.lacking:
            log.warning("%s; going on without", error)
        self.lacking = str(error)
        self.installed = False
        self._synced.set()
        return self._progress.failed(error)

    def _recovered(self) -> None:
        self.lacking = ""
        super()._recovered()


OWNER, _LABEL = "owner", "label"
_KINDS = {job_kind.operator: kind for kind, job_kind in JOB_KIND_BY_NAME.items()}


class JobRef(NamedTuple):
    """One job: what the operator's queue carries."""

    kind: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Informers:
    """All informers of the operator."""

    def __init__(self, client: Client, namespace: str = "") -> None:
        def labelled(
            kind: Kind[Any], how: type[Informer[Any]] = OptionalInformer[Any]
        ) -> Informer[Any]:
            indexes = {OWNER: _owner, _LABEL: _labelled}
            return how(client, kind, namespace, labels=names.JOB, indexes=indexes)

        self.jobs: dict[str, Informer[Raw]] = {
            kind.kind: OptionalInformer(client, kind, namespace) for kind in JOB_KINDS
        }
        self.pods: Informer[Pod] = labelled(PODS, Informer)
        self.services: Informer[Service] = labelled(SERVICES, Informer)
        self.groups: dict[str, Informer[Raw]] = {
            resource: labelled(undecoded(kind)) for resource, kind in GROUP_KIND_BY_RESOURCE.items()
        }
        self.others: dict[str, Informer[Raw]] = {
            kind.resource: labelled(undecoded(kind)) for kind in OWNED
        }
        self.priorities: Informer[PriorityClass] = OptionalInformer(client, PRIORITY_CLASSES)

    def informers(self) -> list[Informer[Any]]:
        """Those that must have synced before anything is decided."""
        return [*self.jobs.values(), *self._owned().values()]

    def lacking(self) -> str:
        """The rights that are missing, and without which most jobs can be served."""
        watches = (*self.informers(), self.priorities)
        return "; ".join(
            sorted({w.lacking for w in watches if isinstance(w, OptionalInformer)} - {""})
        )

    def connect(self, memory: OwnWrites, wake: Callable[[JobRef], None]) -> None:
        """Wake a job when it or anything of it changes; tell the memory what was seen.

        What we wrote ourselves comes back as a change too. It was decided upon when it was written,
        and wakes nobody.
        """
        for kind, informer in self.jobs.items():
            informer.subscribe(_job_listener(kind, memory, wake))
        for owned in self._owned().values():
            owned.subscribe(_owned_listener(owned.kind, memory, wake))

    def _owned(self) -> dict[str, Informer[Any]]:
        """The informers of what jobs own, by resource."""
        own: dict[str, Informer[Any]] = {
            PODS.resource: self.pods,
            SERVICES.resource: self.services,
        }
        return own | self.groups | self.others

    def job(self, ref: JobRef) -> Raw | None:
        return self.jobs[ref.kind].get(ref.key)

    def holds(self, kind: Kind[Any], key: Key, uid: str) -> bool:
        """Whether the informer of that kind shows this very object."""
        informer = self._owned().get(kind.resource)
        found = informer.get(key) if informer is not None else None
        return found is not None and identity_of(found).uid == uid

    def has_objects(self, uid: str) -> bool:
        """Whether anything that we watch belongs to the job of this UID."""
        return any(informer.by(OWNER, uid) for informer in self._owned().values())

    def has_running_pod(self, uid: str) -> bool:
        """Whether any pod of the job of this UID runs."""
        return any_running(self.pods.by(OWNER, uid))

    def has_worked(self, uid: str) -> bool:
        """Whether any pod of the job of this UID runs, or has run to its end."""
        return self.has_running_pod(uid) or any(pod.finished for pod in self.pods.by(OWNER, uid))

    def observe(self, job: Job, memory: OwnWrites, now: datetime) -> Observed:
        """What exists of this job, our own latest doings included."""
        label = _label(job.job_kind.operator, job.key)
        owned = memory.with_created(job.uid, PODS, self.pods.by(OWNER, job.uid))
        pods = [pod for pod in owned if label in _labelled(pod)]
        services = memory.with_created(job.uid, SERVICES, self.services.by(OWNER, job.uid))
        return Observed(
            pods=tuple(memory.with_deletions(job.uid, pods, now)),
            orphans=tuple(pod for pod in self.pods.by(_LABEL, label) if _is_adoptable(pod)),
            released=tuple(pod for pod in owned if label not in _labelled(pod)),
            of_former_job=tuple(
                pod for pod in self.pods.by(_LABEL, label) if _of_another(pod, job)
            ),
            services=tuple(s for s in services if s.metadata.deletion_timestamp is None),
            objects=self._objects(job, memory),
            served_dialects=frozenset(
                r for r, informer in self.groups.items() if informer.installed
            ),
            quota_refusal=memory.quota_refusal(job.uid),
            blocked=memory.blocked(job.uid),
            priorities={one.metadata.name: one.value for one in self.priorities.all()},
        )

    def _objects(self, job: Job, memory: OwnWrites) -> dict[tuple[str, str], Raw]:
        found: dict[tuple[str, str], Raw] = {}
        for resource, informer in (*self.groups.items(), *self.others.items()):
            cached = informer.by(OWNER, job.uid)
            for one in memory.with_created(job.uid, informer.kind, cached):
                found[(resource, identity_of(one).key.name)] = one
        return found

    def ports(self, job: Job) -> frozenset[int]:
        """Ports that services of other jobs promise to pods that have not ended."""
        return frozenset(
            port.port
            for service in self.services.all()
            if _owner(service) != [job.uid] and not self._ended(service)
            for port in service.spec.ports
        )

    def _ended(self, service: Service) -> bool:
        pod = self.pods.get(service.metadata.key)
        return pod is not None and pod.finished


def undecoded(kind: Kind[Any]) -> Kind[Raw]:
    """The same resource, undecoded."""
    return kind.read_as(cast("type[Raw]", dict))


def _job_listener(
    kind: str, memory: OwnWrites, wake: Callable[[JobRef], None]
) -> Callable[[Change[Raw]], None]:
    def listen(change: Change[Raw]) -> None:
        meta = change.current["metadata"]
        if change.new is None:
            memory.forget(meta["uid"])
            metrics.count_deleted_job(kind, meta.get("namespace", ""))
        elif change.old is not None and memory.is_own_write(change.old, change.new):
            return
        wake(JobRef(kind, Key(meta.get("namespace", ""), meta["name"])))

    return listen


def _owned_listener(
    kind: Kind[Any], memory: OwnWrites, wake: Callable[[JobRef], None]
) -> Callable[[Change[Any]], None]:
    def listen(change: Change[Any]) -> None:
        current = change.current
        leaving = change.new is None or _leaving(current)
        owners = _owner(current)
        news = [memory.seen_by_informer(kind, owner, current, leaving=leaving) for owner in owners]
        if change.old is None and owners and not any(news):
            return
        for one in (change.old, change.new):
            for ref in _refs(one) if one is not None else ():
                wake(ref)

    return listen


def _leaving(one: Any) -> bool:
    if isinstance(one, dict):
        return bool(one["metadata"].get("deletionTimestamp"))
    return one.metadata.deletion_timestamp is not None


def _owner(one: Any) -> list[str]:
    """The UID of whoever controls it."""
    if isinstance(one, dict):
        rows = one["metadata"].get("ownerReferences") or ()
        return [row["uid"] for row in rows if row.get("controller")]
    controller = one.metadata.controller
    return [controller.uid] if controller is not None else []


def _labels(one: Any) -> tuple[str, dict[str, str]]:
    if isinstance(one, dict):
        return one["metadata"].get("namespace", ""), one["metadata"].get("labels") or {}
    return one.metadata.namespace, one.metadata.labels


def _labelled(one: Any) -> Iterable[str]:
    namespace, labels = _labels(one)
    operator, job = labels.get(names.OPERATOR, ""), labels.get(names.JOB, "")
    return [_label(operator, Key(namespace, job))]


def _label(operator: str, key: Key) -> str:
    return f"{operator}/{key}"


def _refs(one: Any) -> set[JobRef]:
    """The jobs it concerns: the one whose labels it carries, and the one that controls it."""
    namespace, labels = _labels(one)
    kind = _KINDS.get(labels.get(names.OPERATOR, ""))
    found = (
        {JobRef(kind, Key(namespace, labels[names.JOB]))} if kind and names.JOB in labels else set()
    )
    for kind, name in _controller(one):
        if kind in JOB_KIND_BY_NAME:
            found.add(JobRef(kind, Key(namespace, name)))
    return found


def _controller(one: Any) -> list[tuple[str, str]]:
    """Kind and name of whoever controls it."""
    if isinstance(one, dict):
        rows = one["metadata"].get("ownerReferences") or ()
        return [(row["kind"], row["name"]) for row in rows if row.get("controller")]
    controller = one.metadata.controller
    return [(controller.kind, controller.name)] if controller is not None else []


def _is_adoptable(pod: Pod) -> bool:
    leaving = pod.metadata.deletion_timestamp is not None
    return pod.metadata.controller is None and not leaving


def _of_another(pod: Pod, job: Job) -> bool:
    """Whether it belongs to a job of the same kind and name that is not this one."""
    owner = pod.metadata.controller
    return owner is not None and owner.uid != job.uid and _controller(pod) == [(job.kind, job.name)]
