"""Entries of managedFields: their order, their limit, and the entries that clients send."""

from __future__ import annotations

from typing import Any

from localkube.apiserver.apply import managed_fields
from localkube.apiserver.apply.field_set import (
    FieldSet,
    item_of_set,
    item_with_keys,
    path_text,
    paths,
)
from localkube.apiserver.apply.managed_fields import Managed, owners_of_object, owners_of_scale
from localkube.apiserver.apply.ownership import Manager, Owned


def updater(number: int) -> Manager:
    return Manager(f"m{number:02}", "Update", "v1", "")


def entry(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    known = {"manager": manager, "operation": "Update", "apiVersion": "v1"}
    return {**known, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def test_entries_that_are_decoded_and_encoded_are_the_same() -> None:
    entries = [
        entry("a", {"f:data": {"f:x": {}}}, time="2026-01-01T00:00:00Z"),
        entry("b", {"f:status": {}}, time="2026-01-02T00:00:00Z", subresource="status"),
    ]
    managed = managed_fields.decode(entries)

    assert managed is not None
    assert managed_fields.encode(managed) == entries


def test_the_oldest_of_more_than_ten_updates_become_one() -> None:
    owners = {updater(n): Owned({f"f:x{n}": {}}, "v1") for n in range(12)}
    times = {updater(n): f"2026-01-01T00:00:{n:02}Z" for n in range(12)}
    managed = Managed(owners, times)
    managed_fields.cap_updaters(managed)

    old = Manager("ancient-changes", "Update", "v1", "")
    assert len(managed.owners) == 10
    assert managed.owners[old].fields == {"f:x0": {}, "f:x1": {}, "f:x2": {}}
    assert managed.times[old] == times[updater(2)]


def test_an_entry_of_an_unknown_operation_is_invalid() -> None:
    assert managed_fields.decode([{**entry("a", {}), "operation": "Guess"}]) is None


def test_elements_that_a_client_wrote_differently_are_the_same() -> None:
    sent = [entry("a", {'k:{"protocol": "TCP", "port": 80}': {}, "x:unknown": {}})]

    assert managed_fields.canonical(sent) == [
        entry("a", {item_with_keys({"port": 80, "protocol": "TCP"}): {}})
    ]


def test_elements_are_written_as_go_writes_json() -> None:
    assert item_of_set("a<b&c") == 'v:"a\\u003cb\\u0026c"'


def test_paths_are_in_the_order_of_fields_and_keys() -> None:
    node: FieldSet = {".": {}, "f:name": {}}
    ports = {item_with_keys({"port": port}): node for port in (443, 80)}

    assert [path_text(path) for path in paths({"f:b": {}, "f:a": ports})] == [
        ".b",
        ".a[port=80]",
        ".a[port=443]",
        ".a[port=80].name",
        ".a[port=443].name",
    ]


def test_an_owner_of_a_scale_takes_the_replicas_from_the_owner_of_the_object() -> None:
    path = ("f:spec", "f:replicas")
    entries = [entry("a", {"f:spec": {"f:replicas": {}, "f:paused": {}}})]
    (in_scale,) = owners_of_scale(entries, path)
    taken = {**in_scale, "manager": "b", "subresource": "scale"}

    assert owners_of_object(entries, [taken], path, "v1") == [
        entry("a", {"f:spec": {"f:paused": {}}}),
        entry("b", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
    ]
    assert owners_of_object(entries, [in_scale], path, "v1") == entries
