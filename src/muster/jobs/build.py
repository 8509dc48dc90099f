"""From the flags of `arena submit` to a job manifest.

Called by `cli/submit.py`. Pure: the same flags give the same manifest, byte for byte. Wrong values
raise UsageError naming the flag and what to write; nothing is dropped in silence. Values become
strings of a JSON document, never text in a template, so quoting is always right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.api.quantity import whole
from muster.errors import InvalidQuantity, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.meta import Raw

GROUP_NAME = "pod-group.scheduling.sigs.k8s.io/name"
GROUP_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
GANG = "muster.dev/gang"
CHIEF_PORT, WORKER_PORT, PS_PORT = 22221, 22222, 22223

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_TOLERATION = re.compile(r"([^=:,]+)=([^=:,]*):([^=:,]*),(Equal|Exists)")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


@dataclass(frozen=True)
class Submission:
    """The flags every kind of job shares, named as they are written."""

    name: str
    command: tuple[str, ...]
    image: str = ""
    gpus: int = 0
    device: tuple[str, ...] = ()
    workers: int = 1
    retry: int = 0
    working_dir: str = "/root"
    env: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    data_dir: tuple[str, ...] = ()
    annotation: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    rdma: bool = False
    gang: bool = False
    priority: str = ""
    toleration: tuple[str, ...] = ()
    selector: tuple[str, ...] = ()
    image_pull_secret: tuple[str, ...] = ()
    image_pull_policy: str = "Always"
    shell: str = "sh"
    scheduler: str = ""
    host_network: bool = False
    host_ipc: bool = False
    host_pid: bool = False
    share_memory: str = "2Gi"
    clean_task_policy: str = "Running"
    running_timeout: str = ""
    ttl_after_finished: str = ""


@dataclass(frozen=True)
class TensorFlow(Submission):
    """The flags of `submit tf`."""

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
    success_policy: str = "ChiefWorker"


_TYPES: dict[type[Submission], str] = {TensorFlow: "tfjob"}


@dataclass(frozen=True)
class _Role:
    """What one role of a job asks for, after defaults."""

    name: str
    count: int
    image: str
    gpus: int = 0
    cpu: str = ""
    memory: str = ""
    cpu_limit: str = ""
    memory_limit: str = ""
    port: int = 0
    selector: tuple[str, ...] = ()
    restart: str = "Never"
    extra: Raw = field(default_factory=dict)


def tfjob(args: TensorFlow) -> Raw:
    """The TFJob that `arena submit tf` creates."""
    _check(args)
    roles = [role for role in _tensorflow_roles(args) if role.count]
    for role in roles:
        if not role.image:
            flag = "--ps-image" if role.name == "PS" else "--worker-image"
            raise UsageError(
                f"--image or {flag} must be set", hint="For example --image=python:3.12"
            )
    template = _Template(args, "tensorflow", members=sum(role.count for role in roles))
    spec: Raw = {"runPolicy": _run_policy(args)}
    if args.success_policy != "ChiefWorker":
        spec["successPolicy"] = args.success_policy
    spec["tfReplicaSpecs"] = {role.name: template.replica(role) for role in roles}
    return _job(args, "TFJob", spec)


def _tensorflow_roles(args: TensorFlow) -> list[_Role]:
    def role(name: str, count: int, **more: object) -> _Role:
        low = name.lower()
        asked = {
            key: getattr(args, f"{low}_{key}")
            for key in ("cpu", "memory", "cpu_limit", "memory_limit")
        }
        selector = getattr(args, f"{low}_selector") or args.selector
        return _Role(name, count, selector=selector, **asked, **more)  # type: ignore[arg-type]

    worker_image = args.worker_image or args.image
    chief = int(args.chief)
    workers = args.workers
    if args.ps < 1 and workers == 1 and not args.chief:
        chief, workers = 1, 0  # a job of one process is its own chief
    again = "OnFailure" if args.retry else "Never"
    training = {"image": worker_image, "gpus": args.gpus}
    servers = {"image": args.ps_image or args.image, "gpus": args.ps_gpus, "port": args.ps_port}
    return [
        role("PS", args.ps, restart=again, **servers),
        role(
            "Worker",
            workers,
            port=args.worker_port,
            restart="OnFailure" if chief else again,
            **training,
        ),
        role("Chief", chief, port=args.chief_port, restart=again, **training),
        role("Evaluator", int(args.evaluator), restart=again, **training),
    ]


class _Template:
    """Makes the replica spec of each role of one submission."""

    def __init__(self, args: Submission, container: str, *, members: int) -> None:
        self.args = args
        self.container = container
        self.labels = _labels(args)
        if args.gang:
            self.labels |= {GROUP_NAME: f"{_type(args)}-{args.name}", GROUP_MIN: str(members)}

    def replica(self, role: _Role) -> Raw:
        metadata: Raw = {"labels": self.labels}
        annotations = pairs("--annotation", self.args.annotation)
        if annotations:
            metadata["annotations"] = annotations
        template = {"metadata": metadata, "spec": self._pod(role)}
        return {"replicas": role.count, "restartPolicy": role.restart, "template": template}

    def _pod(self, role: _Role) -> Raw:
        args = self.args
        volumes, mounts = _volumes(args)
        spec: Raw = {
            "nodeSelector": pairs("--selector", role.selector),
            "tolerations": [_toleration(text) for text in args.toleration],
            "imagePullSecrets": [{"name": name} for name in args.image_pull_secret],
            "priorityClassName": args.priority,
            "schedulerName": args.scheduler,
            "hostNetwork": args.host_network,
            "dnsPolicy": "ClusterFirstWithHostNet" if args.host_network else "",
            "hostIPC": args.host_ipc,
            "hostPID": args.host_pid,
            "volumes": volumes,
            "containers": [self._main(role, mounts)],
        }
        return {key: value for key, value in spec.items() if value}

    def _main(self, role: _Role, mounts: list[Raw]) -> Raw:
        args = self.args
        container: Raw = {
            "name": self.container,
            "image": role.image,
            "imagePullPolicy": args.image_pull_policy,
            "command": [args.shell, "-c", " ".join(args.command)],
            "workingDir": args.working_dir,
            "env": _env(args, role.gpus),
            "ports": [{"name": "tfjob-port", "containerPort": role.port}] if role.port else [],
            "resources": _resources(args, role),
            "volumeMounts": mounts,
        }
        if args.rdma:
            container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
        return {key: value for key, value in container.items() if value}


def _job(args: Submission, kind: str, spec: Raw) -> Raw:
    annotations = pairs("--annotation", args.annotation)
    annotations[GANG] = "true" if args.gang else "false"
    metadata = {"name": args.name, "labels": _labels(args), "annotations": annotations}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _type(args: Submission) -> str:
    return _TYPES[type(args)]


def _labels(args: Submission) -> dict[str, str]:
    arena = {"app": _type(args), "release": args.name, "createdBy": "TFJob"}
    return arena | pairs("--label", args.label)


def _run_policy(args: Submission) -> Raw:
    if args.clean_task_policy not in ("Running", "None", "All"):
        raise UsageError(
            f"unsupported cleanTaskPolicy {args.clean_task_policy}",
            hint="Write Running, None or All.",
        )
    policy: Raw = {"cleanPodPolicy": args.clean_task_policy}
    if args.running_timeout:
        policy["activeDeadlineSeconds"] = seconds("--running-timeout", args.running_timeout)
    if args.ttl_after_finished:
        policy["ttlSecondsAfterFinished"] = seconds("--ttl-after-finished", args.ttl_after_finished)
    if args.retry:
        policy["backoffLimit"] = args.retry
    return policy


def _check(args: TensorFlow) -> None:
    if not _NAME.fullmatch(args.name) or len(args.name) > 49:
        raise UsageError(
            f"--name {args.name!r} is not a job name",
            hint="At most 49 lower-case letters, digits and '-', the first a letter: "
            f"--name={suggest_name(args.name)}",
        )
    for flag, value in (("--gpus", args.gpus), ("--ps", args.ps), ("--ps-gpus", args.ps_gpus)):
        if value < 0:
            raise UsageError(f"{flag} is invalid: it cannot be negative")
    if args.workers < 1:
        raise UsageError("--workers must be greater than 0 in distributed training")
    if args.success_policy not in ("ChiefWorker", "AllWorkers"):
        raise UsageError(
            f"unsupported successPolicy {args.success_policy}",
            hint="Write ChiefWorker or AllWorkers.",
        )
    if not args.command:
        raise UsageError("not found command args", hint='End with the command: … "python train.py"')


def suggest_name(name: str) -> str:
    """The nearest valid job name."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    begun = plain if plain[:1].isalpha() else f"job-{plain}"
    return begun[:49].rstrip("-")


