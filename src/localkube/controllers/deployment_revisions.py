"""The replica set of a deployment's current template, and revision numbers: pure.

A deployment has one replica set per template. The set is recognised by comparing templates without
their hash label, not by the hash: two templates may have the same hash. After a
rollback the old replica set gets a new revision and keeps its earlier revisions as history, which
`kubectl rollout history` shows.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import msgspec

from kubekit.objects.annotation_values import MAX_INTEGER, read_integer
from kubekit.objects.meta import SUFFIX_LETTERS, ObjectMeta, Raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from localkube.controllers.workloads import Deployment, ReplicaSet

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_LONGEST_HISTORY = 2000
_NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
}


def template_hash(template: Raw, collisions: int) -> str:
    """Ten letters derived from a template; `collisions` makes another name after a clash."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":")) + (
        f"/{collisions}" if collisions else ""
    )
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(SUFFIX_LETTERS[byte % len(SUFFIX_LETTERS)] for byte in digest[:10])


def without_hash(template: Raw) -> Raw:
    meta = template.get("metadata") or {}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != HASH}
    return {**template, "metadata": {**meta, "labels": labels}}


def current(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The replica set of the deployment's template; the oldest if there are several."""
    template = without_hash(deployment.spec.template)
    return next((rs for rs in by_age(sets) if without_hash(rs.spec.template) == template), None)


def by_age(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """The oldest first."""

    def age(rs: ReplicaSet) -> tuple[float, str]:
        created = rs.metadata.creation_timestamp
        return (created.timestamp() if created else 0, rs.metadata.name)

    return sorted(sets, key=age)


def number(meta: ObjectMeta) -> int:
    """The revision of a set or a deployment; 0 if it has none that can be read."""
    return read_integer(meta.annotations.get(REVISION, "")) or 0


def next_number(old: Sequence[ReplicaSet]) -> int:
    return min(max((number(rs.metadata) for rs in old), default=0) + 1, MAX_INTEGER)


def set_annotations(
    deployment: Deployment, current_set: ReplicaSet | None, revision: int
) -> dict[str, str]:
    """The annotations of the current set: the deployment's own, and the revision."""
    copied = {k: v for k, v in deployment.metadata.annotations.items() if k not in _NOT_COPIED}
    known = current_set.metadata.annotations if current_set is not None else {}
    before = read_integer(known.get(REVISION, "")) or 0
    # A revision never falls: a set that is current again gets a higher one (`next_number`).
    if before >= revision:
        return {**known, **copied}
    annotations = {**known, **copied, REVISION: str(revision)}
    if before:
        history = [number for number in known.get(HISTORY, "").split(",") if number]
        # As in Kubernetes, the oldest ones are forgotten: the length of annotations is limited.
        while history and len(",".join([*history, str(before)])) > _LONGEST_HISTORY:
            del history[: -(-len(history) // 2)]
        annotations[HISTORY] = ",".join([*history, str(before)])
    return annotations


def new_set(deployment: Deployment, owner: Raw, replicas: int, revision: int) -> Raw:
    """The manifest of a new set with the current template."""
    meta, spec = deployment.metadata, deployment.spec
    hashed = template_hash(spec.template, deployment.count("collisionCount"))
    template = without_hash(spec.template)
    labels = {**template["metadata"]["labels"], HASH: hashed}
    return {
        "metadata": {
            "name": f"{meta.name}-{hashed}",
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": set_annotations(deployment, None, revision),
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": replicas,
            **({"minReadySeconds": spec.min_ready_seconds} if spec.min_ready_seconds else {}),
            "selector": _selector(deployment, hashed),
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        },
    }


def _selector(deployment: Deployment, hashed: str) -> Raw:
    """The deployment's selector with the hash, so that it selects pods of this template only."""
    selector: Raw = msgspec.to_builtins(deployment.spec.selector)
    return {**selector, "matchLabels": {**selector["matchLabels"], HASH: hashed}}
