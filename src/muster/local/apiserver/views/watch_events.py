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

from muster.errors import Gone
from muster.local.apiserver import api_errors, codec
from muster.local.apiserver.http import query_options
from muster.local.apiserver.http.query_options import selection
from muster.local.apiserver.http.requests import query_bool
from muster.local.apiserver.store.changes import Entry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from muster.api.meta import Raw
    from muster.local.apiserver.http.query_options import Selection
    from muster.local.apiserver.http.requests import Call
    from muster.local.apiserver.store.changes import Change, Watch
    from muster.local.apiserver.store.store import Store


Show = Callable[[bytes], bytes]

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
    try:
        yield b""
        for start in range(0, len(entries), 500):  # pieces, so that other requests run in between
            yield b"".join(_event(b"ADDED", e, call, show) for e in entries[start : start + 500])
        if initial and query_bool(call.query.get("allowWatchBookmarks")):
            yield _bookmark(call, since, initial_end=True)
        shown = partial(_shown, call, selected, show)
        async for lines in _follow(store, call, changes, shown):
            yield lines
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
    if not version.isdigit():
        raise api_errors.bad_request(
            f"Invalid value: {version!r}: resourceVersion must be a number"
        )
    return int(version), False


async def _follow(
    store: Store, call: Call, changes: Watch, shown: Callable[[Change], bytes]
) -> AsyncIterator[bytes]:
    """Lines of events until the timeout, with a bookmark whenever nothing has changed for long."""
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
        lines = b"".join(map(shown, batch))
        if lines:
            yield lines


def _shown(call: Call, selected: Selection, show: Show | None, change: Change) -> bytes:
    """The event of one change for this watcher; empty if it never saw the object."""
    before = change.before is not None and selected.matches(change.before)
    after = not change.deleted and selected.matches(change.entry)
    if after:
        return _event(b"MODIFIED" if before else b"ADDED", change.entry, call, show)
    if not before or change.before is None:
        return b""
    if change.deleted:
        return _event(b"DELETED", change.entry, call, show)
    # The object no longer matches: the watcher gets the last state that did, with the revision of
    # the change, from which it can resume.
    last = codec.decode(change.before.value)
    encode = codec.encoder(last, last["apiVersion"])
    revision = change.entry.revision
    deleted = Entry(change.entry.key, revision, encode(revision))
    return _event(b"DELETED", deleted, call, show)


def _event(type_: bytes, entry: Entry, call: Call, show: Show | None) -> bytes:
    obj = codec.in_version(entry.value, call.resource)
    return _line(type_, show(obj) if show else obj)


def _line(type_: bytes, obj: bytes) -> bytes:
    return b'{"type":"' + type_ + b'","object":' + obj + b"}\n"


def _bookmark(call: Call, revision: int, *, initial_end: bool = False) -> bytes:
    metadata: Raw = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {_INITIAL_END: "true"}
    resource = call.resource
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return _line(b"BOOKMARK", codec.dump(obj))