def _env(args: Submission, gpus: int) -> list[Raw]:
    values = {"workers": str(args.workers), "gpus": str(args.gpus)} | pairs("--env", args.env)
    if not gpus:
        values.setdefault("NVIDIA_VISIBLE_DEVICES", "void")
    return [{"name": key, "value": values[key]} for key in sorted(values)]


def _resources(args: Submission, role: _Role) -> Raw:
    asked: dict[str, str] = {"cpu": role.cpu, "memory": role.memory}
    caps = {"cpu": role.cpu_limit or role.cpu, "memory": role.memory_limit or role.memory}
    low = role.name.lower()
    for name in ("cpu", "memory"):
        for flag, value in (
            (f"--{low}-{name}", asked[name]),
            (f"--{low}-{name}-limit", caps[name]),
        ):
            _quantity(flag, value)
    extended = {"nvidia.com/gpu": str(role.gpus)} if role.gpus else {}
    for name, amount in pairs("--device", args.device).items():
        if name == "nvidia.com/gpu":
            raise UsageError("--device nvidia.com/gpu: please use '--gpus N' instead")
        extended[name] = _quantity("--device", amount)
    if args.rdma:
        extended["rdma/hca"] = "1"
    requests = {key: value for key, value in (asked | extended).items() if value}
    limits = {key: value for key, value in (caps | extended).items() if value}
    return {"requests": requests, "limits": limits} if limits else {}


