"""PodDisruptionBudget: checks, columns, and whether a pod may be evicted now.

Evictions count pods themselves instead of trusting `disruptionsAllowed`, which a controller would
have to write: the local cluster has no controller of budgets.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from muster.local.apiserver import codec
from muster.local.apiserver.api_errors import Cause, Causes, invalid_value, too_many
from muster.local.apiserver.codec import selector_matches
from muster.local.apiserver.kinds.fields import fill, int_or_percent_problem
from muster.local.apiserver.resource import STATUS, Resource, Strategy
from muster.local.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.local.apiserver.store.changes import ObjectReader

_SIDES = ("minAvailable", "maxUnavailable")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _defaults(budget: Raw) -> None:
    fill(budget, status=dict.fromkeys(_COUNTS, 0))


def _check(budget: Raw) -> Causes:
    spec: Raw = budget.get("spec") or {}
    sides = [side for side in _SIDES if spec.get(side) is not None]
    if len(sides) == 2:
        detail = "minAvailable and maxUnavailable cannot be both set"
        yield invalid_value("spec", codec.dump(spec).decode(), detail)
        return
    for side in sides:
        if problem := int_or_percent_problem(spec[side]):
            yield invalid_value(f"spec.{side}", spec[side], problem)


def check_eviction(store: ObjectReader, pod: Raw) -> None:
    """Raise 429 if evicting the pod would break a budget."""
    namespace = pod["metadata"]["namespace"]
    labels = pod["metadata"].get("labels") or {}
    for entry in store.scan(f"{PDBS.collection}/{namespace}/"):
        budget = codec.decode(entry.value)
        if not _selects(budget, labels):
            continue
        pods = [codec.decode(e.value) for e in store.scan(f"pods/{namespace}/")]
        covered = [p for p in pods if _selects(budget, p["metadata"].get("labels") or {})]
        healthy = sum(map(_is_healthy, covered))
        required = _required(budget["spec"], len(covered))
        # An unhealthy pod does not count as available, so its eviction takes nothing away.
        if _is_healthy(pod) and healthy - 1 < required:
            name = budget["metadata"]["name"]
            raise too_many(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                Cause(
                    "",
                    "DisruptionBudget",
                    f"The disruption budget {name} needs {required} healthy pods and has"
                    f" {healthy} currently",
                ),
            )


def _selects(budget: Raw, labels: dict[str, str]) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and selector_matches(selector, labels)


def _is_healthy(pod: Raw) -> bool:
    return cells.condition_is_true(pod, "Ready") and not cells.is_being_deleted(pod)


def _required(spec: Raw, covered: int) -> int:
    """How many of the covered pods must stay healthy."""
    if spec.get("minAvailable") is not None:
        return _count(spec["minAvailable"], covered)
    if spec.get("maxUnavailable") is not None:
        return covered - _count(spec["maxUnavailable"], covered)
    return 0


def _count(value: object, whole: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return ceil(int(value[:-1]) * whole / 100)
    return int(str(value))


def _bound(side: str) -> cells.Cell:
    """The column of a number or percentage that may be missing."""

    def cell(budget: Raw, now: datetime) -> str:
        amount = codec.at(budget, f"spec.{side}")
        return "N/A" if amount is None else str(amount)

    return cell


PDBS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",),
    subresources=STATUS,
    strategy=Strategy(
        defaults=_defaults,
        check=_check,
        generation="spec",
        columns=cells.NAME | {
            "Min Available": _bound("minAvailable"),
            "Max Unavailable": _bound("maxUnavailable"),
            "Allowed Disruptions": cells.number_at("status.disruptionsAllowed"),
        } | cells.AGE,
    ),
)  # fmt: skip
