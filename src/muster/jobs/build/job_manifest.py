"""The job itself, and everything submitted with it.

`bundle` turns a submission into objects, in the order in which arena lists them. Objects other than
the job have no owner yet; the caller adds it once the job has a UID. A submission that no cluster
could run is rejected, flag by flag, before anything is built; values that mean something only for a
role or a volume are checked where that is built.

TensorBoard's Deployment and Service are not part of the gang, request no resources and are owned by
the job, so they are deleted with it. If the logs are on one node TensorBoard must run on that node:
it then waits for the replica that writes them, and pends as long as the gang does.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from kubekit.errors import UsageError
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.quantity import parse_milli
from muster.contract import local_cluster_names
from muster.contract.exported_models import MODEL_DIR
from muster.contract.gang import (
    GANG_IF_SCHEDULED,
    PREFERRED_TOPOLOGY_ANNOTATION,
    RESTART_ANNOTATION,
    TOPOLOGY_ANNOTATION,
)
from muster.contract.gang_dialects import MIN_LABEL, NAME_LABEL
from muster.jobs import names
from muster.jobs.build import code_sync, flag_values, pod_affinity, roles, volumes
from muster.jobs.build.flags import Mpi, PyTorch, Site, Submission, TensorFlow
from muster.jobs.build.pod_templates import (
    RESTRICTED_HOME,
    beyond_restricted,
    escape_literal,
    restricted,
    surroundings,
    template,
)
from muster.jobs.run_policy import CLEAN_POD_POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from muster.jobs.build.roles import Role

GANG = "muster.dev/gang"
_GANG_WORDS = {True: "true", False: "false", None: GANG_IF_SCHEDULED}
USER, USER_ID = "arena.kubeflow.org/username", "arena.kubeflow.org/uid"
REQUESTED = "requestGPUsOfJobOwner"
SUCCESS_POLICIES = ("ChiefWorker", "AllWorkers")
TOPOLOGY_SIZE = "gpu-topology-replica"
_SEQUENCE = {"w": "Worker", "p": "PS", "c": "Chief", "e": "Evaluator"}
_TENSORBOARD_IMAGE = "tensorflow/tensorflow:2.21.0"
_READ_FROM = "/output/training_logs"
_PROBE_SECONDS = 2
_REPLICAS = "ReplicaSpecs"
_CPU = ("cpu", "cpu_limit")
_MEMORY = ("memory", "memory_limit")


@dataclass(frozen=True)
class Bundle:
    """A job and its companions: objects that are created and deleted with it."""

    job: Raw
    companions: tuple[Raw, ...] = ()

    def with_user(self, user: str) -> Bundle:
        """The same with labels of the user who submits it: on job, pods and TensorBoard."""
        if not user:
            return self
        # A label takes no arbitrary name, so it has arena's digest; an annotation has the name.
        digest = hashlib.md5(user.encode(), usedforsecurity=False).hexdigest()
        copied = copy.deepcopy(self)
        copied.job["metadata"]["annotations"][USER] = user
        for holder in copied._labelled_by_user():
            holder["labels"].setdefault(USER_ID, digest)
        return copied

    def refused_in_restricted(self) -> list[str]:
        """What flags asked for that a namespace of the standard `restricted` refuses."""
        rows = next(rows for name, rows in self.job["spec"].items() if name.endswith(_REPLICAS))
        pods = [row["template"]["spec"] for row in rows.values()]
        pods += [
            item["spec"]["template"]["spec"]
            for item in self.companions
            if item["kind"] == "Deployment"
        ]
        return list(dict.fromkeys(text for pod in pods for text in beyond_restricted(pod)))

    def _labelled_by_user(self) -> Iterator[Raw]:
        yield self.job["metadata"]
        for field, replicas in self.job["spec"].items():
            if field.endswith(_REPLICAS):
                yield from (row["template"]["metadata"] for row in replicas.values())
        for item in self.companions:
            if item["kind"] != "ConfigMap":
                yield item["metadata"]
            if item["kind"] == "Deployment":
                yield item["spec"]["template"]["metadata"]


def bundle(args: Submission, site: Site = Site()) -> Bundle:  # noqa: B008 - frozen
    """Everything that `arena submit` creates, except the record of the submission."""
    _validate(args)
    if site.restricted:
        _check_logs(args, site)
        args = replace(args, working_dir=args.working_dir or RESTRICTED_HOME)
    present = roles.roles_of(args)
    labels = _labels(args)
    metadata: Raw = {"name": args.name, "labels": labels, "annotations": _annotations(args)}
    metadata["annotations"] |= _about(args, present)
    if directory := volumes.model_directory(args, site):
        metadata["annotations"][MODEL_DIR] = directory
    resource = args.job_kind.resource
    job: Raw = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": _spec(args, site, present, labels),
    }
    companions = [
        *volumes.config_maps(args, site),
        *_tensorboard(args, site, labels, roles.writer(args, present)),
    ]
    return Bundle(job, tuple(companions))


def _spec(args: Submission, site: Site, present: list[Role], labels: dict[str, str]) -> Raw:
    # An MPI launcher is not counted: it starts only after the workers.
    members = sum(role.count for role in present if role.member)
    spec: Raw = {"runPolicy": _run_policy(args, members)}
    match args:
        case TensorFlow() if _success_policy(args) != "ChiefWorker":
            spec["successPolicy"] = _success_policy(args)
        case Mpi() if args.gpus:
            spec["slotsPerWorker"] = args.gpus
        case PyTorch() if args.nproc_per_node:
            spec["nprocPerNode"] = args.nproc_per_node
        case _:
            pass
    pods = labels
    if isinstance(args, Mpi) and args.gputopology:
        pods = labels | {"gpu-topology": args.name, TOPOLOGY_SIZE: str(args.workers)}
    gang = {NAME_LABEL: f"{args.type}-{args.name}", MIN_LABEL: str(members)} if args.is_gang else {}
    spec[args.job_kind.replicas_field] = {
        role.name: _replica(args, site, role, pods | (gang if role.member else {}))
        for role in present
    }
    return spec


def _replica(args: Submission, site: Site, role: Role, labels: dict[str, str]) -> Raw:
    metadata: Raw = {"labels": labels}
    annotations = _annotations(args)
    if annotations:
        metadata["annotations"] = annotations
    return {
        "replicas": role.count,
        "restartPolicy": role.restart,
        "template": template(args, site, role, metadata),
    }


def _labels(args: Submission) -> dict[str, str]:
    arena = {"app": args.type, "release": args.name, "createdBy": args.job_kind.kind}
    if args.model_name:
        arena |= flag_values.labels("--model-name", [f"modelName={args.model_name}"])
    return arena | flag_values.labels("--label", args.label)


def _annotations(args: Submission) -> dict[str, str]:
    """The user's annotations, for the job and its pods."""
    given = flag_values.keyed("--annotation", args.annotation)
    return given | ({TOPOLOGY_ANNOTATION: args.topology} if args.topology else {})


