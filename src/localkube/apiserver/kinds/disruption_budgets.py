"""PodDisruptionBudget: checks, columns, and the evictions that it allows.

The controller of budgets counts pods and writes `disruptionsAllowed`. An eviction takes one of them
before the pod is deleted, so that evictions in parallel never take more than there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver import api_errors, causes, codec, rules
from localkube.apiserver.codec import selector_matches
from localkube.apiserver.kinds.field_rules import check_int_or_percent, fill
from localkube.apiserver.resource import STATUS, Resource
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from kubekit.request_errors import StatusError
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.store.collection import ObjectReader

_SIDES = ("minAvailable", "maxUnavailable")
_ALLOWED = "DisruptionAllowed"
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _check(budget: Raw) -> Causes:
    spec: Raw = budget.get("spec") or {}
    sides = [side for side in _SIDES if spec.get(side) is not None]
    if len(sides) == 2:
        detail = "minAvailable and maxUnavailable cannot be both set"
        yield causes.invalid("spec", codec.dump(spec).decode(), detail)
        return
    for side in sides:
        yield from check_int_or_percent(spec[side], f"spec.{side}")


def protecting(store: ObjectReader, pod: Raw) -> list[Raw]:
    """The budgets that select a pod."""
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    entries = store.scan(f"{PDBS.collection}/{namespace}/")
    budgets = (codec.decode(entry.value) for entry in entries)
    selectors = ((budget, codec.at(budget, "spec.selector")) for budget in budgets)
    return [b for b, s in selectors if s is not None and selector_matches(s, labels)]


def costs_nothing(budget: Raw, pod: Raw) -> bool:
    """Whether the budget lets the pod be evicted because it is not healthy anyway."""
    if cells.condition_is_true(pod, "Ready"):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    return int(status["currentHealthy"]) >= int(status["desiredHealthy"]) > 0


def take_disruption(budget: Raw, pod: str, now: str) -> Raw:
    """The budget with the eviction of a pod counted, in place; raise 429 if none is left.

    The pod stays in `disruptedPods` until the controller of budgets sees it being deleted: until
    then it counts as unhealthy.
    """
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise _refused(why, retryAfterSeconds=10)  # clients then repeat the request by themselves
    if status["disruptionsAllowed"] <= 0:
        raise _refused(_why_none_is_left(budget))
    status["disruptionsAllowed"] -= 1
    if status["disruptionsAllowed"] == 0:
        _forbid_disruptions(budget, now)
    status["disruptedPods"] = (status.get("disruptedPods") or {}) | {pod: now}
    return budget


def _why_none_is_left(budget: Raw) -> str:
    name, status = budget["metadata"]["name"], budget["status"]
    for condition in cells.conditions(budget, _ALLOWED):
        if condition.get("status") == "False" and condition.get("reason") == "SyncFailed":
            return (
                f"The disruption budget {name} does not allow evicting pods currently because it"
                f" failed sync: {condition.get('message')}"
            )
    healthy, required = status["currentHealthy"], status["desiredHealthy"]
    if healthy > required:  # other evictions took the difference
        return f"The disruption budget {name} does not allow evicting pods currently"
    return f"The disruption budget {name} needs {required} healthy pods and has {healthy} currently"


def _forbid_disruptions(budget: Raw, now: str) -> None:
    """Write, in place, the condition of a budget that allows no further eviction."""
    conditions: list[Raw] = budget["status"].setdefault("conditions", [])
    condition = next((c for c in conditions if c.get("type") == _ALLOWED), None)
    if condition is None:
        conditions.append(condition := {"type": _ALLOWED})
    if condition.get("status") != "False":
        condition["lastTransitionTime"] = now
    condition |= {
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": budget["status"]["observedGeneration"],
    }


def _refused(why: str, **details: object) -> StatusError:
    cause = {"reason": "DisruptionBudget", "message": why}
    return api_errors.error("TooManyRequests", _REFUSED, {"causes": [cause], **details})


def _bound(side: str) -> cells.Cell:
    """The column of a number or percentage that may be missing."""

    def cell(budget: Raw, now: datetime) -> str:
        amount = codec.at(budget, f"spec.{side}")
        return "N/A" if amount is None else str(amount)

    return cell


PDBS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",),
    subresources=STATUS,
    strategy=rules.Strategy(
        completion=rules.Completion(
            defaults=lambda budget: fill(budget, status=dict.fromkeys(_COUNTS, 0))
        ),
        checks=rules.Checks(always=_check),
        generation="spec",
        table=rules.Table(cells.NAME | {
            "Min Available": _bound("minAvailable"),
            "Max Unavailable": _bound("maxUnavailable"),
            "Allowed Disruptions": cells.number_at("status.disruptionsAllowed"),
        } | cells.AGE),
    ),
)  # fmt: skip
