"""Garbage collection on the real local API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import CONFIG_MAPS, CRDS, SECRETS, Kind
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound
from localkube.controllers.garbage_collector import GarbageCollector
from tests.localkube.node.local_node import wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.slow

MAPS = CONFIG_MAPS.read_as(dict)
Raw = dict[str, Any]


@pytest.fixture
async def client(api_client: Client) -> AsyncIterator[Client]:
    async with asyncio.TaskGroup() as group:
        collector = group.create_task(GarbageCollector(api_client).run())
        yield api_client
        collector.cancel()


async def make(client: Client, name: str, *owners: Raw, kind: Kind[Any] = MAPS) -> Raw:
    references = [
        {
            "apiVersion": o.get("apiVersion", "v1"),
            "kind": o.get("kind", "ConfigMap"),
            "name": o["metadata"]["name"],
            "uid": o["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for o in owners
    ]
    meta = {"name": name, "namespace": "default", "ownerReferences": references}
    created: Raw = await client.create(kind.read_as(dict), {"metadata": meta})
    return created


async def exists(client: Client, name: str, kind: Kind[Any] = MAPS) -> bool:
    try:
        await client.get(kind, Key("default", name))
    except NotFound:
        return False
    return True


async def gone(client: Client, name: str, kind: Kind[Any] = MAPS) -> None:
    async def look() -> bool:
        return not await exists(client, name, kind)

    await wait_for(look, f"{name} gone")


async def delete(client: Client, name: str, propagation: str = "Background") -> None:
    await client.delete(MAPS, Key("default", name), propagation=propagation)


async def test_all_dependents_of_a_deleted_object_are_deleted(
    client: Client,
) -> None:
    top = await make(client, "top")
    child = await make(client, "child", top)
    await make(client, "grandchild", child, kind=SECRETS)
    await make(client, "stranger")

    await delete(client, "top")

    await gone(client, "child")
    await gone(client, "grandchild", SECRETS)
    assert await exists(client, "stranger")


async def test_an_object_created_for_a_deleted_owner_is_deleted(client: Client) -> None:
    top = await make(client, "top")
    await delete(client, "top")
    await make(client, "late", top)

    await gone(client, "late")


async def test_another_object_of_the_same_name_is_not_the_owner(client: Client) -> None:
    first = await make(client, "top")
    await delete(client, "top")
    second = await make(client, "top")
    await make(client, "of-first", first)
    await make(client, "of-second", second)

    await gone(client, "of-first")
    assert await exists(client, "of-second")


async def test_an_object_with_two_owners_is_deleted_with_the_second(client: Client) -> None:
    one, two = await make(client, "one"), await make(client, "two")
    await make(client, "shared", one, two)

    await delete(client, "one")

    async def only_two() -> bool:
        shared = await client.get(MAPS, Key("default", "shared"))
        return [o["name"] for o in shared["metadata"]["ownerReferences"]] == ["two"]

    await wait_for(only_two, "the first reference dropped")
    await delete(client, "two")
    await gone(client, "shared")


async def test_with_foreground_deletion_the_owner_is_deleted_last(client: Client) -> None:
    top = await make(client, "top")
    child = await make(client, "child", top)
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    await client.patch(MAPS, Key("default", "child"), held)

    await delete(client, "top", "Foreground")

    async def child_is_going() -> bool:
        child = await client.get(MAPS, Key("default", "child"))
        return "deletionTimestamp" in child["metadata"]

    await wait_for(child_is_going, "the child asked to go")
    assert await exists(client, "top")
    await client.patch(MAPS, Key("default", "child"), {"metadata": {"finalizers": None}})
    await gone(client, "child")
    await gone(client, "top")
    assert child["metadata"]["uid"] != top["metadata"]["uid"]


async def test_owners_in_a_cycle_are_deleted_in_the_foreground(client: Client) -> None:
    names = ["one", "two", "three"]
    first = await make(client, names[0])
    second = await make(client, names[1], first)
    third = await make(client, names[2], second)
    reference = second["metadata"]["ownerReferences"][0]
    own = {"name": names[2], "uid": third["metadata"]["uid"]}
    closed = {"metadata": {"ownerReferences": [reference | own]}}
    await client.patch(MAPS, Key("default", names[0]), closed)
    itself = await make(client, "itself")
    own = {"name": "itself", "uid": itself["metadata"]["uid"]}
    closed = {"metadata": {"ownerReferences": [reference | own]}}
    await client.patch(MAPS, Key("default", "itself"), closed)

    for name in (names[1], "itself"):
        await delete(client, name, "Foreground")

    for name in (*names, "itself"):
        await gone(client, name)


async def test_orphans_stay_without_their_owner(client: Client) -> None:
    top = await make(client, "top")
    await make(client, "child", top)

    await delete(client, "top", "Orphan")

    await gone(client, "top")
    child = await client.get(MAPS, Key("default", "child"))
    assert not child["metadata"].get("ownerReferences")


@pytest.mark.parametrize("way", ["Background", "Foreground", "Orphan"])
async def test_kinds_that_are_defined_later_can_be_owners(client: Client, way: str) -> None:
    widgets: Kind[Raw] = Kind("example.com", "v1", "widgets", "Widget", dict)
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    await client.create(CRDS, definition)

    async def served() -> bool:
        try:
            await client.list(widgets, "default")
        except NotFound:
            return False
        return True

    await wait_for(served, "the new kind served")
    widget = await make(client, "w", kind=widgets)
    widget |= {"apiVersion": "example.com/v1", "kind": "Widget"}
    await make(client, "child", widget)

    await client.delete(widgets, Key("default", "w"), propagation=way)

    await gone(client, "w", widgets)
    if way == "Orphan":
        assert await exists(client, "child")
    else:
        await gone(client, "child")


async def test_orphaning_is_tried_again_when_a_dependent_changes_meanwhile(client: Client) -> None:
    top = await make(client, "top")
    for number in range(20):
        await make(client, f"child-{number}", top)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            key, change = Key("default", f"child-{number}"), {"data": {"a": "b"}}
            group.create_task(client.patch(MAPS, key, change))
        group.create_task(delete(client, "top", "Orphan"))

    await gone(client, "top")
    children = (await client.list(MAPS, "default")).items
    assert [c for c in children if c["metadata"].get("ownerReferences")] == []


async def test_an_object_whose_owner_has_an_unknown_kind_is_not_deleted(client: Client) -> None:
    unknown = {
        "apiVersion": "nowhere.io/v1",
        "kind": "Ghost",
        "metadata": {"name": "g", "uid": "no-such-uid"},
    }
    await make(client, "kept", unknown)
    top = await make(client, "top")
    await make(client, "child", top)
    await delete(client, "top")
    await gone(client, "child")  # by now the other one was looked at as well

    assert await exists(client, "kept")
