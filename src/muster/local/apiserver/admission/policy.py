"""Rules that need a look at other objects: priority classes, default tolerations, CRDs' own status.

Called by `verbs.py` after `admit.py`. Reads the store, writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.meta import timestamp
from muster.local.apiserver import status
from muster.local.apiserver.admission import priority
from muster.local.apiserver.admission.defaults import fill

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.errors import Refusal
    from muster.local.apiserver.registry import Resource
    from muster.local.apiserver.store import Store

_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def on_create(obj: Raw, resource: Resource, store: Store, now: datetime) -> Raw:
    """Complete a new object from what else there is."""
    if resource.collection == "pods":
        priority.give(obj, store)
        _tolerate_short_outages(obj["spec"])
    elif resource.collection == priority.COLLECTION:
        priority.check(obj, store)
    elif resource.collection == _CRDS:
        _check_definition(obj)
        _establish(obj, timestamp(now))
    return obj


def on_update(new: Raw, old: Raw, resource: Resource) -> Raw:
    """Complete a changed object."""
    if resource.collection == _CRDS:
        _check_definition(new)
        _accept_names(new)
        stored = old.get("status", {}).get("storedVersions", [])
        current = _storage(new)
        if current not in stored:
            new.setdefault("status", {})["storedVersions"] = [*stored, current]
    return new


def _tolerate_short_outages(spec: Raw) -> None:
    """A pod stays five minutes on a node that is not ready or cannot be reached."""
    tolerations = spec.setdefault("tolerations", [])
    for taint in _TAINTS:
        if not any(
            t.get("key") in (taint, None, "") and t.get("effect") in ("NoExecute", None, "")
            for t in tolerations
        ):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            )


def terminating(resource: Resource, name: str, namespace: str) -> Refusal:
    """Nothing new comes into a namespace that is going away."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = status.forbidden(resource.group, resource.plural, name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.details = (refusal.details or {}) | {"causes": [cause]}
    return refusal


# -- CRDs ----------------------------------------------------------------------------------------


def _check_definition(crd: Raw) -> None:
    """Enough to serve the kind; what is missing is named by its field."""
    spec, name = crd.get("spec") or {}, crd["metadata"].get("name", "")
    causes = [
        status.required(f"spec.{field}")
        for field in ("group", "names", "versions", "scope")
        if not spec.get(field)
    ]
    named = spec.get("names") or {}
    causes += [
        status.required(f"spec.names.{field}")
        for field in ("plural", "kind")
        if not named.get(field)
    ]
    stored = [v for v in spec.get("versions") or () if v.get("storage")]
    if spec.get("versions") and len(stored) != 1:
        causes.append(
            status.bad_value(
                "spec.versions",
                spec["versions"],
                "must have exactly one version marked as storage version",
            )
        )
    if not causes and name != f"{named['plural']}.{spec['group']}":
        causes.append(
            status.bad_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
        )
    if causes:
        raise status.invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, causes)


def _storage(crd: Raw) -> str:
    return next(str(v["name"]) for v in crd["spec"]["versions"] if v.get("storage"))


def _accept_names(crd: Raw) -> None:
    names = crd["spec"]["names"]
    fill(names, singular=names["kind"].lower(), listKind=f"{names['kind']}List")
    crd["spec"].setdefault("conversion", {"strategy": "None"})
    if "status" in crd:
        crd["status"]["acceptedNames"] = dict(names)


def _establish(crd: Raw, now: str) -> None:
    """A definition takes effect with its write, so it is born established."""

    def condition(type_: str, reason: str, message: str) -> Raw:
        return {
            "type": type_,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    crd["status"] = {
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established", "InitialNamesAccepted", "the initial names have been accepted"
            ),
        ],
        "storedVersions": [_storage(crd)],
    }
    _accept_names(crd)
