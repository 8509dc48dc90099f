"""Names that are taken: the job waits until they are free, and its status says for which object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api_in_memory import ApiInMemory
from tests.muster.operator.simulation import JOB, NS, POD, operating, passes, phase, submit
from tests.muster.words import tells

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

pytestmark = pytest.mark.looptime


def events_by_reason(server: ApiInMemory) -> dict[str, str]:
    """The events, by reason."""
    rows = [obj for path, obj in server.objects.items() if "/events/" in path]
    return {row["reason"]: row["message"] for row in rows}


def waits(server: ApiInMemory) -> Raw | None:
    """The `waiting` field of the job's status."""
    waiting: Raw | None = (server.get(JOB) or {})["status"].get("waiting")
    return waiting


OF_SOMEBODY = [
    ("Pod", f"{POD}/j-worker-1"),
    ("Service", f"/api/v1/{NS}/services/j-worker-1"),
    ("PodGroup", f"/apis/scheduling.volcano.sh/v1beta1/{NS}/podgroups/j"),
]


@pytest.mark.parametrize(("kind", "path"), OF_SOMEBODY, ids=[kind for kind, _ in OF_SOMEBODY])
async def test_the_status_names_a_taken_name_at_once_until_it_is_free(kind: str, path: str) -> None:
    server = ApiInMemory()
    name = path.rpartition("/")[2]
    server.put(path, {"metadata": {"name": name}})
    async with operating(server):
        submit(server)
        await passes(1)
        message = f"{kind} {name} exists and has another owner; waiting until it is deleted"
        assert waits(server) == {"reason": "ErrResourceExists", "message": message}
        requests = len(server.requests)
        await passes(60)
        assert len(server.requests) - requests < 150

        server.remove(path)
        await passes(5)
        assert waits(server) is None
        assert len(server.named("pods")) == 3


async def test_of_several_taken_names_always_the_same_one_is_reported() -> None:
    server = ApiInMemory(slow=0.5)
    for name in ("j-ps-0", "j-worker-0", "j-worker-1"):
        server.put(f"{POD}/{name}", {"metadata": {"name": name}})
    async with operating(server):
        submit(server)
        await passes(20)
        before = server.get(JOB)
        await passes(60)
        assert server.get(JOB) == before


async def test_a_pod_without_its_labels_is_released_without_a_creation_event() -> None:
    server = ApiInMemory()
    path = f"{POD}/j-worker-1"
    async with operating(server):
        submit(server)
        await passes()
        created = events_by_reason(server)["SuccessfulCreatePod"]
        server.patch(path, {"metadata": {"labels": {"training.kubeflow.org/job-name": None}}})
        await passes(10)

        assert (server.get(path) or {})["metadata"]["ownerReferences"] == []
        taken = waits(server) or {}
        assert taken["reason"] == "ErrResourceExists"
        assert tells(taken["message"], "Pod", "j-worker-1")
        assert events_by_reason(server)["SuccessfulCreatePod"] == created
        rows = [
            obj for obj in server.objects.values() if obj.get("reason") == "SuccessfulCreatePod"
        ]
        assert len(rows) == 1


async def test_a_pod_that_does_not_terminate_is_reported() -> None:
    server = ApiInMemory()
    path = f"{POD}/j-worker-1"
    async with operating(server):
        submit(server)
        await passes()
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes()
        stuck = {"deletionTimestamp": "2026-01-02T00:00:10Z", "finalizers": ["a/b", "c/d"]}
        server.patch(path, {"metadata": stuck})
        await passes(1)
        message = "waits for pod j-worker-1 to end (it has finalizers: a/b, c/d)"
        assert waits(server) == {"reason": "Terminating", "message": message}

        server.remove(path)
        await passes(5)
        assert waits(server) is None
        assert len(server.named("pods")) == 3


async def test_a_job_waits_until_a_taken_name_is_free() -> None:
    server = ApiInMemory()
    server.put(f"{POD}/j-worker-0", {"metadata": {"name": "j-worker-0"}})
    async with operating(server):
        submit(server)
        await passes(30)
        reasons = {(server.get(p) or {})["reason"] for p in server.objects if "/events/" in p}
        assert "ErrResourceExists" in reasons

        server.remove(f"{POD}/j-worker-0")
        await passes(5)
        pod = server.get(f"{POD}/j-worker-0")
        assert pod is not None
        assert pod["metadata"]["ownerReferences"]
