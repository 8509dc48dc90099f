"""What must exist for a job that runs: its config objects, services, gang object and pods.

Pure. Called by `decide`. Answers only what is missing, differs or is too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.api.kinds import PODS, SERVICES
from muster.operator.actions import Action, Create, Delete, Patch, Requeue
from muster.operator.build import addresses, gang, gang_dialect, pods
from muster.operator.decide import backoff, conditions
from muster.operator.frameworks import registry

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.build.addresses import Addresses
    from muster.operator.build.gang import Gang
    from muster.operator.observed import Observed, Settings

QUOTA_RETRY = 15.0
SERVICE_SHOWN_AFTER = 1.0
"""Seconds in which a change to a service surely comes back; as a rule its watch is faster."""
BATCH = 250
"""Services or pods made in one look: others must have their turn between those of a large job."""
_OURS = ("minTaskMember", "minResources", "queue", "priorityClassName", "scheduleTimeoutSeconds")
"""Fields of a group's spec that are the job's to set, and go when it says them no more."""
_FILLED = {"queue": "default"}
"""What servers write into such a field by themselves."""


def without_pod(wanted: list[Replica], observed: Observed) -> list[Replica]:
    """Those without a pod; names that pods of a former job of this name hold are waited for."""
    present = {
        pod.metadata.name for pod in (*observed.pods, *observed.orphans, *observed.of_former_job)
    }
    return [replica for replica in wanted if replica.name not in present]


def create_missing(
    job: Job, lacking: list[Replica], observed: Observed, settings: Settings, now: datetime
) -> list[Action]:
    """Everything that is to be created or changed, in order; pods come last."""
    rules = registry.framework_of(job)
    group = gang.gang_of(job, observed, settings)
    where = addresses.addresses_of(job, observed, settings)
    anew = _services(job, observed)
    before = [
        *_objects(job, observed, where),
        *(Create(SERVICES, pods.service_manifest(job, replica, where)) for replica in anew[:BATCH]),
        *_reported(job, observed, where),
        *_group(job, observed, group),
    ]
    if observed.quota_refusal:
        return [*before, *_take_back(observed, group)]
    if len(anew) > BATCH or addresses.replicas_without_port(job, observed, settings):
        # Host ports are settled once their services show them: pods come next time.
        return [*before, Requeue(0.0 if anew else SERVICE_SHOWN_AFTER)]
    pauses = [(replica, backoff.seconds_left(job.status, replica, now)) for replica in lacking]
    free = [replica for replica, seconds in pauses if seconds <= 0]
    later = [Requeue(seconds) for _, seconds in pauses if seconds > 0]
    created: list[Action] = []
    for replica in free[:BATCH]:
        manifest = pods.pod_manifest(job, replica, where, group)
        rules.add_to_pod(manifest, replica, where)
        created.append(Create(PODS, manifest))
    return [*before, *created, *later, *([Requeue(0.0)] if len(free) > BATCH else ())]


def surplus_pods(job: Job, wanted: list[Replica], observed: Observed) -> list[Pod]:
    """Members beyond the number wanted; earlier launchers stay, for their logs."""
    names = {replica.name for replica in wanted}
    return [
        pod
        for pod in conditions.not_terminating(observed.pods)
        if pod.metadata.name not in names
        and not (pods.role_of(job, pod) == "Launcher" and pod.finished)
    ]


def pods_of_another_dialect(job: Job, observed: Observed, settings: Settings) -> list[Pod]:
    """Pods without a node that are not marked as the rest of their gang is: others replace them."""
    dialect = gang.gang_of(job, observed, settings).dialect
    return [
        pod
        for pod in unscheduled_pods(observed)
        if not gang_dialect.has_marks_of(job, pod, dialect)
    ]


def delete_unused_services(job: Job, observed: Observed) -> list[Action]:
    """The deletion of services whose members are not wanted any more."""
    keep = {replica.name for replica in job.replicas()}
    extra = service_names(observed) - keep if registry.framework_of(job).services else set()
    return [Delete(SERVICES, name) for name in sorted(extra)]


def unscheduled_pods(observed: Observed) -> list[Pod]:
    """Pods that wait for a node."""
    waiting = [
        pod
        for pod in conditions.not_terminating(observed.pods)
        if pod.status.phase in ("", "Pending")
    ]
    return [pod for pod in waiting if not pod.spec.node_name]


def delete_pods(gone: Iterable[Pod]) -> list[Action]:
    """The deletion of these very pods."""
    return [Delete(PODS, pod.metadata.name, pod.metadata.uid) for pod in gone]


def delete_group_objects(job: Job, observed: Observed, but: Gang | None = None) -> list[Action]:
    """The deletion of the job's group objects, except that of the dialect in use."""
    actions: list[Action] = []
    for kind, _ in gang.DIALECTS.values():
        if kind is None or (but is not None and kind == but.kind):
            continue
        existing = observed.objects.get((kind.resource, job.name))
        if existing is not None and not existing["metadata"].get("deletionTimestamp"):
            actions.append(Delete(kind, job.name, existing["metadata"].get("uid", "")))
    return actions


