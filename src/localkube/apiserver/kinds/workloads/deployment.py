"""Deployment: defaults, checks of the rolling update, columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import Causes, forbidden_field, invalid_value, not_supported
from localkube.apiserver.kinds import fields
from localkube.apiserver.kinds.pods.pod_template import (
    COLUMNS,
    check_selector,
    check_template,
    complete_template,
)
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views.cells import AGE, NAME, number_at, ready_replicas

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

_STRATEGIES = ("Recreate", "RollingUpdate")
_ROLLING = "spec.strategy.rollingUpdate"


def _defaults(deployment: Raw) -> None:
    spec = fields.fill(
        fields.ensure_map(deployment, "spec"),
        replicas=1,
        revisionHistoryLimit=10,
        progressDeadlineSeconds=600,
    )
    strategy = fields.fill(fields.ensure_map(spec, "strategy"), type="RollingUpdate")
    if strategy.get("type") == "RollingUpdate":
        fields.fill(
            fields.ensure_map(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%"
        )
    complete_template(spec)
    fields.fill(deployment, status={})


def _check(deployment: Raw) -> Causes:
    spec: Raw = deployment["spec"]
    yield from fields.check_not_negative(spec, "replicas")
    yield from check_selector(spec)
    yield from check_template(spec)
    yield from _check_strategy(spec.get("strategy") or {})
    yield from fields.check_not_negative(
        spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        detail = "must be greater than minReadySeconds"
        yield invalid_value("spec.progressDeadlineSeconds", deadline, detail)


def _check_strategy(strategy: Raw) -> Causes:
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in _STRATEGIES:
        yield not_supported("spec.strategy", strategy, _STRATEGIES)
    elif strategy["type"] == "Recreate" and rolling is not None:
        yield forbidden_field(_ROLLING, "may not be specified when strategy `type` is 'Recreate'")
    elif strategy["type"] == "RollingUpdate":
        yield from _check_rolling(rolling or {})


def _check_rolling(rolling: Raw) -> Causes:
    """While pods are replaced there must be more, or fewer, of them than requested."""
    missing, extra = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    missing_problem = fields.int_or_percent_problem(missing)
    if missing_problem:
        yield invalid_value(f"{_ROLLING}.maxUnavailable", missing, missing_problem)
    extra_problem = fields.int_or_percent_problem(extra, most=None)
    if extra_problem:
        yield invalid_value(f"{_ROLLING}.maxSurge", extra, extra_problem)
    valid = not (missing_problem or extra_problem)
    if valid and missing in (0, "0%") and extra in (0, "0%"):
        detail = "may not be 0 when `maxSurge` is 0"
        yield invalid_value(f"{_ROLLING}.maxUnavailable", missing, detail)


DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", "Deployment", short=("deploy",), categories=("all",),
    subresources=frozenset({"status", "scale"}),
    strategy=Strategy(
        not_by_status={"f:metadata": {"f:labels": {}}, "f:spec": {}},
        defaults=_defaults,
        check=_check,
        immutable=("spec.selector",),
        generation="spec",
        generation_metadata="annotations",
        columns=NAME | {
            "Ready": ready_replicas,
            "Up-to-date": number_at("status.updatedReplicas"),
            "Available": number_at("status.availableReplicas"),
        } | AGE | COLUMNS,
    ),
)  # fmt: skip
