"""Muster's own operators by their Deployments, and which of them act on the same jobs. Pure.

A cluster has one operator for all namespaces, or several for one namespace each. Each kind has a
lease of its own, so nothing but this check keeps one of both kinds from acting on the same jobs.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from muster.contract.crds import PART_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.objects.meta import Raw

OPERATOR = "muster-operator"


class OwnOperator(NamedTuple):
    """An operator of Muster that is not scaled to zero."""

    namespace: str
    """Of its Deployment."""
    served: str
    """The one namespace that it serves; empty: all."""

    def __str__(self) -> str:
        serves = f"the namespace {self.served} alone" if self.served else "all namespaces"
        return f"{OPERATOR} in the namespace {self.namespace}, which serves {serves}"

    def shares_jobs_with(self, other: OwnOperator) -> bool:
        """Whether both act on the jobs of a namespace."""
        return not (self.served and other.served) or self.served == other.served


def own_operators(deployments: Iterable[Raw]) -> list[OwnOperator]:
    """Muster's operators that run."""
    return [
        OwnOperator(row["metadata"]["namespace"], next(iter(served_namespaces([row])), ""))
        for row in deployments
        if _is_operator(row) and (row.get("spec") or {}).get("replicas", 1) > 0
    ]


def served_namespaces(deployments: Iterable[Raw]) -> list[str]:
    """The namespaces to which operators are limited."""
    containers = (row["spec"]["template"]["spec"]["containers"][0] for row in deployments)
    words = (str(word) for container in containers for word in container.get("args") or [])
    return [word.partition("=")[2] for word in words if word.startswith("--namespace=")]


def sharing_jobs(operators: Iterable[OwnOperator]) -> Iterator[tuple[OwnOperator, OwnOperator]]:
    """Every pair of operators that act on the same jobs; the one for all namespaces is first."""
    ordered = sorted(operators, key=lambda row: (bool(row.served), row))
    return (
        pair for pair in itertools.combinations(ordered, 2) if pair[0].shares_jobs_with(pair[1])
    )


def _is_operator(deployment: Raw) -> bool:
    labels = deployment["metadata"].get("labels") or {}
    return labels.get("app.kubernetes.io/name") == OPERATOR and PART_OF in labels
