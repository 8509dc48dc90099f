"""What a request asks for: method, path and query -> verb, kind, namespace, name, subresource.

Pure. Called by `serve.py` for every request; paths that are not about objects give None and go
to `discovery.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping


class Route(NamedTuple):
    """One request for objects. No name means the collection, no namespace all of them."""

    verb: str
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """What follows `proxy/`."""


_ON_ONE = {
    "GET": "get",
    "HEAD": "head",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "POST": "create",
}
_ON_ALL = {"GET": "list", "HEAD": "head", "POST": "create", "DELETE": "deletecollection"}
_OF_NAMESPACES = frozenset({"status", "finalize"})


def parse(method: str, path: str, query: Mapping[str, str]) -> Route | None:
    """The route of a resource path; None for every other path."""
    if path.startswith("//"):
        return None
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        group, version, parts = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    # The old way to ask for a watch: the word comes before the path.
    watch = len(parts) > 1 and parts[0] == "watch" and method == "GET"
    parts = parts[1:] if watch else parts
    namespace = ""
    about_itself = len(parts) <= 2 or (len(parts) == 3 and parts[2] in _OF_NAMESPACES)
    if parts[0] == "namespaces" and not about_itself:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource, *rest = [*parts, "", "", ""][: max(len(parts), 3) + 1]
    verb = "watch" if watch else _verb(method, name, query)
    if not verb:
        return None
    if plural == "namespaces" and not group:
        namespace = name
    return Route(
        verb, group, version, plural, namespace, name, subresource, "/".join(rest).rstrip("/")
    )


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    """The verb as RBAC names it; empty if the method means nothing here."""
    if name:
        return _ON_ONE.get(method, "")
    verb = _ON_ALL.get(method, "")
    if verb == "list" and truth(query.get("watch")):
        return "watch"
    return verb


def truth(text: str | None) -> bool:
    """A boolean of the query as Kubernetes reads it: whatever is there and does not say no."""
    return text is not None and text.lower() not in ("0", "false")
