"""The flags of `arena submit`: one field per flag, with its default, help and other spellings.

This is the only table of flags: the command line, short-form files and the CLI reference are made
from it. `GROUPS` orders the help page: the flags that most jobs need first.
"""
# ruff: noqa: RUF009 - `_flag` returns a `dataclasses.field`, which belongs in these places

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

from muster.contract.gang import PREFERRED_TOPOLOGY_ANNOTATION, TOPOLOGY_ANNOTATION
from muster.contract.job_kinds import JAX, MPI, PYTORCH, TENSORFLOW, JobKind

CHIEF_PORT, WORKER_PORT, PS_PORT = 22221, 22222, 22223
_CLEAN_TASK_POLICY = "Pods deleted at the end: Running, All or None."
_RESTART = "What restarts when one fails or is lost: gang (all that train together) or replica."

Texts = tuple[str, ...]
"""The values of a flag that can be repeated."""

GROUPS: dict[str, Texts] = {
    heading: tuple(names.split())
    for heading, names in {
        "Main flags": "name workers ps chief gpus cpu memory gang image env",
        "Roles and resources": "evaluator worker_cpu worker_memory worker_cpu_limit "
        "worker_memory_limit ps_gpus ps_cpu ps_memory ps_cpu_limit ps_memory_limit chief_cpu "
        "chief_memory chief_cpu_limit chief_memory_limit evaluator_cpu evaluator_memory "
        "evaluator_cpu_limit evaluator_memory_limit device share_memory rdma gputopology "
        "nproc_per_node",
        "Files and data": "working_dir python isolated data data_dir config_file "
        "mounts_on_launcher model_dir model_source",
        "Code sync": "sync_mode sync_source sync_branch sync_revision sync_depth sync_submodules "
        "sync_secret sync_image",
        "TensorBoard": "tensorboard logdir tensorboard_image",
        "Retries, timeouts and cleanup": "retry restart success_policy clean_task_policy "
        "running_timeout starting_timeout ttl_after_finished",
        "Queue and placement": "priority queue scheduler topology selector worker_selector "
        "ps_selector chief_selector evaluator_selector toleration worker_affinity_policy "
        "worker_affinity_constraint ps_affinity_policy ps_affinity_constraint role_sequence",
        "Pods": "shell env_from label annotation worker_image ps_image image_pull_policy "
        "image_pull_secret run_as_user worker_port ps_port chief_port host_network host_ipc "
        "host_pid",
        "MLflow": "model_name",
    }.items()
}
"""The groups of the help page, in its order: heading, fields of the kinds that have them."""
_POSITIONS = {
    name: (number, heading)
    for number, (heading, name) in enumerate(
        (heading, name) for heading, names in GROUPS.items() for name in names
    )
}


class Flag(NamedTuple):
    """A flag and the field of the submission that it fills."""

    field: str
    default: Any
    """The flag is required if this is `dataclasses.MISSING`."""
    help: str
    spelling: str
    old: str = ""
    """A former camelCase spelling, which is accepted but not shown in the help."""
    short: str = ""
    group: str = ""
    """The heading below which the help shows it."""

    @property
    def is_switch(self) -> bool:
        """Whether its value is true or false; the default None leaves the choice to the cluster."""
        return self.default is None or isinstance(self.default, bool)


def _flag(default: Any, help: str, **spellings: str) -> Any:
    """A field that a flag fills: `--` and the name of the field, unless `spelling` is given."""
    return field(default=default, metadata={"help": help, **spellings})


@dataclass(frozen=True)
class Workspace:
    """The user's directories and programs, which a job on the same machine uses.

    All paths are absolute and are mounted at the same path. An empty workspace adds nothing.
    """

    directories: Texts = ()
    """Mounted writable: the home directory and the working directory."""
    programs: Texts = ()
    """Mounted read-only: environments in directories of which pods have their own, like /tmp."""
    variables: tuple[tuple[str, str], ...] = ()
    """HOME, PATH and others, literally."""


@dataclass(frozen=True)
class Site:
    """What the flags do not say: facts about the cluster and the files named."""

    local: bool = False
    """Whether all nodes are this machine, so that its paths are theirs."""
    logs: str = "/arena_logs/training"
    """The host's directory for the logs that TensorBoard reads."""
    files: tuple[tuple[str, bytes], ...] = ()
    """The files of `--config-file`: path in the container, content."""
    workspace: Workspace = Workspace()
    restricted: bool = False
    """Whether the namespace admits only pods of the pod security standard `restricted`."""