def _about(args: Submission, present: list[Role]) -> dict[str, str]:
    """The annotations of the job alone."""
    gpus = sum(role.count * role.gpus for role in present if role.name != "PS")
    rows = {GANG: _GANG_WORDS[args.is_gang], REQUESTED: str(gpus)}
    if scope := roles.restart_scope(args):
        rows[RESTART_ANNOTATION] = scope
    if args.queue:
        rows["scheduling.x-k8s.io/suspend"] = "true"
    if isinstance(args, TensorFlow) and args.role_sequence:
        rows["job-role-sequence"] = _sequence(args.role_sequence)
    if isinstance(args, TensorFlow) and args.starting_timeout:
        wait = flag_values.seconds("--starting-timeout", args.starting_timeout)
        rows |= {names.STARTING_DEADLINE: str(wait)} if wait else {}
    return rows


def _sequence(text: str) -> str:
    words = {**_SEQUENCE, **{role.lower(): role for role in _SEQUENCE.values()}}
    try:
        return ",".join(words[word.strip().lower()] for word in text.split(","))
    except KeyError:
        raise flag_values.wrong(
            "--role-sequence", text, "Write roles in order: --role-sequence=PS,Worker,Chief"
        ) from None


def _run_policy(args: Submission, members: int) -> Raw:
    text = args.clean_task_policy
    complaint = f"unsupported cleanTaskPolicy {text}"  # as arena words it
    cleaning = flag_values.choice("--clean-task-policy", text, CLEAN_POD_POLICIES, complaint)
    policy: Raw = {"cleanPodPolicy": cleaning}
    if args.running_timeout:
        limit = flag_values.seconds("--running-timeout", args.running_timeout)
        policy |= {"activeDeadlineSeconds": limit} if limit else {}
    if args.ttl_after_finished:
        ttl = flag_values.seconds("--ttl-after-finished", args.ttl_after_finished)
        policy |= {"ttlSecondsAfterFinished": ttl} if ttl else {}
    if args.retry:
        policy["backoffLimit"] = args.retry
    return policy | ({"schedulingPolicy": {"minAvailable": members}} if args.is_gang else {})


