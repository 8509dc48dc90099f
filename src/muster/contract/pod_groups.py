"""The PodGroups in which other schedulers declare a gang: as read and as written. HyperNodes.

There is one struct per dialect, and the kinds that are read as it; the functions below them write
the spec of a new group and the status that users of the dialect expect.

`topology` is the part of a spec that says where the gang must stay. `unserved` names a required
field that Muster does not serve: a gang waits rather than run against it.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, ValidationError, convert

from kubekit.objects.affinity import LabelSelector  # noqa: TC001 - msgspec resolves annotations
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.core import Resources  # noqa: TC001 - msgspec resolves annotations at run time
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import ApiObject, Condition, Object, Raw, find_condition
from muster.contract.gang import SUCCEEDED, GroupCounts, GroupSpec, HyperNodeTiers, Topology


class PodGroupStatus(Object, frozen=True):
    """The part of the status that the scheduler reads back after writing it."""

    phase: str = ""
    succeeded: int = 0
    conditions: tuple[Condition, ...] = ()


class NetworkTopology(Object, frozen=True):
    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: Annotated[str, Meta(max_length=253)] = ""


class VolcanoSpec(Object, frozen=True):
    """Fields that say where a gang must stay are raw: one that is not known must not be dropped."""

    min_member: int = 0
    min_task_member: dict[str, int] = {}
    min_resources: Resources = {}
    priority_class_name: str = ""
    queue: Any = None
    """Not served; whoever names one is told so."""
    network_topology: Any = None
    sub_group_policy: Any = None
    topology_affinity: Any = None

    @property
    def topology(self) -> Topology | None:
        if self.network_topology is None:
            return None
        network = _read_network(self.network_topology) or NetworkTopology()
        highest, name = network.highest_tier_allowed, network.highest_tier_name
        return Topology(tiers=HyperNodeTiers(not self._is_soft, highest, name))

    @property
    def _is_soft(self) -> bool:
        # Volcano's default is hard; a mode that we do not know is read as hard too.
        raw = self.network_topology
        return isinstance(raw, dict) and raw.get("mode") == "soft"

    @property
    def unserved(self) -> str:
        if self.sub_group_policy:
            return "the group sets subGroupPolicy"
        if _requires(self.topology_affinity):
            return "the group requires a topologyAffinity"
        if self.network_topology is None or self._is_soft:
            return ""
        network = _read_network(self.network_topology)
        if network is None:
            return "the group sets networkTopology in an unknown form"
        known = NetworkTopology.__struct_encode_fields__
        unknown = next((name for name in self.network_topology if name not in known), "")
        if unknown:
            return f"the group sets {unknown} in networkTopology"
        both = network.highest_tier_name and network.highest_tier_allowed is not None
        text = "the group sets both highestTierAllowed and highestTierName in networkTopology"
        return text if both else ""


def _read_network(raw: Any) -> NetworkTopology | None:
    try:
        return convert(raw, NetworkTopology)
    except ValidationError:
        return None


def _requires(affinity: Any) -> bool:
    """Whether a topologyAffinity has rules that are not mere preferences."""
    if not isinstance(affinity, dict):
        return bool(affinity)
    return any(
        not isinstance(rule, dict)
        or any(value and not name.startswith("preferred") for name, value in rule.items())
        for rule in affinity.values()
        if rule
    )


class VolcanoPodGroup(ApiObject, frozen=True):
    """scheduling.volcano.sh/v1beta1; kube-batch's two groups have a subset of the same fields."""

    spec: VolcanoSpec = VolcanoSpec()
    status: PodGroupStatus = PodGroupStatus()


class CoschedulingSpec(Object, frozen=True):
    min_member: int = 0
    min_resources: Resources = {}
    schedule_timeout_seconds: Any = None
    """Not served either."""


class CoschedulingPodGroup(ApiObject, frozen=True):
    """scheduling.x-k8s.io/v1alpha1."""

    spec: CoschedulingSpec = CoschedulingSpec()
    status: PodGroupStatus = PodGroupStatus()


class GangPolicy(Object, frozen=True):
    min_count: int = 0


class SchedulingPolicy(Object, frozen=True):
    gang: GangPolicy | None = None


class NativeSpec(Object, frozen=True):
    """`scheduling_constraints` stays raw: a constraint that is not known must not be dropped."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: dict[str, Any] | None = None
    resource_claims: tuple[dict[str, Any], ...] | None = None
    disruption_mode: str | dict[str, Any] | None = None
    """`Pod` or `PodGroup`; from Kubernetes 1.37 on an object."""
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str = ""
    parent_composite_pod_group_name: str | None = None

    @property
    def evicted_whole(self) -> bool:
        mode = self.disruption_mode
        return "all" in mode if isinstance(mode, dict) else mode == "PodGroup"

    @property
    def topology(self) -> Topology | None:
        # All constraints are required: all pods of the group run in one domain of each key.
        rows = (self.scheduling_constraints or {}).get("topology")
        listed = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        keys = (row.get("key") for row in listed)
        named = tuple(key for key in keys if key and isinstance(key, str))
        return Topology(required=named) if named else None

    @property
    def unserved(self) -> str:
        if self.parent_composite_pod_group_name:
            parent = self.parent_composite_pod_group_name
            return f"the group is part of the CompositePodGroup {parent}"
        if self.resource_claims:
            return "the group shares resourceClaims among its pods"
        for name, value in (self.scheduling_constraints or {}).items():
            if name != "topology" and value:
                return f"the group sets schedulingConstraints.{name}"
        rows = (self.scheduling_constraints or {}).get("topology") or []
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) and isinstance(row.get("key", ""), str) for row in rows
        ):
            return "the group sets schedulingConstraints.topology in an unknown form"
        unknown = next((name for row in rows for name in row if name != "key"), "")
        return f"the group sets {unknown} in schedulingConstraints.topology" if unknown else ""


class NativePodGroup(ApiObject, frozen=True):
    """scheduling.k8s.io, Kubernetes 1.36 and newer."""

    spec: NativeSpec = NativeSpec()
    status: PodGroupStatus = PodGroupStatus()


# -- HyperNodes ------------------------------------------------------------------------------------


class ExactMatch(Object, frozen=True):
    name: str = ""


class RegexMatch(Object, frozen=True):
    pattern: str = ""


class MemberSelector(Object, frozen=True):
    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Object, frozen=True):
    """Nodes, or HyperNodes of a lower tier."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Object, frozen=True):
    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(ApiObject, frozen=True):
    """topology.volcano.sh/v1alpha1: nodes that are near each other; the lower the tier the nearer.

    Not namespaced.
    """

    spec: HyperNodeSpec = HyperNodeSpec()


