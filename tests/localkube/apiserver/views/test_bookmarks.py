"""Timed bookmarks, from which a watcher can always resume."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from localkube.apiserver.http.requests import Call, Route
from localkube.apiserver.resource_registry import BUILTIN
from localkube.apiserver.store.collection import Change, Entry
from localkube.apiserver.store.store import Watch
from localkube.apiserver.views.watch_events import BOOKMARK_EVERY, watch_events

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.looptime

CONFIG_MAPS = next(r for r in BUILTIN if r.collection == "configmaps")


class EmptyStore:
    """An empty store; `write` sends a change to its watches."""

    revision = 7

    def __init__(self) -> None:
        self.watches: list[Watch] = []

    def scan(self, prefix: str) -> Iterator[Entry]:
        return iter(())

    async def watch(self, prefix: str, since: int) -> Watch:
        self.watches.append(Watch(prefix, since, self._forget))
        return self.watches[-1]

    def _forget(self, watch: Watch) -> None:
        self.watches.remove(watch)

    def write(self, name: str) -> None:
        self.revision += 1
        meta = {"name": name, "namespace": "a", "resourceVersion": str(self.revision)}
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        entry = Entry(f"configmaps/a/{name}", self.revision, msgspec.json.encode(value))
        for watch in self.watches:
            watch.push(Change(entry, None, deleted=False))


async def watched_events(store: EmptyStore, **query: str) -> list[tuple[float, str, str]]:
    """The time, type and revision of each event of a watch."""
    route = Route("watch", "", "v1", "configmaps", "a")
    call = Call(route, CONFIG_MAPS, {"resourceVersion": "7", "timeoutSeconds": "200", **query})
    clock = asyncio.get_running_loop().time
    start = clock()
    events: list[tuple[float, str, str]] = []
    async for lines in watch_events(store, call, lambda value: value):  # type: ignore[arg-type]
        for line in lines.splitlines():
            event = msgspec.json.decode(line)
            revision = event["object"]["metadata"]["resourceVersion"]
            events.append((round(clock() - start), event["type"], revision))
    return events


async def test_an_idle_watch_gets_a_bookmark_about_every_minute() -> None:
    times = [when for when, *_ in await watched_events(EmptyStore(), allowWatchBookmarks="true")]

    assert times == [55, 110, 165]


async def test_bookmarks_are_only_sent_on_request() -> None:
    assert await watched_events(EmptyStore()) == []


async def test_changes_that_do_not_match_do_not_delay_bookmarks() -> None:
    store = EmptyStore()

    async def write_every_ten_seconds() -> None:
        while True:
            await asyncio.sleep(10)
            store.write("other")

    async with asyncio.TaskGroup() as group:
        writer = group.create_task(write_every_ten_seconds())
        events = await watched_events(
            store, allowWatchBookmarks="true", fieldSelector="metadata.name=mine"
        )
        writer.cancel()

    assert [(when, kind) for when, kind, _ in events] == [
        (when, "BOOKMARK") for when in (55, 110, 165)
    ]
    assert [revision for *_, revision in events] == ["12", "18", "23"]


async def test_a_bookmark_waits_a_minute_from_the_last_one_not_from_the_last_event() -> None:
    store = EmptyStore()

    async def write_once() -> None:
        await asyncio.sleep(BOOKMARK_EVERY - 5)
        store.write("mine")

    async with asyncio.TaskGroup() as group:
        group.create_task(write_once())
        events = await watched_events(store, allowWatchBookmarks="true")

    assert [(when, kind) for when, kind, _ in events][:2] == [(50, "ADDED"), (55, "BOOKMARK")]


async def test_a_bookmark_never_overtakes_a_change_of_the_same_moment() -> None:
    store = EmptyStore()
    asyncio.get_running_loop().call_later(BOOKMARK_EVERY, store.write, "mine")

    events = await watched_events(store, allowWatchBookmarks="true")

    kinds = [kind for _, kind, revision in events if revision == "8"]
    assert kinds[0] == "ADDED"