def _success_policy(args: TensorFlow) -> str:
    text, complaint = args.success_policy, f"unsupported successPolicy {args.success_policy}"
    return flag_values.choice("--success-policy", text, SUCCESS_POLICIES, complaint)


def _check_logs(args: Submission, site: Site) -> None:
    """Refuse a job whose pods the standard `restricted` would keep out for TensorBoard's sake."""
    if volumes.logs(args, site):
        raise UsageError(
            "--tensorboard keeps the logs in a directory of the node, which the namespace does not "
            "allow (pod security standard restricted)",
            hint="Keep them in a claim: --data=CLAIM:/data --logdir=/data/logs. Or leave "
            "--tensorboard out.",
        )


def _tensorboard(args: Submission, site: Site, labels: dict[str, str], writer: str) -> list[Raw]:
    """The Service and the Deployment; nothing without `--tensorboard`."""
    if not args.tensorboard:
        return []
    name = names.tensorboard(args.name)
    selector = {"app": args.type, "release": args.name, **names.TENSORBOARD_LABEL}
    metadata = {"name": name, "labels": {**labels, **selector}}
    port = {
        "name": "tensorboard",
        "port": names.TENSORBOARD_PORT,
        "targetPort": names.TENSORBOARD_PORT,
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": "NodePort", "selector": selector, "ports": [port]},
    }
    template = {
        "metadata": {"labels": metadata["labels"]},
        "spec": _tensorboard_pod(args, site, writer),
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": 1, "selector": {"matchLabels": selector}, "template": template},
    }
    return [service, deployment]


def _tensorboard_pod(args: Submission, site: Site, writer: str) -> Raw:
    mounted = [
        row._replace(mount={**row.mount, "mountPath": _READ_FROM})
        for row in volumes.logs(args, site)
    ]
    logdir = _READ_FROM if mounted else args.logdir
    data = mounted or [*volumes.claims(args), *volumes.host_directories(args)]
    pod_volumes, mounts = volumes.split([*data, *volumes.programs(site)])
    container: Raw = {
        "name": "tensorboard",
        "image": args.tensorboard_image or _TENSORBOARD_IMAGE,
        "imagePullPolicy": args.image_pull_policy,
        "command": ["tensorboard", "--logdir", logdir, "--host", "0.0.0.0"],
        # Otherwise NVIDIA's runtime could show it all GPUs of the node.
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, *_search_path(site)],
        "ports": [{"name": "tensorboard", "containerPort": names.TENSORBOARD_PORT}],
        # `arena get` then shows its last words, for example that a package is missing.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # It loads for seconds before it opens its port.
        "readinessProbe": {
            "tcpSocket": {"port": names.TENSORBOARD_PORT},
            "periodSeconds": _PROBE_SECONDS,
        },
        "volumeMounts": [{**mount, "readOnly": True} for mount in mounts],
    }
    shared = volumes.shared_logs(args, site)
    spec: Raw = {
        **surroundings(args),
        "affinity": {} if shared else pod_affinity.on_node_of(args.name, writer, 0),
        "volumes": pod_volumes,
        "containers": [{key: value for key, value in container.items() if value}],
    }
    chosen = {key: value for key, value in spec.items() if value}
    return restricted(chosen) if site.restricted else chosen


