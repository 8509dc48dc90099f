"""The arguments of `muster.submit` with their types: the flags of `arena submit`.

Written by `scripts/generate_flag_types.py` from the table of flags; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Required

from muster.sdk.cluster_choice import ClusterChoice

if TYPE_CHECKING:
    from datetime import timedelta

Text = str | int | float | PathLike[str]
"""One value."""
Texts = Text | Sequence[Text] | Mapping[str, Text]
"""Several values: `["A=1", "B=2"]`, `{"A": 1, "B": 2}`, or one text."""


class JobArguments(ClusterChoice, total=False):
    """The flags of all kinds of job, but for the name. An argument that is None is not given."""

    workers: int | None
    """Number of workers."""
    gpus: int | None
    """GPUs of each worker."""
    cpu: Text | None
    """CPUs of each worker."""
    memory: Text | None
    """Memory of each worker."""
    gang: bool | None
    """Start all replicas or none."""
    image: Text | None
    """Image of all replicas; optional on the local cluster."""
    env: Texts | None
    """Environment variable, KEY=VALUE."""
    device: Texts | None
    """Other device of each replica, NAME=AMOUNT."""
    share_memory: Text | None
    """Size of /dev/shm."""
    rdma: bool | None
    """Request RDMA devices."""
    working_dir: Text | None
    """Working directory of the command."""
    python: Text | None
    """Python or environment of the job, on the local cluster."""
    isolated: bool | None
    """Private home and working directory, deleted with the pod (local cluster)."""
    data: Texts | None
    """Volume claim to mount, CLAIM:/path."""
    data_dir: Texts | None
    """Host directory to mount, /host[:/path]."""
    config_file: Texts | None
    """File of this machine to mount, FILE[:/path]."""
    model_dir: Text | None
    """Directory in a volume where the job exports models; `arena models` lists them."""
    model_source: Text | None
    """Where the trained model will be, e.g. pvc://models/mnist: as --model-dir in a claim."""
    sync_mode: Text | None
    """Fetch code first: git or rsync."""
    sync_source: Text | None
    """URL of the code, or a path on this machine."""
    sync_branch: Text | None
    """Branch or tag to fetch."""
    sync_revision: Text | None
    """Commit to fetch."""
    sync_depth: int | None
    """Fetch only the last N commits."""
    sync_submodules: Text | None
    """recursive, shallow or off."""
    sync_secret: Text | None
    """Secret with username and password, or an SSH key."""
    sync_image: Text | None
    """Image that fetches the code."""
    tensorboard: bool | None
    """Also run TensorBoard."""
    logdir: Text | None
    """Directory of the logs that TensorBoard shows."""
    tensorboard_image: Text | None
    """Image of TensorBoard."""
    retry: int | None
    """Restart replicas that fail; the job fails at its N-th restart."""
    restart: Text | None
    """What restarts when one fails or is lost: gang (all that train together) or replica."""
    clean_task_policy: Text | None
    """Pods deleted at the end: Running, All or None."""
    running_timeout: str | timedelta | None
    """Fail the job after this time, e.g. 1h30m."""
    ttl_after_finished: str | timedelta | None
    """Delete the job this long after its end."""
    priority: Text | None
    """Priority class of the pods."""
    queue: bool | None
    """Let kube-queue start the job."""
    scheduler: Text | None
    """Scheduler of the pods."""
    topology: Text | None
    """Node label (example.com/rack): all replicas run within one value. Implies --gang."""
    selector: Texts | None
    """Node label to run on, KEY=VALUE."""
    toleration: Texts | None
    """KEY=VALUE:EFFECT,Equal|Exists, or all."""
    shell: Text | None
    """Shell that runs the command."""
    env_from: Texts | None
    """All keys of secret/NAME or configmap/NAME."""
    label: Texts | None
    """Label, KEY=VALUE."""
    annotation: Texts | None
    """Annotation, KEY=VALUE."""
    image_pull_policy: Text | None
    """Always, IfNotPresent or Never."""
    image_pull_secret: Texts | None
    """Secret to pull the image with."""
    run_as_user: Text | None
    """User id of the containers."""
    host_network: bool | None
    """Use the host's network."""
    host_ipc: bool | None
    """Use the host's IPC namespace."""
    host_pid: bool | None
    """Use the host's PID namespace."""
    model_name: Text | None
    """Register the trained model under this name in MLflow."""
    ps: int | None
    """Number of parameter servers (tf)."""
    chief: bool | None
    """Add a chief (tf)."""
    evaluator: bool | None
    """Add an evaluator (tf)."""
    worker_cpu: Text | None
    """CPUs of each worker (tf)."""
    worker_memory: Text | None
    """Memory of each worker (tf)."""
    worker_cpu_limit: Text | None
    """CPU limit of each worker (tf)."""
    worker_memory_limit: Text | None
    """Memory limit of each worker (tf)."""
    ps_gpus: int | None
    """GPUs of each parameter server (tf)."""
    ps_cpu: Text | None
    """CPUs of each parameter server (tf)."""
    ps_memory: Text | None
    """Memory of each parameter server (tf)."""
    ps_cpu_limit: Text | None
    """CPU limit of each parameter server (tf)."""
    ps_memory_limit: Text | None
    """Memory limit of each parameter server (tf)."""
    chief_cpu: Text | None
    """CPUs of the chief (tf)."""
    chief_memory: Text | None
    """Memory of the chief (tf)."""
    chief_cpu_limit: Text | None
    """CPU limit of the chief (tf)."""
    chief_memory_limit: Text | None
    """Memory limit of the chief (tf)."""
    evaluator_cpu: Text | None
    """CPUs of the evaluator (tf)."""
    evaluator_memory: Text | None
    """Memory of the evaluator (tf)."""
    evaluator_cpu_limit: Text | None
    """CPU limit of the evaluator (tf)."""
    evaluator_memory_limit: Text | None
    """Memory limit of the evaluator (tf)."""
    success_policy: Text | None
    """ChiefWorker or AllWorkers (tf)."""
    starting_timeout: str | timedelta | None
    """Fail the job if it has not started after this time (tf)."""
    worker_selector: Texts | None
    """Node label for workers only, KEY=VALUE (tf)."""
    ps_selector: Texts | None
    """Node label for parameter servers only, KEY=VALUE (tf)."""
    chief_selector: Texts | None
    """Node label for the chief only, KEY=VALUE (tf)."""
    evaluator_selector: Texts | None
    """Node label for the evaluator only, KEY=VALUE (tf)."""
    worker_affinity_policy: Text | None
    """Placement of workers: none, spread or binpack (tf)."""
    worker_affinity_constraint: Text | None
    """Placement of workers: preferred or required (tf)."""
    ps_affinity_policy: Text | None
    """Placement of parameter servers: none, spread or binpack (tf)."""
    ps_affinity_constraint: Text | None
    """Placement of parameter servers: preferred or required (tf)."""
    role_sequence: Text | None
    """Order in which roles start, e.g. PS,Worker (tf)."""
    worker_image: Text | None
    """Image of workers, chief and evaluator (tf)."""
    ps_image: Text | None
    """Image of the parameter servers (tf)."""
    worker_port: int | None
    """Port of the workers (tf)."""
    ps_port: int | None
    """Port of the parameter servers (tf)."""
    chief_port: int | None
    """Port of the chief (tf)."""
    gputopology: bool | None
    """GPUs chosen by topology, on the host's network (mpi)."""
    mounts_on_launcher: bool | None
    """Mount --data and --data-dir on the launcher too (mpi)."""
    nproc_per_node: Text | None
    """Processes of each replica: auto, cpu, gpu, a number (pytorch)."""


class SubmitArguments(JobArguments, total=False):
    """The arguments of `muster.submit`. An argument that is None is not given."""

    name: Required[str]
    """Name of the job."""


class RunArguments(JobArguments, total=False):
    """The arguments of `muster.run`, but for the function. One that is None is not given."""

    kind: Required[str]
    """`pytorch`, `tf`, `mpi` or `jax`."""
    name: str | None
    """Name of the job; by default it is made from the function's name."""
    shared_dir: str | PathLike[str] | None
    """Directory that the program and the replicas see at the same path, for large values."""
