"""Job operators and schedulers of other projects, and what an installation does beside them. Pure.

Where another job operator runs, Muster's is left out; a scheduler that answers to the same name is
refused. They are known by their Deployments and leases.

Names are from the manifests and sources of these projects, at these commits: training-operator 1.9
(047db1a4, b3cc7906 for Open Data Hub), tf-operator (020cea26, 01c75ac5), pytorch-operator
(0bed2d4d), mpi-operator (067a81ee; 12f5df3d for v1), arena's charts (8c964b19, 3926187d), Volcano
(04d59659, 0069b395), kube-batch (1ebe60e4, adc54967), kube-batchd (fffd42e4), scheduler-plugins
0.35.7 (09b67148), Koordinator (15d48f35), YuniKorn (188b913e).

Only training-operator (if told to elect a leader) and mpi-operator for v2beta1 hold leases; older
operators lock Endpoints. Charts put the name of their release in front of a Deployment's name.
Kueue and Kubeflow Trainer are in no table: Kueue starts and suspends jobs that an operator runs,
and Trainer acts on its own kinds.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubekit.errors import UsageError
from muster.contract.other_schedulers import DEFAULT_SCHEDULER, ELECTED, find_others, is_alive
from muster.contract.scheduler_rights import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from kubekit.objects.core import Lease
    from kubekit.objects.meta import Raw
    from muster.install.existing_objects import Found
    from muster.install.objects.values import Values
    from muster.install.plan import Request

OPERATORS = (
    "training-operator",
    "tf-operator",
    "tf-job-operator",
    "pytorch-operator",
    "mpi-operator",
)
"""Job operators that act on the same kinds: the names of their Deployments and images."""
TRAINING_OPERATOR_LEASE = ".training-operator.kubeflow.org"
MPI_OPERATOR_LEASE = "mpi-operator"
SCHEDULERS = {
    "volcano-scheduler": "volcano",
    "vc-scheduler": "volcano",
    "kube-batch": "kube-batch",
    "kube-batchd": "kube-batchd",
    "batchd": "kube-batchd",
    "scheduler-plugins-scheduler": "scheduler-plugins-scheduler",
    "koord-scheduler": "koord-scheduler",
    "yunikorn-scheduler": "yunikorn",
}
"""The name that each scheduler answers to by default, by the name of its Deployment or image."""
NAME_FLAG = "--scheduler-name"
"""The flag of Volcano and kube-batch that chooses another name."""


class OtherSystem(msgspec.Struct, frozen=True, order=True):
    """An operator or a scheduler name of another project, and by which object it was found."""

    name: str
    seen: str

    def __str__(self) -> str:
        return f"{self.name} ({self.seen})"


def other_operators(
    deployments: Iterable[Raw], leases: Iterable[Lease], now: datetime
) -> tuple[OtherSystem, ...]:
    """The job operators that run: a Deployment that is not scaled to zero, or a live lease."""
    found = {
        OtherSystem(name, _where(row))
        for row in deployments
        if _runs(row) and (name := _known(row, OPERATORS))
    }
    by_name = {other.name for other in found}
    for lease in leases:
        name = _operator_with_lease(lease.metadata.name)
        if name and name not in by_name and is_alive(lease, now):
            where = f"lease {lease.metadata.name} in the namespace {lease.metadata.namespace}"
            found.add(OtherSystem(name, where))
    return tuple(sorted(found))


def deployed_schedulers(deployments: Iterable[Raw]) -> tuple[OtherSystem, ...]:
    """The names that schedulers of other projects answer to, by their Deployments."""
    found = {
        OtherSystem(name, _where(row))
        for row in deployments
        if _runs(row) and (known := _known(row, SCHEDULERS))
        for name in tuple(_chosen_names(row)) or (SCHEDULERS[known],)
    }
    return tuple(sorted(found))


def _operator_with_lease(lease: str) -> str:
    if lease.endswith(TRAINING_OPERATOR_LEASE):
        return "training-operator"
    return "mpi-operator" if lease == MPI_OPERATOR_LEASE else ""


def _runs(deployment: Raw) -> bool:
    return bool((deployment.get("spec") or {}).get("replicas", 1) > 0)


def _where(deployment: Raw) -> str:
    meta = deployment["metadata"]
    return f"deployment {meta['name']} in the namespace {meta['namespace']}"


def _containers(deployment: Raw) -> list[Raw]:
    template = (deployment.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("containers") or []


def _known(deployment: Raw, known: Iterable[str]) -> str:
    """The known name that a Deployment or its image has, alone or after a prefix; else empty."""
    images = [str(row.get("image", "")) for row in _containers(deployment)]
    repositories = [
        image.partition("@")[0].rpartition("/")[2].partition(":")[0] for image in images
    ]
    names = [deployment["metadata"]["name"], *repositories]
    matches = (system for name in names for system in known if f"-{name}".endswith(f"-{system}"))
    return next(matches, "")


def _chosen_names(deployment: Raw) -> Iterator[str]:
    """The values of the flag that names a scheduler, as one word or two."""
    for container in _containers(deployment):
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        for word, following in itertools.pairwise([*words, ""]):
            if word == NAME_FLAG:
                yield str(following)
            elif str(word).startswith(f"{NAME_FLAG}="):
                yield str(word).partition("=")[2]


def beside_operators(request: Request, found: Found) -> tuple[Values, list[str]]:
    """The values without the operator, where another one runs."""
    values = request.values
    if not (values.operator.enabled and found.operators):
        return values, []
    running = ", ".join(map(str, found.operators))
    if any(row["metadata"]["name"] == "muster-operator" for row in found.deployments):
        raise UsageError(
            f"another job operator runs beside Muster's: {running}; both act on the same jobs",
            hint="Scale it to zero first, or remove Muster's with --scheduler-only.",
        )
    if request.operator:
        raise UsageError(
            f"another job operator runs: {running}; two operators would act on the same jobs",
            hint="Scale it to zero first, for example with `kubectl scale --replicas=0`.",
        )
    if values.components == ("operator",):
        raise UsageError(
            f"another job operator runs: {running}; there is nothing else to install",
            hint="Scale it to zero first, and then use --operator.",
        )
    without = replace(values, operator=replace(values.operator, enabled=False))
    return without, [
        f"another job operator runs: {running}. Muster's is not installed; "
        "scale the other one to zero and use --operator to replace it."
    ]


def refuse_schedulers(values: Values, found: Found, now: datetime) -> None:
    if not values.scheduler.enabled:
        return
    alive = find_others(
        values.scheduler.names, found.leases, now, gone=lambda holder: holder == ELECTED
    )
    deployed = [
        f"the scheduler of {other.name} runs: {other.seen}"
        for other in found.schedulers
        if other.name in values.scheduler.names
    ]
    if alive or deployed:
        raise UsageError(
            "; ".join([*map(str, alive), *deployed]),
            hint="Stop it first, or install with other names: --scheduler-name.",
        )


def refuse_unanswered(
    values: Values, found: Found | None = None, now: datetime | None = None
) -> None:
    """Refuse an operator that gives pods to a scheduler that will not be there.

    Without a cluster to look at, only Muster's own name is known to have no other scheduler.
    """
    own, names = values.operator, values.scheduler.names
    if not (own.enabled and values.scheduler.enabled):
        return
    given = {
        "gangSchedulerName": own.gang_scheduler_name,
        "podSchedulerName": own.pod_scheduler_name,
    }
    for field, name in given.items():
        if not name or name in (*names, DEFAULT_SCHEDULER) or _is_elsewhere(name, found, now):
            continue
        raise UsageError(
            f"the operator gives pods to the scheduler {name} (operator.{field}), and nothing "
            f"answers to it: Muster's would answer to {', '.join(names)}",
            hint=f"Add --scheduler-name {name}, or write {{operator: {{{field}: {names[0]}}}}} "
            "into a file for --values.",
        )


def _is_elsewhere(name: str, found: Found | None, now: datetime | None) -> bool:
    """Whether a scheduler that this installation does not change answers to a name."""
    if found is None or now is None:
        return name != NAMES[0]
    others = find_others([name], found.leases, now, gone=lambda holder: holder == ELECTED)
    return bool(others) or any(other.name == name for other in found.schedulers)
