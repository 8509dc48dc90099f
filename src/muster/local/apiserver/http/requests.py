"""One request and one answer, as the verbs see them: nothing of HTTP but the words.

Built by `serve.py`, or directly by tests; consumed by the verbs, watches and subresources.

What a request asks for: method, path and query -> verb, kind, namespace, name, subresource.

Pure. Called by `serve.py` for every request; paths that are not about objects give None and go
to `discovery.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from muster.local.apiserver import api_errors, objects
from muster.local.apiserver.access.authentication import INTERNAL_USER, User

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.meta import Raw
    from muster.local.apiserver.registry import Resource
    from muster.local.apiserver.store.changes import Entry


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


def parse_route(method: str, path: str, query: Mapping[str, str]) -> Route | None:
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
    if verb == "list" and query_bool(query.get("watch")):
        return "watch"
    return verb


def query_bool(text: str | None) -> bool:
    """A boolean of the query as Kubernetes reads it: whatever is there and does not say no."""
    return text is not None and text.lower() not in ("0", "false")


_WHOLE = re.compile("[+-]?[0-9]{1,20}")


@dataclass(frozen=True)
class Call:
    """A request whose resource is known."""

    route: Route
    resource: Resource
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user: User = INTERNAL_USER
    said: list[str] = field(default_factory=list)
    """What the client is warned of, whatever becomes of the request."""

    def warn(self, *texts: str) -> None:
        """Tell the client; once is enough."""
        self.said.extend(text for text in dict.fromkeys(texts) if text not in self.said)

    @property
    def key(self) -> str:
        """Where the object it is about is stored."""
        return objects.key(self.resource, self.route.namespace, self.route.name)

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    def number(self, name: str) -> int | None:
        """A whole number of the query."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not _WHOLE.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
            raise api_errors.bad_request(f'strconv.ParseInt: parsing "{text}": no whole number')
        return int(text)


class Answer(NamedTuple):
    """What is sent back: JSON."""

    code: int
    body: bytes
    resource: Resource | None = None
    """Set where the body is an object of this kind, which a client may want as a table."""


def stored_answer(resource: Resource, entry: Entry, code: int = 200) -> Answer:
    """A stored object, undecoded."""
    return Answer(code, objects.in_version(entry.value, resource), resource)


def unstored_answer(resource: Resource, obj: Raw, code: int = 200) -> Answer:
    """An object as it would be stored."""
    value = objects.as_stored(obj, resource.api_version)
    return Answer(code, objects.in_version(value, resource), resource)


def json_answer(obj: Raw, code: int = 200, resource: Resource | None = None) -> Answer:
    """Anything else."""
    return Answer(code, objects.dump(obj), resource)
