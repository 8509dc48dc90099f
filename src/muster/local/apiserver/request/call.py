"""One request and one answer, as the verbs see them: nothing of HTTP but the words.

Built by `serve.py`, or directly by tests; consumed by the verbs, watches and subresources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from muster.local.apiserver import objects, status
from muster.local.apiserver.access.identity import NOBODY, User

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.meta import Raw
    from muster.local.apiserver.entries import Entry
    from muster.local.apiserver.registry import Resource
    from muster.local.apiserver.request.routes import Route

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
    user: User = NOBODY
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
            raise status.bad_request(f'strconv.ParseInt: parsing "{text}": no whole number')
        return int(text)


class Answer(NamedTuple):
    """What is sent back: JSON."""

    code: int
    body: bytes
    resource: Resource | None = None
    """Set where the body is an object of this kind, which a client may want as a table."""


def one(resource: Resource, entry: Entry, code: int = 200) -> Answer:
    """A stored object, undecoded."""
    return Answer(code, objects.in_version(entry.value, resource), resource)


def unstored(resource: Resource, obj: Raw, code: int = 200) -> Answer:
    """An object as it would be stored."""
    value = objects.as_stored(obj, resource.api_version)
    return Answer(code, objects.in_version(value, resource), resource)


def raw(obj: Raw, code: int = 200, resource: Resource | None = None) -> Answer:
    """Anything else."""
    return Answer(code, objects.dump(obj), resource)
