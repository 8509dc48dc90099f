"""The rules of each kind: workloads, budgets, namespaces, and where the others' are.

Pure; called by `admit.py` on every write, after defaults. Enough to catch the mistakes people make
in manifests; exotic fields are taken as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from muster.local.apiserver import event_forms, objects, status
from muster.local.apiserver.admission.validation import (
    config,
    endpoints,
    pods,
    quotas,
    roles,
    services,
    storage,
)
from muster.local.apiserver.admission.validation.containers import one_of
from muster.local.apiserver.admission.validation.metadata import UNQUALIFIED
from muster.local.apiserver.choosing import chooses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_JOB_NUMBERS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)


def check(collection: str, obj: Raw) -> list[Cause]:
    """What is wrong with an object of a built-in kind."""
    rule = _RULES.get(collection)
    return list(rule(obj)) if rule is not None else []


def check_new(collection: str, obj: Raw) -> list[Cause]:
    """What only a new object of a built-in kind may not be."""
    return list(pods.check_new(obj["spec"])) if collection == "pods" else []


def _pod(pod: Raw) -> list[Cause]:
    spec = pod["spec"]
    causes = list(pods.check(spec, "spec"))
    if spec.get("schedulingGates") and spec.get("nodeName"):
        told = "cannot be set until all schedulingGates have been cleared"
        causes.append(status.forbidden_field("spec.nodeName", told))
    return causes


def _workload(owner: Raw) -> list[Cause]:
    """Deployments and replica sets: the selector must be there and select the template."""
    spec: Raw = owner["spec"]
    path, template = "spec.template.spec", spec["template"]["spec"]
    causes = _natural(spec, "replicas") + _selector(spec) + list(pods.check(template, path))
    if template["restartPolicy"] != "Always":
        restart = template["restartPolicy"]
        causes.append(status.not_supported(f"{path}.restartPolicy", restart, ("Always",)))
    return causes


def _job(job: Raw) -> list[Cause]:
    spec: Raw = job["spec"]
    causes = [] if spec.get("selector") else [status.required("spec.selector")]
    causes += _natural(spec, *_JOB_NUMBERS)
    replaced = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    causes += one_of(spec, "podReplacementPolicy", replaced, "spec")
    template = spec["template"]
    labels = template["metadata"].get("labels")
    if not spec.get("selector") or not chooses(spec["selector"], labels or {}):
        told = "`selector` does not match template `labels`"
        causes.append(status.bad_value("spec.template.metadata.labels", labels, told))
    causes += pods.check(template["spec"], "spec.template.spec")
    if template["spec"].get("restartPolicy") not in ("OnFailure", "Never"):
        field, value = "spec.template.spec.restartPolicy", template["spec"].get("restartPolicy")
        if value == "Always":
            causes.append(status.not_supported(field, value, ("OnFailure", "Never")))
        else:
            causes.append(status.required(field, 'valid values: "OnFailure", "Never"'))
    return causes


def _selector(spec: Raw) -> list[Cause]:
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels")
    if selector is None:
        return [status.required("spec.selector")]
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        told = "empty selector is invalid for deployment"
        return [status.bad_value("spec.selector", selector, told)]
    if chooses(selector, labels or {}):
        return []
    told = "`selector` does not match template `labels`"
    return [status.bad_value("spec.template.metadata.labels", labels or {}, told)]


def _natural(spec: Raw, *fields: str) -> list[Cause]:
    told = "must be greater than or equal to 0"
    return [
        status.bad_value(f"spec.{field}", spec[field], told)
        for field in fields
        if (spec.get(field) or 0) < 0
    ]


def _budget(budget: Raw) -> list[Cause]:
    spec: Raw = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        told = "minAvailable and maxUnavailable cannot be both set"
        return [status.bad_value("spec", objects.dump(spec).decode(), told)]
    return [
        status.bad_value(f"spec.{field}", spec[field], told)
        for field in ("minAvailable", "maxUnavailable")
        if spec.get(field) is not None and (told := _share(spec[field]))
    ]


def _share(value: int | str) -> str:
    """What is wrong with so many, or so many percent."""
    if isinstance(value, int):
        return "" if value >= 0 else "must be greater than or equal to 0"
    if not re.fullmatch("[0-9]{1,9}%", value):
        return (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', "
            " or '93%', regex used for validation is '[0-9]+%')"
        )
    return "" if int(value[:-1]) <= 100 else "must not be greater than 100%"


def _lease(lease: Raw) -> list[Cause]:
    spec: Raw = lease.get("spec") or {}
    causes = _natural(spec, "leaseTransitions")
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        told = "must be greater than 0"
        causes.append(status.bad_value("spec.leaseDurationSeconds", duration, told))
    return causes


def _event(event: Raw) -> list[Cause]:
    if event["apiVersion"].startswith(event_forms.GROUP):
        return _new_event(event)
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    home = event["metadata"].get("namespace", "")
    if about == home or (not about and home == "default"):
        return []
    told = "does not match event.namespace"
    return [status.bad_value("involvedObject.namespace", about, told)]


def _new_event(event: Raw) -> list[Cause]:
    """Newer recorders say who they are, and what was done."""
    causes = [] if event.get("eventTime") else [status.required("eventTime")]
    for field, told in (
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ):
        if not event.get(field):
            causes.append(status.required(told))
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(status.bad_value("type", event.get("type") or "", "has invalid value: "))
    return causes


def _namespace(namespace: Raw) -> list[Cause]:
    causes = [
        status.bad_value(f"spec.finalizers[{i}]", name, UNQUALIFIED)
        for i, name in enumerate((namespace.get("spec") or {}).get("finalizers") or ())
        if name != "kubernetes" and "/" not in name
    ]
    phase = (namespace.get("status") or {}).get("phase")
    going = "deletionTimestamp" in namespace["metadata"]
    only, when = ("Terminating", "not empty") if going else ("Active", "empty")
    if phase != only:
        told = f"may only be '{only}' if `deletionTimestamp` is {when}"
        causes.append(status.bad_value("status.Phase", phase, told))
    return causes


_RULES: dict[str, Callable[[Raw], Iterable[Cause]]] = {
    "namespaces": _namespace,
    "pods": _pod,
    "services": services.check,
    "endpoints": endpoints.check,
    "configmaps": config.config_map,
    "secrets": config.secret,
    "events": _event,
    "resourcequotas": quotas.check,
    "persistentvolumes": storage.volume,
    "persistentvolumeclaims": storage.claim,
    "deployments.apps": _workload,
    "replicasets.apps": _workload,
    "jobs.batch": _job,
    "poddisruptionbudgets.policy": _budget,
    "leases.coordination.k8s.io": _lease,
    **roles.RULES,
}
