"""Finding jobs and their pods on a cluster, for the verbs that show or change them.

A kind whose CRD is not installed has no jobs; that is not an error unless no kind is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.api.kinds import JAXJOBS, JOB_KINDS, MPIJOBS, PODS, PYTORCHJOBS, TFJOBS, Kind
from muster.api.meta import Key, Raw
from muster.cli.verbs import unknown
from muster.errors import MusterError, NotFound, UsageError
from muster.jobs import names
from muster.jobs.view import View, view

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from muster.api.core import Pod
    from muster.kube.blocking import BlockingClient

TYPES: dict[str, Kind[Raw]] = {
    "tfjob": TFJOBS, "tf": TFJOBS, "tensorflow": TFJOBS,
    "mpijob": MPIJOBS, "mpi": MPIJOBS,
    "pytorchjob": PYTORCHJOBS, "pytorch": PYTORCHJOBS, "py": PYTORCHJOBS,
    "jaxjob": JAXJOBS, "jax": JAXJOBS,
}  # fmt: skip


def kinds_of(type_: str) -> tuple[Kind[Raw], ...]:
    """The kinds that `--type` means; all of them when it is empty."""
    if not type_:
        return JOB_KINDS
    kind = TYPES.get(type_.lower())
    if kind is None:
        raise UsageError(
            unknown("job type", type_, list(TYPES)),
            hint="Types: tfjob, mpijob, pytorchjob, jaxjob.",
        )
    return (kind,)


def named(client: BlockingClient, key: Key, type_: str = "") -> tuple[Kind[Raw], Raw]:
    """The one job of that name."""
    found = []
    for kind in kinds_of(type_):
        try:
            found.append((kind, client.get(kind, key)))
        except NotFound:
            continue
    if not found:
        raise NotFound(
            f"Not found training job {key.name} in namespace {key.namespace},"
            "please use 'arena submit' to create it.",
            status=404,
        )
    if len(found) > 1:
        types = ", ".join(kind.kind.lower() for kind, _ in found)
        raise MusterError(
            f"there are {len(found)} training jobs named {key.name}: {types}",
            hint="Choose one with --type.",
        )
    return found[0]


def everything(client: BlockingClient, namespace: str, type_: str = "") -> list[View]:
    """Every job of a namespace (or of all, if it is empty), newest first."""
    jobs = [raw for kind in kinds_of(type_) for raw in _listed(client, kind, namespace)]
    if not jobs:
        return []
    pods = client.list(PODS, namespace, labels=names.JOB).items
    by_job: dict[Key, list[Pod]] = {}
    for pod in pods:
        name = pod.metadata.labels.get(names.JOB, "")
        by_job.setdefault(Key(pod.metadata.namespace, name), []).append(pod)
    views = [view(raw, by_job.get(_key(raw), [])) for raw in jobs]
    return sorted(views, key=lambda v: (-(v.created.timestamp() if v.created else 0), v.key))


def one(client: BlockingClient, key: Key, type_: str = "") -> View:
    """One job with its pods."""
    _, raw = named(client, key, type_)
    pods = client.list(PODS, key.namespace, labels=f"{names.JOB}={key.name}").items
    return view(raw, pods)


def _key(raw: Raw) -> Key:
    return Key(raw["metadata"]["namespace"], raw["metadata"]["name"])


def _listed(client: BlockingClient, kind: Kind[Raw], namespace: str) -> list[Raw]:
    try:
        return client.list(kind, namespace).items
    except NotFound:
        return []


def type_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--type`, as every verb on jobs has it."""
    return click.option("--type", "-T", "type_", default="", help="tfjob, mpijob, …")(command)
