"""The table of frameworks: one row per kind of job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.operator.frameworks import mpi
from muster.operator.frameworks.jax import Jax
from muster.operator.frameworks.pytorch import PyTorch
from muster.operator.frameworks.tensorflow import TensorFlow

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.jobs.job import Job
    from muster.operator.frameworks.framework import Framework

FRAMEWORKS: dict[str, Framework] = {
    "TFJob": TensorFlow(),
    "MPIJob": mpi.MPI(),
    "PyTorchJob": PyTorch(),
    "JAXJob": Jax(),
}

OWNED: tuple[Kind[Any], ...] = mpi.OWNED
"""Further kinds of object that some frameworks create."""


def framework_of(job: Job) -> Framework:
    return FRAMEWORKS[job.kind]
