"""What happens to an object on its way into the store: metadata, defaults, status, deletion.

Pure: the clock, the uid and the random suffix are arguments. Called by `verbs.py`. Functions take
ownership of the object they are given and change it in place; what is wrong with it is raised as
a Refusal with the field's path.
"""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from muster.local.apiserver import names, status
from muster.local.apiserver.defaults import defaults
from muster.local.apiserver.objects import stamp

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Resource
    from muster.local.apiserver.status import Cause

# Kinds whose metadata.generation counts changes of the spec; all custom ones do too.
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
_STATUS_AT_BIRTH = frozenset({"nodes"})  # a node registers with the status it has
_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp")
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


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
    meta["creationTimestamp"] = stamp(birth.now)
    meta.pop("generation", None)
    if _counts(resource):
        meta["generation"] = 1
    if resource.has_status and resource.collection not in _STATUS_AT_BIRTH:
        obj.pop("status", None)
    if not resource.custom:
        defaults(resource.collection, obj)
    if resource.collection == "pods":
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj)}
    _check(resource, obj)
    return obj


def on_update(resource: Resource, new: Raw, old: Raw, subresource: str = "") -> Raw:
    """Complete a changed object: what only the server writes comes from the old one."""
    if subresource == "status":
        new = _only_status(resource, new, old)
    elif resource.has_status and not subresource:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    _keep_metadata(new["metadata"], old["metadata"])
    if not resource.custom:
        defaults(resource.collection, new)
    _check(resource, new)
    _check_finalizers(resource, new, old)
    if resource.collection == "pods" and not subresource:
        _check_pod_update(new, old)
    if _counts(resource) and not subresource and _body(new) != _body(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return new


def _keep_metadata(meta: Raw, old: Raw) -> None:
    meta.pop("managedFields", None)
    for name in (*_KEPT, "deletionGracePeriodSeconds", "name", "namespace"):
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in meta and not meta[name]:
            del meta[name]


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


def _counts(resource: Resource) -> bool:
    return resource.custom or resource.collection in _COUNTED


def _body(obj: Raw) -> Raw:
    """Everything that is not metadata or status."""
    return {k: v for k, v in obj.items() if k not in ("metadata", "status", "apiVersion", "kind")}


def same(new: Raw, old: Raw) -> bool:
    """Whether a write would change nothing."""
    return _comparable(new) == _comparable(old)


def _comparable(obj: Raw) -> Raw:
    meta = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return obj | {"metadata": meta, "apiVersion": ""}


# -- checks --------------------------------------------------------------------------------------


def _check(resource: Resource, obj: Raw) -> None:
    meta = obj["metadata"]
    causes = names.check_name(resource.collection, str(meta.get("name") or ""))
    causes += names.check_labels(meta.get("labels") or {})
    for key in meta.get("annotations") or {}:
        causes += [
            status.bad_value("metadata.annotations", key, text) for text in names.check_key(key)
        ]
    causes += _check_owners(meta.get("ownerReferences") or [])
    if resource.collection == "pods":
        causes += _check_pod(obj)
    if causes:
        raise status.invalid(resource.group, resource.kind, str(meta.get("name") or ""), causes)


def _check_owners(owners: list[Raw]) -> list[Cause]:
    causes = []
    controllers = [o for o in owners if o.get("controller")]
    for owner in owners:
        causes += [
            status.bad_value(f"metadata.ownerReferences.{f}", "", f"{f} must not be empty")
            for f in ("apiVersion", "kind", "name", "uid")
            if not owner.get(f)
        ]
    if len(controllers) > 1:
        causes.append(
            status.bad_value(
                "metadata.ownerReferences",
                owners,
                "Only one reference can have Controller set to true."
                f' Found "true" in references for {controllers[0].get("kind")}/'
                f"{controllers[0].get('name')} and {controllers[1].get('kind')}/"
                f"{controllers[1].get('name')}",
            )
        )
    return causes


def _check_pod(pod: Raw) -> list[Cause]:
    containers = pod["spec"].get("containers")
    if not containers:
        return [status.required("spec.containers")]
    causes = []
    for i, container in enumerate(containers):
        causes += [
            status.required(f"spec.containers[{i}].{name}")
            for name in ("name", "image")
            if not container.get(name)
        ]
    return causes


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
        cause = status.forbidden_field("metadata.finalizers", detail)
        raise status.invalid(
            resource.group, resource.kind, str(new["metadata"].get("name")), [cause]
        )


def _quoted(text: str) -> str:
    return f'"{text}"'


_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it"
    " was previously negative)"
)