@dataclass(frozen=True)
class Submission:
    """The flags that all kinds of job have."""

    job_kind: ClassVar[JobKind]

    command: Texts
    name: str = _flag(MISSING, "Name of the job.")
    image: str = _flag("", "Image of all replicas; optional on the local cluster.")
    gpus: int = _flag(0, "GPUs of each worker.")
    cpu: str = _flag("", "CPUs of each worker.")
    memory: str = _flag("", "Memory of each worker.")
    device: Texts = _flag((), "Other device of each replica, NAME=AMOUNT.")
    workers: int = _flag(1, "Number of workers.")
    retry: int = _flag(0, "Restart replicas that fail; the job fails at its N-th restart.")
    restart: str = _flag("", f"{_RESTART}  [default: gang]")
    working_dir: str = _flag(
        "",
        "Working directory of the command  [default: the current directory on the local cluster, "
        "else /root]",
        old="--workingDir",
    )
    python: str = _flag(
        "", "Python or environment of the job, on the local cluster  [default: the active one]"
    )
    isolated: bool = _flag(
        False, "Private home and working directory, deleted with the pod (local cluster)."
    )
    env: Texts = _flag((), "Environment variable, KEY=VALUE.", short="-e")
    env_from: Texts = _flag((), "All keys of secret/NAME or configmap/NAME.")
    shell: str = _flag("sh", "Shell that runs the command.")
    annotation: Texts = _flag((), "Annotation, KEY=VALUE.", short="-a")
    label: Texts = _flag((), "Label, KEY=VALUE.", short="-l")
    run_as_user: str = _flag(
        "",
        "User id of the containers  [default: the image's; 1000 in namespaces that enforce the pod "
        "security standard restricted]",
    )
    image_pull_secret: Texts = _flag((), "Secret to pull the image with.")
    image_pull_policy: str = _flag("Always", "Always, IfNotPresent or Never.")
    model_name: str = _flag("", "Register the trained model under this name in MLflow.")
    model_source: str = _flag(
        "", "Where the trained model will be, e.g. pvc://models/mnist: as --model-dir in a claim."
    )

    gang: bool | None = _flag(None, "Start all replicas or none.  [default: the cluster's]")
    priority: str = _flag("", "Priority class of the pods.", short="-p")
    queue: bool = _flag(False, "Let kube-queue start the job.")
    toleration: Texts = _flag((), "KEY=VALUE:EFFECT,Equal|Exists, or all.")
    topology: str = _flag(
        "", "Node label (example.com/rack): all replicas run within one value. Implies --gang."
    )
    selector: Texts = _flag((), "Node label to run on, KEY=VALUE.")
    scheduler: str = _flag("", "Scheduler of the pods.")
    rdma: bool = _flag(False, "Request RDMA devices.")
    host_network: bool = _flag(False, "Use the host's network.", spelling="--hostNetwork")
    host_ipc: bool = _flag(False, "Use the host's IPC namespace.", spelling="--hostIPC")
    host_pid: bool = _flag(False, "Use the host's PID namespace.", spelling="--hostPID")

    data: Texts = _flag((), "Volume claim to mount, CLAIM:/path.", short="-d")
    data_dir: Texts = _flag((), "Host directory to mount, /host[:/path].", old="--dataDir")
    model_dir: str = _flag(
        "", "Directory in a volume where the job exports models; `arena models` lists them."
    )
    config_file: Texts = _flag((), "File of this machine to mount, FILE[:/path].")
    share_memory: str = _flag("2Gi", "Size of /dev/shm.")
    sync_mode: str = _flag("", "Fetch code first: git or rsync.", old="--syncMode")
    sync_source: str = _flag("", "URL of the code, or a path on this machine.", old="--syncSource")
    sync_image: str = _flag("", "Image that fetches the code.", old="--syncImage")
    sync_branch: str = _flag("", "Branch or tag to fetch.")
    sync_revision: str = _flag("", "Commit to fetch.")
    sync_depth: int = _flag(0, "Fetch only the last N commits.")
    sync_submodules: str = _flag("", "recursive, shallow or off  [default: recursive]")
    sync_secret: str = _flag("", "Secret with username and password, or an SSH key.")
    tensorboard: bool = _flag(False, "Also run TensorBoard.")
    tensorboard_image: str = _flag("", "Image of TensorBoard.", old="--tensorboardImage")
    logdir: str = _flag("/training_logs", "Directory of the logs that TensorBoard shows.")

    clean_task_policy: str = _flag("Running", _CLEAN_TASK_POLICY, old="--cleanTaskPolicy")
    running_timeout: str = _flag("", "Fail the job after this time, e.g. 1h30m.")
    ttl_after_finished: str = _flag("", "Delete the job this long after its end.")

    @property
    def is_gang(self) -> bool | None:
        """Whether all replicas start together; None: as the cluster decides.

        Replicas that share a domain do.
        """
        marks = (f"{TOPOLOGY_ANNOTATION}=", f"{PREFERRED_TOPOLOGY_ANNOTATION}=")
        near = any(entry.startswith(marks) for entry in self.annotation)
        return True if self.topology or near else self.gang

    @property
    def directory(self) -> str:
        """The working directory."""
        return self.working_dir or "/root"

    @property
    def type(self) -> str:
        """tfjob, mpijob, …: arena's word for the kind."""
        return self.job_kind.trainer


