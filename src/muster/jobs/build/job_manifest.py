"""The job itself, and everything submitted with it.

`bundle` turns a submission into objects, in the order in which arena lists them. Objects other than
the job have no owner yet; the caller adds it once the job has a UID.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.contract.exported_models import MODEL_DIR
from muster.contract.gang import TOPOLOGY_ANNOTATION
from muster.contract.gang_dialects import MIN_LABEL, NAME_LABEL
from muster.jobs import names
from muster.jobs.build import flag_values, roles, tensorboard, validation, volumes
from muster.jobs.build.flags import Mpi, PyTorch, Site, TensorFlow
from muster.jobs.build.pod_templates import template
from muster.jobs.run_policy import CLEAN_POD_POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from muster.jobs.build.flags import Submission
    from muster.jobs.build.roles import Role

GANG = "muster.dev/gang"
USER, USER_ID = "arena.kubeflow.org/username", "arena.kubeflow.org/uid"
REQUESTED = "requestGPUsOfJobOwner"
SUCCESS_POLICIES = ("ChiefWorker", "AllWorkers")
TOPOLOGY_SIZE = "gpu-topology-replica"
_SEQUENCE = {"w": "Worker", "p": "PS", "c": "Chief", "e": "Evaluator"}


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

    def _labelled_by_user(self) -> Iterator[Raw]:
        yield self.job["metadata"]
        for field, replicas in self.job["spec"].items():
            if field.endswith("ReplicaSpecs"):
                yield from (row["template"]["metadata"] for row in replicas.values())
        for item in self.companions:
            if item["kind"] != "ConfigMap":
                yield item["metadata"]
            if item["kind"] == "Deployment":
                yield item["spec"]["template"]["metadata"]


def bundle(args: Submission, site: Site = Site()) -> Bundle:  # noqa: B008 - frozen
    """Everything that `arena submit` creates, except the record of the submission."""
    validation.validate(args)
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
        *tensorboard.objects(args, site, labels, roles.writer(args, present)),
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
    pods = labels | (_topology(args) if isinstance(args, Mpi) and args.gputopology else {})
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


def _topology(args: Mpi) -> dict[str, str]:
    return {"gpu-topology": args.name, TOPOLOGY_SIZE: str(args.workers)}


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
    rows = {GANG: "true" if args.is_gang else "false", REQUESTED: str(gpus)}
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
