"""Rights in the audit log of a real API server: used, refused, and granted in vain."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from kubekit.objects.meta import Raw
from kubekit.rights import Right
from tests.controlplane.control_plane import ControlPlane


class Request(NamedTuple):
    """One request: the right it needs, with the name of its object; and how it was answered."""

    right: Right
    code: int
    allowed: bool
    """By the authorizer; admission may have refused it all the same."""
    message: str


class Refusal(NamedTuple):
    """A request that was refused: for lack of this right, or by admission for this reason."""

    right: Right
    because: str = ""

    def __str__(self) -> str:
        return f"{self.right}: {self.because}" if self.because else str(self.right)


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
    answer = row.get("responseStatus", {})
    decision = (row.get("annotations") or {}).get("authorization.k8s.io/decision")
    return Request(right, answer.get("code", 0), decision == "allow", answer.get("message", ""))


def denied(plane: ControlPlane, user: str, since: int = 0) -> list[Refusal]:
    """The requests of a user that were refused, without the names of objects."""
    refused = (request for request in requests_of(plane, user, since) if request.code == 403)
    return sorted({_refusal(request) for request in refused})


def _refusal(request: Request) -> Refusal:
    right = Right(request.right.verb, request.right.group, request.right.resource)
    return Refusal(right, request.message if request.allowed else "")


def unused(granted: Iterable[Right], requests: Iterable[Request]) -> list[Right]:
    """The rights that no request needed; a right on objects of one name is used only for them."""
    rights = {request.right for request in requests}
    used = rights | {Right(right.verb, right.group, right.resource) for right in rights}
    return sorted(set(granted) - used)
