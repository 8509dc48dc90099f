"""Priority classes: the number a pod gets from its class, and which classes there may be.

Called by `policy.py` when pods and classes are created. Reads the store, writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import api_errors, objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.errors import StatusError
    from muster.local.apiserver.store.store import Store

GROUP = "scheduling.k8s.io"
COLLECTION = f"priorityclasses.{GROUP}"
SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CRITICAL = "Used for system critical pods that must"
DESCRIPTIONS = {
    "system-cluster-critical": (
        f"{_CRITICAL} run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": f"{_CRITICAL} not be moved from their current node.",
}
_USUAL = "PreemptLowerPriority"
_LARGEST = 1_000_000_000


def set_priority(pod: Raw, store: Store) -> None:
    """A pod's priority is its class's value, or the default class's, or 0; it cannot choose."""
    spec = pod["spec"]
    found = _class_of(pod, store)
    value = found.get("value", 0)
    policy = found.get("preemptionPolicy") or _USUAL
    if spec.get("priority") not in (None, value):
        raise _chosen(pod, f"the integer value of priority ({spec['priority']})", value)
    if spec.get("preemptionPolicy") not in (None, policy):
        raise _chosen(
            pod, f"the string value of PreemptionPolicy ({spec['preemptionPolicy']})", policy
        )
    spec["priority"] = value
    spec["preemptionPolicy"] = policy


def _class_of(pod: Raw, store: Store) -> Raw:
    name = pod["spec"].get("priorityClassName")
    if not name:
        default = next(_defaults(store), None)
        if default is None:
            return {}
        pod["spec"]["priorityClassName"] = default["metadata"]["name"]
        return default
    if name in SYSTEM:
        return {"value": SYSTEM[name]}
    entry = store.get(f"{COLLECTION}//{name}")
    if entry is None:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    return objects.decode(entry.value)


def _defaults(store: Store) -> Iterator[Raw]:
    classes = (objects.decode(entry.value) for entry in store.scan(f"{COLLECTION}/"))
    return (found for found in classes if found.get("globalDefault"))


def _chosen(pod: Raw, what: str, computed: object) -> StatusError:
    why = (
        f"{what} must not be provided in pod spec; priority admission controller computed"
        f" {computed} from the given PriorityClass name"
    )
    return _forbidden(pod, why)


def _forbidden(pod: Raw, why: str) -> StatusError:
    return api_errors.forbidden("", "pods", pod["metadata"]["name"], why)


def check_class(found: Raw, store: Store) -> None:
    """Raise a Refusal for a class that cannot be."""
    name, value = found["metadata"]["name"], found.get("value", 0)
    if SYSTEM.get(name) == value:
        return
    causes = []
    if name.startswith("system-"):
        why = (
            f"priority class names with 'system-' prefix are reserved for system use only. error:"
            f" {name} is not a known system priority class"
        )
        causes.append(api_errors.forbidden_field("metadata.name", why))
    elif value > _LARGEST:
        why = f"maximum allowed value of a user defined priority is {_LARGEST}"
        causes.append(api_errors.forbidden_field("value", why))
    if causes:
        raise api_errors.invalid(GROUP, "PriorityClass", name, causes)
    if found.get("globalDefault"):
        for other in _defaults(store):
            why = (
                f"PriorityClass {other['metadata']['name']} is already marked as default. Only one"
                f" default can exist"
            )
            raise api_errors.forbidden(GROUP, "priorityclasses", name, why)
