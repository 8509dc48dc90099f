"""Which kinds the API has: asked of the API itself, so custom kinds count like built-in ones.

Used by the inventory, which must know every kind that can own or be owned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.api.kinds import Kind, Partial
from muster.errors import ApiError
from muster.kube import discovery

if TYPE_CHECKING:
    from muster.kube.client import Client

_NEEDED = ("list", "watch", "delete")
_NEVER_OWNED = {"events", "events.events.k8s.io"}


async def kinds(client: Client) -> list[Kind[Partial]]:
    """Every kind that can be listed, watched and deleted, in its preferred version."""
    answer = await client.send(discovery.GROUPS)
    found: list[Kind[Partial]] = []
    for api_version in discovery.preferred(answer.body):
        found += await _of(client, api_version)
    return [kind for kind in found if kind.resource not in _NEVER_OWNED]


async def _of(client: Client, api_version: str) -> list[Kind[Partial]]:
    try:
        answer = await client.send(discovery.resources(api_version))
    except ApiError:  # an aggregated group whose server is away: its objects are not ours to judge
        return []
    return discovery.kinds(answer.body, api_version, Partial, verbs=_NEEDED)
