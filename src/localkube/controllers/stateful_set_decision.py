"""The pods and claims of a stateful set by their numbers, its next steps and its status: pure.

With OrderedReady, pods start one after the other, each when the one before it is available, and
stop in the opposite order. A rolling update replaces one pod at a time, the last one first.

Garbage collection deletes a claim with its owner. With `whenDeleted: Delete` the set owns the
claims. With `whenScaled: Delete` a pod beyond the replicas owns its claims before it is deleted.

"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubekit.objects.meta import Key, Raw
from localkube.controllers import workloads
from localkube.controllers.controller_revisions import HASH, by_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from localkube.controllers.workloads import ControllerRevision, Pod, StatefulSet

_NAME = re.compile(r"(.*)-([0-9]+)")
_POD_NAME, _POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


def by_ordinal(stateful_set: StatefulSet, pods: Iterable[Pod]) -> dict[int, Pod]:
    """The pods of the set by their numbers."""
    numbered = ((_ordinal(stateful_set, pod), pod) for pod in pods)
    return {ordinal: pod for ordinal, pod in numbered if ordinal is not None}


def is_member(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether a pod has a name of the set. Other pods with its labels are not adopted."""
    return _ordinal(stateful_set, pod) is not None


def _ordinal(stateful_set: StatefulSet, pod: Pod) -> int | None:
    match = _NAME.fullmatch(pod.metadata.name)
    return int(match[2]) if match and match[1] == stateful_set.metadata.name else None


def claim_name(stateful_set: StatefulSet, template: Raw, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set.metadata.name}-{ordinal}"


