"""What an object gets once, when it is created: a pod its first status, a job its own selector.

Pure; called by `admit.py` after the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver.admission.defaults import job_labels
from muster.local.apiserver.kinds.fields import ensure_map, fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.meta import Raw

_EMPTIED = "kubernetes"
"""The finalizer of whoever empties a namespace."""


def complete(collection: str, obj: Raw, now: str) -> None:
    """Complete a new object of a built-in kind in place."""
    rule = _RULES.get(collection)
    if rule is not None:
        rule(obj, now)


def _pod(pod: Raw, now: str) -> None:
    """The status of a pod that nobody has seen yet."""
    if pod["spec"]["terminationGracePeriodSeconds"] < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1
    found: Raw = {"phase": "Pending", "qosClass": qos_class(pod)}
    if pod["spec"].get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": now,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        found["conditions"] = [gated]
    pod["status"] = found


def qos_class(pod: Raw) -> str:
    """Guaranteed, Burstable or BestEffort, as eviction orders them."""
    spec = pod["spec"]
    whole: Raw = spec.get("resources") or {}
    wanted = [
        c.get("resources") or {}
        for c in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        if isinstance(c, dict)
    ]
    if whole.get("requests") or whole.get("limits"):
        wanted = [whole]
    amounts = [
        {r: v for r, v in (w.get(side) or {}).items() if r in ("cpu", "memory")}
        for w in wanted
        for side in ("requests", "limits")
    ]
    if not any(amounts):
        return "BestEffort"
    pairs = zip(amounts[::2], amounts[1::2], strict=True)
    if all(len(limits) == 2 and requests == limits for requests, limits in pairs):
        return "Guaranteed"
    return "Burstable"


def _job(job: Raw, now: str) -> None:
    """A new job finds its pods by labels that name its uid."""
    if job["spec"].get("manualSelector"):
        return
    uid, name = job["metadata"].get("uid"), job["metadata"].get("name")
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    fill(ensure_map(job["spec"]["template"]["metadata"], "labels"), **labels)
    job_labels(job)
    mine = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    fill(job["spec"], selector=mine)


def _volume(volume: Raw, now: str) -> None:
    volume["status"]["lastPhaseTransitionTime"] = now


def _namespace(namespace: Raw, now: str) -> None:
    finalizers = namespace["spec"].get("finalizers") or []
    if _EMPTIED not in finalizers:
        namespace["spec"]["finalizers"] = [*finalizers, _EMPTIED]


_RULES: dict[str, Callable[[Raw, str], None]] = {
    "pods": _pod,
    "jobs.batch": _job,
    "persistentvolumes": _volume,
    "namespaces": _namespace,
}
