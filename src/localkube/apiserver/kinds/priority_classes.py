"""PriorityClass, with the priority that a pod gets from its class, and PodGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver import api_errors, causes, codec, rules
from localkube.apiserver.codec import at
from localkube.apiserver.kinds.field_rules import fill
from localkube.apiserver.resource import STATUS, Resource
from localkube.apiserver.views.cells import AGE, NAME, NONE, conditions, number_at, text, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.store.collection import ObjectReader


# -- PriorityClass -------------------------------------------------------------------------------

_GROUP = "scheduling.k8s.io"
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CRITICAL = "Used for system critical pods that must"
_DESCRIPTIONS = {
    "system-cluster-critical": f"{_CRITICAL} run in the cluster, but can be moved to another node"
    " if necessary.",
    "system-node-critical": f"{_CRITICAL} not be moved from their current node.",
}
_PREEMPTION = "PreemptLowerPriority"
_MAX_VALUE = 1_000_000_000


def system_classes() -> Iterator[Raw]:
    """The classes that every cluster starts with."""
    for name, value in _SYSTEM.items():
        yield {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]}


def set_priority(pod: Raw, store: ObjectReader) -> None:
    """A pod's priority is the value of its class, or of the default class, or 0."""
    spec = pod["spec"]
    priority_class = _class_of(pod, store)
    value = priority_class.get("value", 0)
    policy = priority_class.get("preemptionPolicy") or _PREEMPTION
    for field, words, computed in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.get(field) not in (None, computed):
            why = (
                f"the {words} ({spec[field]}) must not be provided in pod spec; priority admission"
                f" controller computed {computed} from the given PriorityClass name"
            )
            raise api_errors.forbidden_pod(pod, why)
        spec[field] = computed


def _class_of(pod: Raw, store: ObjectReader) -> Raw:
    name = pod["spec"].get("priorityClassName")
    if not name:
        default = next(_default_classes(store), None)
        if default is None:
            return {}
        pod["spec"]["priorityClassName"] = default["metadata"]["name"]
        return default
    # The values of system classes never change, so they need no look-up.
    if name in _SYSTEM:
        return {"value": _SYSTEM[name]}
    entry = store.get(f"{PRIORITY_CLASSES.collection}//{name}")
    if entry is None:
        raise api_errors.forbidden_pod(pod, f"no PriorityClass with name {name} was found")
    return codec.decode(entry.value)


def _default_classes(store: ObjectReader) -> Iterator[Raw]:
    entries = store.scan(f"{PRIORITY_CLASSES.collection}/")
    classes = (codec.decode(entry.value) for entry in entries)
    return (priority_class for priority_class in classes if priority_class.get("globalDefault"))


def _check_create(priority_class: Raw) -> Causes:
    name, value = priority_class["metadata"].get("name") or "", priority_class.get("value", 0)
    if _SYSTEM.get(name) == value:
        return
    if name.startswith("system-"):
        why = (
            f"priority class names with 'system-' prefix are reserved for system use only. error:"
            f" {name} is not a known system priority class"
        )
        yield causes.forbidden("metadata.name", why)
    elif value > _MAX_VALUE:  # higher values are left to system classes
        why = f"maximum allowed value of a user defined priority is {_MAX_VALUE}"
        yield causes.forbidden("value", why)


def _admit_create(priority_class: Raw, store: ObjectReader, now: datetime) -> None:
    default = next(_default_classes(store), None) if priority_class.get("globalDefault") else None
    if default is not None:
        why = (
            f"PriorityClass {default['metadata']['name']} is already marked as default. Only one"
            f" default can exist"
        )
        name = priority_class["metadata"]["name"]
        raise api_errors.forbidden(_GROUP, "priorityclasses", name, why)


def _check_update(new: Raw, old: Raw) -> Causes:
    if new.get("value", 0) != old.get("value", 0):
        yield causes.forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield causes.invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable")


PRIORITY_CLASSES = Resource(
    _GROUP, "v1", "priorityclasses", "PriorityClass", False, short=("pc",),
    strategy=rules.Strategy(
        completion=rules.Completion(
            defaults=lambda priority_class: fill(priority_class, preemptionPolicy=_PREEMPTION)
        ),
        checks=rules.Checks(create=_check_create, update=_check_update),
        admission=rules.Admission(create=_admit_create),
        generation="fixed",
        table=rules.Table(NAME | {
            "Value": number_at("value"),
            "Global-Default": lambda priority_class, now: bool(priority_class.get("globalDefault")),
        } | AGE | {"PreemptionPolicy": text_at("preemptionPolicy")}),
    ),
)  # fmt: skip


# -- PodGroup ------------------------------------------------------------------------------------

_STATES = {"True": "Scheduled", "False": "Unscheduled"}


def _status(group: Raw, now: datetime) -> str:
    scheduled = conditions(group, "PodGroupScheduled")[:1]
    return next((_STATES.get(text(c, "status"), "Pending") for c in scheduled), "Pending")


POD_GROUPS = Resource(
    "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", subresources=STATUS,
    strategy=rules.Strategy(
        status=rules.Status(keeps={"f:metadata": {}, "f:spec": {}}),
        generation="spec",
        table=rules.Table(NAME | {
            "Policy": lambda group, now: (
                "Basic" if at(group, "spec.schedulingPolicy.gang") is None else "Gang"
            ),
            "Workload": text_at("spec.podGroupTemplateRef.workload.workloadName", NONE),
            "Status": _status,
        } | AGE),
    ),
)  # fmt: skip
