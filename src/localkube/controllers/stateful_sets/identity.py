"""The pods and claims of a stateful set by their numbers: pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from localkube.controllers.revisions.history import HASH
from localkube.controllers.workloads import STATEFUL_SETS, copied_metadata, owner_reference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import Pod, StatefulSet

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
    meta, copied = stateful_set.metadata, copied_metadata(template)
    name = f"{meta.name}-{ordinal}"
    labels = {_POD_NAME: name, _POD_INDEX: str(ordinal), HASH: revision}
    body: Raw = {
        **copied,
        "name": name,
        "generateName": f"{meta.name}-",
        "namespace": meta.namespace,
        "labels": {**copied.get("labels", {}), **labels},
        "ownerReferences": [owner_reference(STATEFUL_SETS, meta)],
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
    owner = owner_reference(STATEFUL_SETS, stateful_set.metadata)
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
