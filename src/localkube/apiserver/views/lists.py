"""Lists: objects that match a selector, whole or in pages.

All pages of a list show the revision of the first page: the token of the next page carries it, and
objects of an older revision come from the table on disk. Stored bytes are joined without decoding.
"""

from __future__ import annotations

import base64
import sys
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubekit.request_errors import Gone, StatusError
from localkube.apiserver import codec
from localkube.apiserver.api_errors import bad_request, expired, resource_version_too_large
from localkube.apiserver.http import query_options
from localkube.apiserver.http.query_options import selection
from localkube.apiserver.http.requests import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.resource import Resource
    from localkube.apiserver.store.collection import Entry
    from localkube.apiserver.store.store import Store


class _Token(msgspec.Struct):
    """The revision of the whole list, and the last key of the page before."""

    rv: int
    start: str

    def text(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


class Page(NamedTuple):
    """Part of a list."""

    entries: list[Entry]
    metadata: Raw


async def page(store: Store, call: Call) -> Page:
    """The objects that a list call selects."""
    query_options.check_list(call.query)
    selected = selection(call.resource, call.query, call.route.name)
    call.number("timeoutSeconds")  # no list takes that long, but it must be a number
    limit = min(call.number("limit") or 0, sys.maxsize - 1)  # islice takes no larger number
    if call.query.get("resourceVersion") == "0":
        limit = 0  # any revision will do, and all objects are in memory
    token = _token(call.query.get("continue", ""))
    revision = (token.rv if token else _exact(call)) or store.revision
    requested = call.number("resourceVersion") or 0
    if requested < 0:
        raise bad_request(f"Invalid value: {requested}: resourceVersion must not be negative")
    newest = max(requested, revision)
    if newest > store.revision:
        raise resource_version_too_large(newest, store.revision)
    candidates = await _entries(store, call, revision, token.start if token else "")
    matching = candidates if selected.everything else filter(selected.matches, candidates)
    # One entry more than the page shows whether another page follows.
    entries = list(islice(matching, limit + 1)) if limit > 0 else list(matching)
    # Lists of custom kinds always have the token, empty or not.
    metadata: Raw = {"continue": ""} if call.resource.custom else {}
    metadata["resourceVersion"] = str(revision)
    if limit > 0 and len(entries) > limit:
        entries.pop()
        metadata["continue"] = _Token(revision, entries[-1].key).text()
        # With a selector, every object would have to be matched; the real server does not either.
        if selected.everything:
            metadata["remainingItemCount"] = 1 + sum(1 for _ in matching)
    return Page(entries, metadata)


async def _entries(store: Store, call: Call, revision: int, after: str) -> Iterator[Entry]:
    prefix = codec.prefix(call.resource, call.route.namespace)
    if revision == store.revision:
        # A copy: the page is encoded later, when the collection may have changed.
        return iter(list(store.scan(prefix, after)))
    try:
        entries = await store.scan_at(prefix, revision)
    except Gone as error:
        if not after:
            raise expired("The resourceVersion for the provided list is too old.") from error
        raise _inconsistent(_Token(0, after)) from error
    return iter([entry for entry in entries if entry.key > after])


def _inconsistent(token: _Token) -> StatusError:
    """The revision of the first page was compacted; the token lists the rest as it is now."""
    error = expired(
        "The provided continue parameter is too old to display a consistent list result. You can"
        " start a new list without the continue parameter, or use the continue token in this"
        " response to retrieve the remainder of the results. Continuing with the provided token"
        " results in an inconsistent list - objects that were created, modified, or deleted"
        " between the time the first chunk was returned and now may show up in the list."
    )
    error.metadata = {"continue": token.text()}
    return error


def _exact(call: Call) -> int:
    """The exact revision of a list, if the client requests one; else 0."""
    # Kubernetes reads a revision with a limit as Exact, and without one as NotOlderThan.
    paged = (call.number("limit") or 0) > 0
    if call.query.get("resourceVersionMatch", "Exact" if paged else "") != "Exact":
        return 0
    return call.number("resourceVersion") or 0


def _token(text: str) -> _Token | None:
    if not text:
        return None
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request("continue key is not valid") from error


def head(resource: Resource, metadata: Raw) -> Raw:
    """A list without its items."""
    kind = f"{resource.kind}List"
    return {"kind": kind, "apiVersion": resource.api_version, "metadata": metadata}


def answer(call: Call, page: Page) -> Answer:
    """The list as JSON, in the requested version."""
    items = [codec.in_version(entry.value, call.resource) for entry in page.entries]
    opening = codec.dump(head(call.resource, page.metadata))[:-1]
    return Answer(200, opening + b',"items":[' + b",".join(items) + b"]}")
