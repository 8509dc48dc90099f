"""Manifests of jobs, for the tests of this folder."""

from __future__ import annotations

from typing import Any

from kubekit.objects.meta import Raw

CONTAINERS = {"TFJob": "tensorflow", "MPIJob": "mpi", "PyTorchJob": "pytorch", "JAXJob": "jax"}


def template(container: str = "tensorflow", **spec: Any) -> Raw:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": container, "image": "i"}], **spec}}


def manifest(spec: Raw, kind: str = "TFJob", *, name: str = "j") -> Raw:
    return {"kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}
