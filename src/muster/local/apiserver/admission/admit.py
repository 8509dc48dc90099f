"""What happens to an object on its way into the store: metadata, defaults, status.

Pure: the clock, the uid and the random suffix are arguments. Called by `verbs.py`. Functions take
ownership of the object they are given and change it in place; what is wrong with it is raised as
a Refusal with the field's path.

metadata.generation: which kinds have one, and what a change of makes a new one.

Pure; used by `admit.py` and `deletion.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import timestamp
from muster.api.schemas import Schema
from muster.local.apiserver import api_errors
from muster.local.apiserver.admission import immutable, names
from muster.local.apiserver.admission.births import complete
from muster.local.apiserver.admission.defaults import defaults
from muster.local.apiserver.admission.validation import kinds
from muster.local.apiserver.kinds import pod, service
from muster.local.apiserver.schema import structural

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause
    from muster.local.apiserver.registry import Resource


# Kinds whose generation counts changes of the spec; all custom ones do too.
_COUNTED = frozenset(
    {
        "pods",
        "deployments.apps",
        "replicasets.apps",
        "jobs.batch",
        "poddisruptionbudgets.policy",
        "endpointslices.discovery.k8s.io",
        "priorityclasses.scheduling.k8s.io",
        "podgroups.scheduling.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
)
# Kinds whose generation also counts changes of some metadata.
_COUNTED_TOO = {
    "deployments.apps": "annotations",
    "endpointslices.discovery.k8s.io": "labels",
}


def has_generation(resource: Resource) -> bool:
    """Whether objects of this kind have a generation."""
    return resource.custom or resource.collection in _COUNTED


def generation_fields(resource: Resource, obj: Raw) -> Raw:
    """What a change of makes a new generation: all but metadata and status, with exceptions."""
    if not has_generation(resource) or resource.collection == "priorityclasses.scheduling.k8s.io":
        return {}  # a class is born with a generation and keeps it
    left_out = ("metadata", "apiVersion", "kind", *(("status",) if resource.has_status else ()))
    body = {k: v for k, v in obj.items() if k not in left_out}
    also = _COUNTED_TOO.get(resource.collection, "")
    return body | ({"metadata": obj["metadata"].get(also) or {}} if also else {})


_STATUS_AT_BIRTH = frozenset({"nodes"})  # a node registers with the status it has
_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp")


class Generated(NamedTuple):
    """What the outside world adds to a new object."""

    now: datetime
    uid: str
    suffix: str


def on_create(resource: Resource, obj: Raw, namespace: str, birth: Generated) -> Raw:
    """Complete a new object."""
    meta = obj["metadata"]
    for name in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
        meta.pop(name, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"][:58] + birth.suffix
    if resource.namespaced:
        meta["namespace"] = namespace
    meta["uid"] = birth.uid
    meta["creationTimestamp"] = timestamp(birth.now)
    meta.pop("generation", None)
    if has_generation(resource):
        meta["generation"] = 1
    if resource.has_status and resource.collection not in _STATUS_AT_BIRTH:
        obj.pop("status", None)
    if not resource.custom:
        defaults(resource.collection, obj)
    complete(resource.collection, obj, timestamp(birth.now))
    _refuse(resource, obj, _check(resource, obj) + _check_new(resource, obj))
    return obj


def on_update(resource: Resource, new: Raw, old: Raw, subresource: str = "") -> Raw:
    """Complete a changed object: what only the server writes comes from the old one."""
    _refuse(resource, old, immutable.check_metadata(new["metadata"], old["metadata"]))
    if subresource == "status":
        new = _only_status(resource, new, old)
    elif resource.has_status and subresource in ("", "finalize"):
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    _keep_metadata(new["metadata"], old["metadata"])
    if resource.collection == "services":
        service.prepare_update(new, old)
    if not resource.custom:
        defaults(resource.collection, new)
    if resource.collection == "namespaces" and subresource != "finalize":
        new["spec"] = old.get("spec", {})  # only `finalize` changes it
    if resource.collection == "pods":
        pod.prepare_update(new, old, subresource)
    fixed = immutable.check(resource, new, old) if not subresource else []
    if subresource == "status":
        fixed = immutable.check_status(resource, new, old)
    _refuse(resource, new, _check(resource, new) + fixed)
    _check_finalizers(resource, new, old)
    if not subresource and generation_fields(resource, new) != generation_fields(resource, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return new


def _keep_metadata(meta: Raw, old: Raw) -> None:
    meta.pop("managedFields", None)
    for name in (*_KEPT, "deletionGracePeriodSeconds", "name", "namespace"):
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]


def _only_status(resource: Resource, new: Raw, old: Raw) -> Raw:
    result = dict(old)
    result.pop("status", None)
    if "status" in new:
        result["status"] = new["status"]
    result["metadata"] = dict(old["metadata"])
    if not resource.custom:
        for name in ("labels", "annotations"):
            result["metadata"].pop(name, None)
            if new["metadata"].get(name):
                result["metadata"][name] = new["metadata"][name]
    return result


def is_unchanged(new: Raw, old: Raw) -> bool:
    """Whether a write would change nothing."""
    return _comparable(new) == _comparable(old)


def _comparable(obj: Raw) -> Raw:
    meta = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return obj | {"metadata": meta, "apiVersion": ""}


# -- checks --------------------------------------------------------------------------------------


def _check(resource: Resource, obj: Raw) -> list[Cause]:
    causes = list(names.check_metadata(resource.collection, obj["metadata"]))
    return causes if resource.custom else causes + kinds.check(resource.collection, obj)


def _check_new(resource: Resource, obj: Raw) -> list[Cause]:
    """What only a new object may not be. A custom kind can say what its objects may be called."""
    if not resource.custom:
        return kinds.check_new(resource.collection, obj)
    declared: Raw = (resource.schema.get("properties") or {}).get("metadata") or {}
    rules: Raw = (declared.get("properties") or {}).get("name") or {}
    name = str(obj["metadata"].get("name") or "")
    return structural.check(name, Schema(rules), "metadata.name") if rules else []


def _refuse(resource: Resource, obj: Raw, causes: list[Cause]) -> None:
    if causes:
        name = str(obj["metadata"].get("name") or "")
        raise api_errors.invalid(resource.stored_group, resource.kind, name, causes)


def _check_finalizers(resource: Resource, new: Raw, old: Raw) -> None:
    """An object being deleted can only lose finalizers."""
    if "deletionTimestamp" not in old["metadata"]:
        return
    before = set(old["metadata"].get("finalizers") or ())
    extra = sorted(set(new["metadata"].get("finalizers") or ()) - before)
    if extra:
        detail = (
            "no new finalizers can be added if the object is being deleted, found new finalizers"
            f" []string{{{', '.join(map(_quoted, extra))}}}"
        )
        _refuse(resource, new, [api_errors.forbidden_field("metadata.finalizers", detail)])


def _quoted(text: str) -> str:
    return f'"{text}"'
