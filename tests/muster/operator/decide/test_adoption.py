"""Orphans are adopted, pods without the job's labels released, other owners left alone."""

from __future__ import annotations

import pytest

from kubekit.objects.meta import Raw
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.simulation import JOB, POD, conditions, operating, passes, submit

pytestmark = pytest.mark.looptime


async def test_an_orphan_with_the_jobs_labels_is_adopted() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        server.patch(f"{POD}/j-worker-1", {"metadata": {"ownerReferences": []}})
        await passes()

        pod = server.get(f"{POD}/j-worker-1")
        assert pod is not None
        assert pod["metadata"]["ownerReferences"][0]["name"] == "j"


async def test_objects_that_a_former_job_left_behind_are_adopted() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        former = (server.get(JOB) or {})["metadata"]["uid"]
        for path in server.owned.pop(former):
            server.patch(path, {"metadata": {"ownerReferences": None}})
        server.remove(JOB)
        server.remove(f"{POD}/j-worker-1")
        await passes()
        submit(server)
        await passes()

        uid = (server.get(JOB) or {})["metadata"]["uid"]
        owned = [obj for path, obj in server.objects.items() if "/tfjobs/" not in path]
        leftovers = [obj for obj in owned if "involvedObject" not in obj]
        assert len(leftovers) == 7
        assert {obj["metadata"]["ownerReferences"][0]["uid"] for obj in leftovers} == {uid}
        assert conditions(server) == ["Created"]


async def test_a_pod_that_loses_its_labels_is_released_and_the_job_waits_for_its_name() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        path = f"{POD}/j-worker-1"
        server.patch(path, {"metadata": {"labels": {"training.kubeflow.org/job-name": "mine"}}})
        await passes()
        pod = server.get(path)
        assert pod is not None
        assert pod["metadata"]["ownerReferences"] == []

        server.remove(path)
        await passes()
        pod = server.get(path)
        assert pod is not None
        assert pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == "j"


OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "other"}


async def test_adoption_and_release_leave_other_owners_alone() -> None:
    server = ApiInMemory()
    path = f"{POD}/j-worker-1"
    async with operating(server):
        submit(server)
        await passes()
        server.patch(path, {"metadata": {"ownerReferences": [OTHER]}})
        await passes()
        assert [row["name"] for row in owners(server, path)] == ["c", "j"]

        label = "training.kubeflow.org/job-name"
        server.patch(path, {"metadata": {"labels": {label: "another"}}})
        await passes()
        assert owners(server, path) == [OTHER]


def owners(server: ApiInMemory, path: str) -> list[Raw]:
    references: list[Raw] = (server.get(path) or {})["metadata"]["ownerReferences"]
    return references


async def test_an_adopted_pod_gets_the_marks_of_the_gang() -> None:
    server = ApiInMemory()
    path = f"{POD}/j-worker-1"
    async with operating(server):
        submit(server)
        await passes()
        meta = {"ownerReferences": [], "annotations": {"scheduling.k8s.io/group-name": None}}
        server.patch(path, {"metadata": meta})
        await passes()

        pod = server.get(path)
        assert pod is not None
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "j"
        assert pod["metadata"]["ownerReferences"][0]["name"] == "j"


async def test_a_second_pod_of_a_replica_is_reported_and_ignored() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        twin = dict(server.get(f"{POD}/j-worker-1") or {})
        meta = {"name": "mine", "labels": twin["metadata"]["labels"]}
        server.put(f"{POD}/mine", {"metadata": meta, "spec": twin["spec"], "status": {}})
        await passes(60)

        assert "mine" in server.named("pods")
        assert "ownerReferences" not in (server.get(f"{POD}/mine") or {})["metadata"]
        reasons = [obj["reason"] for obj in server.objects.values() if "involvedObject" in obj]
        assert reasons.count("UnclaimedPods") == 1
