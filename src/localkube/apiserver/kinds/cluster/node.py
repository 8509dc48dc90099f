"""Node: defaults and columns. A node registers with the status it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.codec import at
from localkube.apiserver.kinds.fields import ensure_map, fill
from localkube.apiserver.resource import STATUS, Resource, Strategy
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime

    from kubekit.objects.meta import Raw

_ROLE = "node-role.kubernetes.io/"
_INFO = "status.nodeInfo"


def _defaults(node: Raw) -> None:
    ensure_map(node, "spec")
    status = ensure_map(node, "status")
    if status.get("capacity"):
        fill(status, allocatable=dict(status["capacity"]))


def _roles(node: Raw, now: datetime) -> str:
    labels = cells.fields(node, "metadata.labels")
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    roles.add(str(labels.get("kubernetes.io/role") or ""))
    return ",".join(sorted(filter(None, roles))) or cells.NONE


def _state(node: Raw, now: datetime) -> str:
    state = "Unknown"
    if cells.conditions(node, "Ready"):
        state = "Ready" if cells.condition_is_true(node, "Ready") else "NotReady"
    return f"{state},SchedulingDisabled" if at(node, "spec.unschedulable") else state


def _address(type_: str) -> cells.Cell:
    """The column of the first address of this type."""

    def cell(node: Raw, now: datetime) -> str:
        for address in cells.rows(node, "status.addresses"):
            if cells.text(address, "type") == type_:
                return cells.text(address, "address")
        return cells.NONE

    return cell


NODES = Resource(
    "", "v1", "nodes", "Node", False, short=("no",),
    subresources=STATUS | {"proxy"}, fields=("spec.unschedulable",),
    strategy=Strategy(
        defaults=_defaults,
        status_on_create=True,
        columns=cells.NAME | {"Status": _state, "Roles": _roles} | cells.AGE | {
            "Version": cells.text_at(f"{_INFO}.kubeletVersion"),
            "Internal-IP+": _address("InternalIP"),
            "External-IP+": _address("ExternalIP"),
            "OS-Image+": cells.text_at(f"{_INFO}.osImage", cells.UNKNOWN),
            "Kernel-Version+": cells.text_at(f"{_INFO}.kernelVersion", cells.UNKNOWN),
            "Container-Runtime+": cells.text_at(
                f"{_INFO}.containerRuntimeVersion", cells.UNKNOWN
            ),
        },
    ),
)  # fmt: skip
