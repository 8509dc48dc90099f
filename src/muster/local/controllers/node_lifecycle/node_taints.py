"""What a node's silence and conditions mean: its conditions and its taints. Pure.

A node that says nothing is Unknown and `unreachable`; one that says it is not ready is `not-ready`.
Both keep new pods away and, with the effect NoExecute, give those that are there notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.meta import find_condition, timestamp
from muster.local.controllers import conditions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.local.controllers.kinds import Node, TimedTaint

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values()}
_SILENCED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def readiness(node: Node) -> str:
    """True, False or Unknown; a node that never said anything is not ready."""
    found = find_condition(node.status.conditions, "Ready")
    return found.status if found is not None else "False"


def unknown_conditions(node: Node, now: datetime) -> list[Raw]:
    """The conditions to patch in when a node has been silent for too long; none if that is known.

    They are merged by type, so that what others wrote stays.
    """
    rows = []
    for type_ in _SILENCED:
        found = find_condition(node.status.conditions, type_)
        if found is not None and found.status == "Unknown":
            continue
        if found is None:
            words = "Kubelet never posted node status."
            row = conditions.new_condition(type_, "Unknown", "NodeStatusNeverUpdated", words, now)
            rows.append(row | {"lastHeartbeatTime": timestamp(now)})
        else:
            words = "Kubelet stopped posting node status."
            rows.append(conditions.new_condition(type_, "Unknown", "NodeStatusUnknown", words, now))
    return rows


def taints(node: Node, now: datetime, *, evicts: bool = True) -> list[Raw] | None:
    """All the node's taints as they should be; None if they are so.

    Without `evicts` pods get no notice: when every node is away the trouble is likely ours, and
    there is nowhere else to go.
    """
    wanted = set(_wanted(node, evicts))
    kept = [
        taint
        for taint in node.spec.taints
        if taint.key not in _OURS or (taint.key, taint.effect) in wanted
    ]
    missing = wanted - {(taint.key, taint.effect) for taint in kept}
    if not missing and len(kept) == len(node.spec.taints):
        return None
    new: list[Raw] = [
        {"key": key, "effect": effect, "timeAdded": timestamp(now)}
        for key, effect in sorted(missing)
    ]
    return [*(_plain(taint) for taint in kept), *new]


def _wanted(node: Node, evicts: bool) -> Sequence[tuple[str, str]]:
    found = []
    key = {"False": NOT_READY, "Unknown": UNREACHABLE}.get(readiness(node))
    if key is not None:
        found += [(key, "NoSchedule"), *([(key, "NoExecute")] if evicts else [])]
    for type_, pressure in _PRESSURES.items():
        row = find_condition(node.status.conditions, type_)
        if row is not None and row.status == "True":
            found.append((pressure, "NoSchedule"))
    if node.spec.unschedulable:
        found.append((UNSCHEDULABLE, "NoSchedule"))
    return found


def _plain(taint: TimedTaint) -> Raw:
    found: Raw = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        found["value"] = taint.value
    if taint.time_added:
        found["timeAdded"] = taint.time_added
    return found
