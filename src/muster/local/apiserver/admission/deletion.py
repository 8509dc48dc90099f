"""Deletion: which objects may go, which have to wait, and for whom.

Pure; called by `verbs.py`. A pod waits for its node, a namespace until it is empty, anything else
for its finalizers.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from muster.api.meta import timestamp
from muster.local.apiserver import api_errors
from muster.local.apiserver.admission.admit import has_generation

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Resource

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


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
    waiting = grace > 0 or finalizers or _terminates(resource, obj, asked=True)
    if not waiting:
        if resource.collection == "pods":
            _mark(resource, meta, now, 0)
        return Deletion(remove=True, obj=marked)
    if finalizers:
        meta["finalizers"] = finalizers
    if "deletionTimestamp" in meta:
        shorter = grace < meta.get("deletionGracePeriodSeconds", 0)
        if shorter:
            _shorten(meta, grace)
        return Deletion(remove=False, obj=marked, changed=shorter or marked != obj)
    _mark(resource, meta, now, grace)
    if resource.collection == "namespaces":
        del meta["deletionGracePeriodSeconds"]
        marked["status"] = marked.get("status", {}) | {"phase": "Terminating"}
    return Deletion(remove=False, obj=marked)


def _mark(resource: Resource, meta: Raw, now: datetime, grace: int) -> None:
    """Write down that the object is going, and how long it may take."""
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
        if has_generation(resource):
            meta["generation"] = meta.get("generation", 0) + 1
    meta["deletionGracePeriodSeconds"] = grace


def _shorten(meta: Raw, grace: int) -> None:
    """The object goes so long after it was first asked to."""
    sooner = timedelta(seconds=meta["deletionGracePeriodSeconds"] - grace)
    when = datetime.fromisoformat(meta["deletionTimestamp"]) - sooner
    meta |= {"deletionTimestamp": timestamp(when), "deletionGracePeriodSeconds": grace}


def crd_being_deleted(crd: Raw, now: datetime) -> Raw:
    """A definition that is gone, as a server shows it that has yet to remove its objects."""
    meta = crd["metadata"] | {
        "deletionTimestamp": timestamp(now),
        "finalizers": ["customresourcecleanup.apiextensions.k8s.io"],
    }
    return crd | {"metadata": meta}


def can_be_removed(resource: Resource, obj: Raw) -> bool:
    """Whether an object that was marked for deletion has nothing left to wait for."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not _terminates(resource, obj)
    )


def _terminates(resource: Resource, obj: Raw, *, asked: bool = False) -> bool:
    """Whether a namespace still has to be emptied; it does not go at the first word."""
    first = asked and "deletionTimestamp" not in obj["metadata"]
    full = bool(obj.get("spec", {}).get("finalizers"))
    return resource.collection == "namespaces" and (first or full)


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


# -- what is asked -------------------------------------------------------------------------------


def check_deletable(resource: Resource, name: str) -> None:
    """Some namespaces stay."""
    if resource.collection == "namespaces" and name in _IMMORTAL:
        raise api_errors.forbidden("", "namespaces", name, "this namespace may not be deleted")


def default_propagation(resource: Resource, options: Raw) -> tuple[str, ...]:
    """Whoever deletes a batch job without a word about its pods leaves them behind; returns that.

    So the first version of that API had it, and so it stays. kubectl always says a word.
    """
    said = options.get("propagationPolicy") is None and options.get("orphanDependents") is None
    if resource.collection != "jobs.batch" or not said:
        return ()
    options["propagationPolicy"] = "Orphan"
    return (
        "child pods are preserved by default when jobs are deleted; set"
        " propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress"
        " this warning",
    )


def check_options(options: Raw) -> None:
    """Options that contradict each other or mean nothing are refused."""
    causes = []
    chosen, dry = options.get("propagationPolicy"), options.get("dryRun") or []
    if chosen is not None and options.get("orphanDependents") is not None:
        told = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(api_errors.invalid_value("propagationPolicy", chosen, told))
    if chosen not in (None, "Foreground", "Background", "Orphan"):
        causes.append(
            api_errors.not_supported(
                "propagationPolicy", chosen, ("Foreground", "Background", "Orphan", "nil")
            )
        )
    if set(dry) - {"All"}:
        causes.append(api_errors.not_supported("dryRun", dry, ("All",)))
    if causes:
        raise api_errors.invalid("meta.k8s.io", "DeleteOptions", "", causes)
