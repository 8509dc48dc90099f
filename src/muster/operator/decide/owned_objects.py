"""The objects of a running job: config objects, services, the gang's group and pods.

Every function returns only objects that are missing, differ, are surplus, are outdated, or have
lost their owner.

Pods are outdated if they wait to start while their configuration names replicas of a former size of
the job: TF_CONFIG, WORLD_SIZE and NUM_PROCESSES are part of a pod and cannot be changed. A job that
is scaled while its pods wait for room would start with the old numbers, and its training would wait
for replicas that do not exist. So these pods are recreated. Pods that have started keep their
numbers: the training runs with them.

A job adopts an object without a controller only if it has the name of an object that the job needs.
It reports other pods with its labels and leaves them alone, and it releases pods without its
labels. Of an object's owner references, only the reference to the job changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kubekit.objects.kinds import PODS, SERVICES
from muster.contract.gang import LATE_ANNOTATION
from muster.contract.gang_dialects import GROUP_KIND_BY_RESOURCE
from muster.jobs import names
from muster.operator.build import host_ports
from muster.operator.build.addresses import addresses_of, service_manifest
from muster.operator.build.dialect_choice import has_marks_of
from muster.operator.build.gang import gang_of
from muster.operator.build.labels import owner_reference, owner_rows, role_of
from muster.operator.build.pods import pod_manifest
from muster.operator.decide import job_conditions, quota_turn, restarts
from muster.operator.decide.pod_failure import ever_started
from muster.operator.decision_types import Action, Create, Delete, EmitEvent, Patch, Requeue
from muster.operator.frameworks import framework_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import ObjectMeta, Raw
    from muster.jobs.job import Job, Replica
    from muster.jobs.job_status import JobStatus
    from muster.operator.build.addresses import Addresses
    from muster.operator.build.gang import Gang
    from muster.operator.decision_types import Observed, Settings

SERVICE_SHOWN_AFTER = 1.0
"""Seconds after which a patched service is surely in the informer; usually it is there sooner."""
QUOTA_PAUSE = 15.0
"""Seconds without new pods of a job after a quota refused one, unless the quota has room sooner."""
BATCH = 250
"""Services or pods created per reconcile, so that other jobs get their turn beside a large one."""
_MAX_REPORTED = 8
_OPTIONAL_FIELDS = (
    "minTaskMember",
    "minResources",
    "queue",
    "priorityClassName",
    "scheduleTimeoutSeconds",
)
"""Fields of a group's spec that are removed when the job no longer sets them."""
_SERVER_DEFAULTS = {"queue": "default"}
"""Values that Volcano itself fills in: it would do so again whenever we removed them."""


def without_pod(wanted: list[Replica], observed: Observed) -> list[Replica]:
    """Replicas whose pod does not exist and whose name no pod of a former job holds."""
    pods = (*observed.pods, *observed.orphans, *observed.of_former_job)
    present = {pod.metadata.name for pod in pods}
    return [replica for replica in wanted if replica.name not in present]


def create_missing(
    job: Job, missing: list[Replica], observed: Observed, settings: Settings, now: datetime
) -> list[Action]:
    """The objects to create or change, in order; pods come last, unless a quota has no room."""
    framework = framework_of(job)
    gang = gang_of(job, observed, settings)
    hosts = addresses_of(job, observed, settings)
    new_services = _without_service(job, observed)
    before_pods = [
        *_config_objects(job, observed, hosts),
        *(Create(SERVICES, service_manifest(job, r, hosts)) for r in new_services[:BATCH]),
        *_record_ports(job, observed, hosts),
        *ensure_group_object(job, observed, gang),
    ]
    if quota_turn.wait_for_quota(job, missing, observed, settings, now):
        return [*before_pods, *_free_quota(observed, gang)]
    if len(new_services) > BATCH or host_ports.lacks_ports(job, observed, settings):
        # Every pod's configuration names the ports of all replicas. So pods are created at the next
        # reconcile, when services record all host ports.
        return [*before_pods, Requeue(0.0 if new_services else SERVICE_SHOWN_AFTER)]
    delays = [(replica, restarts.seconds_left(job.status, replica, now)) for replica in missing]
    due = [replica for replica, seconds in delays if seconds <= 0]
    later = [Requeue(seconds) for _, seconds in delays if seconds > 0]
    created: list[Action] = []
    for replica in due[:BATCH]:
        manifest = pod_manifest(job, replica, hosts, gang)
        framework.add_to_pod(manifest, replica, hosts)
        _record_size(job, manifest)
        created.append(Create(PODS, manifest))
    # A job in the line of a quota leaves it once its pods exist: the next one then has its turn.
    more = len(due) > BATCH or (created and quota_turn.is_asking(job, missing, observed))
    return [*before_pods, *created, *later, *([Requeue(0.0)] if more else ())]


