"""The conditions of a node without heartbeats, and the taints that follow from conditions: pure.

A node without heartbeats is Unknown and gets the taint `unreachable`; a node that reports not ready
gets `not-ready`. Both keep new pods away and, with the effect NoExecute, evict running pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.conditions import new_condition
from kubekit.objects.meta import Raw, condition_is_true, find_condition, timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from localkube.controllers.workloads import Node

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values()}
_HEARTBEAT_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def readiness(node: Node) -> str:
    """True, False or Unknown; a node that never reported is not ready."""
    condition = find_condition(node.status.conditions, "Ready")
    return condition.status if condition is not None else "False"


def unknown_conditions(node: Node, now: datetime) -> list[Raw]:
    """The conditions to merge into the status of a node without heartbeats, if any are missing."""
    new = []
    for type_ in _HEARTBEAT_CONDITIONS:
        known = find_condition(node.status.conditions, type_)
        if known is not None and known.status == "Unknown":
            continue
        if known is None:
            message = "Kubelet never posted node status."
            condition = new_condition(type_, "Unknown", "NodeStatusNeverUpdated", message, now)
            new.append(condition | {"lastHeartbeatTime": timestamp(now)})
        else:
            message = "Kubelet stopped posting node status."
            new.append(new_condition(type_, "Unknown", "NodeStatusUnknown", message, now))
    return new


def taints(node: Node, now: datetime, *, evicts: bool = True) -> list[Raw] | None:
    """The taints that the node should have; None if it has just these.

    Without `evicts` no pod is evicted: when no node is ready, the cause is probably on our side,
    and there is no other node to go to.
    """
    desired = set(_desired(node, evicts))
    staying = [
        taint
        for taint in node.spec.taints
        if taint.key not in _OURS or (taint.key, taint.effect) in desired
    ]
    missing = desired - {(taint.key, taint.effect) for taint in staying}
    if not missing and len(staying) == len(node.spec.taints):
        return None
    new: list[Raw] = [
        {"key": key, "effect": effect, "timeAdded": timestamp(now)}
        for key, effect in sorted(missing)
    ]
    kept = (msgspec.to_builtins(taint).items() for taint in staying)
    return [*({name: value for name, value in row if value} for row in kept), *new]


def _desired(node: Node, evicts: bool) -> Sequence[tuple[str, str]]:
    taints = []
    key = {"False": NOT_READY, "Unknown": UNREACHABLE}.get(readiness(node))
    if key is not None:
        taints += [(key, "NoSchedule"), *([(key, "NoExecute")] if evicts else [])]
    taints += [
        (pressure, "NoSchedule")
        for type_, pressure in _PRESSURES.items()
        if condition_is_true(node.status.conditions, type_)
    ]
    if node.spec.unschedulable:
        taints.append((UNSCHEDULABLE, "NoSchedule"))
    return taints
