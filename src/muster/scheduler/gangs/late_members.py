"""Late members of a gang: an MPIJob's launcher, which the operator creates once the workers run.

Its room is held early, in the trial that places the others. Until its pod exists it is placed as a
placeholder with the requests that an annotation of the group declares, which no quota counts: late
members together get no more room than the other members request.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kubekit.objects.annotation_values import read_json
from kubekit.objects.core import Container, Pod, PodSpec, ResourceRequirements
from kubekit.objects.meta import ObjectMeta
from kubekit.objects.selectors import is_label_key
from muster.contract.gang import LATE_ANNOTATION
from muster.contract.gang_dialects import ROLE_ANNOTATION, role_of
from muster.contract.job_kinds import MPIJOBS
from muster.scheduler.cluster.pod_class import parse_resources
from muster.scheduler.gangs.holds import placeholder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.scheduler.cluster.snapshot import Slot
    from muster.scheduler.decisions.decision import GangView

LATE_ROLES, MAX_LATE_RESOURCES = ("launcher",), 32
"""The roles that may come late, and how many resources of each an annotation may declare."""
SMALL_LAUNCHER = {"cpu": 1000, "memory": 1 << 30}
"""Room for late members, in millicores and bytes, that every gang may have."""


def by_role(view: GangView) -> dict[str, Pod]:
    """Placeholders for the late members that have no pod yet, by role.

    The operator declares them in the annotation `muster.dev/late`, with the requests in the job's
    spec. On a group that does not belong to an MPIJob of its name, the annotation has no effect.
    """
    declared = view.gang.declared
    owner = declared.metadata.controller if declared is not None else None
    if owner is None or (owner.kind, owner.name) != (MPIJOBS.kind, view.key.name):
        return {}
    requested = _read_late(view.annotations) if LATE_ANNOTATION in view.annotations else {}
    succeeded = view.run.succeeded.values()
    present = {role_of(pod) for pod in view.gang.pods.values()} | set(succeeded)
    left = _room_for_late(view)
    late: dict[str, Pod] = {}
    for role, requests in sorted(requested.items()):
        if role not in present:
            wanted = parse_resources(requests).items()
            room = {name: max(0, min(n, left[name])) for name, n in wanted}
            left.subtract(room)
            # Millicores, bytes, and counts of everything else.
            amounts = {name: f"{n}m" if name == "cpu" else n for name, n in room.items()}
            late[role] = _late(view, role, amounts)
    return late


def _room_for_late(view: GangView) -> Counter[str]:
    """The room that late members may get together: as much as the members that exist request."""
    classes, room = view.known.snapshot.classes, Counter[str]()
    for pod in (*view.members.pending, *view.members.bound):
        room.update(classes.of(pod).requests)
    return room | Counter(SMALL_LAUNCHER)


def rooms(view: GangView) -> tuple[Slot, ...]:
    """The slots held for late members that have a pod now."""
    roles = {role_of(pod) for pod in view.members.pending} - {""}
    return tuple(slot for slot in view.holds() if slot.hold is not None and slot.hold.late in roles)


def _read_late(annotations: Mapping[str, str]) -> dict[str, Any]:
    """The requests by role; an annotation that cannot be read declares no late members."""
    document = read_json(annotations[LATE_ANNOTATION])
    if not isinstance(document, dict):
        return {}
    return {role: document[role] for role in LATE_ROLES if _are_requests(document.get(role))}


def _are_requests(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and len(row) <= MAX_LATE_RESOURCES
        and all(map(is_label_key, row))
        and all(isinstance(amount, str | int | float) for amount in row.values())
    )


def _late(view: GangView, role: str, requests: dict[str, Any]) -> Pod:
    main = Container(resources=ResourceRequirements(requests=requests))
    metadata = ObjectMeta(
        name=f"{view.key.name}-{role}",
        namespace=view.key.namespace,
        annotations={ROLE_ANNOTATION: role},
    )
    return placeholder(Pod(metadata, PodSpec(containers=(main,))), f"{view.key}/{role}")
