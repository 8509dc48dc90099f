"""The link between a job and its objects: owner reference and labels, written and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.objects.kinds import PODS
from muster.jobs import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.objects.core import Pod
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import ObjectMeta, Raw
    from muster.jobs.job import Job, Replica, ReplicaSpec


_JOB_LABELS_OF_OTHERS = tuple(
    f"{kind}{word}"
    for word in ("job-name", "job_name")
    for kind in ("", "tf-", "tf_", "pytorch-", "pytorch_", "mpi-", "mpi_")
)
"""The labels in which tf-operator, pytorch-operator and mpi-operator name the job of a pod."""


def was_made_by_another_operator(job: str, kind: Kind[Any], labels: Mapping[str, str]) -> bool:
    """Whether an object that the job controls was made by an operator that sets other labels.

    A pod that names no job in any label lost its labels on purpose: it is released.
    """
    if any(name.startswith(f"{names.PREFIX}/") for name in labels):
        return False
    return kind != PODS or any(labels.get(name) == job for name in _JOB_LABELS_OF_OTHERS)


def owner_reference(job: Job) -> Raw:
    """The controller reference of a job's objects, always in the storage version of the CRD.

    A reference names a version, and must stay valid when older versions are no longer served.
    """
    return {
        "apiVersion": job.job_kind.resource.api_version,
        "kind": job.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_rows(meta: ObjectMeta) -> list[Raw]:
    """All owner references of an object, in the form of the API."""
    rows: list[Raw] = [msgspec.to_builtins(row) for row in meta.owner_references]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def owned_manifest(job: Job, kind: Kind[Any], name: str, labels: dict[str, str]) -> Raw:
    """The manifest of an object that a job owns, without its content."""
    metadata = {
        "name": name,
        "namespace": job.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(job)],
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def job_selector(job: Job) -> dict[str, str]:
    """The labels that all objects of a job carry."""
    return names.selector(job.job_kind.operator, job.name)


def replica_labels(job: Job, replica: Replica) -> dict[str, str]:
    """The labels that select one replica."""
    return names.labels(job.job_kind.operator, job.name, replica.role, replica.index)


def role_of(job: Job, pod: Pod) -> str:
    """The role of a pod of this job, in canonical spelling; empty if it has none."""
    return job.job_kind.role(pod.metadata.labels.get(names.ROLE, "")) or ""


def replica_spec_of(job: Job, pod: Pod) -> ReplicaSpec | None:
    """The spec of a pod's role; None if the pod has no role of this job."""
    return job.replica_spec(role_of(job, pod))


def index_of(pod: Pod) -> int:
    """The index of a pod within its role; -1 if it has none."""
    return names.replica_index(pod.metadata.labels)