def new_pod(stateful_set: StatefulSet, template: Raw, revision: str, ordinal: int) -> Raw:
    """The manifest of the pod with this number, of the template of this revision."""
    meta, copied = stateful_set.metadata, workloads.copied_metadata(template)
    name = f"{meta.name}-{ordinal}"
    labels = {_POD_NAME: name, _POD_INDEX: str(ordinal), HASH: revision}
    body: Raw = {
        **copied,
        "name": name,
        "generateName": f"{meta.name}-",
        "namespace": meta.namespace,
        "labels": {**copied.get("labels", {}), **labels},
        "ownerReferences": [workloads.owner_reference(workloads.STATEFUL_SETS, meta)],
    }
    spec = {**(template.get("spec") or {}), "hostname": name}
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    claims = [
        {
            "name": claim["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(stateful_set, claim, ordinal)},
        }
        for claim in stateful_set.spec.volume_claim_templates
    ]
    if claims:
        names = {claim["name"] for claim in claims}
        others = [v for v in spec.get("volumes") or () if v.get("name") not in names]
        spec["volumes"] = [*claims, *others]
    return {"metadata": body, "spec": spec}


def new_claims(stateful_set: StatefulSet, ordinal: int) -> list[Raw]:
    """The claims of the pod with this number."""
    selector = stateful_set.spec.selector
    matched = dict(selector.match_labels) if selector is not None else {}
    retention = stateful_set.spec.persistent_volume_claim_retention_policy
    owner = workloads.owner_reference(workloads.STATEFUL_SETS, stateful_set.metadata)
    owned = {"ownerReferences": [owner]} if retention.when_deleted == "Delete" else {}
    return [
        {
            "metadata": {
                **{k: v for k, v in claim["metadata"].items() if k in ("annotations", "labels")},
                "name": claim_name(stateful_set, claim, ordinal),
                "namespace": stateful_set.metadata.namespace,
                "labels": {**(claim["metadata"].get("labels") or {}), **matched},
                **owned,
            },
            "spec": claim.get("spec") or {},
        }
        for claim in stateful_set.spec.volume_claim_templates
    ]


def claims_of(stateful_set: StatefulSet, ordinal: int) -> list[Key]:
    """The claims of the pod with this number."""
    namespace = stateful_set.metadata.namespace
    templates = stateful_set.spec.volume_claim_templates
    return [Key(namespace, claim_name(stateful_set, template, ordinal)) for template in templates]


def new_owners(stateful_set: StatefulSet, pod: Pod, claim: Raw, *, kept: bool) -> list[Raw] | None:
    """The owners that the claim of a pod should have; None if it has them.

    A pod that is not `kept` is beyond the replicas.
    """
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    by_pod = not kept and policy.when_scaled == "Delete"
    by_set = policy.when_deleted == "Delete" and not by_pod
    wanted = [
        workloads.owner_reference(kind, meta)
        for kind, meta, owns in (
            (workloads.STATEFUL_SETS, stateful_set.metadata, by_set),
            (workloads.PODS, pod.metadata, by_pod),
        )
        if owns
    ]
    stored = claim["metadata"].get("ownerReferences") or []
    ours = {stateful_set.metadata.uid, pod.metadata.uid}
    others = [owner for owner in stored if owner["uid"] not in ours]
    if any(owner.get("controller") for owner in others):
        return None  # another controller decides about this claim
    owners = [*others, *wanted]
    unchanged = {owner["uid"] for owner in stored} == {owner["uid"] for owner in owners}
    return None if unchanged else owners


HASH_OF_REVISION = "controller.kubernetes.io/hash"
"""The label of a revision. Pods of a stateful set name the revision itself in their label."""


def outdated(
    stateful_set: StatefulSet,
    revisions: Sequence[ControllerRevision],
    pods: Iterable[Pod],
    live: Iterable[str],
) -> list[ControllerRevision]:
    """Revisions beyond the history limit that no pod has."""
    used = {*live, *(pod.metadata.labels.get(HASH, "") for pod in pods)}
    history = [r for r in by_number(revisions) if r.metadata.name not in used]
    return history[: max(0, len(history) - stateful_set.spec.revision_history_limit)]


@dataclass
class Plan:
    """The writes of one visit."""

    create: list[tuple[int, str]] = field(default_factory=list)
    """Numbers of pods, with the revision of each."""
    delete: list[Pod] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """A stateful set and its pods at one moment."""

    stateful_set: StatefulSet
    pods: dict[int, Pod]
    """By number."""
    current: str
    """The name of the revision that pods below the partition have."""
    update: str
    """The name of the revision of the set's template."""
    now: datetime

    @property
    def ordinals(self) -> range:
        start = self.stateful_set.spec.ordinals.start
        return range(start, start + self.stateful_set.spec.replicas)

    @property
    def condemned(self) -> list[int]:
        """The numbers of pods beyond the replicas, the last one first."""
        return sorted((n for n in self.pods if n not in self.ordinals), reverse=True)

    def is_available(self, pod: Pod | None) -> bool:
        if pod is None or pod.terminating or pod.status.phase != "Running":
            return False
        return workloads.available(pod, self.stateful_set.spec.min_ready_seconds, self.now)


def decide(progress: Progress) -> Plan:
    """The next steps."""
    plan = Plan()
    if progress.stateful_set.metadata.deletion_timestamp is not None:
        return plan
    ordered = progress.stateful_set.spec.pod_management_policy == "OrderedReady"
    if _fill(plan, progress, ordered) and _shrink(plan, progress, ordered):
        _update(plan, progress)
    return plan


def _fill(plan: Plan, progress: Progress, ordered: bool) -> bool:
    """Create missing pods; whether the next steps may follow."""
    for ordinal in progress.ordinals:
        pod = progress.pods.get(ordinal)
        if pod is None:
            plan.create.append((ordinal, _revision_of_new(progress, ordinal)))
            if len(plan.create) == workloads.BURST:  # there may be billions of numbers
                return False
        elif pod.finished:
            if not pod.terminating:
                plan.delete.append(pod)
        elif progress.is_available(pod):
            continue
        if ordered:
            return False
    return True


def _revision_of_new(progress: Progress, ordinal: int) -> str:
    spec = progress.stateful_set.spec
    rolling = spec.update_strategy.rolling_update
    kept = rolling.partition if rolling is not None else 0
    if rolling is None and spec.update_strategy.type == "RollingUpdate":
        kept = progress.stateful_set.count("currentReplicas")
    return progress.current if ordinal < spec.ordinals.start + kept else progress.update


def _shrink(plan: Plan, progress: Progress, ordered: bool) -> bool:
    """Delete the pods beyond the replicas; whether the next steps may follow."""
    # In order, all pods that stay are available here.
    unavailable = [
        ordinal
        for ordinal in reversed(progress.condemned)
        if not progress.is_available(progress.pods.get(ordinal))
    ]
    for ordinal in progress.condemned:
        pod = progress.pods[ordinal]
        waits = pod.terminating or (ordinal in unavailable and ordinal != unavailable[0])
        if ordered and waits:
            return False
        if not pod.terminating:
            plan.delete.append(pod)
            if ordered:
                return False
    return True


def _update(plan: Plan, progress: Progress) -> None:
    """Delete the next pod that has not the current template."""
    strategy = progress.stateful_set.spec.update_strategy
    if strategy.type == "OnDelete":
        return
    rolling = strategy.rolling_update
    for ordinal in reversed(progress.ordinals[rolling.partition if rolling else 0 :]):
        pod = progress.pods.get(ordinal)
        if pod is None:
            return
        if pod.metadata.labels.get(HASH) != progress.update and not pod.terminating:
            plan.delete.append(pod)
            return
        if not progress.is_available(pod):
            return


# -- status --------------------------------------------------------------------------------------


def stateful_set_status(progress: Progress) -> Raw:
    """The status of the set; a finished update makes its revision the current one."""
    stateful_set, pods = progress.stateful_set, list(progress.pods.values())
    ready = [p for p in pods if p.status.phase == "Running" and workloads.ready(p)]
    seconds = stateful_set.spec.min_ready_seconds
    staying = [pod.metadata.labels.get(HASH) for pod in pods if not pod.terminating]
    counts = {
        "readyReplicas": len(ready),
        "currentReplicas": staying.count(progress.current),
        "updatedReplicas": staying.count(progress.update),
    }
    current = progress.current
    rolling = stateful_set.spec.update_strategy.type == "RollingUpdate"
    if rolling and counts["updatedReplicas"] == len(pods) == len(ready):
        current, counts["currentReplicas"] = progress.update, counts["updatedReplicas"]
    return {
        "observedGeneration": stateful_set.metadata.generation,
        "replicas": len(pods),
        "availableReplicas": sum(workloads.available(p, seconds, progress.now) for p in ready),
        **{name: count for name, count in counts.items() if count},
        "currentRevision": current,
        "updateRevision": progress.update,
        "collisionCount": stateful_set.count("collisionCount"),
    }
