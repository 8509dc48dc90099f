"""Late watches and writes of other clients do not mislead the operator."""

from __future__ import annotations

import pytest

from kubekit.objects.meta import Raw
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import replica
from tests.muster.operator.simulation import JOB, POD, conditions, operating, passes, phase, submit

pytestmark = pytest.mark.looptime


async def test_late_watches_create_no_pod_twice_and_count_no_restart_twice() -> None:
    server = ApiInMemory(late=3.0)
    roles = {"Worker": replica(3, "OnFailure"), "PS": replica(1, "OnFailure")}
    async with operating(server):
        submit(server, roles=roles)
        await passes(20)
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes(10)
        for _ in range(4):
            phase(server, "j-worker-1", "Failed", reason="Error")
            await passes(60)
            phase(server, "j-worker-1", "Running", reason="")
            await passes(10)

    job = server.get(JOB)
    assert job is not None
    assert job["status"]["restarts"] == 4
    created = [path.rpartition("/")[2] for path in server.created if path.startswith(POD)]
    assert sorted(created) == sorted(["j-ps-0", "j-worker-0", "j-worker-2", *["j-worker-1"] * 5])


async def test_a_pod_garbage_collected_with_its_job_is_not_recreated() -> None:
    server = ApiInMemory(late=2.0)
    async with operating(server):
        submit(server)
        await passes(20)
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes(20)
        creations = len(server.created)
        server.remove(JOB)
        await passes(60)

    assert len(server.created) == creations
    assert server.named("pods") == []


async def test_a_job_of_the_same_name_right_after_a_deletion_is_not_held_up() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        server.remove(JOB)
        submit(server)
        await passes()

        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]
        uid = (server.get(JOB) or {})["metadata"]["uid"]
        owners = {
            (server.get(f"{POD}/{pod}") or {})["metadata"]["ownerReferences"][0]["uid"]
            for pod in server.named("pods")
        }
        assert owners == {uid}


async def test_a_job_waits_for_pods_of_a_former_job_of_its_name_and_says_so() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        held = [f"{POD}/j-worker-0", f"{POD}/j-worker-1"]
        former = {path: server.objects[path] for path in held}
        for path in held:
            server.owned[(server.get(JOB) or {})["metadata"]["uid"]].discard(path)
        server.remove(JOB)
        submit(server)
        await passes()

        waiting = (server.get(JOB) or {})["status"]["waiting"]
        assert waiting["message"] == "waits for 2 pods of the former job j to end"
        assert {path: server.objects[path] for path in held} == former
        creations = len(server.created)

        server.remove(held[0])
        await passes()
        waiting = (server.get(JOB) or {})["status"]["waiting"]
        assert waiting["message"] == "waits for 1 pod of the former job j to end"

        server.remove(held[1])
        await passes()
        assert "waiting" not in (server.get(JOB) or {})["status"]
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]
        assert len(server.created) == creations + 2


async def test_a_change_by_the_user_at_the_time_of_our_own_write_is_not_missed() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        roles = {"Worker": replica(4), "PS": replica(1)}
        server.before["PATCH tfjobs"] = lambda: server.patch(
            JOB, {"spec": {"tfReplicaSpecs": roles}}
        )
        phase(server, "j-worker-0", "Running")
        await passes()

        assert conditions(server) == ["Created", "Running"]
        assert len(server.named("pods")) == 5


@pytest.mark.parametrize(
    "junk",
    [
        {"conditions": "junk", "startTime": "yesterday", "replicaStatuses": 5},
        {"conditions": ["junk"], "restarts": "many", "observedGeneration": "new"},
        {"replicaStatuses": [{"tf_replica_type": "PS", "state": "Running"}], "replaced": 1},
        {"completionTime": "2026-01-01", "waiting": "long", "launcherAttempt": None},
    ],
    ids=["text", "rows", "the first version's", "more"],
)
async def test_a_status_with_junk_of_another_writer_is_corrected(junk: Raw) -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes()
        server.patch(JOB, {"status": junk})
        await passes(30)
        phase(server, "j-worker-0", "Succeeded")
        await passes(30)

        status = (server.get(JOB) or {})["status"]
        assert conditions(server)[-1] == "Succeeded"
        assert status["replicaStatuses"]["Worker"] == {"active": 1, "succeeded": 1}
