"""Informers on a server in memory, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.client import Client
from kubekit.objects.core import Pod
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from kubekit.watch.informer import Informer
from kubekit.watch.informer_cache import Change
from tests.api_in_memory import POD, ApiInMemory, status_response
from tests.kubekit.builders import pod
from tests.unexpected_errors import counted
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.looptime


class Seen:
    """The changes that a listener got, in short: +a, ~a, -a."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __call__(self, change: Change[Pod]) -> None:
        sign = "+" if change.old is None else "-" if change.new is None else "~"
        self.words.append(sign + change.current.metadata.name)


@asynccontextmanager
async def watching(
    server: ApiInMemory, **options: Any
) -> AsyncIterator[tuple[Informer[Pod], Seen]]:
    informer, seen = Informer(Client(server), PODS, **options), Seen()
    informer.subscribe(seen)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        yield informer, seen
        task.cancel()


async def heard(seen: Seen, *words: str) -> None:
    await eventually(lambda: len(seen.words) >= len(words), timeout=60, what=str(words))
    assert seen.words == list(words)


async def test_an_informer_lists_and_then_reports_every_change_in_order() -> None:
    server = ApiInMemory()
    server.add(pod("a"))
    async with watching(server) as (informer, seen):
        await informer.synced()
        assert [p.metadata.name for p in informer.all()] == ["a"]
        server.add(pod("b"))
        server.add(pod("a", colour="red"))
        server.remove(f"{POD}/b")
        await heard(seen, "+a", "+b", "~a", "-b")
        stored = informer.get(Key("ns", "a"))
        assert stored is not None
        assert stored.metadata.labels == {"colour": "red"}
        assert informer.get(Key("ns", "b")) is None


async def test_an_informer_is_not_synced_before_its_first_list() -> None:
    server = ApiInMemory()
    server.reachable = False
    async with watching(server) as (informer, _):
        await eventually(lambda: informer.stale_reason)
        assert not informer.has_synced
        server.reachable = True
        await informer.synced()
        assert informer.has_synced
        assert informer.stale_reason == ""


async def test_a_broken_stream_resumes_without_listing_and_without_repeating() -> None:
    server = ApiInMemory()
    async with watching(server) as (informer, seen):
        await informer.synced()
        server.add(pod("a"))
        await heard(seen, "+a")
        server.cut()
        server.add(pod("b"))
        await heard(seen, "+a", "+b")
    assert len(server.requests) == 1


async def test_a_bookmark_moves_the_version_to_resume_from() -> None:
    server = ApiInMemory()
    async with watching(server) as (informer, seen):
        await informer.synced()
        server.add(pod("a"))
        await heard(seen, "+a")
        server.bookmark()
        server.compact()  # nothing before the bookmark is kept
        await eventually(lambda: informer._progress.version == str(server.version))
        server.cut()
        server.add(pod("b"))
        await heard(seen, "+a", "+b")
    assert len(server.requests) == 1


async def test_after_compaction_only_the_differences_are_reported() -> None:
    server = ApiInMemory()
    for name in ("gone", "same", "changed", "reborn"):
        server.add(pod(name))
    async with watching(server) as (informer, seen):
        await informer.synced()
        seen.words.clear()
        server.reachable = False
        server.cut()
        await eventually(lambda: informer.stale_reason)
        server.remove(f"{POD}/gone")
        server.add(pod("changed", colour="red"))
        server.add(pod("new"))
        server.remove(f"{POD}/reborn")
        server.add(pod("reborn", uid="second"))
        server.compact()
        server.reachable = True
        await heard(seen, "-gone", "~changed", "+new", "-reborn", "+reborn")


async def test_a_new_uid_in_a_modified_event_is_a_deletion_and_an_addition() -> None:
    server = ApiInMemory()
    server.add(pod("a", uid="first"))
    async with watching(server) as (informer, seen):
        await informer.synced()
        server.add(pod("a", uid="second"))  # MODIFIED: the events between were merged
        await heard(seen, "+a", "-a", "+a")


