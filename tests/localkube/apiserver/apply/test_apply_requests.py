"""Server-side apply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from muster.contract import crds

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient


CM = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("strictness", ["", "&fieldValidation=Ignore"])
async def test_an_apply_of_an_unknown_field_is_rejected_and_names_it(
    api: ApiClient, strictness: str
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "colour": "red"}
    reply = await api.send(
        "PATCH", f"{CM}/a?fieldManager=me{strictness}", body, "application/apply-patch+yaml"
    )

    assert reply.status == 400
    assert ".colour: field not declared in schema" in reply.body["message"]
    assert (await api.send("GET", f"{CM}/a")).status == 404


APPLY = "application/apply-patch+yaml"


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


async def apply(api: ApiClient, manager: str, query: str = "", **data: str) -> Any:
    path = f"{CM}/a?fieldManager={manager}{query}"
    return await api.send("PATCH", path, config_map(**data), APPLY)


async def test_an_apply_that_changes_the_field_of_another_manager_is_a_conflict(
    api: ApiClient,
) -> None:
    await apply(api, "one", x="1", y="1")

    reply = await apply(api, "two", x="2")

    assert reply.status == 409
    assert reply.body["message"] == ('Apply failed with 1 conflict: conflict with "one": .data.x')
    assert reply.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
    ]
    assert (await api.send("GET", f"{CM}/a")).body["data"] == {"x": "1", "y": "1"}


async def test_two_applies_that_create_an_object_at_once_are_merged(api: ApiClient) -> None:
    replies = await asyncio.gather(apply(api, "one", x="1"), apply(api, "two", y="2"))

    assert sorted(reply.status for reply in replies) == [200, 201]
    assert (await api.send("GET", f"{CM}/a")).body["data"] == {"x": "1", "y": "2"}


async def test_a_forced_apply_takes_the_field_and_the_first_manager_loses_it(
    api: ApiClient,
) -> None:
    await apply(api, "one", x="1", y="1")

    reply = await apply(api, "two", "&force=true", x="2")

    owned = {
        entry["manager"]: entry["fieldsV1"] for entry in reply.body["metadata"]["managedFields"]
    }
    assert reply.body["data"] == {"x": "2", "y": "1"}
    assert owned == {"one": {"f:data": {"f:y": {}}}, "two": {"f:data": {"f:x": {}}}}


async def test_a_field_that_is_no_longer_applied_is_removed(api: ApiClient) -> None:
    await apply(api, "one", x="1", y="1")

    assert (await apply(api, "one", x="1")).body["data"] == {"x": "1"}


async def test_a_dry_run_of_an_apply_shows_the_result_and_writes_nothing(api: ApiClient) -> None:
    await apply(api, "one", x="1")

    reply = await apply(api, "two", "&dryRun=All", y="2")

    assert reply.body["data"] == {"x": "1", "y": "2"}
    assert (await api.send("GET", f"{CM}/a")).body["data"] == {"x": "1"}


async def test_an_apply_that_changes_nothing_writes_nothing(api: ApiClient) -> None:
    first = await apply(api, "one", x="1")

    assert (await apply(api, "one", x="1")).body == first.body


async def test_a_client_can_reset_the_owners(api: ApiClient) -> None:
    await apply(api, "one", x="1")
    merge = "application/merge-patch+json"
    reset = await api.send("PATCH", f"{CM}/a", {"metadata": {"managedFields": [{}]}}, merge)

    assert "managedFields" not in reset.body["metadata"]
    conflict = await apply(api, "two", x="2")
    assert 'conflict with "before-first-apply" using v1: .data.x' in conflict.body["message"]


async def test_a_patch_without_a_manager_is_owned_by_the_user_agent(api: ApiClient) -> None:
    await apply(api, "one", x="1")
    merge = "application/merge-patch+json"
    reply = await api.send("PATCH", f"{CM}/a", {"data": {"x": "2"}}, merge)

    (entry,) = reply.body["metadata"]["managedFields"]
    assert entry["manager"] == "Python"  # the test's client names itself Python/3.x aiohttp/3.x
    assert entry["operation"] == "Update"
    assert entry["fieldsV1"] == {"f:data": {"f:x": {}}}


async def test_an_object_with_hundreds_of_levels_can_be_created_and_not_applied(
    api: ApiClient,
) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = next(crd for crd in crds.load_all() if crd["spec"]["names"]["kind"] == "TFJob")
    assert (await api.send("POST", definitions, definition)).status == 201
    nested: dict[str, Any] = {}
    for _ in range(500):
        nested = {"a": nested}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}}
    jobs = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"

    created = await api.send("POST", jobs, {**job, "spec": {"x": nested}})
    applied = await api.send(
        "PATCH", f"{jobs}/a?fieldManager=me", {**job, "spec": {"x": nested}}, APPLY
    )

    assert created.status == 201
    assert applied.status == 400
    assert "too many levels" in applied.body["message"]
