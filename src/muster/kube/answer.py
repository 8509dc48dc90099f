"""Turning answers into objects: one typed decode each, and one bad object never spoils the rest.

Called by `client.py` and `blocking.py`. Decoders are made once per model. An object that does not
fit its struct is left out of a list and named in `Listing.unreadable`; alone, it is an ApiError.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from muster.errors import ApiError

if TYPE_CHECKING:
    from muster.api.kinds import Kind

T = TypeVar("T")


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A whole list, and the version of the collection it shows."""

    items: list[T]
    resource_version: str
    unreadable: tuple[str, ...] = ()


class ListMeta(msgspec.Struct, frozen=True, gc=False):
    version: str = msgspec.field(default="", name="resourceVersion")
    after: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], gc=False):
    """One page as the server sends it."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


@cache
def _page_decoder(model: Any) -> msgspec.json.Decoder[Page[Any]]:
    return msgspec.json.Decoder(Page[model])


def read(kind: Kind[T], body: bytes) -> T:
    """The object in a response."""
    try:
        return cast("T", _decoder(cast(Any, kind.model)).decode(body))
    except msgspec.DecodeError as error:
        raise ApiError(
            f"the answer about {kind.resource} cannot be understood: {error}",
            status=200,
            reason="Unreadable",
        ) from error


class Pages(Generic[T]):
    """Gathers the pages of one list: feed each body, ask `after` whether there is another."""

    def __init__(self, kind: Kind[T]) -> None:
        self._kind = kind
        self._items: list[T] = []
        self._unreadable: list[str] = []
        self._version = ""
        self.after = ""

    def feed(self, body: bytes) -> None:
        try:
            page = _page_decoder(cast(Any, self._kind.model)).decode(body)
        except msgspec.ValidationError:
            page = self._one_by_one(body)
        except msgspec.DecodeError as error:
            raise ApiError(
                f"the list of {self._kind.resource} cannot be understood: {error}",
                status=200,
                reason="Unreadable",
            ) from error
        self._items += page.items or ()
        # All pages show the version of the first.
        self._version = self._version or page.metadata.version
        self.after = page.metadata.after

    def listing(self) -> Listing[T]:
        if self._kind.model is dict:
            for item in cast("list[dict[str, Any]]", self._items):
                # Lists leave out what is the same for every item; code that reads raw objects
                # should not have to know where they came from.
                item.setdefault("apiVersion", self._kind.api_version)
                item.setdefault("kind", self._kind.kind)
        return Listing(self._items, self._version, tuple(self._unreadable))

    def _one_by_one(self, body: bytes) -> Page[T]:
        try:
            raw = _page_decoder(msgspec.Raw).decode(body)
        except msgspec.ValidationError as error:
            raise ApiError(
                f"the answer to listing {self._kind.resource} is not a list: {error}",
                status=200,
                reason="Unreadable",
            ) from error
        page: Page[T] = Page(raw.metadata, [])
        read_one = _decoder(cast(Any, self._kind.model))
        for item in raw.items or ():
            try:
                cast("list[T]", page.items).append(read_one.decode(item))
            except msgspec.ValidationError as error:
                self._unreadable.append(f"{_name_of(item)}: {error}")
        return page


class _Named(msgspec.Struct, frozen=True, gc=False):
    class Metadata(msgspec.Struct, frozen=True, gc=False):
        name: str = ""
        namespace: str = ""

    metadata: Metadata = Metadata()


def _name_of(item: msgspec.Raw) -> str:
    try:
        metadata = msgspec.json.decode(item, type=_Named).metadata
    except msgspec.ValidationError:
        return "?"
    return f"{metadata.namespace}/{metadata.name}".lstrip("/")
