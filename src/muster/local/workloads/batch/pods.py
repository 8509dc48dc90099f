"""The manifests of a job's pods: pure, but for the names that are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.workloads.batch.indexes import INDEX
from muster.local.workloads.batch.ledger import FINALIZER
from muster.local.workloads.hands import generated, pod_from
from muster.local.workloads.shapes import JOBS, reference

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.workloads.shapes import Job

_LONGEST = 63
_VARIABLE = "JOB_COMPLETION_INDEX"


def pod(job: Job, index: int | None) -> Raw:
    """One pod, of this index if the job counts by index."""
    meta = job.metadata
    base = f"{meta.name}-" if index is None else f"{meta.name}-{index}-"
    body = pod_from(job.spec.template, generated(base), meta.namespace, reference(JOBS, meta))
    body["metadata"]["finalizers"] = [FINALIZER]
    return body if index is None else _indexed(body, job, index)


def _indexed(body: Raw, job: Job, index: int) -> Raw:
    meta, spec = body["metadata"], dict(body["spec"])
    for field in ("annotations", "labels"):
        meta[field] = {**meta.get(field, {}), INDEX: str(index)}
    spec.setdefault("hostname", f"{job.metadata.name}-{index}"[:_LONGEST])
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_told(container) for container in spec[field]]
    return {**body, "spec": spec}


def _told(container: Raw) -> Raw:
    """The container, which finds its pod's index in its environment."""
    known = container.get("env") or []
    if any(row["name"] == _VARIABLE for row in known):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*known, {"name": _VARIABLE, "valueFrom": source}]}
