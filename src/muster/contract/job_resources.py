"""The kinds of training jobs in the API. They are read raw: `muster.jobs` parses every version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.kinds import Kind

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

TFJOBS: Kind[Raw] = Kind.of("kubeflow.org/v1", "TFJob", dict)
MPIJOBS: Kind[Raw] = Kind.of("kubeflow.org/v1", "MPIJob", dict)
PYTORCHJOBS: Kind[Raw] = Kind.of("kubeflow.org/v1", "PyTorchJob", dict)
JAXJOBS: Kind[Raw] = Kind.of("kubeflow.org/v1", "JAXJob", dict)
JOB_KINDS: tuple[Kind[Raw], ...] = (TFJOBS, MPIJOBS, PYTORCHJOBS, JAXJOBS)
