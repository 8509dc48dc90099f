"""What happens to an object on its way into the store: metadata, defaults, status, deletion.

Pure: the clock, the uid and the random suffix are arguments. Called by `verbs.py`. Functions take
ownership of the object they are given and change it in place; what is wrong with it is raised as
a Refusal with the field's path.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from muster.local.apiserver import status
from muster.local.apiserver.admission import immutable, names, validation
from muster.local.apiserver.admission.defaults import defaults, fill, own_selector, pod_status
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
    if resource.collection == "jobs.batch" and not obj["spec"].get("manualSelector"):
        own_selector(obj)
    if resource.collection == "persistentvolumes":
        obj["status"]["lastPhaseTransitionTime"] = stamp(birth.now)
    if resource.collection == "pods":
        obj["status"] = _newborn(obj, stamp(birth.now))
    _refuse(resource, obj, _check(resource, obj))
    return obj


def _newborn(pod: Raw, now: str) -> Raw:
    """The status of a pod that nobody has seen yet."""
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
    return found


def on_update(resource: Resource, new: Raw, old: Raw, subresource: str = "") -> Raw:
    """Complete a changed object: what only the server writes comes from the old one."""
    _refuse(resource, old, immutable.check_metadata(new["metadata"], old["metadata"]))
    if subresource == "status":
        new = _only_status(resource, new, old)
    elif resource.has_status and not subresource:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    _keep_metadata(new["metadata"], old["metadata"])
    if not resource.custom:
        defaults(resource.collection, new)
    if resource.collection == "namespaces" and subresource != "finalize":
        new["spec"] = old.get("spec", {})
    if resource.collection == "pods":  # what admission added is not the client's to repeat
        kept = ("priority", "preemptionPolicy", "tolerations")
        fill(new["spec"], **{name: old["spec"].get(name) for name in kept})
        pod_status(new)
        fill(new["status"], qosClass=old.get("status", {}).get("qosClass"))
    fixed = immutable.check(resource, new, old) if not subresource else []
    _refuse(resource, new, _check(resource, new) + fixed)
    _check_finalizers(resource, new, old)
    if not subresource and _counted(resource, new) != _counted(resource, old):
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


# Kinds whose generation also counts changes of some metadata.
_COUNTED_TOO = {
    "deployments.apps": "annotations",
    "endpointslices.discovery.k8s.io": "labels",
}


def _counted(resource: Resource, obj: Raw) -> Raw:
    """What a change of makes a new generation: all but metadata and status, with exceptions."""
    if not _counts(resource) or resource.collection == "priorityclasses.scheduling.k8s.io":
        return {}  # a class is born with a generation and keeps it
    left_out = ("metadata", "apiVersion", "kind", *(("status",) if resource.has_status else ()))
    body = {k: v for k, v in obj.items() if k not in left_out}
    also = _COUNTED_TOO.get(resource.collection, "")
    return body | ({"metadata": obj["metadata"].get(also) or {}} if also else {})


def same(new: Raw, old: Raw) -> bool:
    """Whether a write would change nothing."""
    return _comparable(new) == _comparable(old)


def _comparable(obj: Raw) -> Raw:
    meta = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return obj | {"metadata": meta, "apiVersion": ""}


# -- checks --------------------------------------------------------------------------------------


def _check(resource: Resource, obj: Raw) -> list[Cause]:
    meta = obj["metadata"]
    causes = names.check_name(resource.collection, str(meta.get("name") or ""))
    causes += names.check_labels(meta.get("labels") or {})
    for key in meta.get("annotations") or {}:
        causes += [
            status.bad_value("metadata.annotations", key, text) for text in names.check_key(key)
        ]
    causes += _check_owners(meta.get("ownerReferences") or [])
    if not resource.custom:
        causes += validation.check(resource.collection, obj)
    return causes


def _refuse(resource: Resource, obj: Raw, causes: list[Cause]) -> None:
    if causes:
        name = str(obj["metadata"].get("name") or "")
        raise status.invalid(resource.group, resource.kind, name, causes)


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


def swept(crd: Raw, now: datetime) -> Raw:
    """A definition that is gone, as a server shows it that has yet to remove its objects."""
    meta = crd["metadata"] | {
        "deletionTimestamp": stamp(now),
        "finalizers": ["customresourcecleanup.apiextensions.k8s.io"],
    }
    return crd | {"metadata": meta}


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
