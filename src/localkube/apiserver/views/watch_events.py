"""Watch: the changes of a collection as a stream of JSON lines.

An object that begins to match the selector is ADDED and an object that ceases to match is DELETED,
whatever the write was. A watch without a revision, or with `sendInitialEvents`, first gets the
existing objects, then (if requested) the bookmark that marks their end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kubekit.request_errors import Gone
from localkube.apiserver import api_errors, codec
from localkube.apiserver.http import query_options
from localkube.apiserver.http.query_options import selection
from localkube.apiserver.http.requests import query_bool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.http.query_options import Selection
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.store.collection import Change
    from localkube.apiserver.store.store import Store, Watch


Show = Callable[[bytes], bytes]
Event = tuple[bytes, bytes]
"""The type of an event, and the stored object."""

# Bookmarks tell an idle watcher the newest revision, so that it can resume after a compaction. The
# real server sends one about every minute.
BOOKMARK_EVERY = 55.0
_INITIAL_END = "k8s.io/initial-events-end"


async def watch_events(
    store: Store, call: Call, show: Show | None = None
) -> AsyncGenerator[bytes, None]:
    """Lines of events until the client's timeout. `show` gives objects another shape.

    The first piece is empty if the watch has begun, or the ERROR event of a revision that was
    compacted.
    """
    query_options.check_watch(call.query)
    selected = selection(call.resource, call.query, call.route.name)
    prefix = codec.prefix(call.resource, call.route.namespace)
    since, initial = _start(call)
    call.number("timeoutSeconds")  # an invalid number fails before the answer begins
    # No await until `since` is known: a write in between would be missed or sent twice.
    entries = [e for e in store.scan(prefix) if selected.matches(e)] if initial else []
    if since is None:
        since = store.revision
    try:
        changes = await store.watch(prefix, since)
    except Gone as error:
        yield _line(b"ERROR", codec.dump(api_errors.body(api_errors.expired(str(error)))))
        return

    def lines(events: list[Event]) -> bytes:
        rows = ((type_, codec.in_version(value, call.resource)) for type_, value in events)
        return b"".join(_line(type_, show(obj) if show else obj) for type_, obj in rows)

    try:
        yield b""
        for start in range(0, len(entries), 500):  # pieces, so that other requests run in between
            yield lines([(b"ADDED", e.value) for e in entries[start : start + 500]])
        if initial and query_bool(call.query.get("allowWatchBookmarks")):
            yield _bookmark(call, since, initial_end=True)
        seen = partial(_seen, selected)
        async for events in _follow(store, call, changes, seen):
            yield events if isinstance(events, bytes) else lines(events)
    finally:
        changes.close()


def _start(call: Call) -> tuple[int | None, bool]:
    """The revision to watch from, None for the present, and whether existing objects come first."""
    version = call.query.get("resourceVersion", "")
    initial = call.query.get("sendInitialEvents")
    if query_bool(initial):
        return None, True
    if version in ("", "0"):
        return None, initial is None
    number = call.number("resourceVersion") or 0
    if number < 0:
        raise api_errors.bad_request(
            f"Invalid value: {number}: resourceVersion must not be negative"
        )
    return number, False


async def _follow(
    store: Store, call: Call, changes: Watch, seen: Callable[[Change], Event | None]
) -> AsyncIterator[list[Event] | bytes]:
    """Events until the timeout, with a bookmark's line whenever nothing has changed for long."""
    loop, seconds = asyncio.get_running_loop(), call.number("timeoutSeconds")
    end = loop.time() + seconds if seconds else float("inf")
    bookmarks = query_bool(call.query.get("allowWatchBookmarks"))
    due = loop.time() + BOOKMARK_EVERY
    while loop.time() < end and not changes.ended:
        try:
            async with asyncio.timeout_at(min(end, due)):
                batch = await changes.next()
        except TimeoutError:
            if changes.idle:  # everything up to the present revision has been sent
                due = loop.time() + BOOKMARK_EVERY
                if bookmarks and loop.time() < end:
                    yield _bookmark(call, store.revision)
            continue
        events = [event for event in map(seen, batch) if event]
        if events:
            yield events


def _seen(selected: Selection, change: Change) -> Event | None:
    """The event of one change for this watcher; None if it never saw the object."""
    before = change.before is not None and selected.matches(change.before)
    after = not change.deleted and selected.matches(change.entry)
    if after:
        return b"MODIFIED" if before else b"ADDED", change.entry.value
    if not before or change.before is None:
        return None
    if change.deleted:
        return b"DELETED", change.entry.value
    # The object no longer matches: the watcher gets the last state that did, with the revision of
    # the change, from which it can resume.
    last = codec.decode(change.before.value)
    encode = codec.encoder(last, last["apiVersion"])
    return b"DELETED", encode(change.entry.revision)


def _line(type_: bytes, obj: bytes) -> bytes:
    return b'{"type":"' + type_ + b'","object":' + obj + b"}\n"


def _bookmark(call: Call, revision: int, *, initial_end: bool = False) -> bytes:
    metadata: Raw = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {_INITIAL_END: "true"}
    resource = call.resource
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return _line(b"BOOKMARK", codec.dump(obj))
