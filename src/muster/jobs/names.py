"""What a job's objects are called and labelled, and whether those names are possible.

Used by `forms` (to refuse a job early), by the operator (to create objects) and by the CLI (to
find them). Names carry no random part: the same job always has the same names, so that creating
one twice is a conflict and not a duplicate.

What a job's TensorBoard is called and where it listens, for whoever makes or looks for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from muster.api.meta import SUFFIX_LETTERS
from muster.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


PREFIX = "training.kubeflow.org"
OPERATOR = f"{PREFIX}/operator-name"
JOB = f"{PREFIX}/job-name"
ROLE = f"{PREFIX}/replica-type"
INDEX = f"{PREFIX}/replica-index"
JOB_ROLE = f"{PREFIX}/job-role"
STARTING_DEADLINE = "muster.dev/starting-deadline-seconds"
"""Annotation of a job: seconds in which it must start to run."""

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 63


def replica(job: str, role: str, index: int) -> str:
    """The name of a replica's pod and service."""
    return f"{job}-{role.lower()}-{index}"


def launcher(job: str, uid: str, attempt: int) -> str:
    """The name of an MPI launcher: a suffix that is the same each time this attempt is made."""
    import hashlib  # slow to load, and only launchers need it

    digest = hashlib.sha256(f"{uid}/{attempt}".encode()).digest()
    suffix = (SUFFIX_LETTERS[byte % len(SUFFIX_LETTERS)] for byte in digest[:5])
    return f"{job}-launcher-{''.join(suffix)}"


def labels(operator: str, job: str, role: str, index: int) -> dict[str, str]:
    """The labels by which a replica's pod is found, and which its service selects."""
    return {OPERATOR: operator, JOB: job, ROLE: role.lower(), INDEX: str(index)}


def replica_index(labels: Mapping[str, str]) -> int:
    """The index of the replica with these labels; -1 if they have none."""
    text = labels.get(INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else -1


def selector(operator: str, job: str) -> dict[str, str]:
    """The labels that all pods of a job share."""
    return {OPERATOR: operator, JOB: job}


def selector_text(operator: str, job: str, role: str) -> str:
    """The labels of a role's pods as a selector, as autoscalers read it."""
    labels = {**selector(operator, job), ROLE: role.lower()}
    return ",".join(f"{name}={labels[name]}" for name in sorted(labels))


def check(job: str, derived: Iterable[str]) -> None:
    """Refuse a job whose pods or services could not be named; the message says which name."""
    longest = max(derived, key=len, default=job)
    if len(longest) > _LONGEST:
        spare = _LONGEST - (len(longest) - len(job))
        raise InvalidJob(
            "metadata.name",
            f"{longest!r}, made from it, has {len(longest)} characters; {_LONGEST} are allowed",
            hint=f"use a name of at most {spare} characters",
        )
    if not _LABEL.fullmatch(longest):
        raise InvalidJob(
            "metadata.name",
            f"{longest!r}, made from it, is not a DNS label",
            hint="use lower-case letters, digits and '-', beginning with a letter",
        )


TENSORBOARD_PORT = 6006
TENSORBOARD_LABEL = {"role": "tensorboard"}
"""The label of TensorBoard's objects, besides `release`, which is the job's name."""


def tensorboard(job: str) -> str:
    """What the Deployment and the Service of a job's TensorBoard are called."""
    return f"{job}-tensorboard"
