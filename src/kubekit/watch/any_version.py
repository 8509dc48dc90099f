"""An informer of a kind in any version that the server serves.

A kind that is not stable yet moves from version to version with Kubernetes' releases. The informer
starts with the version of its kind. When the server does not have that version, at the start or
after an upgrade, it asks by discovery for another version of the same resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kubekit.client import discovery
from kubekit.errors import NotFound
from kubekit.watch.informer import Informer

if TYPE_CHECKING:
    from kubekit.client.client import Client
    from kubekit.objects.kinds import Kind

T = TypeVar("T")


class AnyVersionInformer(Informer[T]):
    """As an informer; `kind` is the kind in the version that is watched now."""

    async def _follow(self) -> float:
        try:
            return await super()._follow()
        except NotFound:
            served = await find_served_version(self._client, self.kind)
            if served is None or served == self.kind:
                raise
        self.kind = served
        self._progress.listed("")  # list again: the objects may have changed with their version
        return await super()._follow()


async def find_served_version(client: Client, kind: Kind[T]) -> Kind[T] | None:
    """The kind in the server's first version of it that can be watched; None if there is none."""
    try:
        group = await client.send(discovery.group_request(kind.group))
    except NotFound:
        return None
    for api_version in discovery.versions_of(group.body):
        response = await client.send(discovery.resources_request(api_version))
        rows = discovery.kinds(response.body, api_version, kind.model, verbs=("list", "watch"))
        served = next((row for row in rows if row.plural == kind.plural), None)
        if served is not None:
            return served
    return None
