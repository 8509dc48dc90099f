"""The processor time of one patch, which is the time for which the server answers nobody else."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kubekit.request_errors import StatusError
from localkube.apiserver.patches import json_patch
from tests.localkube.apiserver.running_server import ApiClient

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JSON_PATCH = "application/json-patch+json"
SECONDS = 10.0
"""Far above the time of a linear patch on a busy machine, and below that of a quadratic one."""


def first_items(count: int) -> list[Any]:
    path = "/metadata/finalizers/0"
    return [{"op": "add", "path": path, "value": f"a.b/c{number}"} for number in range(count)]


async def test_ten_thousand_inserts_into_a_long_set_do_not_stall_the_server(api: ApiClient) -> None:
    finalizers = [f"d.e/f{number}" for number in range(40_000)]
    created = await api.send(
        "POST", CONFIG_MAPS, {"metadata": {"name": "c", "finalizers": finalizers}}
    )
    assert created.status == 201
    start = time.process_time()
    reply = await api.send("PATCH", f"{CONFIG_MAPS}/c", first_items(10_000), JSON_PATCH)

    assert time.process_time() - start < SECONDS
    assert reply.status == 200
    assert len(reply.body["metadata"]["finalizers"]) == 50_000
    assert reply.body["metadata"]["finalizers"][0] == "a.b/c9999"


def test_inserts_that_would_move_too_many_items_are_refused() -> None:
    target = {"metadata": {"finalizers": ["a/b"] * 400_000}}
    start = time.thread_time()
    with pytest.raises(StatusError) as caught:
        json_patch(target, first_items(10_000))

    assert caught.value.status == 413
    assert time.thread_time() - start < SECONDS
