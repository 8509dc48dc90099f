"""Which kinds the API has: asked of the API itself, so custom kinds count like built-in ones.

Used by the garbage collector, which must know every kind that can own or be owned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from muster.api.kinds import Kind, Partial
from muster.errors import ApiError
from muster.kube.request import Request

if TYPE_CHECKING:
    from muster.kube.client import Client

_NEEDED = {"list", "watch", "delete"}
_NEVER_OWNED = {("", "events"), ("events.k8s.io", "events")}


class _Resource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] = []


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


class _Version(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    name: str = ""
    preferred_version: _Version = msgspec.field(default_factory=_Version)


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


async def kinds(client: Client) -> list[Kind[Partial]]:
    """Every kind that can be listed, watched and deleted, in its preferred version."""
    answer = await client.send(Request("GET", "/apis"))
    groups = msgspec.json.decode(answer.body, type=_Groups).groups
    versions = ["v1", *(group.preferred_version.group_version for group in groups)]
    found: list[Kind[Partial]] = []
    for version in versions:
        found += await _of(client, version)
    return found


async def _of(client: Client, group_version: str) -> list[Kind[Partial]]:
    group, _, version = group_version.rpartition("/")
    path = f"/apis/{group_version}" if group else f"/api/{group_version}"
    try:
        answer = await client.send(Request("GET", path))
    except ApiError:  # an aggregated group whose server is away: its objects are not ours to judge
        return []
    resources = msgspec.json.decode(answer.body, type=_Resources).resources
    return [
        Kind(group, version, item.name, item.kind, Partial, item.namespaced)
        for item in resources
        if "/" not in item.name
        and set(item.verbs) >= _NEEDED
        and (group, item.name) not in _NEVER_OWNED
    ]
