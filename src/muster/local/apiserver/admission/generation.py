"""metadata.generation: which kinds have one, and what a change of makes a new one.

Pure; used by `admit.py` and `deletion.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Resource

# Kinds whose generation counts changes of the spec; all custom ones do too.
_COUNTED = frozenset(
    {
        "pods",
        "deployments.apps",
        "replicasets.apps",
        "jobs.batch",
        "poddisruptionbudgets.policy",
        "endpointslices.discovery.k8s.io",
        "priorityclasses.scheduling.k8s.io",
        "podgroups.scheduling.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
)
# Kinds whose generation also counts changes of some metadata.
_COUNTED_TOO = {
    "deployments.apps": "annotations",
    "endpointslices.discovery.k8s.io": "labels",
}


def counts(resource: Resource) -> bool:
    """Whether objects of this kind have a generation."""
    return resource.custom or resource.collection in _COUNTED


def counted(resource: Resource, obj: Raw) -> Raw:
    """What a change of makes a new generation: all but metadata and status, with exceptions."""
    if not counts(resource) or resource.collection == "priorityclasses.scheduling.k8s.io":
        return {}  # a class is born with a generation and keeps it
    left_out = ("metadata", "apiVersion", "kind", *(("status",) if resource.has_status else ()))
    body = {k: v for k, v in obj.items() if k not in left_out}
    also = _COUNTED_TOO.get(resource.collection, "")
    return body | ({"metadata": obj["metadata"].get(also) or {}} if also else {})