@dataclass(frozen=True)
class TensorFlow(Submission):
    """The flags of `submit tf`."""

    job_kind: ClassVar[JobKind] = TENSORFLOW

    cpu: str = _flag("", "CPUs of each replica; a role's flag overrides it.")
    memory: str = _flag("", "Memory of each replica; a role's flag overrides it.")
    worker_image: str = _flag("", "Image of workers, chief and evaluator.", old="--workerImage")
    ps_image: str = _flag("", "Image of the parameter servers.", old="--psImage")
    ps: int = _flag(0, "Number of parameter servers.")
    ps_gpus: int = _flag(0, "GPUs of each parameter server.")
    chief: bool = _flag(False, "Add a chief.")
    evaluator: bool = _flag(False, "Add an evaluator.")
    chief_port: int = _flag(CHIEF_PORT, "Port of the chief.", old="--chiefPort")
    worker_port: int = _flag(WORKER_PORT, "Port of the workers.", old="--workerPort")
    ps_port: int = _flag(PS_PORT, "Port of the parameter servers.", old="--psPort")
    worker_cpu: str = _flag("", "CPUs of each worker.", old="--workerCpu")
    worker_memory: str = _flag("", "Memory of each worker.", old="--workerMemory")
    ps_cpu: str = _flag("", "CPUs of each parameter server.", old="--psCpu")
    ps_memory: str = _flag("", "Memory of each parameter server.", old="--psMemory")
    chief_cpu: str = _flag("", "CPUs of the chief.", old="--ChiefCpu")
    chief_memory: str = _flag("", "Memory of the chief.", old="--ChiefMemory")
    evaluator_cpu: str = _flag("", "CPUs of the evaluator.", old="--evaluatorCpu")
    evaluator_memory: str = _flag("", "Memory of the evaluator.", old="--evaluatorMemory")
    worker_cpu_limit: str = _flag("", "CPU limit of each worker.")
    worker_memory_limit: str = _flag("", "Memory limit of each worker.")
    ps_cpu_limit: str = _flag("", "CPU limit of each parameter server.")
    ps_memory_limit: str = _flag("", "Memory limit of each parameter server.")
    chief_cpu_limit: str = _flag("", "CPU limit of the chief.")
    chief_memory_limit: str = _flag("", "Memory limit of the chief.")
    evaluator_cpu_limit: str = _flag("", "CPU limit of the evaluator.")
    evaluator_memory_limit: str = _flag("", "Memory limit of the evaluator.")
    worker_selector: Texts = _flag((), "Node label for workers only, KEY=VALUE.")
    ps_selector: Texts = _flag((), "Node label for parameter servers only, KEY=VALUE.")
    chief_selector: Texts = _flag((), "Node label for the chief only, KEY=VALUE.")
    evaluator_selector: Texts = _flag((), "Node label for the evaluator only, KEY=VALUE.")
    worker_affinity_policy: str = _flag("none", "Placement of workers: none, spread or binpack.")
    worker_affinity_constraint: str = _flag(
        "preferred", "Placement of workers: preferred or required."
    )
    ps_affinity_policy: str = _flag(
        "none", "Placement of parameter servers: none, spread or binpack."
    )
    ps_affinity_constraint: str = _flag(
        "preferred", "Placement of parameter servers: preferred or required."
    )
    restart: str = _flag("", f"{_RESTART}  [default: gang; replica with --ps]")
    success_policy: str = _flag("ChiefWorker", "ChiefWorker or AllWorkers.")
    starting_timeout: str = _flag("", "Fail the job if it has not started after this time.")
    role_sequence: str = _flag("", "Order in which roles start, e.g. PS,Worker.")


@dataclass(frozen=True)
class Mpi(Submission):
    """The flags of `submit mpi`."""

    job_kind: ClassVar[JobKind] = MPI

    gputopology: bool = _flag(False, "GPUs chosen by topology, on the host's network.")
    mounts_on_launcher: bool = _flag(False, "Mount --data and --data-dir on the launcher too.")


@dataclass(frozen=True)
class PyTorch(Submission):
    """The flags of `submit pytorch`."""

    job_kind: ClassVar[JobKind] = PYTORCH

    nproc_per_node: str = _flag("", "Processes of each replica: auto, cpu, gpu, a number.")


@dataclass(frozen=True)
class Jax(Submission):
    """The flags of `submit jax`."""

    job_kind: ClassVar[JobKind] = JAX


BY_TYPE: dict[str, type[Submission]] = {
    kind.job_kind.trainer: kind for kind in (TensorFlow, Mpi, PyTorch, Jax)
}


def flags_of(kind: type[Submission]) -> list[Flag]:
    """The flags of one kind of job, group by group. The `command` is a field without a flag."""
    rows = sorted((row for row in fields(kind) if row.metadata), key=lambda r: _POSITIONS[r.name])
    return [
        Flag(
            row.name,
            row.default,
            group=_POSITIONS[row.name][1],
            **{"spelling": f"--{row.name.replace('_', '-')}", **row.metadata},
        )
        for row in rows
    ]
