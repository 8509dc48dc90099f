"""The rules of each kind of job: a table with one row per kind.

Reading order: framework (the defaults), then any kind. Kept apart because each kind of job is a
plug-in: its environment and its config files are its module, and nothing else knows them.
"""

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