def _check_pod_update(new: Raw, old: Raw) -> None:
    """A pod is what it was created as; little may change."""
    if _fixed(new["spec"]) != _fixed(old["spec"]):
        cause = status.forbidden_field("spec", _MUTABLE)
        raise status.invalid("", "Pod", old["metadata"]["name"], [cause])


def _fixed(spec: Raw) -> Raw:
    fixed = deepcopy(spec)
    for container in [*(fixed.get("containers") or ()), *(fixed.get("initContainers") or ())]:
        container.pop("image", None)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        fixed.pop(name, None)
    return fixed


# -- deletion ------------------------------------------------------------------------------------


class Deletion(NamedTuple):
    """What a delete request does: `obj` is removed, or stays with this new state."""

    remove: bool
    obj: Raw
    changed: bool = True


def on_delete(resource: Resource, obj: Raw, options: Raw, now: datetime) -> Deletion:
    """Remove the object, or mark it and wait for its finalizers or its node."""
    meta = dict(obj["metadata"])
    marked = obj | {"metadata": meta}
    finalizers = _finalizers_for(meta, options)
    grace = _grace(resource, obj, options)
    waiting = grace > 0 or finalizers or _terminates(resource, obj)
    if not waiting:
        if resource.collection == "pods":
            _mark(resource, meta, now, 0)
        return Deletion(remove=True, obj=marked)
    if finalizers:
        meta["finalizers"] = finalizers
    if "deletionTimestamp" in meta:
        shorter = grace < meta.get("deletionGracePeriodSeconds", 0)
        if shorter:
            meta["deletionGracePeriodSeconds"] = grace
        return Deletion(remove=False, obj=marked, changed=shorter or marked != obj)
    _mark(resource, meta, now, grace)
    if resource.collection == "namespaces":
        del meta["deletionGracePeriodSeconds"]
        marked["status"] = marked.get("status", {}) | {"phase": "Terminating"}
    return Deletion(remove=False, obj=marked)


def _mark(resource: Resource, meta: Raw, now: datetime, grace: int) -> None:
    """Write down that the object is going, and how long it may take."""
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = stamp(now + timedelta(seconds=grace))
        if _counts(resource):
            meta["generation"] = meta.get("generation", 0) + 1
    meta["deletionGracePeriodSeconds"] = grace


def released(resource: Resource, obj: Raw) -> bool:
    """Whether an object that was marked for deletion has nothing left to wait for."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not _terminates(resource, obj)
    )


def _terminates(resource: Resource, obj: Raw) -> bool:
    """Whether a namespace still has to be emptied."""
    return resource.collection == "namespaces" and bool(obj.get("spec", {}).get("finalizers"))


def _finalizers_for(meta: Raw, options: Raw) -> list[str]:
    found = [f for f in meta.get("finalizers") or () if f not in (_FOREGROUND, _ORPHAN)]
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return list(meta.get("finalizers") or ())
    chosen = {"Foreground": [_FOREGROUND], "Orphan": [_ORPHAN]}.get(policy, [])
    return [*found, *chosen]


def _grace(resource: Resource, obj: Raw, options: Raw) -> int:
    """Seconds a pod has to stop; everything else goes at once."""
    if resource.collection != "pods":
        return 0
    spec, phase = obj.get("spec", {}), obj.get("status", {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    if asked is None:
        asked = spec.get("terminationGracePeriodSeconds", 30)
    return max(int(asked), 0)


def qos_class(pod: Raw) -> str:
    """Guaranteed, Burstable or BestEffort, as eviction orders them."""
    spec = pod["spec"]
    wanted = [
        c.get("resources") or {}
        for c in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        if isinstance(c, dict)
    ]
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
