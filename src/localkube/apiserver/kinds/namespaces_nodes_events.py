"""Namespace, Node, Lease and Event: defaults, checks, columns.

A namespace stays until a controller has emptied it and takes `kubernetes` off `spec.finalizers`
through the `finalize` subresource, the only writer of the spec. A node registers with the status
that it has. An event is stored in the form of core/v1; newer recorders write it as events.k8s.io/v1
with other names for some of its fields.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from localkube.apiserver import causes, rules
from localkube.apiserver.admission import names
from localkube.apiserver.codec import at
from localkube.apiserver.kinds.field_rules import check_not_negative, each, ensure_map, fill
from localkube.apiserver.resource import ALL_VERBS, STATUS, Resource
from localkube.apiserver.views import cells
from localkube.apiserver.views.cells import AGE, NAME, age, number, text, text_at

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes


# -- Namespace -----------------------------------------------------------------------------------

_FINALIZER = "kubernetes"
"""Removed by the controller that empties the namespace."""


def _complete_namespace(namespace: Raw) -> None:
    name = namespace["metadata"].get("name")
    if name:
        labels = ensure_map(namespace["metadata"], "labels")
        labels["kubernetes.io/metadata.name"] = name
    spec = ensure_map(namespace, "spec")
    if not spec.get("finalizers"):
        spec.pop("finalizers", None)
    fill(ensure_map(namespace, "status"), phase="Active")


def _finish_create(namespace: Raw, now: str) -> None:
    finalizers = namespace["spec"].get("finalizers") or []
    if _FINALIZER not in finalizers:
        namespace["spec"]["finalizers"] = [*finalizers, _FINALIZER]


def _finish_update(new: Raw, old: Raw, subresource: str) -> None:
    if subresource != "finalize":
        new["spec"] = old.get("spec", {})


def _check_namespace(namespace: Raw) -> Causes:
    for path, name in each(namespace.get("spec") or {}, "spec", "finalizers"):
        if name != _FINALIZER and "/" not in name:
            yield causes.invalid(path, name, names.UNQUALIFIED)
    phase = (namespace.get("status") or {}).get("phase")
    being_deleted = "deletionTimestamp" in namespace["metadata"]
    only, when = ("Terminating", "not empty") if being_deleted else ("Active", "empty")
    if phase != only:
        detail = f"may only be '{only}' if `deletionTimestamp` is {when}"
        yield causes.invalid("status.Phase", phase, detail)


def _on_marked(namespace: Raw) -> None:
    # Namespaces have no grace period, and the real server shows none.
    del namespace["metadata"]["deletionGracePeriodSeconds"]
    namespace["status"] = namespace.get("status", {}) | {"phase": "Terminating"}


NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", False, short=("ns",),
    verbs=ALL_VERBS - {"deletecollection"},
    subresources=frozenset({"status", "finalize"}), fields=("status.phase",),
    strategy=rules.Strategy(
        completion=rules.Completion(
            defaults=_complete_namespace,
            finish_create=_finish_create,
            finish_update=_finish_update,
        ),
        checks=rules.Checks(always=_check_namespace, name=names.check_label),
        deletion=rules.Deletion(
            blocks_removal=lambda namespace: bool(namespace.get("spec", {}).get("finalizers")),
            marked_first=True,
            on_marked=_on_marked,
            protected=frozenset({"default", "kube-system", "kube-public"}),
            answer="object",
            storage_preconditions=True,
        ),
        table=rules.Table(NAME | {"Status": text_at("status.phase")} | AGE),
    ),
)  # fmt: skip


# -- Node ----------------------------------------------------------------------------------------

_ROLE = "node-role.kubernetes.io/"
_INFO = "status.nodeInfo"


def _complete_node(node: Raw) -> None:
    ensure_map(node, "spec")
    status = ensure_map(node, "status")
    if status.get("capacity"):
        fill(status, allocatable=dict(status["capacity"]))


def _roles(node: Raw, now: datetime) -> str:
    labels = cells.fields(node, "metadata.labels")
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    roles.add(str(labels.get("kubernetes.io/role") or ""))
    return ",".join(sorted(roles - {""})) or cells.NONE


def _state(node: Raw, now: datetime) -> str:
    state = "Unknown"
    if cells.conditions(node, "Ready"):
        state = "Ready" if cells.condition_is_true(node, "Ready") else "NotReady"
    return f"{state},SchedulingDisabled" if at(node, "spec.unschedulable") else state


def _address(type_: str) -> cells.Cell:
    """The column of the first address of this type."""
    return lambda node, now: next(
        (
            text(address, "address")
            for address in cells.rows(node, "status.addresses")
            if text(address, "type") == type_
        ),
        cells.NONE,
    )


NODES = Resource(
    "", "v1", "nodes", "Node", False, short=("no",),
    subresources=STATUS | {"proxy"}, fields=("spec.unschedulable",),
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=_complete_node),
        status=rules.Status(on_create=True),
        table=rules.Table(cells.NAME | {"Status": _state, "Roles": _roles} | cells.AGE | {
            "Version": cells.text_at(f"{_INFO}.kubeletVersion"),
            "Internal-IP+": _address("InternalIP"),
            "External-IP+": _address("ExternalIP"),
            "OS-Image+": cells.text_at(f"{_INFO}.osImage", cells.UNKNOWN),
            "Kernel-Version+": cells.text_at(f"{_INFO}.kernelVersion", cells.UNKNOWN),
            "Container-Runtime+": cells.text_at(
                f"{_INFO}.containerRuntimeVersion", cells.UNKNOWN
            ),
        }),
    ),
)  # fmt: skip


# -- Lease ---------------------------------------------------------------------------------------


def _check_lease(lease: Raw) -> Causes:
    spec: Raw = lease.get("spec") or {}
    yield from check_not_negative(spec, "leaseTransitions")
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield causes.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")


LEASES = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", create_on_update=True,
    strategy=rules.Strategy(
        checks=rules.Checks(always=_check_lease),
        table=rules.Table(NAME | {"Holder": text_at("spec.holderIdentity")} | AGE),
    ),
)  # fmt: skip


# -- Event ---------------------------------------------------------------------------------------

_GROUP = "events.k8s.io"
_CORE_NAMES = {
    "regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent",
    "deprecatedSource": "source", "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count",
}  # fmt: skip
_NEW_NAMES = {core: new for new, core in _CORE_NAMES.items()}
_REQUIRED = ("eventTime", "reportingComponent", "reportingInstance", "action", "reason")


def _to_core(event: Raw) -> Raw:
    """An event as it is stored; its apiVersion still names the form it came in."""
    return {_CORE_NAMES.get(name, name): value for name, value in event.items()}


def _from_core(event: Raw, api_version: str) -> Raw:
    renamed = {_NEW_NAMES.get(name, name): value for name, value in event.items()}
    return renamed | {"apiVersion": api_version}


def _check_event(event: Raw) -> Causes:
    if event["apiVersion"].startswith(_GROUP):
        missing = (field for field in _REQUIRED if not event.get(field))
        yield from (causes.required(_NEW_NAMES.get(field, field)) for field in missing)
        if event.get("type") not in ("Normal", "Warning"):
            yield causes.invalid("type", event.get("type") or "", "has invalid value: ")
        return
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    namespace = event["metadata"].get("namespace", "")
    if about != namespace and (about or namespace != "default"):
        yield causes.invalid("involvedObject.namespace", about, "does not match event.namespace")


def _first_seen(event: Raw, now: datetime) -> str:
    return age(text(event, "firstTimestamp") or text(event, "eventTime"), now)


def _last_seen(event: Raw, now: datetime) -> str:
    last = text(event, "lastTimestamp") or text(event, "series.lastObservedTime")
    return age(last, now) if last else _first_seen(event, now)


def _object(event: Raw, now: datetime) -> str:
    kind, name = text(event, "involvedObject.kind").lower(), text(event, "involvedObject.name")
    return f"{kind}/{name}" if name else kind


def _source(event: Raw, now: datetime) -> str:
    """The component that reported it, and its host."""
    component, host = text(event, "source.component"), text(event, "source.host")
    if not component and not host:
        component, host = text(event, "reportingComponent"), text(event, "reportingInstance")
    return f"{component}, {host}" if host else component


EVENTS_KEPT = 3600.0
"""Seconds that an event is kept after its last write, as in Kubernetes."""
EVENTS = Resource(
    "", "v1", "events", "Event", short=("ev",), create_on_update=True,
    fields=(
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
    ),
    strategy=rules.Strategy(
        checks=rules.Checks(always=_check_event),
        quota=rules.Quota(limited=False),
        table=rules.Table({
            "Last Seen": _last_seen,
            "Type": text_at("type"),
            "Reason": text_at("reason"),
            "Object": _object,
            "Subobject+": text_at("involvedObject.fieldPath"),
            "Source+": _source,
            "Message": lambda event, now: text(event, "message").strip(),
            "First Seen+": _first_seen,
            "Count+": lambda obj, now: number(obj, "count") or number(obj, "series.count") or 1,
            "Name+": text_at("metadata.name"),
        }),
    ),
)  # fmt: skip
NEW_EVENTS = replace(
    EVENTS,
    group=_GROUP,
    stored_in_group="",
    strategy=replace(
        EVENTS.strategy, forms=rules.Forms(to_stored=_to_core, from_stored=_from_core)
    ),
)
