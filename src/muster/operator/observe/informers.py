"""The objects that the operator watches, and the selection of those of one job.

Every object of a job carries its labels, so only labelled objects are watched, and an index by
owner finds a job's objects without a scan.

Only pods and services are indispensable. Every other kind serves some jobs only (one kind of job,
one gang dialect, objects of MPIJobs), so its informer is optional: if the operator may not list it,
the kind counts as not installed. A missing right then affects only the jobs that need that kind.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from kubekit.objects.kinds import PODS, PRIORITY_CLASSES, RESOURCE_QUOTAS, SERVICES, Kind
from kubekit.objects.meta import Key, ObjectMeta, Raw, key_of
from kubekit.telemetry import metrics
from kubekit.watch.informer import AnyVersionInformer, Informer
from kubekit.watch.informer_cache import identity_of
from muster.contract.gang_dialects import GROUP_KIND_BY_RESOURCE
from muster.contract.job_kinds import JOB_KIND_BY_NAME, JOB_KINDS
from muster.contract.operator_rights import OWNED
from muster.contract.pod_groups import NATIVE_POD_GROUPS
from muster.jobs import names, pod_status, quota_line
from muster.operator.build.host_ports import HOST_PORT_ANNOTATION
from muster.operator.decision_types import Observed, with_deletions

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kubekit.client.client import Client
    from kubekit.objects.core import Pod, PriorityClass, ResourceQuota, Service
    from kubekit.watch.informer_cache import Change
    from muster.jobs.job import Job
    from muster.jobs.quota_line import Standing
    from muster.operator.observe.own_writes import OwnWrites


JOBS = metrics.counter("jobs_total", "Jobs by kind and event.", "namespace", "kind", "event")
IN_LINE = metrics.gauge(
    "jobs_waiting_for_quota", "Jobs in the lines of ResourceQuotas.", "namespace"
)
OWNER, _LABEL, _WAITS, _NAMESPACE = "owner", "label", "waits", "namespace"
_KINDS = {job_kind.operator: kind for kind, job_kind in JOB_KIND_BY_NAME.items()}


class JobRef(NamedTuple):
    """Kind and key of one job, as in the operator's queue."""

    kind: str
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Informers:
    """All informers of the operator."""

    def __init__(self, client: Client, namespace: str = "") -> None:
        def labelled(kind: Kind[Any], *, optional: bool = True) -> Informer[Any]:
            indexes = {OWNER: _owner, _LABEL: _labelled}
            any_version = kind.resource == NATIVE_POD_GROUPS.resource
            return (AnyVersionInformer if any_version else Informer)(
                client, kind, namespace, labels=names.JOB, indexes=indexes, optional=optional
            )

        self.jobs: dict[str, Informer[Raw]] = {
            kind.kind: Informer(
                client,
                kind,
                namespace,
                indexes={_WAITS: partial(_waits_in, kind.kind)},
                optional=True,
            )
            for kind in JOB_KINDS
        }
        self.pods: Informer[Pod] = labelled(PODS, optional=False)
        self.services: Informer[Service] = labelled(SERVICES, optional=False)
        self.groups: dict[str, Informer[Raw]] = {
            resource: labelled(undecoded(kind)) for resource, kind in GROUP_KIND_BY_RESOURCE.items()
        }
        others = {kind.resource: labelled(undecoded(kind)) for kind in OWNED}
        self._objects: dict[str, Informer[Raw]] = self.groups | others
        self._owned: dict[str, Informer[Any]] = {
            PODS.resource: self.pods,
            SERVICES.resource: self.services,
            **self._objects,
        }
        # Decisions do not wait for this informer: it only refines the order in `minResources`.
        self.priorities: Informer[PriorityClass] = Informer(client, PRIORITY_CLASSES, optional=True)
        # Nor for this one: without it, jobs that a quota refused ask again after a while.
        self.quotas: Informer[ResourceQuota] = Informer(
            client,
            RESOURCE_QUOTAS,
            namespace,
            indexes={_NAMESPACE: lambda quota: [quota.metadata.namespace]},
            optional=True,
        )

    def informers(self) -> list[Informer[Any]]:
        """The informers that must have synced before the first decision."""
        return [*self.jobs.values(), *self._owned.values()]

    def missing_rights(self) -> str:
        """The rights that the operator lacks for some jobs only, for its health page."""
        informers = (*self.informers(), self.priorities, self.quotas)
        return "; ".join(sorted({str(i.refused) for i in informers if i.refused is not None}))

    def connect(self, own_writes: OwnWrites, wake: Callable[[JobRef], None]) -> None:
        """Wake a job when it or one of its objects changes.

        Our own writes come back as changes too. The decision that ordered them knew their result,
        so they wake no job.
        """
        for kind, informer in self.jobs.items():
            informer.subscribe(partial(self._line_changed, kind, wake))
            informer.subscribe(partial(_job_changed, kind, own_writes, wake))
        self.quotas.subscribe(partial(self._quota_changed, own_writes, wake))
        for owned in self._owned.values():
            owned.subscribe(partial(_owned_object_changed, owned.kind, own_writes, wake))

    def served_kind(self, kind: Kind[Any]) -> Kind[Any]:
        """The kind in the version that the server serves: Kubernetes' PodGroups have several."""
        informer = self.groups.get(kind.resource)
        return (
            kind
            if informer is None
            else msgspec.structs.replace(kind, version=informer.kind.version)
        )

    def job(self, ref: JobRef) -> Raw | None:
        return self.jobs[ref.kind].get(ref.key)

    def shows(self, kind: Kind[Any], written: Any, job_uid: str) -> bool:
        """Whether the informer of that kind shows this object (same UID) as the job's."""
        identity, informer = identity_of(written), self._owned.get(kind.resource)
        shown = informer.get(identity.key) if informer is not None else None
        if shown is None or identity_of(shown).uid != identity.uid:
            return False
        return job_uid in _owner(shown)

    def has_objects(self, uid: str) -> bool:
        """Whether the job of this UID owns an object that is watched."""
        return any(informer.by(OWNER, uid) for informer in self._owned.values())

    def has_worked(self, uid: str) -> bool:
        """Whether a pod of the job of this UID runs, or has run to its end."""
        pods = self.pods.by(OWNER, uid)
        return pod_status.any_running(pods) or any(pod.finished for pod in pods)

    def observe(self, job: Job, own_writes: OwnWrites, now: datetime) -> Observed:
        """The job's objects, with our own latest writes laid over them."""
        label, uid = _label(job.job_kind.operator, job.key), job.uid
        labelled = self.pods.by(_LABEL, label)
        owned = own_writes.with_created(uid, PODS, self.pods.by(OWNER, uid))
        pods = [pod for pod in owned if label in _labelled(pod)]
        services = own_writes.with_created(uid, SERVICES, self.services.by(OWNER, uid))
        writes = own_writes.read(uid)
        served = (resource for resource, informer in self.groups.items() if informer.installed)
        return Observed(
            pods=with_deletions(pods, own_writes.deleted(uid), now),
            orphans=tuple(pod for pod in labelled if _is_orphan(pod)),
            released=tuple(pod for pod in owned if label not in _labelled(pod)),
            of_former_job=tuple(pod for pod in labelled if _is_of_former_job(pod, job)),
            services=tuple(
                service for service in services if service.metadata.deletion_timestamp is None
            ),
            objects=self._objects_of(job, own_writes),
            leftovers=self._leftovers(label),
            served_dialects=frozenset(served),
            quota_refusal=own_writes.quota_refusal(uid),
            quota_line=tuple(row for row in self.quota_line(job.namespace) if row.uid != uid),
            quotas={row.metadata.name: row for row in self.quotas.by(_NAMESPACE, job.namespace)},
            blocked=writes.blocked,
            removal=writes.removal,
            reported_exits=writes.reported_exits,
            template_rejection=own_writes.template_rejection(uid, job.generation),
            is_new=not writes.started,
            priorities={row.metadata.name: row.value for row in self.priorities.all()},
        )

    def quota_line(self, namespace: str) -> list[Standing]:
        """The jobs of a namespace that wait for a quota, in order."""
        found = (
            quota_line.standing(kind, raw)
            for kind, informer in self.jobs.items()
            for raw in informer.by(_WAITS, namespace)
        )
        return sorted(row for row in found if row is not None)

    def _unblocked(self, namespace: str, line: list[Standing]) -> list[Standing]:
        quotas = self.quotas.by(_NAMESPACE, namespace)
        return quota_line.unblocked(
            line, {row.metadata.name for row in quotas if row.spec.is_scoped}
        )

    def _line_changed(self, kind: str, wake: Callable[[JobRef], None], change: Change[Raw]) -> None:
        """Whoever has the turn now that this job left the line, or needs less, may ask."""
        before, after = (
            quota_line.standing(kind, raw) if raw is not None else None
            for raw in (change.old, change.new)
        )
        if before == after:
            return
        namespace = key_of(change.current).namespace
        line = self.quota_line(namespace)
        if line:
            IN_LINE.labels(namespace).set(len(line))
        elif before is not None:
            IN_LINE.remove(namespace)
        if before is not None:
            for row in self._unblocked(namespace, line):
                wake(JobRef(row.kind, row.key))

    def _quota_changed(
        self,
        own_writes: OwnWrites,
        wake: Callable[[JobRef], None],
        change: Change[ResourceQuota],
    ) -> None:
        """A quota may have room for those who have the turn, or allow more or less than before."""
        metadata, before, quota = change.current.metadata, change.old, change.new
        line = self.quota_line(metadata.namespace)
        first = {row.uid for row in self._unblocked(metadata.namespace, line)}
        is_other = before is None or quota is None or before.spec.hard != quota.spec.hard
        for row in line:
            if row.wait.name != metadata.name:
                continue
            fits = quota is None or quota_line.has_room(
                row.wait, quota.spec.hard, quota.status.used
            )
            may_ask = row.uid in first and fits and own_writes.quota_has_room(row.uid)
            if may_ask or is_other:
                wake(JobRef(row.kind, row.key))

    def _objects_of(self, job: Job, own_writes: OwnWrites) -> dict[tuple[str, str], Raw]:
        objects: dict[tuple[str, str], Raw] = {}
        for resource, informer in self._objects.items():
            cached = informer.by(OWNER, job.uid)
            for obj in own_writes.with_created(job.uid, informer.kind, cached):
                objects[resource, obj["metadata"]["name"]] = obj
        return objects

    def _leftovers(self, label: str) -> dict[tuple[str, str], ObjectMeta]:
        """Objects that a former job of this name left behind; pods are in `orphans` instead."""
        leftovers: dict[tuple[str, str], ObjectMeta] = {}
        for resource, informer in self._owned.items():
            if resource == PODS.resource:
                continue
            for obj in informer.by(_LABEL, label):
                if _is_orphan(obj):
                    meta = _metadata(obj)
                    leftovers[resource, meta.name] = meta
        return leftovers

    def ports(self, job: Job) -> frozenset[int]:
        """Host ports that services of other jobs record for pods that have not ended."""
        return frozenset(
            port.port
            for service in self.services.all()
            if HOST_PORT_ANNOTATION in service.metadata.annotations
            and _owner(service) != [job.uid]
            and not self._has_ended(service)
            for port in service.spec.ports
        )

    def _has_ended(self, service: Service) -> bool:
        pod = self.pods.get(service.metadata.key)
        return pod is not None and pod.finished