VOLCANO_POD_GROUPS = Kind.of("scheduling.volcano.sh/v1beta1", "PodGroup", VolcanoPodGroup)
KUBE_BATCH_POD_GROUPS = Kind.of("scheduling.incubator.k8s.io/v1alpha1", "PodGroup", VolcanoPodGroup)
SIGS_POD_GROUPS = Kind.of("scheduling.sigs.dev/v1alpha2", "PodGroup", VolcanoPodGroup)
COSCHEDULING_POD_GROUPS = Kind.of("scheduling.x-k8s.io/v1alpha1", "PodGroup", CoschedulingPodGroup)
HYPER_NODES = Kind.of("topology.volcano.sh/v1alpha1", "HyperNode", HyperNode, namespaced=False)
NATIVE_POD_GROUPS = Kind.of("scheduling.k8s.io/v1alpha2", "PodGroup", NativePodGroup)


# -- groups as they are written --------------------------------------------------------------------


def _given(**fields: Any) -> Raw:
    """The fields of a spec that have a value; 0 is one."""
    return {name: value for name, value in fields.items() if value not in (None, "", {})}


def _condition(type_: str, true: bool, reason: str, message: str, stamp: str) -> Raw:
    return {
        "type": type_,
        "status": "True" if true else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp,
    }


def native_spec(group: GroupSpec) -> Raw:
    policy = {"gang": {"minCount": max(group.min, 1)}}
    return {"schedulingPolicy": policy} | _given(priorityClassName=group.priority_class)


def native_status(gang: GroupCounts, stamp: str) -> Raw:
    whole, type_ = gang.scheduled >= gang.min, "PodGroupScheduled"
    if gang.version != "v1alpha2":
        # Kubernetes 1.37 renamed the condition. Once true it stays true, even if members are lost.
        type_ = "PodGroupInitiallyScheduled"
        before = find_condition(gang.conditions, type_)
        whole = whole or (before is not None and before.status == "True")
    reason, message = ("Scheduled", "") if whole else ("Unschedulable", gang.reason)
    scheduled = _condition(type_, whole, reason, message, stamp)
    count = f"{gang.succeeded} of {gang.min} members succeeded"
    ended = _condition(SUCCEEDED, gang.done, "MembersSucceeded", count, stamp)
    return {"conditions": [scheduled, ended] if gang.succeeded else [scheduled]}


def native_succeeded(status: PodGroupStatus) -> int:
    # The condition's message is the only place for the number in this status.
    condition = find_condition(status.conditions, SUCCEEDED)
    number = condition.message.partition(" ")[0] if condition is not None else ""
    return read_integer(number) or 0


def kube_batch_spec(group: GroupSpec) -> Raw:
    return {"minMember": group.min} | _given(
        queue=group.queue, priorityClassName=group.priority_class
    )


def volcano_spec(group: GroupSpec) -> Raw:
    spec = kube_batch_spec(group) | _given(minResources=group.resources)
    # A minimum per role always holds, so it is written only if the gang needs all its members.
    if group.min == sum(group.roles.values()):
        spec["minTaskMember"] = {role: n for role, n in group.roles.items() if n}
    return spec


def volcano_status(gang: GroupCounts, stamp: str) -> Raw:
    if gang.reason:
        shortage = "NotEnoughResources" if gang.pending else "NotEnoughTasks"
        condition = _condition("Unschedulable", True, shortage, gang.reason, stamp)
    else:
        ready = "tasks in gang are ready to be scheduled"
        condition = _condition("Scheduled", True, ready, "", stamp)
    # Not Pending: while it is, training-operator creates no pods, and no replacements either.
    phase = "Unknown" if gang.bound else "Inqueue"
    if gang.scheduled >= gang.min:
        phase = "Running"
    return {
        "phase": "Completed" if gang.done else phase,
        "conditions": [condition | {"transitionID": ""}],
        "running": gang.running,
        "succeeded": gang.succeeded,
        "failed": gang.failed,
    }


def coscheduling_spec(group: GroupSpec) -> Raw:
    return {"minMember": max(group.min, 1)} | _given(
        minResources=group.resources, scheduleTimeoutSeconds=group.timeout
    )


def coscheduling_status(gang: GroupCounts, stamp: str) -> Raw:
    phase = "Scheduling" if gang.bound else "Pending"
    if gang.running + gang.succeeded >= gang.min:
        phase = "Running"
    if gang.failed and gang.scheduled < gang.min:
        phase = "Failed"
    return {
        "phase": "Finished" if gang.done else phase,
        "scheduled": gang.bound,
        "running": gang.running,
        "succeeded": gang.succeeded,
        "failed": gang.failed,
    }
