"""Workloads, pods and nodes as the controllers read them: only the fields we read.

Templates and statuses stay raw: a template is copied, a status is compared as a whole and patched.
Also said here once, for all controllers: when a pod is ready and available, and in which order pods
are deleted.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from kubekit.objects import core, kinds
from kubekit.objects.affinity import LabelSelector, Toleration
from kubekit.objects.annotation_values import read_integer
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import (
    ApiObject,
    Condition,
    Object,
    ObjectMeta,
    Raw,
    condition_is_true,
    find_condition,
    shifted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


class TimedToleration(Toleration, frozen=True):
    toleration_seconds: int | None = None


class PodSpec(core.PodSpec, frozen=True):
    hostname: str = ""
    subdomain: str = ""
    tolerations: tuple[TimedToleration, ...] = ()


class Pod(core.Pod, frozen=True):
    spec: PodSpec = PodSpec()

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def active(self) -> bool:
        """Whether it counts towards its owner's replicas."""
        return not self.finished and not self.terminating

    @property
    def stopped_with_node(self) -> bool:
        """Whether it ended only because its node was stopped: it did not fail itself."""
        status = self.status
        terminated = status.phase == "Failed" and status.reason == "Terminated"
        return terminated and condition_is_true(status.conditions, "DisruptionTarget")


class Workload(ApiObject, frozen=True):
    status: Raw = {}

    def count(self, field: str) -> int:
        """A number in its status; 0 if it was never written."""
        return int(self.status.get(field) or 0)


class TemplateSpec(Object, frozen=True):
    """What all owners of pods of one template have; a Job leaves out `minReadySeconds`."""

    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: Raw = {}


class TemplateOwner(Workload, frozen=True):
    spec: TemplateSpec = TemplateSpec()


class ReplicaSetSpec(TemplateSpec, frozen=True):
    replicas: int = 1


class ReplicaSet(TemplateOwner, frozen=True):
    spec: ReplicaSetSpec = ReplicaSetSpec()


class RollingUpdate(Object, frozen=True):
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"


