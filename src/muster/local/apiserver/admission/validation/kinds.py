"""The rules of each kind: deployments, jobs, services, budgets, namespaces.

Pure; called by `admit.py` on every write, after defaults. Enough to catch the mistakes people make
in manifests; exotic fields are taken as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from muster.api.affinity import LabelSelector
from muster.api.selectors import from_labels
from muster.errors import InvalidSelector
from muster.local.apiserver import objects, status
from muster.local.apiserver.admission.validation import pods, quotas
from muster.local.apiserver.admission.validation.containers import PORT_RANGE, PROTOCOLS, one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

_JOB_NUMBERS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)
_SERVICE_WORDS = {
    "sessionAffinity": ("ClientIP", "None"),
    "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "internalTrafficPolicy": ("Cluster", "Local"),
}
_UNQUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"


def check(collection: str, obj: Raw) -> list[Cause]:
    """What is wrong with an object of a built-in kind."""
    rule = _RULES.get(collection)
    return rule(obj) if rule is not None else []


def _pod(pod: Raw) -> list[Cause]:
    return list(pods.check(pod["spec"], "spec"))


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
    template = spec["template"]
    labels = template["metadata"].get("labels")
    if not spec.get("selector") or not _selects(spec["selector"], labels or {}):
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
    if _selects(selector, labels or {}):
        return []
    told = "`selector` does not match template `labels`"
    return [status.bad_value("spec.template.metadata.labels", labels or {}, told)]


def _selects(selector: Raw, labels: dict[str, str]) -> bool:
    try:
        return from_labels(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (InvalidSelector, msgspec.ValidationError):
        return False


def _natural(spec: Raw, *fields: str) -> list[Cause]:
    told = "must be greater than or equal to 0"
    return [
        status.bad_value(f"spec.{field}", spec[field], told)
        for field in fields
        if (spec.get(field) or 0) < 0
    ]


def _service(service: Raw) -> list[Cause]:
    spec = service["spec"]
    causes = [
        cause
        for field, allowed in _SERVICE_WORDS.items()
        for cause in one_of(spec, field, allowed, "spec")
    ]
    for i, port in enumerate(spec.get("ports") or ()):
        causes += one_of(port, "protocol", PROTOCOLS, f"spec.ports[{i}]")
        number = port.get("port", 0)
        if not 1 <= number <= 65535:
            causes.append(status.bad_value(f"spec.ports[{i}].port", number, PORT_RANGE))
    return causes


def _budget(budget: Raw) -> list[Cause]:
    spec: Raw = budget.get("spec") or {}
    if spec.get("minAvailable") is None or spec.get("maxUnavailable") is None:
        return []
    told = "minAvailable and maxUnavailable cannot be both set"
    return [status.bad_value("spec", objects.dump(spec).decode(), told)]


def _namespace(namespace: Raw) -> list[Cause]:
    causes = [
        status.bad_value(f"spec.finalizers[{i}]", name, _UNQUALIFIED)
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


_RULES: dict[str, Callable[[Raw], list[Cause]]] = {
    "namespaces": _namespace,
    "pods": _pod,
    "services": _service,
    "resourcequotas": lambda quota: list(quotas.check(quota)),
    "deployments.apps": _workload,
    "replicasets.apps": _workload,
    "jobs.batch": _job,
    "poddisruptionbudgets.policy": _budget,
}
