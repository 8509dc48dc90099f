"""The objects that a running job needs: config objects, services, gang object and pods.

Every function returns only objects that are missing, differ, are surplus or are outdated.

Pods are outdated if they wait to start while their configuration names replicas of a former size of
the job: TF_CONFIG, WORLD_SIZE and NUM_PROCESSES are part of a pod and cannot be changed. A job that
is scaled while its pods wait for room would start with the old numbers, and its training would wait
for replicas that do not exist. So these pods are recreated. Pods that have started keep their
numbers: the training runs with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.kinds import PODS, SERVICES
from muster.jobs import names
from muster.operator.action_types import Action, Create, Delete, Patch, Requeue
from muster.operator.build import host_ports
from muster.operator.build.addresses import addresses_of
from muster.operator.build.dialect_choice import has_marks_of
from muster.operator.build.gang import gang_of
from muster.operator.build.labels import role_of
from muster.operator.build.pods import pod_manifest
from muster.operator.build.services import service_manifest
from muster.operator.decide import backoff, job_conditions
from muster.operator.decide.gang_object import ensure_group_object, field_changes
from muster.operator.decide.pod_failure import ever_started
from muster.operator.frameworks import registry
from muster.operator.settings import QUOTA_PAUSE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Raw
    from muster.jobs.job import Job, Replica
    from muster.operator.build.addresses import Addresses
    from muster.operator.build.gang import Gang
    from muster.operator.observed_job import Observed
    from muster.operator.settings import Settings

SERVICE_SHOWN_AFTER = 1.0
"""Seconds after which a patched service is surely in the informer; usually it is there sooner."""
BATCH = 250
"""Services or pods created per reconcile, so that other jobs get their turn beside a large one."""


def without_pod(wanted: list[Replica], observed: Observed) -> list[Replica]:
    """Replicas whose pod does not exist and whose name no pod of a former job holds."""
    pods = (*observed.pods, *observed.orphans, *observed.of_former_job)
    present = {pod.metadata.name for pod in pods}
    return [replica for replica in wanted if replica.name not in present]


def create_missing(
    job: Job, missing: list[Replica], observed: Observed, settings: Settings, now: datetime
) -> list[Action]:
    """The objects to create or change, in order; pods come last."""
    framework = registry.framework_of(job)
    gang = gang_of(job, observed, settings)
    hosts = addresses_of(job, observed, settings)
    new_services = _without_service(job, observed)
    before_pods = [
        *_config_objects(job, observed, hosts),
        *(Create(SERVICES, service_manifest(job, r, hosts)) for r in new_services[:BATCH]),
        *_record_ports(job, observed, hosts),
        *ensure_group_object(job, observed, gang),
    ]
    if observed.quota_refusal:
        return [*before_pods, *_free_quota(observed, gang)]
    if len(new_services) > BATCH or host_ports.lacks_ports(job, observed, settings):
        # Every pod's configuration names the ports of all replicas. So pods are created at the next
        # reconcile, when services record all host ports.
        return [*before_pods, Requeue(0.0 if new_services else SERVICE_SHOWN_AFTER)]
    delays = [(replica, backoff.seconds_left(job.status, replica, now)) for replica in missing]
    due = [replica for replica, seconds in delays if seconds <= 0]
    later = [Requeue(seconds) for _, seconds in delays if seconds > 0]
    created: list[Action] = []
    for replica in due[:BATCH]:
        manifest = pod_manifest(job, replica, hosts, gang)
        framework.add_to_pod(manifest, replica, hosts)
        _record_size(job, manifest)
        created.append(Create(PODS, manifest))
    return [*before_pods, *created, *later, *([Requeue(0.0)] if len(due) > BATCH else ())]


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
    unused = service_names(observed) - wanted if registry.framework_of(job).services else set()
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
    if not registry.framework_of(job).services:
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
    for create in registry.framework_of(job).objects(job, observed, hosts):
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

    Otherwise two jobs could each hold half of the quota and wait for ever for the other half.
    """
    pods = unscheduled_pods(observed) if gang.dialect != "none" else []
    return [*delete_pods(pods), Requeue(QUOTA_PAUSE)]


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
    if not registry.framework_of(job).fixed_size(job):
        return ""
    return ",".join(f"{spec.role.lower()}={spec.count}" for spec in job.replica_specs)