def surplus_pods(job: Job, wanted: list[Replica], observed: Observed) -> list[Pod]:
    """Pods of replicas that are no longer wanted; finished launchers stay for their logs."""
    names = {replica.name for replica in wanted}
    return [
        pod
        for pod in job_conditions.not_terminating(observed.pods)
        if pod.metadata.name not in names and not (role_of(job, pod) == "Launcher" and pod.finished)
    ]


def pods_of_another_dialect(job: Job, observed: Observed, settings: Settings) -> list[Pod]:
    """Unscheduled pods that are not marked like the rest of their gang, to be recreated."""
    dialect = gang_of(job, observed, settings).dialect
    return [pod for pod in unscheduled_pods(observed) if not has_marks_of(job, pod, dialect)]


def delete_unused_services(job: Job, observed: Observed) -> list[Action]:
    """Delete services of replicas that are no longer wanted."""
    wanted = {replica.name for replica in job.replicas()}
    unused = service_names(observed) - wanted if framework_of(job).services else set()
    return delete_services(unused)


def delete_services(names: set[str]) -> list[Action]:
    return [Delete(SERVICES, name) for name in sorted(names)]


def unscheduled_pods(observed: Observed) -> list[Pod]:
    pods = job_conditions.not_terminating(observed.pods)
    return [pod for pod in pods if pod.status.phase in ("", "Pending") and not pod.spec.node_name]


def delete_pods(pods: Iterable[Pod]) -> list[Action]:
    return [Delete(PODS, pod.metadata.name, pod.metadata.uid) for pod in pods]


def service_names(observed: Observed) -> set[str]:
    return {service.metadata.name for service in observed.services}


def _without_service(job: Job, observed: Observed) -> list[Replica]:
    if not framework_of(job).services:
        return []
    existing = service_names(observed)
    return [replica for replica in job.replicas() if replica.name not in existing]


def _record_ports(job: Job, observed: Observed, hosts: Addresses) -> list[Action]:
    """Patch services that were created before their replicas had host ports."""
    recorded, existing = host_ports.recorded_ports(job, observed), service_names(observed)
    actions: list[Action] = []
    for replica in job.replicas():
        name = replica.name
        if name in hosts.host_ports and name in existing and name not in recorded:
            wanted = service_manifest(job, replica, hosts)
            meta = {"annotations": wanted["metadata"]["annotations"]}
            change = {"metadata": meta, "spec": {"ports": wanted["spec"]["ports"]}}
            actions.append(Patch(SERVICES, name, change))
    return actions


def _config_objects(job: Job, observed: Observed, hosts: Addresses) -> list[Action]:
    actions: list[Action] = []
    for create in framework_of(job).objects(job, observed, hosts):
        # Services are observed decoded, apart from `objects`.
        if create.kind == SERVICES and create.name in service_names(observed):
            continue
        existing = observed.objects.get((create.kind.resource, create.name))
        if existing is None:
            actions.append(create)
        elif change := field_changes(existing, create.manifest):
            actions.append(Patch(create.kind, create.name, change))
    return actions


def _free_quota(observed: Observed, gang: Gang) -> list[Action]:
    """Delete the unscheduled pods of a gang that a quota refused in part.

    Otherwise two jobs could each hold half of the quota and wait forever for the other half.
    """
    pods = unscheduled_pods(observed) if gang.dialect != "none" else []
    # A job behind others is woken when it is its turn.
    return [*delete_pods(pods), *([Requeue(QUOTA_PAUSE)] if observed.quota_refusal else ())]