def count_job_event(job: Job, reason: str) -> None:
    """Count an event if it is about the job's state: its reason then begins with the kind."""
    event = reason.removeprefix(job.kind)
    if event != reason or reason == "InvalidSpec":
        JOBS.labels(job.namespace, job.kind, event).inc()


def _waits_in(kind: str, raw: Raw) -> list[str]:
    """The namespace of a job that stands in the line of a quota."""
    row = quota_line.standing(kind, raw)
    return [row.key.namespace] if row is not None else []


def undecoded(kind: Kind[Any]) -> Kind[Raw]:
    """The same resource as plain dicts."""
    return kind.read_as(cast("type[Raw]", dict))


def _job_changed(
    kind: str, own_writes: OwnWrites, wake: Callable[[JobRef], None], change: Change[Raw]
) -> None:
    key = key_of(change.current)
    if change.new is None:
        own_writes.forget(change.current["metadata"]["uid"])
        JOBS.labels(key.namespace, kind, "Deleted").inc()
    elif change.old is not None and own_writes.is_own_write(change.old, change.new):
        return
    wake(JobRef(kind, key))


def _owned_object_changed(
    kind: Kind[Any], own_writes: OwnWrites, wake: Callable[[JobRef], None], change: Change[Any]
) -> None:
    current, owners = change.current, _owner(change.current)
    leaving = change.new is None or _metadata(current).deletion_timestamp is not None
    is_new = [own_writes.seen_by_informer(kind, uid, current, leaving=leaving) for uid in owners]
    if leaving and kind == PODS and owners and (words := pod_status.removal(current)):
        own_writes.of(owners[0]).removal = words
    if change.old is None and owners and not any(is_new):
        return  # The informer only shows what we created.
    # Both states: a label or owner that is gone may have tied the object to another job.
    for state in (change.old, change.new):
        for ref in _refs(state) if state is not None else ():
            wake(ref)