class Strategy(Object, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


NO_LIMIT = 2**31 - 1
"""The deadline or limit that means none."""

BURST = 500
"""The most pods that one visit to an owner creates or deletes."""


class DeploymentSpec(TemplateSpec, frozen=True):
    replicas: int = 1
    paused: bool = False
    progress_deadline_seconds: int = NO_LIMIT
    revision_history_limit: int = NO_LIMIT
    strategy: Strategy = Strategy()


class Deployment(TemplateOwner, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()


class Ordinals(Object, frozen=True):
    start: int = 0


class Partition(Object, frozen=True):
    partition: int = 0


class StatefulSetStrategy(Object, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: Partition | None = None


class ClaimRetention(Object, frozen=True):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetSpec(TemplateSpec, frozen=True):
    replicas: int = 1
    ordinals: Ordinals = Ordinals()
    persistent_volume_claim_retention_policy: ClaimRetention = ClaimRetention()
    pod_management_policy: str = "OrderedReady"
    revision_history_limit: int = 10
    service_name: str = ""
    update_strategy: StatefulSetStrategy = StatefulSetStrategy()
    volume_claim_templates: tuple[Raw, ...] = ()


class StatefulSet(TemplateOwner, frozen=True):
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetRollingUpdate(Object, frozen=True):
    max_surge: int | str = 0
    max_unavailable: int | str = 1


class DaemonSetStrategy(Object, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: DaemonSetRollingUpdate | None = None


class DaemonSetSpec(TemplateSpec, frozen=True):
    revision_history_limit: int = 10
    update_strategy: DaemonSetStrategy = DaemonSetStrategy()


class DaemonSet(TemplateOwner, frozen=True):
    spec: DaemonSetSpec = DaemonSetSpec()


class ControllerRevision(ApiObject, frozen=True):
    data: Raw = {}
    revision: int = 0


class ExitCodes(Object, frozen=True):
    container_name: str = ""
    operator: str = "In"
    values: tuple[int, ...] = ()


class FailureRule(Object, frozen=True):
    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[Condition, ...] = ()


class FailurePolicy(Object, frozen=True):
    rules: tuple[FailureRule, ...] = ()


class SuccessRule(Object, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Object, frozen=True):
    rules: tuple[SuccessRule, ...] = ()


class JobSpec(TemplateSpec, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    managed_by: str = ""


class Job(TemplateOwner, frozen=True):
    spec: JobSpec = JobSpec()


class CronJobSpec(Object, frozen=True):
    schedule: str = ""
    time_zone: str = ""
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1
    job_template: Raw = {}


class CronJob(Workload, frozen=True):
    spec: CronJobSpec = CronJobSpec()


class DisruptionBudgetSpec(Object, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class DisruptionBudget(Workload, frozen=True):
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()


class TimedTaint(core.Taint, frozen=True):
    time_added: str = ""


class NodeSpec(core.NodeSpec, frozen=True):
    taints: tuple[TimedTaint, ...] = ()


class Node(core.Node, frozen=True):
    spec: NodeSpec = NodeSpec()


class NamespaceSpec(Object, frozen=True):
    finalizers: tuple[str, ...] = ()


class Namespace(core.Namespace, frozen=True):
    spec: NamespaceSpec = NamespaceSpec()


PODS = kinds.PODS.read_as(Pod)
NODES = kinds.NODES.read_as(Node)
NAMESPACES = kinds.NAMESPACES.read_as(Namespace)
DEPLOYMENTS = kinds.DEPLOYMENTS.read_as(Deployment)
REPLICA_SETS = Kind.of("apps/v1", "ReplicaSet", ReplicaSet)
STATEFUL_SETS = Kind.of("apps/v1", "StatefulSet", StatefulSet)
DAEMON_SETS = Kind.of("apps/v1", "DaemonSet", DaemonSet)
CONTROLLER_REVISIONS = Kind.of("apps/v1", "ControllerRevision", ControllerRevision)
CLAIMS: Kind[Raw] = Kind.of("v1", "PersistentVolumeClaim", dict)
JOBS = Kind.of("batch/v1", "Job", Job)
CRON_JOBS = Kind.of("batch/v1", "CronJob", CronJob)
DISRUPTION_BUDGETS = kinds.POD_DISRUPTION_BUDGETS.read_as(DisruptionBudget)


def share(value: int | str, whole: int, *, round_up: bool = True) -> int:
    """A number, or a percentage of `whole`."""
    if isinstance(value, int):
        return value
    exact = (read_integer(value.rstrip("%")) or 0) * whole / 100
    return math.ceil(exact) if round_up else math.floor(exact)


def copied_metadata(template: Raw) -> Raw:
    """The metadata that a pod has from its template."""
    meta = template.get("metadata") or {}
    copied: Raw = {key: dict(meta[key]) for key in ("labels", "annotations") if meta.get(key)}
    if meta.get("finalizers"):
        copied["finalizers"] = list(meta["finalizers"])
    return copied


def owner_reference(kind: Kind[Any], meta: ObjectMeta) -> Raw:
    """The owner reference of objects that this one controls."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}


def ready(pod: Pod) -> bool:
    return condition_is_true(pod.status.conditions, "Ready")


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """When the pod becomes, or became, available; None while it is not ready."""
    condition = find_condition(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True" or condition.last_transition_time is None:
        return None
    return shifted(condition.last_transition_time, min_ready_seconds)


def available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    if not min_ready_seconds:
        return ready(pod)
    at = available_at(pod, min_ready_seconds)
    return at is not None and at <= now


def available_in(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> float | None:
    """Seconds until the next ready pod becomes available."""
    if not min_ready_seconds:
        return None
    times = (available_at(pod, min_ready_seconds) for pod in pods)
    waits = [(at - now).total_seconds() for at in times if at is not None and at > now]
    return min(waits, default=None)


def deletion_order(pods: Sequence[Pod], neighbours: Sequence[Pod]) -> list[Pod]:
    """These pods, the least useful first.

    Pods that are not bound, not running or not ready come first; then pods with a low deletion
    cost; then pods with many `neighbours` on their node; then pods that became ready last,
    restarted most often, were created last.
    """
    per_node = Counter(pod.spec.node_name for pod in neighbours if pod.active)

    def rank(pod: Pod) -> tuple[Any, ...]:
        since = available_at(pod, 0)
        created = pod.metadata.creation_timestamp
        restarts = max((c.restart_count for c in pod.status.container_statuses), default=0)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 0),
            ready(pod),
            _cost(pod),
            -per_node[pod.spec.node_name],
            -(since.timestamp() if since else 0.0),
            -restarts,
            -(created.timestamp() if created else 0.0),
            pod.metadata.name,
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "")
    cost = read_integer(text.removeprefix("-")) or 0
    return -cost if text.startswith("-") else cost
