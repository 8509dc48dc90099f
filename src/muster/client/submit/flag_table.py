"""The flags of `arena submit`, as tables: spelling, help, old spelling, short form.

A flag fills the field of the same name in `jobs/build/flags.py`, whose type and default are
the flag's. Old camelCase spellings are accepted and hidden from the help.
"""

from __future__ import annotations

from typing import NamedTuple


class Flag(NamedTuple):
    """One row."""

    spelling: str
    help: str
    old: str = ""
    short: str = ""
    name: str = ""

    @property
    def field(self) -> str:
        """The field that it fills."""
        return self.name or self.spelling.lstrip("-").replace("-", "_")


JOB = (
    Flag("--name", "Name of the job."),
    Flag("--image", "Container image of every role."),
    Flag("--gpus", "GPUs of each worker."),
    Flag("--device", "Other device of each replica, NAME=AMOUNT.  [repeatable]"),
    Flag("--workers", "Number of workers."),
    Flag("--retry", "Restart replicas that fail; the job fails at its N-th restart."),
    Flag("--working-dir", "Working directory of the command.", old="--workingDir"),
    Flag("--env", "Environment variable, KEY=VALUE.  [repeatable]", short="-e"),
    Flag("--env-from", "All keys of secret/NAME or configmap/NAME.  [repeatable]"),
    Flag("--shell", "Shell that runs the command."),
    Flag("--annotation", "Annotation, KEY=VALUE.  [repeatable]", short="-a"),
    Flag("--label", "Label, KEY=VALUE.  [repeatable]", short="-l"),
    Flag("--image-pull-secret", "Secret to pull the image with.  [repeatable]"),
    Flag("--image-pull-policy", "Always, IfNotPresent or Never."),
    Flag("--model-name", "Register what is trained under this name in MLflow."),
    Flag("--model-source", "Where that model will be, e.g. pvc://models/mnist."),
)

PLACE = (
    Flag("--gang", "Start all replicas together or none."),
    Flag("--priority", "Priority class of the pods.", short="-p"),
    Flag("--queue", "Leave it to kube-queue to start the job."),
    Flag("--toleration", "KEY=VALUE:EFFECT,Equal|Exists, or all.  [repeatable]"),
    Flag("--selector", "Node label to run on, KEY=VALUE.  [repeatable]"),
    Flag("--scheduler", "Scheduler of the pods."),
    Flag("--rdma", "Ask for RDMA."),
    Flag("--hostNetwork", "Use the host's network.", name="host_network"),
    Flag("--hostIPC", "Use the host's IPC namespace.", name="host_ipc"),
    Flag("--hostPID", "Use the host's PID namespace.", name="host_pid"),
)

FILES = (
    Flag("--data", "Volume claim to mount, CLAIM:/path.  [repeatable]", short="-d"),
    Flag("--data-dir", "Host directory to mount, /host[:/path].  [repeatable]", old="--dataDir"),
    Flag("--config-file", "File of this machine to mount, FILE[:/path].  [repeatable]"),
    Flag("--share-memory", "Size of /dev/shm."),
    Flag("--sync-mode", "Fetch code first: git or rsync.", old="--syncMode"),
    Flag("--sync-source", "Where the code is: URL, or a path here.", old="--syncSource"),
    Flag("--sync-image", "Image that fetches the code.", old="--syncImage"),
    Flag("--sync-branch", "Branch or tag to fetch."),
    Flag("--sync-revision", "Commit to fetch."),
    Flag("--sync-depth", "Fetch only so many commits of history."),
    Flag("--sync-submodules", "recursive, shallow or off  [default: recursive]"),
    Flag("--sync-secret", "Secret with username and password, or an SSH key."),
    Flag("--tensorboard", "Also run TensorBoard."),
    Flag("--tensorboard-image", "Image of TensorBoard.", old="--tensorboardImage"),
    Flag("--logdir", "Directory of the logs that TensorBoard shows."),
)

END = (
    Flag(
        "--clean-task-policy",
        "Pods deleted at the end: Running, All or None.",
        old="--cleanTaskPolicy",
    ),
    Flag("--running-timeout", "Fail the job after this time, e.g. 1h30m."),
    Flag("--ttl-after-finished", "Delete the job this long after its end."),
)

SHARED = JOB + PLACE + FILES + END

SIZE = (
    Flag("--cpu", "CPUs of each worker."),
    Flag("--memory", "Memory of each worker."),
)

_WORDS = {"cpu": "CPUs", "memory": "Memory"}
_ROLES = (("worker", "worker"), ("ps", "ps"), ("chief", "Chief"), ("evaluator", "evaluator"))

TENSORFLOW = (
    Flag("--worker-image", "Image of workers, chief and evaluator.", old="--workerImage"),
    Flag("--ps-image", "Image of the parameter servers.", old="--psImage"),
    Flag("--ps", "Number of parameter servers."),
    Flag("--ps-gpus", "GPUs of each parameter server."),
    Flag("--chief", "Add a chief."),
    Flag("--evaluator", "Add an evaluator."),
    Flag("--chief-port", "Port of the chief.", old="--chiefPort"),
    Flag("--worker-port", "Port of the workers.", old="--workerPort"),
    Flag("--ps-port", "Port of the parameter servers.", old="--psPort"),
    *(
        Flag(f"--{role}-{what}", f"{_WORDS[what]} of each {role}.", old=f"--{old}{what.title()}")
        for role, old in _ROLES
        for what in ("cpu", "memory")
    ),
    *(
        Flag(f"--{role}-{what}-limit", f"{_WORDS[what]} limit of each {role}.")
        for role, _ in _ROLES
        for what in ("cpu", "memory")
    ),
    *(
        Flag(f"--{role}-selector", f"Node label for {role} only, KEY=VALUE.  [repeatable]")
        for role, _ in _ROLES
    ),
    *(
        Flag(f"--{role}-affinity-{what}", f"Placement of {role}: {choices}.")
        for role in ("worker", "ps")
        for what, choices in (
            ("policy", "none, spread or binpack"),
            ("constraint", "preferred or required"),
        )
    ),
    Flag("--success-policy", "ChiefWorker or AllWorkers."),
    Flag("--starting-timeout", "Fail the job if it has not started after this time."),
    Flag("--role-sequence", "Order in which roles start, e.g. PS,Worker."),
)

MPI = (
    *SIZE,
    Flag("--retry", "Start up to N further launchers when one fails."),
    Flag("--gputopology", "GPUs chosen by topology, on the host's network."),
    Flag("--mounts-on-launcher", "Mount --data and --data-dir on the launcher too."),
)

PYTORCH = (*SIZE, Flag("--nproc-per-node", "Processes of each replica: auto, cpu, gpu, a number."))

OWN: dict[str, tuple[Flag, ...]] = {
    "tfjob": TENSORFLOW,
    "mpijob": MPI,
    "pytorchjob": PYTORCH,
    "jaxjob": SIZE,
}


def flags(type_: str) -> tuple[Flag, ...]:
    """All flags of one kind of job; what a kind says of a shared one comes before the rest."""
    own = {row.spelling: row for row in OWN[type_]}
    shared = tuple(own.pop(row.spelling, row) for row in SHARED)
    return shared + tuple(own.values())
