"""Discovery: the kinds that a cluster serves. No I/O.

For programs that handle objects of kinds they do not know, such as `arena apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from kubekit.client.request import Request
from kubekit.objects.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

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
