"""Rights in the audit log of a real API server: used, refused, and granted in vain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from muster.api.meta import Raw
from muster.rights import Right
from tests.controlplane.control_plane import ControlPlane


class Request(NamedTuple):
    """One request: the right it needs, with the name of its object; the answer; where it went."""

    right: Right
    code: int
    uri: str


def requests_of(plane: ControlPlane, user: str, since: int = 0) -> list[Request]:
    """Every request of a user, from this place in the audit log on."""
    with plane.audit_log.open("rb") as log:
        log.seek(since)
        written = log.read().rpartition(b"\n")[0]  # what comes after may be half a line
    # Most lines are not of this user: they need not be decoded.
    rows = (json.loads(line) for line in written.splitlines() if user.encode() in line)
    return [_request(row) for row in rows if row["user"]["username"] == user]


def _request(row: Raw) -> Request:
    about = row.get("objectRef", {})
    parts = [about.get("resource", ""), about.get("subresource", "")]
    plural = "/".join(part for part in parts if part)
    right = Right(row["verb"], about.get("apiGroup", ""), plural, about.get("name", ""))
    return Request(right, row.get("responseStatus", {}).get("code", 0), row["requestURI"])


def denied(plane: ControlPlane, user: str, since: int = 0) -> list[Right]:
    """The rights that a user lacked, without the names of objects."""
    refused = (request.right for request in requests_of(plane, user, since) if request.code == 403)
    return sorted({Right(right.verb, right.group, right.resource) for right in refused})


def unused(granted: Iterable[Right], requests: Iterable[Request]) -> list[Right]:
    """The rights that no request needed; a right on objects of one name is used only for them."""
    rights = {request.right for request in requests}
    used = rights | {Right(right.verb, right.group, right.resource) for right in rights}
    return sorted(set(granted) - used)
