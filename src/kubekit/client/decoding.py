"""Response bodies decoded into objects: one typed decode each, with decoders built once per model.

An object that does not fit its struct does not spoil the rest of a list: it is left out and named
in `ObjectList.unreadable`. Alone, it raises an ApiError. What is nested too deeply to be decoded,
which no field that we read is, is read as null in lists and watches.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from kubekit.client import request
from kubekit.client.error_response import unreadable_response
from kubekit.objects.kinds import decoder_of

if TYPE_CHECKING:
    from kubekit.client.request import Request, Selectors
    from kubekit.objects.kinds import Kind
    from kubekit.request_errors import Gone

T = TypeVar("T")


class ObjectList(msgspec.Struct, Generic[T], frozen=True):
    """A whole list and its resource version."""

    items: list[T]
    resource_version: str
    unreadable: tuple[str, ...] = ()


class ListMeta(msgspec.Struct, frozen=True, gc=False):
    version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], gc=False):
    """One page of a list, as the server sends it."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


_MAX_DEPTH = 200
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def decode_nested(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode JSON; one object that is nested too deeply must not hide all others."""
    try:
        return decoder.decode(body)
    except RecursionError:
        return decoder.decode(_without_depths(body))


def _without_depths(body: bytes) -> bytes:
    """The JSON with null in place of everything that is nested too deeply."""
    depth, begin, parts = 0, 0, []
    for mark in _BRACKETS.finditer(body):
        if mark[0] in (b"[", b"{"):
            depth += 1
            if depth == _MAX_DEPTH:
                parts += [body[begin : mark.start()], b"null"]
        elif mark[0] in (b"]", b"}"):
            if depth == _MAX_DEPTH:
                begin = mark.end()
            depth -= 1
    return b"".join([*parts, body[begin:]])


def decode_object(kind: Kind[T], body: bytes) -> T:
    """The object in a response."""
    try:
        return decoder_of(kind.model).decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise unreadable_response(
            f"the response about {kind.resource} cannot be decoded", error
        ) from error


class ListPages(Generic[T]):
    """Collects the pages of one list: `add_page` the response to every `next_request`."""

    def __init__(self, kind: Kind[T], namespace: str, limit: int, selectors: Selectors) -> None:
        self._kind, self._namespace, self._selectors = kind, namespace, selectors
        self._begin(limit)

    def _begin(self, limit: int) -> None:
        self._limit = limit
        self._items: list[T] = []
        self._unreadable: list[str] = []
        self._version = ""
        self._continue_token: str | None = ""

    def next_request(self) -> Request | None:
        """The request for the next page; None when the list is complete."""
        if self._continue_token is None:
            return None
        return request.list_page(
            self._kind,
            self._namespace,
            limit=self._limit,
            continue_token=self._continue_token,
            **self._selectors,
        )

    def expired(self, gone: Gone) -> None:
        """Start again without pages: the version was compacted before the last page was read."""
        if not self._continue_token:
            raise gone  # without a token, the same list again would fail the same way
        self._begin(0)

    def add_page(self, body: bytes) -> None:
        """Add the response to `next_request`."""
        try:
            page = decode_nested(decoder_of(Page[self._kind.model]), body)  # type: ignore[name-defined]
        except msgspec.ValidationError:
            page = self._one_by_one(body)  # slower, so only if an item does not fit
        except msgspec.DecodeError as error:
            problem = f"the list of {self._kind.resource} cannot be decoded"
            raise unreadable_response(problem, error) from error
        self._items += page.items or ()
        # All pages show the version of the first.
        self._version = self._version or page.metadata.version
        self._continue_token = page.metadata.continue_token or None

    def result(self) -> ObjectList[T]:
        if self._kind.model is dict:
            for item in cast("list[dict[str, Any]]", self._items):
                # The items of a list lack both fields; code that reads raw objects should not
                # have to know whether they came from a list.
                item.setdefault("apiVersion", self._kind.api_version)
                item.setdefault("kind", self._kind.kind)
        return ObjectList(self._items, self._version, tuple(self._unreadable))

    def _one_by_one(self, body: bytes) -> Page[T]:
        try:
            raw = decode_nested(decoder_of(Page[msgspec.Raw]), body)
        except msgspec.ValidationError as error:
            problem = f"the response to listing {self._kind.resource} is not a list"
            raise unreadable_response(problem, error) from error
        page: Page[T] = Page(raw.metadata, [])
        decoder = decoder_of(self._kind.model)
        for item in raw.items or ():
            try:
                cast("list[T]", page.items).append(decoder.decode(item))
            except msgspec.ValidationError as error:
                self._unreadable.append(f"{_name_of(item)}: {error}")
        return page


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class MetadataOnly(msgspec.Struct, frozen=True, gc=False):
    """The part that can be read even of an object that does not fit its struct."""

    metadata: _Metadata = _Metadata()


def _name_of(item: msgspec.Raw) -> str:
    try:
        metadata = decoder_of(MetadataOnly).decode(item).metadata
    except msgspec.ValidationError:
        return "?"
    return f"{metadata.namespace}/{metadata.name}".lstrip("/")