def outdated_pods(job: Job, observed: Observed) -> list[Pod]:
    """The pods that have not started and were created for another size of the job."""
    size = "" if job.from_pods else _size(job)
    if not size:
        return []
    return [
        pod
        for pod in job_conditions.not_terminating(observed.pods)
        # Pods of operators that did not record the size are left alone.
        if pod.metadata.annotations.get(names.CLUSTER_SIZE, size) != size
        and pod.status.phase in ("", "Pending")
        and not ever_started(pod)
    ]


def delete_unstarted(pods: Iterable[Pod]) -> list[Action]:
    """Delete these pods, each only if it has not changed: it may start at this moment."""
    return [
        Delete(PODS, pod.metadata.name, pod.metadata.uid, pod.metadata.resource_version)
        for pod in pods
    ]


def _record_size(job: Job, manifest: Raw) -> None:
    """Record the size of the job in the manifest of a pod that contains it."""
    if size := _size(job):
        manifest["metadata"]["annotations"][names.CLUSTER_SIZE] = size


def _size(job: Job) -> str:
    if not framework_of(job).fixed_size(job):
        return ""
    return ",".join(f"{spec.role.lower()}={spec.count}" for spec in job.replica_specs)


def adopt_and_release(
    job: Job, wanted: Sequence[Replica], observed: Observed, settings: Settings
) -> list[Action]:
    """Adopt orphans with the name of a wanted replica, and release pods without the labels.

    An adopted pod also gets the marks of the gang, so that the scheduler counts it as a member.
    """
    replicas = {replica.name: replica for replica in wanted}
    orphans = [pod for pod in observed.orphans if pod.metadata.name in replicas]
    actions: list[Action] = [_with_owners(pod, _others(job, pod)) for pod in observed.released]
    if not orphans:
        return actions
    gang = gang_of(job, observed, settings)
    for pod in orphans:
        own = gang.marks(replicas[pod.metadata.name])
        marks = {"labels": {**own.labels}, "annotations": {**own.annotations}}
        owners = [*_others(job, pod), owner_reference(job)]
        actions.append(_with_owners(pod, owners, {name: row for name, row in marks.items() if row}))
    return actions


def adopt_leftovers(job: Job, actions: list[Action], observed: Observed) -> list[Action]:
    """Adopt objects that a former job of this name left behind, instead of creating them."""
    if not observed.leftovers:
        return actions
    return [
        _adopt(job, action, observed.leftovers[action.kind.resource, action.name])
        if isinstance(action, Create) and (action.kind.resource, action.name) in observed.leftovers
        else action
        for action in actions
    ]


def report_unclaimed(
    status: JobStatus, wanted: Sequence[Replica], observed: Observed
) -> tuple[JobStatus, list[EmitEvent]]:
    """The status with pods that carry the job's labels but are not its replicas.

    Returns an event as well if these pods have changed.
    """
    names = {replica.name for replica in wanted}
    orphans = (pod.metadata.name for pod in observed.orphans)
    others = tuple(sorted(name for name in orphans if name not in names)[:_MAX_REPORTED])
    if others == status.unclaimed_pods:
        return status, []
    status = replace(status, unclaimed_pods=others)
    if not others:
        return status, []
    pods, carry = ("pod", "carries") if len(others) == 1 else ("pods", "carry")
    predicate = "is not one of its replicas" if len(others) == 1 else "are not its replicas"
    message = f"{pods} {', '.join(others)} {carry} this job's labels but {predicate}; ignored"
    return status, [EmitEvent("UnclaimedPods", message, "Warning")]


def _adopt(job: Job, action: Create, metadata: ObjectMeta) -> Patch:
    owners = [*owner_rows(metadata), owner_reference(job)]
    # A UID in a patch is a precondition: the server refuses it for a successor of the same name.
    change = {"metadata": {"uid": metadata.uid, "ownerReferences": owners}}
    return Patch(action.kind, action.name, change)


def _others(job: Job, pod: Pod) -> list[Raw]:
    return [row for row in owner_rows(pod.metadata) if row["uid"] != job.uid]


