"""Requests to a Kubernetes API as plain values. No I/O.

Both clients build every call here and hand it to a transport. A request cannot reach another object
than the one named: names are escaped, and an empty name is rejected.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict
from urllib.parse import quote, urlsplit

import msgspec

from kubekit.errors import UsageError
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Raw

JSON = "application/json"
Query = tuple[tuple[str, str], ...]
NO_FIELD_VALIDATION: Query = (("fieldValidation", "Ignore"),)
"""For bodies written by a program: a check for unknown fields costs the server a second decode."""
WATCH_GRACE = 30.0
"""Seconds by which a server may end a watch too late."""


class PatchType(Enum):
    """The kinds of patches, by media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Request(NamedTuple):
    """One call.

    `timeout` is for the silence of the server, not for the whole response; None means the
    transport's own, 0 means that the body may be silent forever. `large` marks a response that may
    be worth compressing.
    """

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    timeout: float | None = None
    large: bool = False

    @property
    def target(self) -> str:
        """Path and query as in the request line."""
        if not self.query:
            return self.path
        pairs = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in self.query)
        return f"{self.path}?{pairs}"

    def message(
        self, server: str, user_agent: str, authorization: str, *, compress: bool = False
    ) -> bytes:
        """The bytes of the request in HTTP/1.1, for the server at this URL."""
        base = urlsplit(server)
        lines = [
            f"{self.method} {base.path}{self.target} HTTP/1.1",
            f"Host: {base.netloc.rpartition('@')[2]}",  # without user:password@
            f"User-Agent: {user_agent}",
            f"Accept: {self.accept}",
            # Without this line, an intermediary may choose any encoding.
            "Accept-Encoding: gzip" if compress and self.large else "Accept-Encoding: identity",
        ]
        if authorization:
            lines.append(f"Authorization: {authorization}")
        if self.body is not None:
            lines.append(f"Content-Type: {self.content_type}")
        # RFC 9110: a method that may have a body states its length even if there is none.
        if self.body is not None or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body or b'')}")
        return "\r\n".join((*lines, "", "")).encode("latin-1") + (self.body or b"")


class Response(msgspec.Struct, frozen=True):
    """One response; header names are in lower case or as the server wrote them."""

    status: int
    headers: Mapping[str, str]
    body: bytes


# Nearly all names have only these; quote() is much slower, and so is the import of a pattern.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")


def _segment(text: str) -> str:
    if text in (".", ".."):  # quote() leaves dots as they are, and a server may resolve them
        raise UsageError(f"{text!r} is not a name")
    if _PLAIN.issuperset(text):
        return text
    if not text.isprintable():  # servers and proxies disagree about the path of a line break
        raise UsageError(
            f"{text!r} is not a name",
            hint="Names have lower-case letters, digits, '-' and '.' only.",
        )
    return quote(text, safe="")


def collection_path(kind: Kind[Any], namespace: str) -> str:
    return kind.path(_segment(namespace) if namespace else "")


def object_path(kind: Kind[Any], key: Key, subresource: str = "") -> str:
    if not key.name:
        raise UsageError(f"{kind.resource}: a name is needed")
    if kind.namespaced and not key.namespace:
        raise UsageError(f"{kind.resource} {key.name}: a namespace is needed")
    namespace = _segment(key.namespace) if key.namespace else ""
    return kind.path(namespace, _segment(key.name), subresource)


def _query(**pairs: str | int | bool | None) -> Query:
    """The pairs without None, empty strings and False."""
    return tuple(
        (key, "true" if value is True else str(value))
        for key, value in pairs.items()
        if value is not None and value != "" and value is not False
    )


def get(kind: Kind[Any], key: Key) -> Request:
    return Request("GET", object_path(kind, key))


class Selectors(TypedDict, total=False):
    """Which objects of a kind, as keywords: a label selector and a field selector."""

    labels: str
    fields: str


def _selection(selectors: Selectors) -> Query:
    return _query(labelSelector=selectors.get("labels"), fieldSelector=selectors.get("fields"))


def list_page(
    kind: Kind[Any],
    namespace: str,
    *,
    limit: int = 0,
    continue_token: str = "",
    **selectors: Unpack[Selectors],
) -> Request:
    """One page of a list; `continue_token` is from the page before, `limit` of 0 means no pages."""
    page = _query(limit=limit or None, **{"continue": continue_token})
    query = _selection(selectors) + page
    return Request("GET", collection_path(kind, namespace), query, large=True)


def watch(
    kind: Kind[Any],
    namespace: str,
    *,
    since: str,
    seconds: int = 0,
    **selectors: Unpack[Selectors],
) -> Request:
    """Every change after `since`, until the server ends the watch after about `seconds`.

    If the watch is silent for longer than that, the server is gone, and only a proxy or load
    balancer holds the connection.
    """
    changes = _query(watch=True, allowWatchBookmarks=True, resourceVersion=since)
    query = changes + _selection(selectors) + _query(timeoutSeconds=seconds or None)
    timeout = seconds + WATCH_GRACE if seconds else 0
    return Request("GET", collection_path(kind, namespace), query, timeout=timeout)


