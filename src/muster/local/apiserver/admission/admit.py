"""What happens to an object on its way into the store: metadata, defaults, status.

Pure: the clock, the uid and the random suffix are arguments. Called by `verbs.py`. Functions take
ownership of the object they are given and change it in place; what is wrong with it is raised as
a Refusal with the field's path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import timestamp
from muster.api.schemas import Schema
from muster.local.apiserver import status, structural
from muster.local.apiserver.admission import immutable, pod_changes, service_changes
from muster.local.apiserver.admission.births import complete
from muster.local.apiserver.admission.defaults import defaults
from muster.local.apiserver.admission.generation import counted, counts
from muster.local.apiserver.admission.validation import kinds, metadata

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Resource
    from muster.local.apiserver.status import Cause

_STATUS_AT_BIRTH = frozenset({"nodes"})  # a node registers with the status it has
_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp")


class Birth(NamedTuple):
    """What the outside world adds to a new object."""

    now: datetime
    uid: str
    suffix: str


def on_create(resource: Resource, obj: Raw, namespace: str, birth: Birth) -> Raw:
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
    if counts(resource):
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
        service_changes.complete(new, old)
    if not resource.custom:
        defaults(resource.collection, new)
    if resource.collection == "namespaces" and subresource != "finalize":
        new["spec"] = old.get("spec", {})  # only `finalize` changes it
    if resource.collection == "pods":
        pod_changes.complete(new, old, subresource)
    fixed = immutable.check(resource, new, old) if not subresource else []
    if subresource == "status":
        fixed = immutable.check_status(resource, new, old)
    _refuse(resource, new, _check(resource, new) + fixed)
    _check_finalizers(resource, new, old)
    if not subresource and counted(resource, new) != counted(resource, old):
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


def same(new: Raw, old: Raw) -> bool:
    """Whether a write would change nothing."""
    return _comparable(new) == _comparable(old)


def _comparable(obj: Raw) -> Raw:
    meta = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return obj | {"metadata": meta, "apiVersion": ""}


# -- checks --------------------------------------------------------------------------------------


def _check(resource: Resource, obj: Raw) -> list[Cause]:
    causes = list(metadata.check(resource.collection, obj["metadata"]))
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
        raise status.invalid(resource.stored_group, resource.kind, name, causes)


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
        _refuse(resource, new, [status.forbidden_field("metadata.finalizers", detail)])


def _quoted(text: str) -> str:
    return f'"{text}"'
