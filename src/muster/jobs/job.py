"""The internal form of a job, the same for every kind and version of manifest.

Frozen: a changed job is a new one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from muster.contract.job_kinds import JOB_KIND_BY_NAME, JobKind
from muster.jobs import names
from muster.jobs.job_status import JobStatus  # noqa: TC001

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Key, Raw

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""The manager of jobs that run in another cluster, where another operator works on them."""
_FEWEST_PEERS = 2
MANAGED_BY_MUSTER = ("", "kubeflow.org/training-operator", "kubeflow.org/mpi-operator")


class ReplicaSpec(msgspec.Struct, frozen=True):
    """All replicas of one role."""

    role: str
    count: int
    template: Raw
    restart: str
    """Always, OnFailure, Never or ExitCode."""
    port: int
    container: str
    """The name of the container that trains."""
    path: str = ""
    """The path of its field in the manifest, for messages."""

    @property
    def spec(self) -> Raw:
        spec: Raw = self.template.get("spec") or {}
        return spec

    @property
    def main(self) -> Raw:
        """The container that trains."""
        main: Raw = next(c for c in self.spec["containers"] if c.get("name") == self.container)
        return main

    @property
    def host_network(self) -> bool:
        return bool(self.spec.get("hostNetwork"))

    @property
    def scheduler(self) -> str:
        return str(self.spec.get("schedulerName") or "")


class SchedulingPolicy(msgspec.Struct, frozen=True):
    min_available: int | None = None
    queue: str = ""
    min_resources: Raw = {}
    priority_class: str = ""
    timeout: int | None = None

    @property
    def for_scheduler(self) -> Raw:
        """The fields that a scheduler may serve or not, by their names in a manifest."""
        return {
            "queue": self.queue,
            "minResources": self.min_resources,
            "scheduleTimeoutSeconds": self.timeout,
        }


class RunPolicy(msgspec.Struct, frozen=True):
    clean_pod_policy: str = "None"
    """All, Running or None: which pods are deleted when the job ends."""
    ttl_seconds: int | None = None
    active_deadline: int | None = None
    backoff_limit: int | None = None
    suspend: bool = False
    managed_by: str = ""
    scheduling: SchedulingPolicy = SchedulingPolicy()


class Mpi(msgspec.Struct, frozen=True):
    """The fields that only an MPIJob has."""

    slots: int = 1
    ssh: str = ""
    """The directory of the ssh keys; empty: ranks are started by exec."""
    implementation: str = "OpenMPI"
    wait_for_workers: bool = False
    launcher_works: bool = False
    """Whether ranks run in the launcher too, so that the hostfile lists it."""
    launcher_is_job: bool = False
    """Whether the rules of mpi-operator apply, whose launcher is a batch Job, and not those of
    training-operator, whose launcher is a pod like any other."""


class Replica(msgspec.Struct, frozen=True):
    """One numbered member of a role."""

    role: str
    index: int
    name: str


class Job(msgspec.Struct, frozen=True, dict=True):
    # `dict=True` gives cached properties a place.

    kind: str
    key: Key
    uid: str
    generation: int
    deleting: bool
    policy: RunPolicy
    status: JobStatus
    created: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    replica_specs: tuple[ReplicaSpec, ...] = ()
    spec: Raw = {}
    """As written, for fields that only one kind reads."""
    success_policy: str = ""
    dynamic_workers: bool = False
    chief: tuple[str, int] | None = None
    """The replica whose success is the job's, if the manifest names one."""
    has_phases: bool = False
    """Whether its clients read status.phase and status.state, as v1alpha1 has them."""
    mpi: Mpi | None = None
    invalid: str = ""
    """The error in its current manifest; everything else is from the last valid manifest."""
    rejected: str = ""
    """Why its manifest cannot be parsed; then only metadata, policy and status are known."""
    from_pods: bool = False
    """Whether everything else is deduced from its pods: no pod can be created from it."""
    warnings: tuple[tuple[str, str], ...] = ()
    """(reason, message) of events about a manifest that is accepted anyway."""

    @property
    def job_kind(self) -> JobKind:
        return JOB_KIND_BY_NAME[self.kind]

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def total(self) -> int:
        return sum(replica_spec.count for replica_spec in self.replica_specs)

    @cached_property
    def _by_role(self) -> dict[str, ReplicaSpec]:
        return {replica_spec.role: replica_spec for replica_spec in self.replica_specs}

    def replica_spec(self, role: str) -> ReplicaSpec | None:
        return self._by_role.get(role)

    def count(self, role: str) -> int:
        replica_spec = self.replica_spec(role)
        return replica_spec.count if replica_spec else 0

    @cached_property
    def chief_role(self) -> str | None:
        """The role whose success alone is the job's, if the job has one."""
        return next((role for role in self.job_kind.chief_roles if self.count(role)), None)

    def replicas(self) -> tuple[Replica, ...]:
        """Every replica that the spec names, in a fixed order, without an MPI launcher."""
        return self._replicas

    @cached_property
    def _replicas(self) -> tuple[Replica, ...]:
        return tuple(
            Replica(spec.role, index, names.replica(self.name, spec.role, index))
            for spec in self.replica_specs
            if spec.role != "Launcher"
            for index in range(spec.count)
        )

    def leads(self, role: str, index: int) -> bool:
        """Whether the log of this replica is the job's."""
        if self.chief_role is not None:
            return role == self.chief_role
        return role == "Worker" and index == 0

    def is_rank_0(self, role: str, index: int) -> bool:
        """Whether rank 0 of the training runs in this replica; an MPI launcher only starts it."""
        lead = self.chief_role if self.chief_role not in (None, "Launcher") else "Worker"
        return role == lead and index == 0

    @cached_property
    def restarts_together(self) -> frozenset[str]:
        """The roles whose replicas are all replaced when one fails or is lost; empty if none are.

        An evaluator takes no part in the training. A single replica has no peers, and pods that
        could not be created again are not deleted.
        """
        if self.annotation("restart") != "gang" or self.from_pods:
            return frozenset()
        together = [spec for spec in self.replica_specs if spec.role != "Evaluator"]
        if sum(spec.count for spec in together) < _FEWEST_PEERS:
            return frozenset()
        return frozenset(spec.role for spec in together)

    @property
    def dies_together(self) -> bool:
        """Whether the loss of one replica makes the others fail, as in a collective operation.

        Workers with parameter servers and those of an elastic job survive it.
        """
        survives = self.kind == "TFJob" and self.count("PS")
        return not (survives or self.dynamic_workers or self.spec.get("elasticPolicy"))

    def annotation(self, name: str, default: str = "") -> str:
        """The value of `muster.dev/NAME`."""
        return self.annotations.get(f"muster.dev/{name}", default)
