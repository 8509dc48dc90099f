"""Pods that wait to start while their configuration names replicas of a former size of the job.

TF_CONFIG, WORLD_SIZE and NUM_PROCESSES are part of a pod and cannot be changed. A job that is
scaled while its pods wait for room would start with the old numbers, and its training would wait
for replicas that do not exist. So these pods are recreated. Pods that have started keep their
numbers: the training runs with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.kinds import PODS
from muster.jobs import names
from muster.operator.action_types import Action, Delete
from muster.operator.decide import job_conditions
from muster.operator.decide.pod_failure import ever_started
from muster.operator.frameworks import registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Pod
    from muster.api.meta import Raw
    from muster.jobs.job import Job
    from muster.operator.observed_job import Observed


def record_size(job: Job, manifest: Raw) -> None:
    """Record the size of the job in the manifest of a pod that contains it."""
    if size := _size(job):
        manifest["metadata"]["annotations"][names.CLUSTER_SIZE] = size


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


def _size(job: Job) -> str:
    if not registry.framework_of(job).fixed_size(job):
        return ""
    return ",".join(f"{spec.role.lower()}={spec.count}" for spec in job.replica_specs)
