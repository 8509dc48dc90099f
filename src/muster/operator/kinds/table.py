"""The table of rules: one row per kind of job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.operator.kinds import mpi
from muster.operator.kinds.jax import Jax
from muster.operator.kinds.pytorch import PyTorch
from muster.operator.kinds.tensorflow import TensorFlow

if TYPE_CHECKING:
    from muster.api.kinds import Kind
    from muster.jobs.job import Job
    from muster.operator.kinds.rules import Rules

RULES: dict[str, Rules] = {
    "TFJob": TensorFlow(),
    "MPIJob": mpi.MpiRules(),
    "PyTorchJob": PyTorch(),
    "JAXJob": Jax(),
}

OWNED: tuple[Kind[Any], ...] = mpi.OWNED
"""Further kinds of object that some rules create."""


def of(job: Job) -> Rules:
    """The rules of this job's kind."""
    return RULES[job.kind]