def create(
    kind: Kind[Any], body: Raw, *, namespace: str = "", subresource: str = "", name: str = ""
) -> Request:
    """POST to the collection, or to a subresource of `name`."""
    key = key_of(body)
    namespace = namespace or key.namespace
    if subresource:
        path = object_path(kind, Key(namespace, name), subresource)
        return Request("POST", path, (), _encode(body))
    if kind.namespaced and not namespace:
        raise UsageError(f"{kind.resource} {key.name}: a namespace is needed")
    return Request("POST", collection_path(kind, namespace), (), _encode(_typed(kind, body)))


def replace(kind: Kind[Any], body: Raw, *, subresource: str = "") -> Request:
    """PUT the whole object; its resourceVersion, if there, must still be the current one."""
    path = object_path(kind, key_of(body), subresource)
    return Request("PUT", path, (), _encode(_typed(kind, body)))


class PatchOptions(TypedDict, total=False):
    """How a patch is merged (a merge patch if not given), and into which subresource."""

    patch_type: PatchType
    subresource: str


def patch(kind: Kind[Any], key: Key, body: object, **options: Unpack[PatchOptions]) -> Request:
    path = object_path(kind, key, options.get("subresource", ""))
    patch_type = options.get("patch_type", PatchType.MERGE)
    return Request("PATCH", path, (), _encode(body), patch_type.value)


def apply(
    kind: Kind[Any], body: Raw, *, owner: str, force: bool = False, subresource: str = ""
) -> Request:
    """Server-side apply by field manager `owner`."""
    path = object_path(kind, key_of(body), subresource)
    query = _query(fieldManager=owner, force=force)
    return Request("PATCH", path, query, _encode(_typed(kind, body)), PatchType.APPLY.value)


class DeleteOptions(TypedDict, total=False):
    """With `uid`, only the object that still has that uid; `grace` is in seconds.

    With `version`, only the object as it was at that resource version.
    """

    uid: str
    version: str
    grace: int | None
    propagation: str


def delete(kind: Kind[Any], key: Key, **options: Unpack[DeleteOptions]) -> Request:
    body: Raw = {}
    wanted = {"uid": options.get("uid"), "resourceVersion": options.get("version")}
    if preconditions := {field: value for field, value in wanted.items() if value}:
        body["preconditions"] = preconditions
    if (grace := options.get("grace")) is not None:
        body["gracePeriodSeconds"] = grace
    if propagation := options.get("propagation"):
        body["propagationPolicy"] = propagation
    encoded = _encode({"kind": "DeleteOptions", "apiVersion": "v1", **body}) if body else None
    return Request("DELETE", object_path(kind, key), (), encoded)


def delete_collection(kind: Kind[Any], namespace: str, **selectors: Unpack[Selectors]) -> Request:
    return Request("DELETE", collection_path(kind, namespace), _selection(selectors))


def bind(pod: Key, *, uid: str, node: str, annotations: Mapping[str, str]) -> Request:
    """Bind a pod to a node. The server rejects it if the pod of that name has another uid."""
    path = object_path(PODS, pod, "binding")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "uid": uid, "annotations": annotations},
        "target": {"kind": "Node", "name": node},
    }
    return Request("POST", path, NO_FIELD_VALIDATION, _encode(binding))


class LogOptions(TypedDict, total=False):
    """Which part of a container's log, as keywords; `since` is in seconds before now."""

    container: str
    follow: bool
    tail: int | None
    since: float | None
    previous: bool
    timestamps: bool


def logs(key: Key, options: LogOptions, kind: Kind[Any] = PODS) -> Request:
    """The log of a pod, or of another object that has one."""
    since, follow = options.get("since"), options.get("follow")
    query = _query(
        container=options.get("container"),
        follow=follow,
        tailLines=options.get("tail"),
        sinceSeconds=None if since is None else max(1, round(since)),
        previous=options.get("previous"),
        timestamps=options.get("timestamps"),
    )
    path = object_path(kind, key, "log")
    # */* because the server rejects a client that accepts only JSON: logs are plain text.
    return Request("GET", path, query, accept="*/*", timeout=0 if follow else None)


def websocket_upgrade(pod: Key, subresource: str, query: Sequence[tuple[str, str]]) -> Request:
    """The upgrade to a websocket on `exec`, `attach` or `portforward`."""
    return Request("GET", object_path(PODS, pod, subresource), tuple(query), accept="*/*")


_encode = msgspec.json.Encoder().encode


def _typed(kind: Kind[Any], body: Raw) -> Raw:
    if "kind" in body and "apiVersion" in body:
        return body
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}
