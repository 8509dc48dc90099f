"""Disruption budgets: may this pod be evicted now?

Called by the eviction subresource. It counts pods itself instead of trusting a controller's
`disruptionsAllowed`, so budgets hold on a cluster where no such controller runs.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from muster.local.apiserver import objects
from muster.local.apiserver.api_errors import Cause, too_many
from muster.local.apiserver.objects import selector_matches

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.store.store import Store


def check_budgets(store: Store, pod: Raw) -> None:
    """Raise a Refusal (429) if evicting the pod would break a budget."""
    namespace = pod["metadata"]["namespace"]
    labels = pod["metadata"].get("labels") or {}
    for entry in store.scan(f"poddisruptionbudgets.policy/{namespace}/"):
        budget = objects.decode(entry.value)
        if not _selects(budget, labels):
            continue
        pods = [objects.decode(e.value) for e in store.scan(f"pods/{namespace}/")]
        covered = [p for p in pods if _selects(budget, p["metadata"].get("labels") or {})]
        healthy = sum(map(_healthy, covered))
        needed = _needed(budget["spec"], len(covered))
        if _healthy(pod) and healthy - 1 < needed:
            name = budget["metadata"]["name"]
            raise too_many(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                Cause(
                    "",
                    "DisruptionBudget",
                    f"The disruption budget {name} needs {needed} healthy pods and has"
                    f" {healthy} currently",
                ),
            )


def _selects(budget: Raw, labels: dict[str, str]) -> bool:
    raw = (budget.get("spec") or {}).get("selector")
    return raw is not None and selector_matches(raw, labels)


def _healthy(pod: Raw) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _needed(spec: Raw, covered: int) -> int:
    """How many pods must stay healthy."""
    if spec.get("minAvailable") is not None:
        return _count(spec["minAvailable"], covered)
    if spec.get("maxUnavailable") is not None:
        return covered - _count(spec["maxUnavailable"], covered)
    return 0


def _count(value: object, whole: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return ceil(int(value[:-1]) * whole / 100)
    return int(str(value))
