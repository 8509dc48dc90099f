"""Pods, nodes and the other built-in kinds: only the fields that Muster reads.

Quantities stay as they were written; `quantity.py` turns them into integers. Affinity and
topology spread are in `affinity.py`.
"""

# No `from __future__ import annotations`: msgspec would have to compile each of them again.

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from kubekit.errors import MusterError
from kubekit.objects.affinity import Affinity, LabelSelector, Toleration, TopologySpreadConstraint
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.meta import (
    ApiObject,
    Condition,
    Object,
    condition_is_true,
    find_condition,
    in_utc,
)

Quantity = str | int | float
Resources = dict[str, Quantity]


class InvalidImageName(MusterError):
    """A pod's image has a name that no image can have."""


class ResourceRequirements(Object, frozen=True):
    requests: Resources = {}
    limits: Resources = {}


class ContainerPort(Object, frozen=True):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = ""
    protocol: str = "TCP"


class Container(Object, frozen=True):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None  # only of an init container: Always makes it a sidecar


# The grammar of an image reference: [host[:port]/]component[/component …][:tag][@digest]
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[A-Fa-f0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG = r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_IMAGE_NAME = rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*(?:{_TAG})?(?:{_DIGEST})?"
_LONGEST_IMAGE_NAME = 4096


def check_image_name(image: str) -> None:
    """Raise InvalidImageName, with the kubelet's words, for a name that no image can have."""
    is_valid = len(image) <= _LONGEST_IMAGE_NAME and re.fullmatch(_IMAGE_NAME, image, re.ASCII)
    if image and not is_valid:
        shown = image[:100]
        raise InvalidImageName(
            f'Failed to apply default image tag "{shown}": '
            f'couldn\'t parse image name "{shown}": invalid reference format'
        )


def port_number(port: int | str, containers: Iterable[Container], protocol: str = "") -> int | None:
    """The number of a port given by number or name; None if no container has a port so named."""
    if isinstance(port, int):
        return port
    for declared in (declared for container in containers for declared in container.ports):
        if declared.name == port and protocol in ("", declared.protocol):
            return declared.container_port
    return read_integer(port, 65535)


class PvcSource(Object, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class Volume(Object, frozen=True):
    """A volume of a pod: the fields that decide where the pod may run."""

    name: str = ""
    persistent_volume_claim: PvcSource | None = None
    ephemeral: dict[str, object] | None = None


class Named(Object, frozen=True):
    """A row of a list of which only the name is read."""

    name: str = ""


class WorkloadReference(Object, frozen=True):
    """The pod group of a pod in Kubernetes 1.35 only."""

    name: str = ""
    pod_group: str = ""


class SchedulingGroup(Object, frozen=True):
    """The pod group of a pod, Kubernetes 1.36 and newer."""

    pod_group_name: str = ""


class PodSpec(Object, frozen=True):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduling_gates: tuple[Named, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    resource_claims: tuple[Named, ...] = ()
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    restart_policy: str = "Always"

    @property
    def needs_storage(self) -> bool:
        """Whether a volume has a claim: only those decide where the pod may run."""
        volumes = self.volumes
        return bool(volumes) and any(
            v.persistent_volume_claim or v.ephemeral is not None for v in volumes
        )


class ContainerTerminated(Object, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    signal: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerWaiting(Object, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerRunning(Object, frozen=True):
    started_at: datetime | None = None


class ContainerState(Object, frozen=True):
    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Object, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    allocated_resources: Resources = {}

    @property
    def waits_for_restart(self) -> bool:
        """Whether it failed and its node waits before it starts it again."""
        waiting = self.state.waiting
        return waiting is not None and waiting.reason == "CrashLoopBackOff"


class PodStatus(Object, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = ""
    host_ip: str = ""
    nominated_node_name: str = ""
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()

    @property
    def all_container_statuses(self) -> tuple[ContainerStatus, ...]:
        """In the order in which the containers start."""
        return (*self.init_container_statuses, *self.container_statuses)


class Pod(ApiObject, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether it has ended and uses no resources any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def bound_at(self) -> datetime | None:
        """When it got its node, by the server's clock."""
        scheduled = find_condition(self.status.conditions, "PodScheduled")
        if scheduled is None or scheduled.status != "True":
            return None
        return in_utc(scheduled.last_transition_time)

    @property
    def unreachable_since(self) -> datetime | None:
        """Since when its node has not answered, as far as the pod tells; None if it answers.

        When a node falls silent, the cluster changes only the condition Ready of its pods. A node
        that answers gives a reason, and says that the containers are not ready either.
        """
        ready = find_condition(self.status.conditions, "Ready")
        if self.finished or ready is None or ready.status != "False" or ready.reason:
            return None
        containers_ready = condition_is_true(self.status.conditions, "ContainersReady")
        return in_utc(ready.last_transition_time) if containers_ready else None


class Taint(Object, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a pod with this toleration may be on a node with this taint."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    same = bool(toleration.key) and toleration.value == taint.value
    return toleration.operator == "Exists" or same


class NodeSpec(Object, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(Object, frozen=True):
    type: str = ""
    address: str = ""


class NodeStatus(Object, frozen=True):
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(ApiObject, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(ApiObject, frozen=True):
    """Only its metadata is read."""


class ServicePort(Object, frozen=True):
    name: str = ""
    port: int = 0
    protocol: str = "TCP"
    app_protocol: str | None = None
    target_port: int | str = 0
    node_port: int = 0


class ServiceSpec(Object, frozen=True):
    type: str = "ClusterIP"
    cluster_ip: str = ""
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    session_affinity: str = "None"
    publish_not_ready_addresses: bool = False


class Service(ApiObject, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ConfigMap(ApiObject, frozen=True):
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    """In base64."""


class Secret(ApiObject, frozen=True):
    type: str = "Opaque"
    data: dict[str, str] = {}


class Event(ApiObject, frozen=True):
    """core/v1 Event."""

    reason: str = ""
    message: str = ""


class PodDisruptionBudgetSpec(Object, frozen=True):
    min_available: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Object, frozen=True):
    disruptions_allowed: int = 0


class PodDisruptionBudget(ApiObject, frozen=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(ApiObject, frozen=True):
    value: int = 0
    preemption_policy: Literal["PreemptLowerPriority", "Never"] | None = None


class ResourceQuotaSpec(Object, frozen=True):
    hard: Resources = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, object] | None = None

    @property
    def is_scoped(self) -> bool:
        """Whether it counts only some pods of its namespace."""
        return bool(self.scopes or self.scope_selector)


class ResourceQuotaStatus(Object, frozen=True):
    hard: Resources = {}
    used: Resources = {}


class ResourceQuota(ApiObject, frozen=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LeaseSpec(Object, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class Lease(ApiObject, frozen=True):
    spec: LeaseSpec = LeaseSpec()


class PodLog(ApiObject, frozen=True):
    """The log of one attempt at a container, which outlives its pod on the local cluster.

    Only the local cluster serves this kind; a client must do without it elsewhere. Its metadata has
    the namespace and labels of the pod, and the job as owner.
    """

    pod_name: str = ""
    pod_uid: str = ""
    container: str = ""
    init: bool = False
    """Whether it is an init container."""
    main: bool = False
    """Whether it is the first container of its pod."""
    attempt: int = 0
    """The number of earlier attempts at the container in the same pod."""
    archived: bool = False
    """Whether the log was moved from the pod to the archive."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    size: int = 0
    """Bytes on disk."""
