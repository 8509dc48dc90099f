"""Which claims of a stateful set are deleted with it, or when it is scaled down: pure.

Garbage collection deletes a claim with its owner. With `whenDeleted: Delete` the set owns the
claims. With `whenScaled: Delete` a pod beyond the replicas owns its claims before it is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import Key
from localkube.controllers.stateful_sets.identity import claim_name
from localkube.controllers.workloads import PODS, STATEFUL_SETS, owner_reference

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import Pod, StatefulSet


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
        owner_reference(kind, meta)
        for kind, meta, owns in (
            (STATEFUL_SETS, stateful_set.metadata, by_set),
            (PODS, pod.metadata, by_pod),
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
