"""What metadata may not say, of any kind.

Pure; called by `admit.py` on every write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.local.apiserver import status
from muster.local.apiserver.admission import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.api.meta import Raw
    from muster.local.apiserver.status import Cause

UNQUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"
_STANDARD = frozenset({"foregroundDeletion", "orphan", "kubernetes"})
_ANNOTATIONS = 256 * 1024


def check(collection: str, meta: Raw) -> Iterator[Cause]:
    """What is wrong with the metadata of an object in this collection."""
    given = str(meta.get("generateName") or "")
    yield from names.check_prefix(collection, given)
    yield from names.check_name(collection, str(meta.get("name") or ""))
    yield from names.check_labels(meta.get("labels") or {})
    annotations = meta.get("annotations") or {}
    for key in annotations:
        yield from (
            status.bad_value("metadata.annotations", key, told) for told in names.check_key(key)
        )
    if sum(len(k) + len(v) for k, v in annotations.items()) > _ANNOTATIONS:
        told = f"Too long: may not be more than {_ANNOTATIONS} bytes"
        yield status.Cause("metadata.annotations", "FieldValueTooLong", told)
    yield from _owners(meta.get("ownerReferences") or [])
    yield from _finalizers(meta.get("finalizers") or [])


def _finalizers(finalizers: list[str]) -> Iterator[Cause]:
    for i, name in enumerate(finalizers):
        wrong = names.check_key(name)
        yield from (status.bad_value("metadata.finalizers", name, told) for told in wrong)
        if not wrong and "/" not in name and name not in _STANDARD:
            yield status.bad_value(f"metadata.finalizers[{i}]", name, UNQUALIFIED)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        told = "finalizer orphan and foregroundDeletion cannot be both set"
        yield status.bad_value("metadata.finalizers", finalizers, told)


def _owners(owners: list[Raw]) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        yield from (
            status.bad_value(f"{path}.{f}", "", f"{f} must not be empty")
            for f in ("apiVersion", "kind", "name", "uid")
            if not owner.get(f)
        )
        version = str(owner.get("apiVersion") or "")
        if version.count("/") > 1:
            told = f"unexpected GroupVersion string: {version}"
            yield status.bad_value(f"{path}.apiVersion", version, told)
        if (version, owner.get("kind")) == ("v1", "Event"):
            yield status.bad_value(path, owner, "/v1, Kind=Event is disallowed from being an owner")
    controllers = [o for o in owners if o.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{o.get('kind')}/{o.get('name')}" for o in controllers[:2])
        told = (
            "Only one reference can have Controller set to true."
            f' Found "true" in references for {first} and {second}'
        )
        yield status.bad_value(path, owners, told)
