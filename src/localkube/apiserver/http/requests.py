"""Requests and answers without HTTP: Route, Form, Call and Answer.

A Route is what a path names, a Form is what the client accepts, a Call is a request whose resource
is known. A client that asks for protobuf gets JSON: every such client accepts JSON too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from kubekit.request_errors import StatusError
from localkube.apiserver import api_errors, codec
from localkube.apiserver.access.authentication import INTERNAL_USER, User

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource import Resource


# -- the route of a path ---------------------------------------------------------------------------


class Route(NamedTuple):
    """A request for objects. Without a name: the collection; without a namespace: all of them."""

    verb: str
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """The path after `proxy/`."""


_ON_ONE = {
    "GET": "get", "HEAD": "head", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
    "POST": "create",
}  # fmt: skip
_ON_ALL = {"GET": "list", "HEAD": "head", "POST": "create", "DELETE": "deletecollection"}
_OF_NAMESPACES = frozenset({"status", "finalize"})


def parse_route(method: str, path: str, query: Mapping[str, str]) -> Route | None:
    """The route of a resource path; None for every other path."""
    if path.startswith("//"):  # `strip` below would make a valid path of it
        return None
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        group, version, parts = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    # The old form of a watch: /api/v1/watch/pods.
    watch = len(parts) > 1 and parts[0] == "watch" and method == "GET"
    parts = parts[1:] if watch else parts
    namespace = ""
    # /namespaces/x and /namespaces/x/status are a namespace; /namespaces/x/pods is a collection.
    namespace_itself = len(parts) <= 2 or (len(parts) == 3 and parts[2] in _OF_NAMESPACES)
    if parts[0] == "namespaces" and not namespace_itself:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource, *rest = [*parts, "", "", ""][: max(len(parts), 3) + 1]
    verb = "watch" if watch else _verb(method, name, query)
    if not verb:
        return None
    if plural == "namespaces" and not group:
        namespace = name  # a role in a namespace may allow to read the namespace itself
    return Route(
        verb, group, version, plural, namespace, name, subresource, "/".join(rest).rstrip("/")
    )


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    """The verb as RBAC names it; empty for a method that paths of resources do not have."""
    if name:
        return _ON_ONE.get(method, "")
    verb = _ON_ALL.get(method, "")
    if verb == "list" and query_bool(query.get("watch")):
        return "watch"
    return verb


def query_bool(text: str | None) -> bool:
    """A boolean of the query as Kubernetes reads it: anything but `0` and `false`."""
    return text is not None and text.lower() not in ("0", "false")


# -- the form of an answer, from the Accept header -------------------------------------------------


JSON, YAML = "application/json", "application/yaml"
_OFFERED = (JSON, YAML, "application/vnd.kubernetes.protobuf")
_STREAMED = ", ".join(f"{media};stream=watch" for media in _OFFERED if media != YAML)
_ONE = frozenset({"Table", "PartialObjectMetadata"})
_MANY = frozenset({"Table", "PartialObjectMetadataList"})
_FORMS = {"watch": _ONE | _MANY, "list": _MANY, "deletecollection": _MANY}


class Form(NamedTuple):
    """Media type and shape of an answer."""

    media: str = JSON
    shape: str = ""
    """Table, PartialObjectMetadata, PartialObjectMetadataList, or nothing for the object itself."""


PLAIN_JSON = Form()


# Clients send the same few headers with every request.
@lru_cache(maxsize=256)
def negotiate(accept: str, verb: str = "") -> Form:
    """The preferred form that is possible for a verb; 406 if there is none."""
    if not accept:
        return PLAIN_JSON
    any_offered = False
    for media, parameters in _choices(accept):
        if media not in (*_OFFERED, "*/*"):
            continue
        any_offered = True
        shape = parameters.get("as", "")
        if not shape or (shape in _ONE | _MANY and parameters.get("v") == "v1"):
            # A stream without end is not a YAML document.
            endless_yaml = verb == "watch" and media == YAML
            if endless_yaml or (shape and shape not in _FORMS.get(verb, _ONE)):
                break  # as with a real server, the next choice is not tried
            return Form(YAML if media == YAML else JSON, shape)
    offered = _STREAMED if verb == "watch" else ", ".join(_OFFERED)
    if any_offered:
        message = f"only the following media types are accepted: {offered}"
        raise api_errors.error("NotAcceptable", message)
    message = f"406: Not Acceptable\n\nAvailable representations: {offered}"
    raise api_errors.error("NotAcceptable", message, {})


def media_of(accept: str) -> str:
    """The media type of an error: the preferred one, or JSON if none is possible."""
    try:
        return negotiate(accept).media
    except StatusError:
        return JSON


def _choices(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media types and their parameters, by preference; q=0 excludes a type."""
    choices = []
    for choice in accept.split(","):
        media, *options = [part.strip() for part in choice.split(";")]
        parameters = dict(option.partition("=")[::2] for option in options)
        try:
            quality = float(parameters.get("q", 1))
        except ValueError:
            quality = 1.0
        if quality > 0:
            choices.append((-quality, media, parameters))
    return [choice[1:] for choice in sorted(choices, key=lambda choice: choice[0])]


