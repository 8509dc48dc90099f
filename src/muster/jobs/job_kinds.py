"""The table of job kinds: where a kind keeps its replicas and what it calls things.

Read by `forms` to understand a manifest, by `names` and `view`, and by the operator. What a kind
needs at run time (environment, config files) lives in `operator/kinds/`.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from muster.api.kinds import JAXJOBS, MPIJOBS, PYTORCHJOBS, TFJOBS, Kind
from muster.api.meta import Raw  # noqa: TC001


class JobKind(msgspec.Struct, frozen=True, dict=True):
    """How one kind of job is written."""

    resource: Kind[Raw]
    replicas: str
    """The field of spec that maps roles to replicas."""
    roles: tuple[str, ...]
    """Canonical spelling of every role, in the order in which conditions look at them."""
    chiefs: tuple[str, ...]
    """Roles whose success is the job's success; at most one of them may be present."""
    container: str
    port_name: str
    port: int
    restart: str = "Never"
    trainer: str = ""
    """The word in the TRAINER column."""
    single: tuple[str, ...] = ()
    """Roles that have exactly one replica."""
    required: tuple[str, ...] = ()
    scales: bool = False
    """Whether its CRD has a scale, for which its status says how its pods are found."""

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def operator(self) -> str:
        """The value of the operator-name label."""
        return f"{self.kind.lower()}-controller"

    def role(self, written: str) -> str | None:
        """The canonical spelling of a role written in any letter case."""
        return self._canonical.get(written.lower())

    @cached_property
    def _canonical(self) -> dict[str, str]:
        return {role.lower(): role for role in self.roles}


TENSORFLOW = JobKind(
    resource=TFJOBS,
    replicas="tfReplicaSpecs",
    roles=("Chief", "Evaluator", "Master", "PS", "Worker"),
    chiefs=("Chief", "Master"),
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    trainer="tfjob",
)
MPI = JobKind(
    resource=MPIJOBS,
    replicas="mpiReplicaSpecs",
    roles=("Launcher", "Worker"),
    chiefs=("Launcher",),
    container="mpi",
    port_name="mpijob-port",
    port=0,
    trainer="mpijob",
    single=("Launcher",),
    required=("Launcher",),
)
PYTORCH = JobKind(
    resource=PYTORCHJOBS,
    replicas="pytorchReplicaSpecs",
    roles=("Master", "Worker"),
    chiefs=("Master",),
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    restart="OnFailure",
    trainer="pytorchjob",
    single=("Master",),
    scales=True,
)
JAX = JobKind(
    resource=JAXJOBS,
    replicas="jaxReplicaSpecs",
    roles=("Worker",),
    chiefs=(),
    container="jax",
    port_name="jaxjob-port",
    port=6666,
    trainer="jaxjob",
    required=("Worker",),
    scales=True,
)

JOB_KIND_BY_NAME: dict[str, JobKind] = {
    shape.kind: shape for shape in (TENSORFLOW, MPI, PYTORCH, JAX)
}
