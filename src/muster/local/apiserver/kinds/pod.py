"""How a pod may change: what it keeps whatever is sent, and the little that may become different.

Pure; called by `admit.py` and `immutable.py` on every update of a pod.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from muster.local.apiserver import api_errors
from muster.local.apiserver.kinds.fields import fill
from muster.local.apiserver.kinds.pod_defaults import pod_status
from muster.local.apiserver.kinds.pod_scheduling import tolerate_short_outages
from muster.local.apiserver.objects import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.api_errors import Cause

_ONLY = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it"
    " was previously negative)"
)
_LATEST = 2**31 - 1
_NEEDED = "requiredDuringSchedulingIgnoredDuringExecution"


def prepare_update(new: Raw, old: Raw, subresource: str) -> None:
    """Write, in place, what admission gave the pod: that is not the client's to repeat."""
    kept = ("priority", "preemptionPolicy")
    fill(new["spec"], **{name: old["spec"].get(name) for name in kept})
    if not subresource:
        tolerate_short_outages(new["spec"])
    pod_status(new)
    fill(new["status"], qosClass=old.get("status", {}).get("qosClass"))
    if new["spec"].get("nodeName") and not old["spec"].get("nodeName"):
        new["status"].pop("nominatedNodeName", None)  # it has a node now


def check_update(new: Raw, old: Raw) -> Iterator[Cause]:
    """What was changed in a pod's spec though it may not be."""
    if new == old:
        return  # as with most changes: of labels, owners and finalizers
    late = list(_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    yield from late
    if late:
        return
    now = [_untimed(toleration) for toleration in new.get("tolerations") or ()]
    if any(_untimed(toleration) not in now for toleration in old.get("tolerations") or ()):
        told = "existing toleration can not be modified except its tolerationSeconds"
        yield api_errors.forbidden_field("spec.tolerations", told)
    gates = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for i, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            told = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield api_errors.forbidden_field(f"spec.schedulingGates[{i}].name", told)
    gated = bool(gates)
    kept = _lasting(new, gated=gated) == _lasting(old, gated=gated)
    if not kept or (gated and not _narrower(new, old)):
        yield api_errors.forbidden_field("spec", _ONLY)


def check_status_update(new: Raw, old: Raw) -> Iterator[Cause]:
    """What a status may not come to say."""
    node = at(new, "status.nominatedNodeName")
    if new["spec"].get("nodeName") and node and node != at(old, "status.nominatedNodeName"):
        told = "may not be set on pods that are already bound to a node"
        yield api_errors.forbidden_field("status.nominatedNodeName", told)


def _deadline(new: int | None, old: int | None) -> Iterator[Cause]:
    """A deadline may be set, and may come nearer."""
    told = ""
    if new is None:
        told = "must not update from a positive integer to nil value" if old is not None else ""
    elif not 0 <= new <= _LATEST:
        told = f"must be between 0 and {_LATEST}, inclusive"
    elif old is not None and old < new:
        told = "must be less than or equal to previous value"
    if told:
        yield api_errors.invalid_value("spec.activeDeadlineSeconds", new, told)


def _untimed(toleration: Raw) -> Raw:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _lasting(spec: Raw, *, gated: bool) -> Raw:
    lasting = deepcopy(spec)
    for container in [*(lasting.get("containers") or ()), *(lasting.get("initContainers") or ())]:
        container.pop("image", None)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        lasting.pop(name, None)
    if gated:
        lasting.pop("nodeSelector", None)
        (lasting.get("affinity") or {}).pop("nodeAffinity", None)
        if not lasting.get("affinity"):
            lasting.pop("affinity", None)
    return lasting


def _narrower(new: Raw, old: Raw) -> bool:
    """Whether a pod that nobody may place yet comes to fit on fewer nodes, not on others."""
    before, after = _nodes(old), _nodes(new)
    chosen = (old.get("nodeSelector") or {}).items() <= (new.get("nodeSelector") or {}).items()
    if not before:
        return chosen
    return chosen and len(before) == len(after) and all(map(_within, after, before))


def _nodes(spec: Raw) -> list[Raw]:
    return at(spec, f"affinity.nodeAffinity.{_NEEDED}.nodeSelectorTerms") or []


def _within(new: Raw, old: Raw) -> bool:
    def has(field: str) -> bool:
        rows: list[Any] = new.get(field) or []
        return all(row in rows for row in old.get(field) or ())

    return has("matchExpressions") and has("matchFields")
