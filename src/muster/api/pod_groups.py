"""The PodGroups in which other schedulers declare a gang, one struct per dialect; HyperNodes."""

from __future__ import annotations

from typing import Any

from muster.api.affinity import LabelSelector  # noqa: TC001 - msgspec resolves annotations
from muster.api.core import Resources  # noqa: TC001 - msgspec resolves annotations at run time
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
    sub_group_policy: tuple[dict[str, Any], ...] = ()
    topology_affinity: dict[str, Any] = {}


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
    scheduling_constraints: dict[str, Any] = {}
    resource_claims: tuple[dict[str, Any], ...] = ()
    priority_class_name: str = ""
    priority: int | None = None


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
