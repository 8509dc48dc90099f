"""Rules that need a look at other objects: priority classes, node ports, CRDs' own status.

Called by `verbs.py` after `admit.py`. Reads the store, writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.meta import timestamp
from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.kinds import crd as definitions
from muster.local.apiserver.kinds import node_ports, persistent_volume_claim, priority_class
from muster.local.apiserver.kinds.pod_scheduling import tolerate_short_outages

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.errors import StatusError
    from muster.local.apiserver.registry import Resource
    from muster.local.apiserver.store.store import Store

_CLASSES = "storageclasses.storage.k8s.io"
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def on_create(obj: Raw, resource: Resource, store: Store, now: datetime) -> Raw:
    """Complete a new object from what else there is."""
    if resource.collection == "pods":
        _refuse_overhead(obj)
        priority_class.set_priority(obj, store)
        tolerate_short_outages(obj["spec"])
    elif resource.collection == priority_class.COLLECTION:
        priority_class.check_class(obj, store)
    elif resource.collection == _CRDS:
        definitions.prepare_create(obj, _names_beside(obj, store), timestamp(now))
    elif resource.collection == "services":
        node_ports.allocate(obj, store)
    return obj


def on_update(new: Raw, old: Raw, resource: Resource, store: Store, now: datetime) -> Raw:
    """Complete a changed object."""
    if resource.collection == _CRDS:
        definitions.prepare_update(new, old, _names_beside(new, store), timestamp(now))
    elif resource.collection == "services":
        node_ports.allocate_on_update(new, old, store)
    elif resource.collection == "persistentvolumeclaims":
        persistent_volume_claim.check_growth(new, old, _storage_class(new, store))
    return new


def _storage_class(claim: Raw, store: Store) -> Raw:
    """The class of a claim's storage, or nothing."""
    entry = store.get(f"{_CLASSES}//{claim['spec'].get('storageClassName') or ''}")
    return objects.decode(entry.value) if entry else {}


def _names_beside(crd: Raw, store: Store) -> list[Raw]:
    """The names that other definitions of its group have."""
    own, group = crd["metadata"].get("name"), (crd.get("spec") or {}).get("group")
    rest = (objects.decode(entry.value) for entry in store.scan(f"{_CRDS}/"))
    return [
        one["status"]["acceptedNames"]
        for one in rest
        if one["spec"]["group"] == group and one["metadata"]["name"] != own
    ]


def _refuse_overhead(pod: Raw) -> None:
    """What a pod costs beside its containers is its runtime class's to say, and there are none."""
    if pod["spec"].get("overhead"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise api_errors.forbidden("", "pods", str(pod["metadata"]["name"]), why)


def terminating(resource: Resource, name: str, namespace: str) -> StatusError:
    """Nothing new comes into a namespace that is going away."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = api_errors.forbidden(resource.group, resource.plural, name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.details = (refusal.details or {}) | {"causes": [cause]}
    return refusal
