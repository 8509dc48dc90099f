"""Manifests and summaries of jobs."""

from __future__ import annotations

from typing import Any

import msgspec

from kubekit.objects.meta import Raw
from muster.jobs.view.summary import JobSummary, summarize

CONTAINERS = {"TFJob": "tensorflow", "MPIJob": "mpi", "PyTorchJob": "pytorch", "JAXJob": "jax"}


def template(container: str = "tensorflow", **spec: Any) -> Raw:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": container, "image": "i"}], **spec}}


def manifest(spec: Raw, kind: str = "TFJob", *, name: str = "j") -> Raw:
    return {"kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def summary(status: str, reason: str = "") -> JobSummary:
    """What commands show of a job in this state."""
    raw: Raw = {"kind": "TFJob", "metadata": {"name": "j", "namespace": "n"}}
    return msgspec.structs.replace(summarize(raw, []), status=status, reason=reason)