async def test_a_kind_that_is_not_installed_is_empty_and_found_when_it_appears(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ApiInMemory()
    server.missing = {"pods"}
    with caplog.at_level(logging.INFO):
        async with watching(server) as (informer, seen):
            await informer.synced()
            assert not informer.installed
            assert informer.stale_reason == ""
            await asyncio.sleep(300)
            server.missing = set()
            server.add(pod("a"))
            began = asyncio.get_running_loop().time()
            await heard(seen, "+a")
            assert asyncio.get_running_loop().time() - began < 6
            assert informer.installed
    assert [record.levelname for record in caplog.records] == ["INFO"]


async def test_an_uninstalled_kind_empties_the_cache() -> None:
    server = ApiInMemory()
    server.add(pod("a"))
    async with watching(server) as (informer, seen):
        await informer.synced()
        server.missing = {"pods"}
        server.cut()
        await heard(seen, "+a", "-a")
        assert not list(informer.all())


async def test_a_forbidden_list_is_logged_once_exposed_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ApiInMemory()
    server.answers.extend(status_response(403, "Forbidden", "no") for _ in range(8))
    async with watching(server) as (informer, _):
        await eventually(lambda: len(server.requests) >= 5, timeout=600)
        assert informer.stale_reason == "not allowed to list pods: no"
        await eventually(lambda: informer.has_synced, timeout=600)
        assert informer.stale_reason == ""
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [r.getMessage() for r in warnings] == [
        "cannot list or watch pods: not allowed to list pods: no"
    ]


async def test_one_object_that_cannot_be_read_does_not_hide_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ApiInMemory()
    bad = pod("bad")
    bad["spec"]["containers"] = "none"
    server.add(bad)
    server.add(pod("good"))
    async with watching(server) as (informer, seen):
        await informer.synced()
        assert seen.words == ["+good"]
        server.add(pod("bad"))  # mended
        bad["metadata"]["name"] = "good"
        bad["metadata"]["uid"] = "uid-good"
        server.add(bad)  # broken
        server.add(pod("after"))
        await heard(seen, "+good", "+bad", "-good", "+after")
    assert "bad" in caplog.text


async def test_indexes_follow_changes() -> None:
    server = ApiInMemory()
    server.add(pod("a", job="x"))
    server.add(pod("b", job="x"))
    indexes = {"job": lambda p: [p.metadata.labels.get("job", "")]}
    async with watching(server, indexes=indexes) as (informer, seen):
        await informer.synced()
        assert [p.metadata.name for p in informer.by("job", "x")] == ["a", "b"]
        server.add(pod("a", job="y"))
        server.remove(f"{POD}/b")
        await heard(seen, "+a", "+b", "~a", "-b")
        assert informer.by("job", "x") == []
        assert [p.metadata.name for p in informer.by("job", "y")] == ["a"]


async def test_long_lists_are_read_in_pages() -> None:
    server = ApiInMemory()
    for number in range(1201):
        server.add(pod(f"p{number:04}"))
    listing = await Client(server).list(PODS, "ns")
    assert len(listing.items) == 1201
    assert len(server.requests) == 3
    assert listing.resource_version == str(server.version)


async def test_an_informer_of_raw_objects_works_the_same() -> None:
    server = ApiInMemory()
    informer = Informer(Client(server), PODS.read_as(dict))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.synced()
        server.add(pod("a"))
        await eventually(lambda: informer.get(Key("ns", "a")) is not None)
        server.add(pod("b"))
        server.cut()
        await eventually(lambda: informer.get(Key("ns", "b")) is not None)
        task.cancel()


async def test_a_listener_that_fails_for_one_object_does_not_end_the_watch() -> None:
    server = ApiInMemory()
    server.add(pod("a"))
    informer, seen = Informer(Client(server), PODS), Seen()

    def fail(change: Change[Pod]) -> None:
        if change.current.metadata.name == "b":
            raise OverflowError("date value out of range")

    informer.subscribe(fail)
    informer.subscribe(seen)
    before = counted().get("watch of pods", 0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        server.add(pod("b"))
        server.add(pod("c"))
        await eventually(lambda: len(seen.words) >= 3, timeout=60)
        task.cancel()

    assert sorted(seen.words) == ["+a", "+b", "+c"]
    assert counted()["watch of pods"] == before + 1
