"""Times in another form than the server writes: the Python client sends `+00:00` for `Z`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.apiserver.running_server import MERGE
from tests.localkube.apiserver.test_server import CM, CRDS, JOBS, PODS, tfjobs

if TYPE_CHECKING:
    from tests.localkube.apiserver.running_server import ApiClient

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.mark.parametrize("path", [f"{CM}/a", f"{JOBS}/a", f"{CRDS}/tfjobs.kubeflow.org"])
@pytest.mark.parametrize("hours", [0, 2])
async def test_an_object_may_be_written_back_with_its_creation_time_in_another_zone(
    api: ApiClient, path: str, hours: int
) -> None:
    await create_all(api)
    read = (await api.send("GET", path)).body
    sent = with_creation_time(read, in_zone(read["metadata"]["creationTimestamp"], hours))

    replaced = await api.send("PUT", path, sent)
    patched = await api.send("PATCH", path, {"metadata": sent["metadata"]}, MERGE)

    assert (replaced.status, patched.status) == (200, 200), replaced.body
    assert replaced.body == patched.body == read


async def test_another_creation_time_is_refused(api: ApiClient) -> None:
    await create_all(api)
    read = (await api.send("GET", f"{JOBS}/a")).body

    reply = await api.send(
        "PUT", f"{JOBS}/a", with_creation_time(read, "2020-01-01T00:00:00+00:00")
    )

    assert reply.status == 422
    assert reply.body["details"]["causes"][0]["field"] == "metadata.creationTimestamp"


async def test_times_of_built_in_kinds_are_written_in_utc(api: ApiClient) -> None:
    await api.create_pod("a")
    status = {"status": {"startTime": "2026-01-01T01:00:00.5+01:00"}}
    times = {"renewTime": "2026-01-01T00:00:00.125000-01:00"}

    pod = await api.send("PATCH", f"{PODS}/a/status", status, MERGE)
    lease = await api.send("POST", LEASES, {"metadata": {"name": "a"}, "spec": times})

    assert pod.body["status"]["startTime"] == "2026-01-01T00:00:00Z"
    assert lease.body["spec"]["renewTime"] == "2026-01-01T01:00:00.125000Z"


async def create_all(api: ApiClient) -> None:
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "a"}, "spec": {}}
    await api.send("POST", CM, {"metadata": {"name": "a"}})
    await api.send("POST", CRDS, tfjobs())
    assert (await api.send("POST", JOBS, job)).status == 201


def with_creation_time(read: Any, time: str) -> Any:
    return {**read, "metadata": {**read["metadata"], "creationTimestamp": time}}


def in_zone(time: str, hours: int) -> str:
    return datetime.fromisoformat(time).astimezone(timezone(timedelta(hours=hours))).isoformat()
