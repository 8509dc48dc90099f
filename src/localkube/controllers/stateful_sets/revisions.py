"""The revisions of a stateful set that nothing needs any more: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.controllers.revisions.history import HASH, by_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from localkube.controllers.workloads import ControllerRevision, Pod, StatefulSet

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
