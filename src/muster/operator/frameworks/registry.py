"""The table of frameworks: one row per kind of job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.operator.frameworks import mpi
from muster.operator.frameworks.jax import Jax
from muster.operator.frameworks.pytorch import PyTorch
from muster.operator.frameworks.tensorflow import TensorFlow

if TYPE_CHECKING:
    from muster.jobs.job import Job
    from muster.operator.frameworks.framework import Framework

FRAMEWORKS: dict[str, Framework] = {
    "TFJob": TensorFlow(),
    "MPIJob": mpi.MPI(),
    "PyTorchJob": PyTorch(),
    "JAXJob": Jax(),
}


def framework_of(job: Job) -> Framework:
    return FRAMEWORKS[job.kind]