# -- calls and answers -----------------------------------------------------------------------------


MAX_FIELD_MANAGER = 128
"""Bytes of the name of a field manager."""
CONTROLLERS = "kube-controller-manager"
"""In a real cluster, controllers make the writes that follow from other writes."""
_INTEGER = re.compile("[+-]?[0-9]{1,20}")


@dataclass(frozen=True)
class Call:
    """A request whose resource is known."""

    route: Route
    resource: Resource
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = ""
    form: Form = PLAIN_JSON
    """The form in which the client wants the answer."""
    user: User = INTERNAL_USER
    user_agent: str = ""
    warnings: list[str] = field(default_factory=list)
    """Sent with the answer, whether the request succeeds or fails."""

    @classmethod
    def internal(
        cls,
        resource: Resource,
        verb: str,
        obj: Raw,
        subresource: str = "",
        agent: str = CONTROLLERS,
    ) -> Call:
        """A write by the server itself."""
        group, version, plural = resource.group, resource.version, resource.plural
        namespace = obj["metadata"].get("namespace", "")
        name = "" if verb == "create" else obj["metadata"]["name"]
        route = Route(verb, group, version, plural, namespace, name, subresource)
        return cls(route, resource, body=codec.dump(obj), content_type=JSON, user_agent=agent)

    def warn(self, *warnings: str) -> None:
        """Add warnings for the client, each once."""
        self.warnings.extend(w for w in dict.fromkeys(warnings) if w not in self.warnings)

    @property
    def key(self) -> str:
        """The key of the object in the store."""
        return codec.key(self.resource, self.route.namespace, self.route.name)

    @property
    def field_manager(self) -> str:
        """The name under which the caller owns the fields that it writes: as much of its user agent
        as fits, if it gives none."""
        if name := self.query.get("fieldManager"):
            return name
        agent = "".join(filter(str.isprintable, self.user_agent.partition("/")[0]))
        return agent.encode()[:MAX_FIELD_MANAGER].decode(errors="ignore")

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    def number(self, name: str) -> int | None:
        """An integer option of the query; None if it is missing."""
        text = self.query.get(name, "")
        if not text:
            return None
        # Go's int64; the pattern also keeps Python from reading `1_000`, ` 1` or other digits.
        if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
            raise api_errors.bad_request(f'strconv.ParseInt: parsing "{text}": not a whole number')
        return int(text)


class Answer(NamedTuple):
    """A status code and JSON."""

    code: int
    body: bytes
    resource: Resource | None = None
    """The resource of the object in the body, which can be shown as a table; None for a Status."""


def unstored_answer(resource: Resource, obj: Raw, code: int = 200) -> Answer:
    """The answer of a dry run: the object as it would be stored."""
    value = codec.as_stored(obj, resource.api_version)
    return Answer(code, codec.in_version(value, resource), resource)


def json_answer(obj: Raw, code: int = 200, resource: Resource | None = None) -> Answer:
    """The answer with any other document."""
    return Answer(code, codec.dump(obj), resource)
