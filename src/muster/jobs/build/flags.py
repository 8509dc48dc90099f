"""The flags of `arena submit`: a field per flag, named like the flag.

The command line and short-form files fill them. The defaults of the fields are the defaults of the
flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from muster.jobs.job_kinds import JAX, MPI, PYTORCH, TENSORFLOW, JobKind

CHIEF_PORT, WORKER_PORT, PS_PORT = 22221, 22222, 22223


@dataclass(frozen=True)
class Site:
    """What the flags do not say: facts about the cluster and the files named."""

    local: bool = False
    """Whether all nodes are this machine, so that its paths are theirs."""
    logs: str = "/arena_logs/training"
    """The host's directory for the logs that TensorBoard reads."""
    files: tuple[tuple[str, bytes], ...] = ()
    """The files of `--config-file`: path in the container, content."""


@dataclass(frozen=True)
class Submission:
    """The flags that all kinds of job have."""

    job_kind: ClassVar[JobKind]

    name: str
    command: tuple[str, ...]
    image: str = ""
    gpus: int = 0
    device: tuple[str, ...] = ()
    workers: int = 1
    retry: int = 0
    working_dir: str = "/root"
    env: tuple[str, ...] = ()
    env_from: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    data_dir: tuple[str, ...] = ()
    annotation: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    rdma: bool = False
    gang: bool = False
    priority: str = ""
    queue: bool = False
    toleration: tuple[str, ...] = ()
    selector: tuple[str, ...] = ()
    config_file: tuple[str, ...] = ()
    image_pull_secret: tuple[str, ...] = ()
    image_pull_policy: str = "Always"
    shell: str = "sh"
    scheduler: str = ""
    host_network: bool = False
    host_ipc: bool = False
    host_pid: bool = False
    model_name: str = ""
    model_source: str = ""
    sync_mode: str = ""
    sync_source: str = ""
    sync_image: str = ""
    sync_branch: str = ""
    sync_revision: str = ""
    sync_depth: int = 0
    sync_submodules: str = ""
    sync_secret: str = ""
    tensorboard: bool = False
    tensorboard_image: str = ""
    logdir: str = "/training_logs"
    share_memory: str = "2Gi"
    clean_task_policy: str = "Running"
    running_timeout: str = ""
    ttl_after_finished: str = ""

    @property
    def type(self) -> str:
        """tfjob, mpijob, …: arena's word for the kind."""
        return self.job_kind.trainer


@dataclass(frozen=True)
class TensorFlow(Submission):
    """The flags of `submit tf`."""

    job_kind: ClassVar[JobKind] = TENSORFLOW

    worker_image: str = ""
    ps_image: str = ""
    ps: int = 0
    ps_gpus: int = 0
    chief: bool = False
    evaluator: bool = False
    chief_port: int = CHIEF_PORT
    worker_port: int = WORKER_PORT
    ps_port: int = PS_PORT
    worker_cpu: str = ""
    worker_memory: str = ""
    worker_cpu_limit: str = ""
    worker_memory_limit: str = ""
    ps_cpu: str = ""
    ps_memory: str = ""
    ps_cpu_limit: str = ""
    ps_memory_limit: str = ""
    chief_cpu: str = ""
    chief_memory: str = ""
    chief_cpu_limit: str = ""
    chief_memory_limit: str = ""
    evaluator_cpu: str = ""
    evaluator_memory: str = ""
    evaluator_cpu_limit: str = ""
    evaluator_memory_limit: str = ""
    worker_selector: tuple[str, ...] = ()
    ps_selector: tuple[str, ...] = ()
    chief_selector: tuple[str, ...] = ()
    evaluator_selector: tuple[str, ...] = ()
    worker_affinity_policy: str = "none"
    worker_affinity_constraint: str = "preferred"
    ps_affinity_policy: str = "none"
    ps_affinity_constraint: str = "preferred"
    success_policy: str = "ChiefWorker"
    starting_timeout: str = ""
    role_sequence: str = ""


@dataclass(frozen=True)
class UniformSubmission(Submission):
    """The flags of kinds whose replicas all get the same resources."""

    cpu: str = ""
    memory: str = ""


@dataclass(frozen=True)
class Mpi(UniformSubmission):
    """The flags of `submit mpi`."""

    job_kind: ClassVar[JobKind] = MPI

    clean_task_policy: str = "All"
    gputopology: bool = False
    mounts_on_launcher: bool = False


@dataclass(frozen=True)
class PyTorch(UniformSubmission):
    """The flags of `submit pytorch`."""

    job_kind: ClassVar[JobKind] = PYTORCH

    nproc_per_node: str = ""


@dataclass(frozen=True)
class Jax(UniformSubmission):
    """The flags of `submit jax`."""

    job_kind: ClassVar[JobKind] = JAX


BY_TYPE: dict[str, type[Submission]] = {
    kind.job_kind.trainer: kind for kind in (TensorFlow, Mpi, PyTorch, Jax)
}