def service_names(observed: Observed) -> set[str]:
    """The names of the services that exist."""
    return {service.metadata.name for service in observed.services}


def _services(job: Job, observed: Observed) -> list[Replica]:
    """The members whose services are to be made."""
    if not registry.framework_of(job).services:
        return []
    existing = service_names(observed)
    return [replica for replica in job.replicas() if replica.name not in existing]


def _reported(job: Job, observed: Observed, where: Addresses) -> list[Action]:
    """The change to services that were made before their members had ports of their own."""
    known, existing = addresses.recorded_ports(job, observed), service_names(observed)
    late = [m for m in job.replicas() if m.name in where.own_ports and m.name in existing]
    actions: list[Action] = []
    for replica in late:
        if replica.name not in known:
            wanted = pods.service_manifest(job, replica, where)
            meta = {"annotations": wanted["metadata"]["annotations"]}
            change = {"metadata": meta, "spec": {"ports": wanted["spec"]["ports"]}}
            actions.append(Patch(SERVICES, replica.name, change))
    return actions


def _objects(job: Job, observed: Observed, where: Addresses) -> list[Action]:
    actions: list[Action] = []
    for kind, manifest in registry.framework_of(job).objects(job, observed, where):
        name = manifest["metadata"]["name"]
        if kind == SERVICES and name in service_names(observed):
            continue
        existing = observed.objects.get((kind.resource, name))
        if existing is None:
            actions.append(Create(kind, manifest))
        elif difference := _difference(existing, manifest):
            actions.append(Patch(kind, name, difference))
    return actions


def _group(job: Job, observed: Observed, group: Gang) -> list[Action]:
    actions = delete_group_objects(job, observed, but=group)
    if group.kind is None:
        return actions
    manifest = group.manifest()
    existing = observed.objects.get((group.kind.resource, job.name))
    if existing is None:
        return [*actions, Create(group.kind, manifest)]
    difference = _difference(existing, manifest) | _late(existing, manifest)
    if group.dialect != "native":  # There the server itself names a priority class.
        gone = _gone(existing.get("spec") or {}, manifest["spec"])
        difference |= {"spec": difference.get("spec", {}) | gone} if gone else {}
    if "spec" in difference and group.dialect == "native":
        # Its spec cannot be changed: a new one takes its place when the old one is gone.
        if existing["metadata"].get("deletionTimestamp"):
            return actions
        return [*actions, Delete(group.kind, job.name, existing["metadata"]["uid"])]
    return [*actions, Patch(group.kind, job.name, difference)] if difference else actions


def _late(existing: Raw, wanted: Raw) -> Raw:
    """The change to what is said of a launcher's room; other annotations are the users'."""
    said = (existing["metadata"].get("annotations") or {}).get(gang.LATE_MEMBERS)
    meant = (wanted["metadata"].get("annotations") or {}).get(gang.LATE_MEMBERS)
    return {} if said == meant else {"metadata": {"annotations": {gang.LATE_MEMBERS: meant}}}


def _gone(before: Raw, wanted: Raw) -> Raw:
    """The change by which fields of a group, and names within them, go that the job has not."""
    change: Raw = {}
    for field in _OURS:
        held, meant = before.get(field), wanted.get(field)
        if meant is None and held is not None and held != _FILLED.get(field):
            change[field] = None
        elif isinstance(held, dict) and isinstance(meant, dict) and set(held) - set(meant):
            change[field] = {name: meant.get(name) for name in (*held, *meant)}
    return change


def _take_back(observed: Observed, group: Gang) -> list[Action]:
    """A quota refused some of the gang: those that hold it without running give it back."""
    gone = unscheduled_pods(observed) if group.dialect != "none" else []
    return [*delete_pods(gone), Requeue(QUOTA_RETRY)]


def _difference(existing: Raw, wanted: Raw) -> Raw:
    """The merge patch that brings every field we set to what we want, leaving others alone."""
    result: Raw = {}
    for name, value in wanted.items():
        if name in ("apiVersion", "kind", "metadata"):
            continue
        before: Any = existing.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = {key: item for key, item in value.items() if not _same(before.get(key), item)}
            if inner:
                result[name] = inner
        elif before != value and (before is not None or value != []):
            result[name] = value
    return result


def _same(before: Any, wanted: Any) -> bool:
    """Whether it is what we want; the server may have added defaults inside."""
    if isinstance(before, dict) and isinstance(wanted, dict):
        return all(_same(before.get(key), item) for key, item in wanted.items())
    return bool(before == wanted)
