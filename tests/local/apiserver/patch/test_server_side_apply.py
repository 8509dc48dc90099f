"""Server-side apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.local.apiserver.running_server import ApiClient


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
