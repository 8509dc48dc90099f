"""Names and labels of a job's objects, TensorBoard's included, and the check of names.

Names have no random part: the same job always has the same names, so that creating an object twice
is a conflict and not a duplicate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import SUFFIX_LETTERS
from muster.contract.job_fields import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


PREFIX = "training.kubeflow.org"
OPERATOR = f"{PREFIX}/operator-name"
JOB = f"{PREFIX}/job-name"
ROLE = f"{PREFIX}/replica-type"
INDEX = f"{PREFIX}/replica-index"
JOB_ROLE = f"{PREFIX}/job-role"
NVIDIA_GPU, ALIYUN_GPU = "nvidia.com/gpu", "aliyun.com/gpu"
GPU_RESOURCES = (NVIDIA_GPU, ALIYUN_GPU, "amd.com/gpu")
STARTING_DEADLINE = "muster.dev/starting-deadline-seconds"
"""Annotation of a job: seconds in which it must start to run."""
CLUSTER_SIZE = "muster.dev/cluster-size"
"""Annotation of a pod: the numbers of replicas that its configuration contains."""
RANK_0_ACCOUNT = "muster.dev/rank-0-service-account"
"""Annotation of a job: the service account of the pod in which rank 0 runs, and of no other."""

# A Service must begin with a letter (RFC 1035); the name of a pod could begin with a digit.
LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
LABEL_HINT = "use lower-case letters, digits and '-', beginning with a letter"
MAX_LENGTH = 63


def replica(job: str, role: str, index: int) -> str:
    """The name of a replica's pod and service."""
    return f"{job}-{role.lower()}-{index}"


def replica_key(job: str, pod: str) -> str:
    """`worker-0`: role and index of the replica whose pod has this name."""
    key = pod.removeprefix(f"{job}-")
    return "launcher-0" if key.startswith("launcher-") else key


def launcher(job: str, uid: str, attempt: int) -> str:
    """The name of an MPI launcher; its suffix is a hash of job and attempt.

    It looks random, but an operator that restarts computes the same name again, and so never
    creates a second launcher for one attempt.
    """
    import hashlib  # slow to import, and only launchers need it

    digest = hashlib.sha256(f"{uid}/{attempt}".encode()).digest()
    suffix = (SUFFIX_LETTERS[byte % len(SUFFIX_LETTERS)] for byte in digest[:5])
    return f"{job}-launcher-{''.join(suffix)}"


def launcher_example(job: str) -> str:
    """A name as long as that of an MPI launcher, for messages about a job without a UID."""
    return f"{job}-launcher-xxxxx"


def labels(operator: str, job: str, role: str, index: int) -> dict[str, str]:
    """The labels of a replica's pod, which its service selects."""
    return {OPERATOR: operator, JOB: job, ROLE: role.lower(), INDEX: str(index)}


def replica_index(labels: Mapping[str, str]) -> int:
    """The index of the replica with these labels; -1 if they have none."""
    index = read_integer(labels.get(INDEX, ""))
    return -1 if index is None else index


def selector(operator: str, job: str) -> dict[str, str]:
    """The labels that all pods of a job share."""
    return {OPERATOR: operator, JOB: job}


def selector_text(operator: str, job: str, role: str) -> str:
    """The selector of a role's pods, as autoscalers read it."""
    labels = {**selector(operator, job), ROLE: role.lower()}
    return ",".join(f"{name}={labels[name]}" for name in sorted(labels))


def check(job: str, derived: Iterable[str]) -> None:
    """Raise InvalidJob if Kubernetes would reject a name derived from the job's name."""
    longest = max(derived, key=len, default=job)
    if len(longest) > MAX_LENGTH:
        spare = MAX_LENGTH - (len(longest) - len(job))
        raise InvalidJob(
            "metadata.name",
            f"{longest!r}, derived from it, has {len(longest)} characters; "
            f"at most {MAX_LENGTH} are allowed",
            hint=f"use a name of at most {spare} characters",
        )
    if not re.fullmatch(LABEL, longest):
        raise InvalidJob(
            "metadata.name",
            f"{longest!r}, derived from it, is not a DNS label",
            hint=LABEL_HINT,
        )


TENSORBOARD_PORT = 6006
TENSORBOARD_LABEL = {"role": "tensorboard"}
"""The label of TensorBoard's objects, besides `release`, which is the job's name."""


def tensorboard(job: str) -> str:
    """The name of the Deployment and the Service of a job's TensorBoard."""
    return f"{job}-tensorboard"
