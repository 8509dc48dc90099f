"""The work of one patch: while it is done, the server answers nobody else."""

from __future__ import annotations

from typing import Any

import pytest

import localkube
from kubekit.request_errors import StatusError
from localkube.apiserver.patches import json_patch
from tests.localkube.apiserver.running_server import ApiClient
from tests.work import calls_in

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JSON_PATCH = "application/json-patch+json"


def first_items(count: int) -> list[Any]:
    path = "/metadata/finalizers/0"
    return [{"op": "add", "path": path, "value": f"a.b/c{number}"} for number in range(count)]


async def test_ten_thousand_inserts_into_a_long_set_do_not_stall_the_server(api: ApiClient) -> None:
    finalizers = [f"d.e/f{number}" for number in range(40_000)]
    created = await api.send(
        "POST", CONFIG_MAPS, {"metadata": {"name": "c", "finalizers": finalizers}}
    )
    assert created.status == 201
    with calls_in(localkube) as calls:
        reply = await api.send("PATCH", f"{CONFIG_MAPS}/c", first_items(10_000), JSON_PATCH)

    assert calls.count < 100 * 50_000
    assert reply.status == 200
    assert len(reply.body["metadata"]["finalizers"]) == 50_000
    assert reply.body["metadata"]["finalizers"][0] == "a.b/c9999"


def test_inserts_that_would_move_too_many_items_are_refused() -> None:
    target = {"metadata": {"finalizers": ["a/b"] * 400_000}}
    with pytest.raises(StatusError) as caught:
        json_patch(target, first_items(10_000))

    assert caught.value.status == 413
