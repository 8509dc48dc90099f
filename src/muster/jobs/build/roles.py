"""The roles of each kind of job, the number of replicas of each, and the requests of one replica.

The differences between kinds are here; `pod_templates` is the same for all kinds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from kubekit.errors import UsageError
from muster.contract.gang import RESTART_ANNOTATION, RESTART_SCOPES
from muster.jobs.build import flag_values, pod_affinity
from muster.jobs.build.flags import Jax, Mpi, PyTorch, Submission, TensorFlow
from muster.jobs.names import ALIYUN_GPU, NVIDIA_GPU

_ELASTIC = re.compile(r"--host-discovery-script|--nnodes[ =]\S+:")
"""In a command that goes on without a replica that it lost: of Horovod, of torchrun."""
_BOARD = ("logdir", "tensorboard_image")


@dataclass(frozen=True)
class Role:
    """One role of a job, after defaults."""

    name: str
    count: int
    image: str
    restart: str
    flag: str = ""
    """The prefix of its own flags: `ps` in `--ps-cpu`."""
    gpus: int = 0
    gpu: str = NVIDIA_GPU
    cpu: str = ""
    memory: str = ""
    cpu_limit: str = ""
    memory_limit: str = ""
    port: int = 0
    selector: tuple[str, ...] = ()
    affinity: pod_affinity.Policy = pod_affinity.ANYWHERE
    runs: bool = True
    """Whether it runs the command; an MPI worker waits for the launcher."""
    writes_logs: bool = True
    data: bool = True
    """Whether it mounts `--data` and `--data-dir`."""
    member: bool = True
    """Whether the gang counts it."""


def roles_of(args: Submission) -> list[Role]:
    """The roles that have replicas, in the order in which they are written."""
    match args:
        case TensorFlow():
            roles = _tensorflow(args)
        case Mpi():
            roles = _mpi(args)
        case PyTorch():
            roles = _pytorch(args)
        case Jax():
            roles = [_sized(args, "Worker", args.workers)]
        case _:
            raise TypeError(f"no roles for {type(args).__name__}")
    present = [role for role in roles if role.count]
    for role in present:
        if not role.image:
            flags = f"--image or --{role.flag}-image" if role.flag else "--image"
            raise UsageError(
                f"{flags} must be set",
                hint="For example --image=python:3.12; only the local cluster needs no image.",
            )
    return present


def writer(args: Submission, roles: list[Role]) -> str:
    """The role whose first replica writes the logs for TensorBoard."""
    preferred: tuple[str, ...] = ("Chief", "Master", "Worker")
    if isinstance(args, Mpi):
        preferred = ("Worker",)  # rank 0 runs on a worker, the launcher only starts it
    names = [role.name for role in roles]
    return next(name for name in preferred if name in names)


def restart_scope(args: Submission) -> str:
    """What restarts when a replica fails, `gang` or `replica`; empty if the cluster decides.

    Ranks of a collective operation die together. Workers with parameter servers and those of an
    elastic command survive the loss of one, and a single replica has no peers.
    """
    if args.restart:
        return flag_values.choice("--restart", args.restart, RESTART_SCOPES)
    flag = f"--annotation={RESTART_ANNOTATION}"
    given = flag_values.keyed("--annotation", args.annotation).get(RESTART_ANNOTATION)
    if given:
        return flag_values.choice(flag, given, RESTART_SCOPES)
    survives = bool(_ELASTIC.search(" ".join(args.command)))
    is_alone = args.workers == 1 and not isinstance(args, Mpi)
    if isinstance(args, TensorFlow):
        survives = survives or args.ps > 0
        is_alone = _is_single_process(args)
    return "" if survives or is_alone else "gang"


def _restart_policy(args: Submission, *, may_come_back: bool = False) -> str:
    """`may_come_back`: also without --retry, unless the others would restart with it each time."""
    alone = may_come_back and restart_scope(args) != "gang"
    return "OnFailure" if args.retry or alone else "Never"


def flags_without_effect(args: Submission) -> list[str]:
    """A sentence about each flag that has no effect."""
    return _without_board(args) + _without_role(args) + _without_retry(args)


def _without_retry(args: Submission) -> list[str]:
    """An operator fails a job at its N-th restart."""
    if args.retry != 1:
        return []
    return ["--retry=1 allows no second attempt: the job fails at its first restart; use --retry=2"]


def _without_board(args: Submission) -> list[str]:
    default = {field.name: field.default for field in fields(args)}
    changed = [name for name in _BOARD if getattr(args, name) != default[name]]
    return [
        f"--{name.replace('_', '-')} has no effect without --tensorboard"
        for name in changed
        if not args.tensorboard
    ]


def _without_role(args: Submission) -> list[str]:
    if not isinstance(args, TensorFlow):
        return []
    present = {role.name.lower() for role in _tensorflow(args) if role.count}
    if _is_single_process(args):
        present.add("worker")
    return [
        f"--{field.name.replace('_', '-')} has no effect: the job has no such role"
        for field in fields(args)
        if (role := field.name.partition("_")[0]) in ("worker", "ps", "chief", "evaluator")
        and role not in present
        and field.name != role
        and getattr(args, field.name) != field.default
    ]


def _is_single_process(args: TensorFlow) -> bool:
    """Whether the job is one process, which is then the chief."""
    return args.ps < 1 and args.workers == 1 and not args.chief


def _tensorflow(args: TensorFlow) -> list[Role]:
    if _is_single_process(args):
        inherited = {
            f"chief_{field}": getattr(args, f"chief_{field}") or getattr(args, f"worker_{field}")
            for field in ("cpu", "memory", "cpu_limit", "memory_limit", "selector")
        }
        args = replace(args, chief=True, **inherited)
        workers = 0
    else:
        workers = args.workers
    chief = int(args.chief)
    return [
        _tensorflow_role(args, "PS", args.ps, args.ps_port),
        _tensorflow_role(args, "Worker", workers, args.worker_port, with_chief=bool(chief)),
        _tensorflow_role(args, "Chief", chief, args.chief_port),
        _tensorflow_role(args, "Evaluator", int(args.evaluator), 0),
    ]


def _tensorflow_role(
    args: TensorFlow, name: str, count: int, port: int, *, with_chief: bool = False
) -> Role:
    role = name.lower()
    server = name == "PS"
    affinity = pod_affinity.ANYWHERE
    if role in ("worker", "ps"):
        words = (getattr(args, f"{role}_affinity_{part}") for part in ("policy", "constraint"))
        affinity = pod_affinity.policy(role, *words)
    return Role(
        name,
        count,
        image=(args.ps_image if server else args.worker_image) or args.image,
        # As in arena: the chief decides how the job ends, so workers may come back.
        restart=_restart_policy(args, may_come_back=with_chief),
        flag="ps" if server else "worker",
        gpus=args.ps_gpus if server else args.gpus,
        cpu=getattr(args, f"{role}_cpu") or args.cpu,
        memory=getattr(args, f"{role}_memory") or args.memory,
        cpu_limit=getattr(args, f"{role}_cpu_limit"),
        memory_limit=getattr(args, f"{role}_memory_limit"),
        port=port,
        selector=getattr(args, f"{role}_selector") or args.selector,
        affinity=affinity,
        writes_logs=not server,
    )


def _mpi(args: Mpi) -> list[Role]:
    gpu = ALIYUN_GPU if args.gputopology else NVIDIA_GPU
    workers = replace(_sized(args, "Worker", args.workers), gpu=gpu, runs=False)
    launcher = Role(
        "Launcher",
        1,
        args.image,
        _restart_policy(args),
        selector=args.selector,
        data=args.mounts_on_launcher,
        member=False,
    )
    return [launcher, workers]


def _pytorch(args: PyTorch) -> list[Role]:
    # The master counts as a worker. As in arena, the other workers may come back.
    policy = _restart_policy(args, may_come_back=True)
    workers = replace(_sized(args, "Worker", args.workers - 1), restart=policy)
    return [_sized(args, "Master", 1), workers]


def _sized(args: Submission, name: str, count: int) -> Role:
    return Role(
        name,
        count,
        args.image,
        _restart_policy(args),
        gpus=args.gpus,
        cpu=args.cpu,
        memory=args.memory,
        selector=args.selector,
    )