def _search_path(site: Site) -> list[Raw]:
    """PATH on the user's machine: the user's own TensorBoard, else the one of Muster."""
    path = dict(site.workspace.variables).get("PATH")
    if not path:
        return []
    path = f"{path}:{local_cluster_names.LAST_PROGRAMS}"
    return [{"name": "PATH", "value": escape_literal(path)}]


def _validate(args: Submission) -> None:
    """Raise UsageError for the first invalid flag."""
    flag_values.job_name(args.name)
    _numbers(args)
    if not "".join(args.command).strip():
        raise UsageError(
            "the training command is missing",
            hint='Add it at the end: arena submit … "python train.py"',
        )
    if not args.shell.strip():
        raise UsageError("--shell is empty", hint="For example --shell=bash")
    if not args.directory.startswith("/"):
        raise flag_values.wrong(
            "--working-dir", args.directory, "Write --working-dir=/absolute/path"
        )
    if "://" not in args.logdir:  # TensorBoard reads hdfs://… and the like itself
        flag_values.path("--logdir", args.logdir, "Write --logdir=/absolute/path")
    _words(args)
    _amounts(args)
    if args.model_name and not args.model_source:
        raise UsageError(
            "--model-source must be set when --model-name is set",
            hint="For example --model-source=pvc://models/mnist",
        )
    code_sync.check(args)
    processes = args.nproc_per_node if isinstance(args, PyTorch) else ""
    if processes not in ("", "auto", "cpu", "gpu") and not read_integer(processes):
        raise flag_values.wrong("--nproc-per-node", processes, "Write auto, cpu, gpu or a number.")


def _given_flags(args: Submission, *endings: str) -> Iterator[tuple[str, str]]:
    """Every field with one of these endings, and its flag."""
    for field in fields(args):
        if field.name.endswith(endings):
            yield field.name, f"--{field.name.replace('_', '-')}"


def _numbers(args: Submission) -> None:
    for field, flag in _given_flags(args, ""):  # every field ends with ""
        number = getattr(args, field)
        if not isinstance(number, int):
            continue
        if field.endswith("_port"):
            if not 0 <= number < 65536:
                raise UsageError(f"{flag} is invalid", hint="Write a port between 1 and 65535.")
        elif field == "workers" and number < 1:
            raise UsageError("--workers must be at least 1")
        elif number < 0:
            raise UsageError(f"{flag} is invalid: it cannot be negative")
        elif number > flag_values.MAX_INT32:
            raise flag_values.wrong(flag, str(number), f"It is at most {flag_values.MAX_INT32}.")


def _words(args: Submission) -> None:
    for field, flag in _given_flags(args, "image", "scheduler"):
        flag_values.one_word(flag, getattr(args, field))
    flag_values.label_keys("--topology", args.topology)
    annotations = flag_values.keyed("--annotation", args.annotation)
    for name in (TOPOLOGY_ANNOTATION, PREFERRED_TOPOLOGY_ANNOTATION):
        flag_values.label_keys(f"--annotation={name}", annotations.get(name, ""))
    for field, flag in _given_flags(args, "selector"):
        flag_values.labels(flag, getattr(args, field))


def _amounts(args: Submission) -> None:
    for field, flag in _given_flags(args, *_CPU):
        flag_values.cpu(flag, getattr(args, field))
    for field, flag in _given_flags(args, *_MEMORY):
        flag_values.memory(flag, getattr(args, field))
    for field, flag in _given_flags(args, "_limit"):
        limit = getattr(args, field)
        own = field.removesuffix("_limit")
        name = own if getattr(args, own) else own.rpartition("_")[2]  # --ps-cpu, else --cpu
        request = getattr(args, name)
        if request and limit and parse_milli(limit) < parse_milli(request):
            hint = f"It is less than --{name.replace('_', '-')}={request}"
            raise flag_values.wrong(flag, limit, hint)
