"""The table of job kinds: their resources in the API, and roles, ports and field names of each.

Jobs are read raw: `muster.jobs` parses every version. The environment and the config files of a
kind's pods are in `operator/frameworks/`.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Raw  # noqa: TC001

TYPE_ALIASES = {
    "tf": "tfjob",
    "tensorflow": "tfjob",
    "mpi": "mpijob",
    "mj": "mpijob",
    "pytorch": "pytorchjob",
    "py": "pytorchjob",
    "jax": "jaxjob",
}
"""Other words for the types of jobs, as users write them."""
TFJOBS: Kind[Raw] = Kind.of("kubeflow.org/v1", "TFJob", dict)
MPIJOBS: Kind[Raw] = Kind.of("kubeflow.org/v1", "MPIJob", dict)
PYTORCHJOBS: Kind[Raw] = Kind.of("kubeflow.org/v1", "PyTorchJob", dict)
JAXJOBS: Kind[Raw] = Kind.of("kubeflow.org/v1", "JAXJob", dict)
JOB_KINDS: tuple[Kind[Raw], ...] = (TFJOBS, MPIJOBS, PYTORCHJOBS, JAXJOBS)


class JobKind(msgspec.Struct, frozen=True, dict=True):
    """How manifests of one kind of job are written."""

    resource: Kind[Raw]
    replicas_field: str
    """The field of spec that maps roles to replicas."""
    roles: tuple[str, ...]
    """Canonical spelling of every role, in a fixed order."""
    chief_roles: tuple[str, ...]
    """Roles whose success is the job's; a job has at most one of them."""
    container: str
    port: int
    restart: str = "Never"
    single_roles: tuple[str, ...] = ()
    """Roles that have exactly one replica."""
    required: tuple[str, ...] = ()
    has_scale: bool = False
    """Whether its CRD has a scale subresource, which needs a selector in the status."""

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def trainer(self) -> str:
        """The word in the TRAINER column: tfjob, mpijob, …"""
        return self.kind.lower()

    @property
    def port_name(self) -> str:
        return f"{self.trainer}-port"

    @property
    def operator(self) -> str:
        """The value of the operator-name label."""
        return f"{self.trainer}-controller"

    def role(self, written: str) -> str | None:
        """The canonical spelling of a role written in any letter case."""
        return self._canonical.get(written.lower())

    @cached_property
    def _canonical(self) -> dict[str, str]:
        return {role.lower(): role for role in self.roles}


TENSORFLOW = JobKind(
    resource=TFJOBS,
    replicas_field="tfReplicaSpecs",
    roles=("Chief", "Evaluator", "Master", "PS", "Worker"),
    chief_roles=("Chief", "Master"),
    container="tensorflow",
    port=2222,
)


MPI = JobKind(
    resource=MPIJOBS,
    replicas_field="mpiReplicaSpecs",
    roles=("Launcher", "Worker"),
    chief_roles=("Launcher",),
    container="mpi",
    port=0,  # mpirun chooses the ports of its ranks
    single_roles=("Launcher",),
    required=("Launcher",),
)


PYTORCH = JobKind(
    resource=PYTORCHJOBS,
    replicas_field="pytorchReplicaSpecs",
    roles=("Master", "Worker"),
    chief_roles=("Master",),
    container="pytorch",
    port=23456,
    restart="OnFailure",
    single_roles=("Master",),
    has_scale=True,
)


JAX = JobKind(
    resource=JAXJOBS,
    replicas_field="jaxReplicaSpecs",
    roles=("Worker",),
    chief_roles=(),
    container="jax",
    port=6666,
    required=("Worker",),
    has_scale=True,
)


JOB_KIND_BY_NAME: dict[str, JobKind] = {
    job_kind.kind: job_kind for job_kind in (TENSORFLOW, MPI, PYTORCH, JAX)
}
