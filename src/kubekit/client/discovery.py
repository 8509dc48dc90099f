"""Discovery: the kinds that a cluster serves.

For programs that handle objects of kinds they do not know, such as `arena apply`. But for
`find_served_version` all is requests, and what their responses mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from kubekit.client.request import Request
from kubekit.objects.kinds import Kind
from kubekit.request_errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Collection

    from kubekit.client.client import Client

T = TypeVar("T")


GROUPS_REQUEST = Request("GET", "/apis")


def preferred_versions(body: bytes) -> list[str]:
    """The preferred apiVersion of each group, from the response to `GROUPS_REQUEST`."""
    groups = msgspec.json.decode(body)["groups"]
    return ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]


def group_request(group: str) -> Request:
    """The request for the versions of a group."""
    return Request("GET", f"/apis/{quote(group)}")


def versions_of(body: bytes) -> list[str]:
    """The apiVersions of a group, from the response to `group_request`; the server's choice first.

    A server sorts them: stable versions before beta, beta before alpha, newer before older.
    """
    return [row["groupVersion"] for row in msgspec.json.decode(body)["versions"]]


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
        Kind(group, version, row["name"], row["kind"], model, row.get("namespaced", False))
        for row in msgspec.json.decode(body)["resources"]
        if "/" not in row["name"] and set(verbs) <= set(row["verbs"])
    ]


async def find_served_version(client: Client, kind: Kind[T]) -> Kind[T] | None:
    """The kind in the server's first version of it that can be watched; None if there is none."""
    try:
        group = await client.send(group_request(kind.group))
    except NotFound:
        return None
    for api_version in versions_of(group.body):
        response = await client.send(resources_request(api_version))
        rows = kinds(response.body, api_version, kind.model, verbs=("list", "watch"))
        served = next((row for row in rows if row.plural == kind.plural), None)
        if served is not None:
            return served
    return None
