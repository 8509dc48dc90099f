"""The templates that a stateful set has had, as ControllerRevisions: pure.

A revision is recognised by its template, not by its hash. A template that comes back, after a
rollback, gets a new number and keeps its revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.controllers.deployments.revisions import template_hash
from muster.local.controllers.workloads import STATEFUL_SETS, owner_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.api.meta import Raw
    from muster.local.controllers.workloads import ControllerRevision, Pod, StatefulSet

HASH = "controller-revision-hash"
_HASH_OF_REVISION = "controller.kubernetes.io/hash"


def by_number(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    return sorted(revisions, key=lambda r: (r.revision, r.metadata.name))


def template_of(revision: ControllerRevision) -> Raw:
    template = (revision.data.get("spec") or {}).get("template") or {}
    return {name: value for name, value in template.items() if name != "$patch"}


def find(
    stateful_set: StatefulSet, revisions: Sequence[ControllerRevision]
) -> ControllerRevision | None:
    """The newest revision of the set's template."""
    equal = [r for r in by_number(revisions) if template_of(r) == stateful_set.spec.template]
    return equal[-1] if equal else None


def next_number(revisions: Sequence[ControllerRevision]) -> int:
    return max((r.revision for r in revisions), default=0) + 1


def new_revision(stateful_set: StatefulSet, number: int) -> Raw:
    """The manifest of the revision of the set's template."""
    meta, template = stateful_set.metadata, stateful_set.spec.template
    hashed = template_hash(template, int(stateful_set.status.get("collisionCount") or 0))
    labels = (template.get("metadata") or {}).get("labels") or {}
    return {
        "metadata": {
            "name": f"{meta.name}-{hashed}",
            "namespace": meta.namespace,
            "labels": {**labels, _HASH_OF_REVISION: hashed},
            "annotations": dict(meta.annotations),
            "ownerReferences": [owner_reference(STATEFUL_SETS, meta)],
        },
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": number,
    }


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