def _metadata(obj: Any) -> ObjectMeta:
    """The metadata of an object, whether its informer holds it as a struct or undecoded."""
    if isinstance(obj, dict):
        # A null field means the same as an absent one, but msgspec rejects it.
        fields = {name: value for name, value in obj["metadata"].items() if value is not None}
        return msgspec.convert(fields, ObjectMeta)
    metadata: ObjectMeta = obj.metadata
    return metadata


def _owner(obj: Any) -> list[str]:
    """The UID of its controller."""
    controller = _metadata(obj).controller
    return [controller.uid] if controller is not None else []


def _labelled(obj: Any) -> list[str]:
    meta = _metadata(obj)
    operator, job = meta.labels.get(names.OPERATOR, ""), meta.labels.get(names.JOB, "")
    return [_label(operator, Key(meta.namespace, job))]


def _label(operator: str, key: Key) -> str:
    return f"{operator}/{key}"


def _refs(obj: Any) -> set[JobRef]:
    """The jobs to wake: the job whose labels the object carries, and its controller."""
    meta = _metadata(obj)
    kind, job = _KINDS.get(meta.labels.get(names.OPERATOR, "")), meta.labels.get(names.JOB)
    refs = {JobRef(kind, Key(meta.namespace, job))} if kind and job is not None else set()
    if meta.controller is not None and meta.controller.kind in JOB_KIND_BY_NAME:
        refs.add(JobRef(meta.controller.kind, Key(meta.namespace, meta.controller.name)))
    return refs


def _is_orphan(obj: Any) -> bool:
    meta = _metadata(obj)
    return meta.controller is None and meta.deletion_timestamp is None


def _is_of_former_job(pod: Pod, job: Job) -> bool:
    """Whether the pod belongs to an earlier job of the same kind and name."""
    owner = pod.metadata.controller
    if owner is None or owner.uid == job.uid:
        return False
    return (owner.kind, owner.name) == (job.kind, job.name)
