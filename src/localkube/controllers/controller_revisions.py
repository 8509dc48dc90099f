"""The templates that stateful sets and daemon sets have had, as ControllerRevisions: pure.

A revision is recognised by its template, not by its hash. A template that comes back, after a
rollback, gets a new number and keeps its revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubekit.objects.quantity import MAX_INT64
from localkube.controllers.deployment_revisions import template_hash
from localkube.controllers.workloads import owner_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw
    from localkube.controllers.workloads import ControllerRevision, TemplateOwner

HASH = "controller-revision-hash"
"""The label of a pod that names its revision."""


def by_number(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    return sorted(revisions, key=lambda r: (r.revision, r.metadata.name))


def template_of(revision: ControllerRevision) -> Raw:
    spec = revision.data.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    fields = template.items() if isinstance(template, dict) else ()
    return {name: value for name, value in fields if name != "$patch"}


def find_revision(
    template: Raw, revisions: Iterable[ControllerRevision]
) -> ControllerRevision | None:
    """The newest revision of a template."""
    equal = [r for r in by_number(revisions) if template_of(r) == template]
    return equal[-1] if equal else None


def next_number(revisions: Sequence[ControllerRevision]) -> int:
    return min(max((r.revision for r in revisions), default=0) + 1, MAX_INT64)


def new_revision(kind: Kind[Any], owner: TemplateOwner, number: int, hash_label: str) -> Raw:
    """The manifest of the revision of the owner's template; the label has the template's hash."""
    meta, template = owner.metadata, owner.spec.template
    hashed = template_hash(template, owner.count("collisionCount"))
    labels = (template.get("metadata") or {}).get("labels") or {}
    return {
        "metadata": {
            "name": f"{meta.name}-{hashed}",
            "namespace": meta.namespace,
            "labels": {**labels, hash_label: hashed},
            "annotations": dict(meta.annotations),
            "ownerReferences": [owner_reference(kind, meta)],
        },
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": number,
    }
