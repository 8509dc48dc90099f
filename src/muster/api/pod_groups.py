"""The PodGroups in which other schedulers declare a gang, one struct per dialect; HyperNodes.

`topology` is the part of a spec that says where the gang must stay. `unserved` names a required
field that Muster does not serve: a gang waits rather than run against it.
"""

from __future__ import annotations

from typing import Any

from muster.api.affinity import LabelSelector  # noqa: TC001 - msgspec resolves annotations
from muster.api.core import Resources  # noqa: TC001 - msgspec resolves annotations at run time
from muster.api.gang import HyperNodeTiers, Topology
from muster.api.meta import ApiObject, Condition, Object


class PodGroupStatus(Object, frozen=True):
    """The part of the status that the scheduler reads back after writing it."""

    succeeded: int = 0
    conditions: tuple[Condition, ...] = ()


class NetworkTopology(Object, frozen=True):
    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class VolcanoSpec(Object, frozen=True):
    min_member: int = 0
    min_task_member: dict[str, int] = {}
    min_resources: Resources = {}
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[dict[str, Any], ...] | None = None
    topology_affinity: dict[str, Any] | None = None

    @property
    def topology(self) -> Topology | None:
        network = self.network_topology
        if network is None:
            return None
        # Volcano's default is hard; a mode that we do not know is read as hard too.
        highest, name = network.highest_tier_allowed, network.highest_tier_name
        return Topology(tiers=HyperNodeTiers(network.mode != "soft", highest, name))

    @property
    def unserved(self) -> str:
        if self.sub_group_policy:
            return "the group sets subGroupPolicy"
        affinity = (self.topology_affinity or {}).values()
        if any(isinstance(rule, dict) and rule.get("required") for rule in affinity):
            return "the group requires a topologyAffinity of its subgroups"
        network = self.network_topology
        both = network and network.highest_tier_name and network.highest_tier_allowed is not None
        text = "the group sets both highestTierAllowed and highestTierName in networkTopology"
        return text if both else ""


class VolcanoPodGroup(ApiObject, frozen=True):
    """scheduling.volcano.sh/v1beta1; kube-batch's two groups have a subset of the same fields."""

    spec: VolcanoSpec = VolcanoSpec()
    status: PodGroupStatus = PodGroupStatus()


class CoschedulingSpec(Object, frozen=True):
    min_member: int = 0
    min_resources: Resources = {}


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

    @property
    def evicted_whole(self) -> bool:
        mode = self.disruption_mode
        return "all" in mode if isinstance(mode, dict) else mode == "PodGroup"

    @property
    def topology(self) -> Topology | None:
        # All constraints are required: all pods of the group run in one domain of each key.
        keys = tuple(filter(None, (row.get("key") for row in self._topology_rows)))
        return Topology(required=keys) if keys else None

    @property
    def unserved(self) -> str:
        if self.resource_claims:
            return "the group shares resourceClaims among its pods"
        for name, value in (self.scheduling_constraints or {}).items():
            if name != "topology" and value:
                return f"the group sets schedulingConstraints.{name}"
        unknown = next((name for row in self._topology_rows for name in row if name != "key"), "")
        return f"the group sets {unknown} in schedulingConstraints.topology" if unknown else ""

    @property
    def _topology_rows(self) -> list[dict[str, Any]]:
        rows = (self.scheduling_constraints or {}).get("topology") or ()
        return [row for row in rows if isinstance(row, dict)]


class NativePodGroup(ApiObject, frozen=True):
    """scheduling.k8s.io, Kubernetes 1.36 and newer."""

    spec: NativeSpec = NativeSpec()
    status: PodGroupStatus = PodGroupStatus()


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
