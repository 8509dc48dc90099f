"""Node: defaults and columns. A node registers with the status it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.local.apiserver.codec import at
from muster.local.apiserver.kinds.fields import ensure_map, fill
from muster.local.apiserver.resource import STATUS, Resource, Strategy
from muster.local.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from muster.api.meta import Raw

_ROLE = "node-role.kubernetes.io/"


def _defaults(node: Raw) -> None:
    ensure_map(node, "spec")
    status = ensure_map(node, "status")
    if status.get("capacity"):
        fill(status, allocatable=dict(status["capacity"]))


def _cells(node: Raw, now: datetime) -> list[Any]:
    labels = cells.fields(node, "metadata.labels")
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    roles.add(str(labels.get("kubernetes.io/role") or ""))
    return [
        cells.name_of(node),
        _state(node),
        ",".join(sorted(filter(None, roles))) or cells.NONE,
        cells.age_of(node, now),
        cells.text(node, "status.nodeInfo.kubeletVersion"),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        cells.text(node, "status.nodeInfo.osImage", cells.UNKNOWN),
        cells.text(node, "status.nodeInfo.kernelVersion", cells.UNKNOWN),
        cells.text(node, "status.nodeInfo.containerRuntimeVersion", cells.UNKNOWN),
    ]


def _state(node: Raw) -> str:
    state = "Unknown"
    if cells.conditions(node, "Ready"):
        state = "Ready" if cells.condition_is_true(node, "Ready") else "NotReady"
    return f"{state},SchedulingDisabled" if at(node, "spec.unschedulable") else state


def _address(node: Raw, type_: str) -> str:
    addresses = [a for a in cells.rows(node, "status.addresses") if cells.text(a, "type") == type_]
    return cells.text(addresses[0], "address") if addresses else cells.NONE


NODES = Resource(
    "", "v1", "nodes", "Node", False, short=("no",),
    subresources=STATUS, fields=("spec.unschedulable",),
    strategy=Strategy(
        defaults=_defaults,
        status_on_create=True,
        columns=(
            "Name", "Status", "Roles", "Age", "Version", "Internal-IP+", "External-IP+",
            "OS-Image+", "Kernel-Version+", "Container-Runtime+",
        ),
        cells=_cells,
    ),
)  # fmt: skip
