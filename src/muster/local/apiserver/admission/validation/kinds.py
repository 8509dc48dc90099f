"""The rules of each kind: leases, events, namespaces, and where the others' are.

Pure; called by `admit.py` on every write, after defaults. Enough to catch the mistakes people make
in manifests; exotic fields are taken as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors
from muster.local.apiserver.admission.names import UNQUALIFIED
from muster.local.apiserver.kinds import (
    config_map,
    deployment,
    endpoints,
    job,
    persistent_volume,
    pod_spec,
    resource_quota,
    role,
    service,
)
from muster.local.apiserver.kinds import event as event_forms
from muster.local.apiserver.kinds.deployment import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause


def check(collection: str, obj: Raw) -> list[Cause]:
    """What is wrong with an object of a built-in kind."""
    rule = _RULES.get(collection)
    return list(rule(obj)) if rule is not None else []


def check_new(collection: str, obj: Raw) -> list[Cause]:
    """What only a new object of a built-in kind may not be."""
    return list(pod_spec.check_new(obj["spec"])) if collection == "pods" else []


def _pod(pod: Raw) -> list[Cause]:
    spec = pod["spec"]
    causes = list(pod_spec.check_pod_spec(spec, "spec"))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        told = "cannot be set until all schedulingGates have been cleared"
        causes.append(api_errors.forbidden_field("spec.nodeName", told))
    return causes


def _lease(lease: Raw) -> list[Cause]:
    spec: Raw = lease.get("spec") or {}
    causes = natural(spec, "leaseTransitions")
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        told = "must be greater than 0"
        causes.append(api_errors.invalid_value("spec.leaseDurationSeconds", duration, told))
    return causes


def _event(event: Raw) -> list[Cause]:
    if event["apiVersion"].startswith(event_forms.GROUP):
        return _new_event(event)
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    home = event["metadata"].get("namespace", "")
    if about == home or (not about and home == "default"):
        return []
    told = "does not match event.namespace"
    return [api_errors.invalid_value("involvedObject.namespace", about, told)]


def _new_event(event: Raw) -> list[Cause]:
    """Newer recorders say who they are, and what was done."""
    causes = [] if event.get("eventTime") else [api_errors.required("eventTime")]
    for field, told in (
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ):
        if not event.get(field):
            causes.append(api_errors.required(told))
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(
            api_errors.invalid_value("type", event.get("type") or "", "has invalid value: ")
        )
    return causes


def _namespace(namespace: Raw) -> list[Cause]:
    causes = [
        api_errors.invalid_value(f"spec.finalizers[{i}]", name, UNQUALIFIED)
        for i, name in enumerate((namespace.get("spec") or {}).get("finalizers") or ())
        if name != "kubernetes" and "/" not in name
    ]
    phase = (namespace.get("status") or {}).get("phase")
    going = "deletionTimestamp" in namespace["metadata"]
    only, when = ("Terminating", "not empty") if going else ("Active", "empty")
    if phase != only:
        told = f"may only be '{only}' if `deletionTimestamp` is {when}"
        causes.append(api_errors.invalid_value("status.Phase", phase, told))
    return causes


_RULES: dict[str, Callable[[Raw], Iterable[Cause]]] = {
    "namespaces": _namespace,
    "pods": _pod,
    "services": service.check,
    "endpoints": endpoints.check,
    "configmaps": config_map.config_map,
    "secrets": config_map.secret,
    "events": _event,
    "resourcequotas": resource_quota.check,
    "persistentvolumes": persistent_volume.volume,
    "persistentvolumeclaims": persistent_volume.claim,
    "deployments.apps": deployment.deployment,
    "replicasets.apps": deployment.replica_set,
    "jobs.batch": job.check,
    "poddisruptionbudgets.policy": deployment.budget,
    "leases.coordination.k8s.io": _lease,
    **role.RULES,
}
