"""What stays as it was created: a pod's spec, a job's template, who a role binding is about.

Pure; called by `admit.py` on every update. What was changed though it may not be is named by its
field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.kinds import job, persistent_volume_claim, pod, service

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause
    from muster.local.apiserver.registry import Resource

_FIELD = "field is immutable"
_FIXED = {
    "deployments.apps": ("spec.selector",),
    "replicasets.apps": ("spec.selector",),
    "jobs.batch": (
        "spec.selector",
        "spec.template",
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.successPolicy",
    ),
    "secrets": ("type",),
    "resourcequotas": ("spec.scopes",),
    "storageclasses.storage.k8s.io": ("provisioner", "parameters"),
    "persistentvolumes": ("spec.volumeMode",),
    "endpointslices.discovery.k8s.io": ("addressType",),
    "customresourcedefinitions.apiextensions.k8s.io": ("spec.scope", "spec.names.kind"),
}
_ROLES = frozenset(
    {"rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"}
)


def check(resource: Resource, new: Raw, old: Raw) -> list[Cause]:
    """The fields that were changed though they may not be."""
    causes = [
        api_errors.invalid_value(path, objects.at(new, path), _FIELD)
        for path in _FIXED.get(resource.collection, ())
        if objects.at(new, path) != objects.at(old, path)
    ]
    match resource.collection:
        case "pods":
            causes += pod.check_update(new["spec"], old["spec"])
        case "jobs.batch":
            causes += job.check_update(new["spec"], old["spec"])
        case "services":
            causes += service.check_update(new["spec"], old["spec"])
        case "persistentvolumeclaims":
            causes += persistent_volume_claim.check_update(new, old)
        case "configmaps" | "secrets":
            causes += _sealed(new, old)
        case "priorityclasses.scheduling.k8s.io":
            causes += _priority(new, old)
        case name if name in _ROLES and new.get("roleRef") != old.get("roleRef"):
            causes.append(
                api_errors.invalid_value("roleRef", new.get("roleRef"), "cannot change roleRef")
            )
        case _:
            pass
    return causes


def check_status(resource: Resource, new: Raw, old: Raw) -> list[Cause]:
    """What a status came to say though it may not."""
    return list(pod.check_status_update(new, old)) if resource.collection == "pods" else []


def check_metadata(new: Raw, old: Raw) -> list[Cause]:
    """The fields of metadata that only the server writes; leaving them out is no change."""
    return [
        api_errors.invalid_value(f"metadata.{name}", new[name], _FIELD)
        for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
        if new.get(name) is not None and new[name] != old.get(name)
    ]


def _sealed(new: Raw, old: Raw) -> list[Cause]:
    """A config map or secret may be closed for good."""
    if not old.get("immutable"):
        return []
    causes = []
    if not new.get("immutable"):
        causes.append(
            api_errors.forbidden_field("immutable", "field is immutable when `immutable` is set")
        )
    causes += [
        api_errors.forbidden_field(name, "field is immutable when `immutable` is set")
        for name in ("data", "binaryData")
        if (new.get(name) or {}) != (old.get(name) or {})
    ]
    return causes


def _priority(new: Raw, old: Raw) -> list[Cause]:
    causes = []
    if new.get("value", 0) != old.get("value", 0):
        causes.append(api_errors.forbidden_field("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        causes.append(
            api_errors.invalid_value("preemptionPolicy", new.get("preemptionPolicy"), _FIELD)
        )
    return causes
