"""Discovery: the kinds that a cluster serves. No I/O.

For programs that handle objects of kinds they do not know, such as `arena apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from muster.api.kinds import Kind
from muster.kube.request import Request

if TYPE_CHECKING:
    from collections.abc import Collection

T = TypeVar("T")


class _Resource(msgspec.Struct, gc=False):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] = []


class _Resources(msgspec.Struct, gc=False):
    resources: list[_Resource] = []


class _Version(msgspec.Struct, gc=False, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, gc=False, rename="camel"):
    preferred_version: _Version = msgspec.field(default_factory=_Version)


class _Groups(msgspec.Struct, gc=False):
    groups: list[_Group] = []


GROUPS_REQUEST = Request("GET", "/apis")


def preferred_versions(body: bytes) -> list[str]:
    """The preferred apiVersion of each group, from the response to `GROUPS_REQUEST`."""
    groups = msgspec.json.decode(body, type=_Groups).groups
    return ["v1", *(group.preferred_version.group_version for group in groups)]


def resources_request(api_version: str) -> Request:
    """The request for the kinds of an apiVersion."""
    root = "/apis" if "/" in api_version else "/api"
    return Request("GET", f"{root}/{quote(api_version)}")


def kinds(
    body: bytes, api_version: str, model: type[T], *, verbs: Collection[str] = ()
) -> list[Kind[T]]:
    """The kinds with all these verbs, from the response to `resources_request`; no subresources."""
    group, _, version = api_version.rpartition("/")
    return [
        Kind(group, version, row.name, row.kind, model, row.namespaced)
        for row in msgspec.json.decode(body, type=_Resources).resources
        if "/" not in row.name and set(verbs) <= set(row.verbs)
    ]
