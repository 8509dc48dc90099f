"""Which pods have the current template, and the revisions that nothing needs any more: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.controllers.revisions.history import HASH, by_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from localkube.controllers.workloads import ControllerRevision, DaemonSet, Pod

# The API server counts the templates of a set in the annotation; its pods carry the count.
_GENERATION = "deprecated.daemonset.template.generation"
POD_GENERATION = "pod-template-generation"
_LONGEST = 63
"""Characters of the value of a label."""


def template_generation(daemon_set: DaemonSet) -> str:
    """The number of the set's template; empty if the set has none."""
    text = daemon_set.metadata.annotations.get(_GENERATION, "")
    return text if text.isascii() and text.isdigit() and len(text) < _LONGEST else ""


def is_updated(daemon_set: DaemonSet, revision_hash: str, pod: Pod) -> bool:
    """Whether a pod has the current template."""
    labels, generation = pod.metadata.labels, template_generation(daemon_set)
    same_generation = bool(generation) and labels.get(POD_GENERATION) == generation
    return same_generation or labels.get(HASH) == revision_hash


def outdated(
    daemon_set: DaemonSet,
    known: Sequence[ControllerRevision],
    current: ControllerRevision,
    pods: Iterable[Pod],
) -> list[ControllerRevision]:
    """Revisions beyond the history limit that no pod has."""
    used = {pod.metadata.labels.get(HASH) for pod in pods}
    old = [r for r in by_number(known) if r.metadata.name != current.metadata.name]
    surplus = max(0, len(old) - daemon_set.spec.revision_history_limit)
    return [r for r in old if r.metadata.labels.get(HASH) not in used][:surplus]