def _volumes(args: Submission) -> tuple[list[Raw], list[Raw]]:
    volumes: list[Raw] = []
    mounts: list[Raw] = []
    for text in args.data:
        claim, colon, path = text.partition(":")
        if not colon or not path.startswith("/") or path == "/":
            raise UsageError(
                f"--data {text!r} is invalid", hint="Write --data=CLAIM:/absolute/path"
            )
        if any(volume["name"] == claim for volume in volumes):
            raise UsageError(f"--data names the claim {claim} twice")
        volumes.append({"name": claim, "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": claim, "mountPath": path})
    for number, text in enumerate(args.data_dir):
        host, _, path = text.partition(":")
        if not host.startswith("/") or (path and not path.startswith("/")):
            raise UsageError(
                f"--data-dir {text!r} is invalid", hint="Write --data-dir=/host[:/path]"
            )
        name = f"training-data-{number}"
        volumes.append({"name": name, "hostPath": {"path": host}})
        mounts.append({"name": name, "mountPath": path or host})
    size = _quantity("--share-memory", args.share_memory)
    volumes.append({"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    mounts.append({"name": "dshm", "mountPath": "/dev/shm"})
    return volumes, mounts


def _toleration(text: str) -> Raw:
    if text == "all":
        return {"operator": "Exists"}
    match = _TOLERATION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--toleration {text!r} is invalid",
            hint="Write --toleration=KEY=VALUE:EFFECT,Equal|Exists or --toleration=all",
        )
    key, value, effect, operator = match.groups()
    parts = {"key": key, "operator": operator, "value": value, "effect": effect}
    return {name: part for name, part in parts.items() if part}


def pairs(flag: str, entries: Iterable[str]) -> dict[str, str]:
    """`K=V` entries as a mapping; the value may contain anything, also `=` and commas."""
    found = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {entry!r} is invalid", hint=f"Write {flag}=KEY=VALUE")
        found[key] = value
    return found


def seconds(flag: str, text: str) -> int:
    """A Go duration of whole seconds: 90s, 5m, 1h30m."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise UsageError(f"{flag} {text!r} is invalid", hint=f"Write {flag}=90s, 5m or 1h30m")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + rest


def _quantity(flag: str, text: str) -> str:
    if text:
        try:
            whole(text)
        except InvalidQuantity:
            raise UsageError(
                f"{flag} {text!r} is invalid", hint=f"Write {flag}=500m, 2 or 4Gi"
            ) from None
    return text