def _with_owners(pod: Pod, owners: list[Raw], marks: Raw | None = None) -> Action:
    meta = {"uid": pod.metadata.uid, "ownerReferences": owners, **(marks or {})}
    if pod.metadata.resource_version:
        # A merge patch replaces the whole list: it must fail if another client changed it.
        meta["resourceVersion"] = pod.metadata.resource_version
    return Patch(PODS, pod.metadata.name, {"metadata": meta})


def ensure_group_object(job: Job, observed: Observed, gang: Gang) -> list[Action]:
    actions = delete_group_objects(job, observed, keep=gang)
    if gang.kind is None:
        return actions
    manifest = gang.manifest()
    existing = observed.objects.get((gang.kind.resource, job.name))
    if existing is None:
        return [*actions, Create(gang.kind, manifest)]
    change = field_changes(existing, manifest) | _late_members(existing, manifest)
    if gang.dialect != "native":  # In the native group the server fills in a priority class.
        removed = _removed_fields(existing.get("spec") or {}, manifest["spec"])
        change |= {"spec": change.get("spec", {}) | removed} if removed else {}
    if "spec" in change and gang.dialect == "native":
        # The native group's spec is immutable: delete it; its deletion wakes the job again.
        if existing["metadata"].get("deletionTimestamp"):
            return actions
        return [*actions, Delete(gang.kind, job.name, existing["metadata"]["uid"])]
    return [*actions, Patch(gang.kind, job.name, change)] if change else actions


def delete_group_objects(job: Job, observed: Observed, keep: Gang | None = None) -> list[Action]:
    """Delete the job's group objects, except the object of the dialect in use."""
    actions: list[Action] = []
    for resource, kind in GROUP_KIND_BY_RESOURCE.items():
        if keep is not None and kind == keep.kind:
            continue
        existing = observed.objects.get((resource, job.name))
        if existing is not None and not existing["metadata"].get("deletionTimestamp"):
            actions.append(Delete(kind, job.name, existing["metadata"].get("uid", "")))
    return actions


def event_of_deletion(actions: Iterable[Action]) -> list[EmitEvent]:
    """The event before these deletions of group objects of a job that ends or is suspended."""
    kinds = [action.kind.kind for action in actions if isinstance(action, Delete)]
    message = "Job has been terminated. Deleting"
    return [EmitEvent("JobTerminated", f"{message} {kinds[0]}")] if kinds else []


def field_changes(existing: Raw, wanted: Raw) -> Raw:
    """The merge patch that gives every field we set its value and leaves other fields alone."""
    result: Raw = {}
    for name, value in wanted.items():
        if name in ("apiVersion", "kind", "metadata"):
            continue
        before: Any = existing.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = {key: item for key, item in value.items() if not _equal(before.get(key), item)}
            if inner:
                result[name] = inner
        elif before != value and (before is not None or value != []):
            result[name] = value
    return result


def _equal(before: Any, wanted: Any) -> bool:
    """Whether a field has the wanted value; the server may have added defaults inside."""
    if isinstance(before, dict) and isinstance(wanted, dict):
        return all(_equal(before.get(key), item) for key, item in wanted.items())
    return bool(before == wanted)


def _late_members(existing: Raw, wanted: Raw) -> Raw:
    """The change to the launcher's annotation; all other annotations belong to the user."""
    before = (existing["metadata"].get("annotations") or {}).get(LATE_ANNOTATION)
    after = (wanted["metadata"].get("annotations") or {}).get(LATE_ANNOTATION)
    return {} if before == after else {"metadata": {"annotations": {LATE_ANNOTATION: after}}}


def _removed_fields(before: Raw, wanted: Raw) -> Raw:
    """The merge patch that removes optional fields, and their keys, that the job no longer sets."""
    change: Raw = {}
    for field in _OPTIONAL_FIELDS:
        old, new = before.get(field), wanted.get(field)
        if new is None and old is not None and old != _SERVER_DEFAULTS.get(field):
            change[field] = None
        elif isinstance(old, dict) and isinstance(new, dict) and set(old) - set(new):
            # In a merge patch null removes a key: name the removed keys beside the current ones.
            change[field] = {name: new.get(name) for name in (*old, *new)}
    return change
