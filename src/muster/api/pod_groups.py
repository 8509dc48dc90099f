"""The PodGroup objects in which other schedulers declare a gang, one struct per dialect."""

from __future__ import annotations

from muster.api.core import Resources  # noqa: TC001 - msgspec resolves annotations at run time
from muster.api.meta import ApiObject, Condition, Object


class PodGroupStatus(Object, frozen=True):
    """The part of the status that the scheduler reads back after writing it."""

    succeeded: int = 0
    conditions: tuple[Condition, ...] = ()


class VolcanoSpec(Object, frozen=True):
    min_member: int = 0
    min_task_member: dict[str, int] = {}
    min_resources: Resources = {}
    priority_class_name: str = ""


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
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    priority_class_name: str = ""
    priority: int | None = None


class NativePodGroup(ApiObject, frozen=True):
    """scheduling.k8s.io, Kubernetes 1.36 and newer."""

    spec: NativeSpec = NativeSpec()
    status: PodGroupStatus = PodGroupStatus()
