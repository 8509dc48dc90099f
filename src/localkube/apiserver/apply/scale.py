"""Owners of `replicas`, seen through the subresource `scale`.

A Scale has one field of its object. Its owners are those of that field, under another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localkube.apiserver.apply import field_set, managed_fields
from localkube.apiserver.apply.managed_fields import UPDATE, Managed
from localkube.apiserver.apply.ownership import Manager, Owned

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.apply.field_set import Path

VERSION = "autoscaling/v1"
_IN_SCALE = ("f:spec", "f:replicas")


def owners_of_scale(entries: list[Raw], path: Path) -> list[Raw]:
    """The entries of a Scale, from those of its object, whose replicas are at `path`."""
    managed = managed_fields.decode(entries) or Managed({}, {})
    owners = {
        _in_scale(manager): Owned(field_set.single(_IN_SCALE), VERSION)
        for manager, owned in managed.owners.items()
        if field_set.contains(owned.fields, path)
    }
    times = {_in_scale(manager): time for manager, time in managed.times.items()}
    return managed_fields.encode(Managed(owners, times))


def owners_of_object(
    entries: list[Raw], scale_entries: list[Raw], path: Path, version: str
) -> list[Raw]:
    """The entries of an object after a write of its Scale left these entries in the Scale."""
    managed = managed_fields.decode(entries) or Managed({}, {})
    scale = managed_fields.decode(scale_entries) or Managed({}, {})
    replicas = field_set.single(path)
    left = {m for m, owned in scale.owners.items() if field_set.contains(owned.fields, _IN_SCALE)}
    owners = {}
    for manager, owned in managed.owners.items():
        keeps = _in_scale(manager) in left or not field_set.contains(owned.fields, path)
        fields = owned.fields if keeps else field_set.difference(owned.fields, replicas)
        if fields:
            owners[manager] = Owned(fields, owned.version)
    known = {_in_scale(manager) for manager in managed.owners}
    for manager in left - known:
        own = manager._replace(version=version) if manager.operation == UPDATE else manager
        # As on the real server, an owner of nothing but replicas has no time.
        owners[own] = Owned(replicas, version)
    return managed_fields.encode(Managed(owners, managed.times))


def _in_scale(manager: Manager) -> Manager:
    return manager._replace(version=VERSION) if manager.operation == UPDATE else manager
