"""The operator's loop on virtual time: timers that fire, stale watches, failing answers, scale."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from muster.api.meta import Raw, timestamp
from muster.control.metrics import ATTEMPTS
from muster.kube.client import Client
from muster.operator.run import Options, build
from tests.operator.builders import manifest, replica
from tests.operator.fake_apiserver import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.looptime
START = datetime(2026, 1, 2, tzinfo=UTC)
NS = "namespaces/ns"
JOB = f"/apis/kubeflow.org/v1/{NS}/tfjobs/j"
POD = f"/api/v1/{NS}/pods"


def clock() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def operating(server: Server, **options: Any) -> AsyncIterator[None]:
    client = Client(server)
    manager = build(client, Options(**options), clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        try:
            yield
        finally:
            manager.stop()


def submit(server: Server, name: str = "j", **more: Any) -> str:
    raw = manifest(name=name, **more)
    del raw["metadata"]["uid"]
    path = f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}"
    server.put(path, raw)
    return path


def conditions(server: Server, path: str = JOB) -> list[str]:
    found = server.get(path)
    assert found is not None
    rows = (found.get("status") or {}).get("conditions") or []
    return [row["type"] for row in rows if row["status"] == "True"]


def phase(server: Server, pod: str, word: str, **status: Any) -> None:
    server.patch(f"{POD}/{pod}", {"status": {"phase": word, **status}})


async def passes(seconds: float = 5) -> None:
    """Let virtual time go by."""
    await asyncio.sleep(seconds)


async def test_a_deadline_ends_a_job_although_nothing_else_happens() -> None:
    server = Server()
    async with operating(server):
        submit(server, runPolicy={"activeDeadlineSeconds": 3600})
        await passes()
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes(3590)
        assert conditions(server) == ["Created", "Running"]

        await passes(10)
        assert conditions(server) == ["Created", "Failed"]
        assert server.named("pods") == []


async def test_a_finished_job_goes_when_its_time_is_up() -> None:
    server = Server()
    async with operating(server):
        submit(server, runPolicy={"ttlSecondsAfterFinished": 600})
        await passes()
        phase(server, "j-worker-0", "Succeeded")
        await passes(590)
        assert conditions(server) == ["Created", "Succeeded"]

        await passes(20)
        assert server.named("tfjobs") == []
        assert server.named("pods") == []


async def test_watches_that_are_late_lead_to_no_pod_twice_and_no_restart_counted_twice() -> None:
    server = Server(late=3.0)
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

    found = server.get(JOB)
    assert found is not None
    assert found["status"]["restarts"] == 4
    made = [path.rpartition("/")[2] for path in server.created if path.startswith(POD)]
    assert sorted(made) == sorted(["j-ps-0", "j-worker-0", "j-worker-2", *["j-worker-1"] * 5])


async def test_a_pod_collected_with_its_job_is_not_brought_back() -> None:
    server = Server(late=2.0)
    async with operating(server):
        submit(server)
        await passes(20)
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes(20)
        made = len(server.created)
        server.remove(JOB)
        await passes(60)

    assert len(server.created) == made
    assert server.named("pods") == []


async def test_a_job_of_the_same_name_right_after_is_not_held_up() -> None:
    server = Server()
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


async def test_pods_of_a_former_job_of_this_name_are_waited_for_and_told_of() -> None:
    server = Server()
    async with operating(server):
        submit(server)
        await passes()
        held = [f"{POD}/j-worker-0", f"{POD}/j-worker-1"]
        kept = {path: server.objects[path] for path in held}
        for path in held:
            server.owned[(server.get(JOB) or {})["metadata"]["uid"]].discard(path)
        server.remove(JOB)
        submit(server)
        await passes()

        waiting = (server.get(JOB) or {})["status"]["waiting"]
        assert waiting["message"] == "waits for 2 pods of the former job j to end"
        assert {path: server.objects[path] for path in held} == kept
        made = len(server.created)

        server.remove(held[0])
        await passes()
        waiting = (server.get(JOB) or {})["status"]["waiting"]
        assert waiting["message"] == "waits for 1 pod of the former job j to end"

        server.remove(held[1])
        await passes()
        assert "waiting" not in (server.get(JOB) or {})["status"]
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]
        assert len(server.created) == made + 2


async def test_a_name_that_is_taken_is_waited_for() -> None:
    server = Server()
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


async def test_an_orphan_with_the_jobs_labels_is_adopted() -> None:
    server = Server()
    async with operating(server):
        submit(server)
        await passes()
        server.patch(f"{POD}/j-worker-1", {"metadata": {"ownerReferences": []}})
        await passes()

        pod = server.get(f"{POD}/j-worker-1")
        assert pod is not None
        assert pod["metadata"]["ownerReferences"][0]["name"] == "j"


async def test_what_a_former_job_left_behind_is_adopted() -> None:
    server = Server()
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
        mine = [obj for path, obj in server.objects.items() if "/tfjobs/" not in path]
        made = [obj for obj in mine if "involvedObject" not in obj]
        assert len(made) == 7
        assert {obj["metadata"]["ownerReferences"][0]["uid"] for obj in made} == {uid}
        assert conditions(server) == ["Created"]


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
async def test_a_status_that_another_wrote_is_mended(junk: Raw) -> None:
    server = Server()
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

        found = (server.get(JOB) or {})["status"]
        assert conditions(server)[-1] == "Succeeded"
        assert found["replicaStatuses"]["Worker"] == {"succeeded": 2}


async def test_a_pod_whose_labels_were_taken_is_let_go_and_its_name_waited_for() -> None:
    server = Server()
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


@pytest.mark.parametrize("seed", range(5))
async def test_failing_answers_late_watches_and_kills_leave_nothing_wrong(seed: int) -> None:
    server = Server(fail=0.05, late=1.0, seed=seed)
    names = [f"job{number}" for number in range(8)]
    for name in names:
        submit(server, name)
    for _ in range(5):
        async with asyncio.TaskGroup() as group:
            killed = group.create_task(build(Client(server), Options(), clock).run())
            await asyncio.sleep(server.dice.uniform(0.0, 0.8))
            killed.cancel()
    async with operating(server):
        await passes(120)
        assert len(server.named("pods")) == 24
        for name in names:
            phase(server, f"{name}-worker-0", "Succeeded")
        await passes(120)

    for name in names:
        path = f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}"
        assert conditions(server, path) == ["Created", "Succeeded"]
    made = [path for path in server.created if path.startswith(POD)]
    assert len(made) == len(set(made)) == 24
    assert server.named("podgroups") == []


def writes(server: Server) -> list[str]:
    """What was written, in order: the method and what the path speaks of."""
    return [f"{m} {p.partition('/ns/')[2].split('/')[0]}" for m, p in server.asked if m != "GET"]


async def test_a_job_costs_one_request_per_object_one_status_one_event_and_two_looks() -> None:
    server = Server()
    before = looks()
    async with operating(server):
        submit(server)
        await passes(30)

    made = ["POST services"] * 3 + ["POST podgroups"] + ["POST pods"] * 3
    assert writes(server) == [*made, "PATCH tfjobs", "POST events"]
    assert not [path for method, path in server.asked if method == "GET" and "/tfjobs/j" in path]
    assert looks() - before == 2


def looks() -> float:
    """How often any job was looked at."""
    rows = [row for family in ATTEMPTS.collect() for row in family.samples]
    return sum(float(row.value) for row in rows if row.name.endswith("_total"))


async def test_in_a_rush_pods_come_before_the_news_of_them() -> None:
    server = Server()
    names = [f"job{number}" for number in range(100)]
    for name in names:
        submit(server, name)
    async with operating(server):
        await passes(30)

    order = writes(server)
    first = min(order.index("PATCH tfjobs"), order.index("POST events"))
    under_way = 3 * Options().workers
    assert order[:first].count("POST pods") >= 300 - under_way
    assert (order.count("PATCH tfjobs"), order.count("POST events")) == (100, 100)


BAD = {"tfReplicaSpecs": {"Worker": {"replicas": -1}}}
MENDED = {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}


def edit(server: Server, spec: Raw) -> None:
    generation = (server.get(JOB) or {})["metadata"]["generation"] + 1
    server.patch(JOB, {"metadata": {"generation": generation}, "spec": spec})


async def test_a_job_made_senseless_while_it_runs_goes_on_as_it_was() -> None:
    server = Server()
    async with operating(server):
        submit(server, roles={"Worker": replica(2, "OnFailure"), "PS": replica(1, "OnFailure")})
        await passes()
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes()
        edit(server, BAD)
        await passes()
        assert conditions(server) == ["InvalidSpec", "Created", "Running"]

        phase(server, "j-worker-1", "Failed", reason="Evicted")
        await passes(30)
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]
        assert conditions(server) == ["InvalidSpec", "Created", "Restarting"]

        edit(server, MENDED)
        await passes()
        assert conditions(server) == ["Created", "Restarting"]
        phase(server, "j-worker-1", "Running")
        await passes()
        phase(server, "j-worker-0", "Succeeded")
        await passes()
        assert conditions(server) == ["Created", "Succeeded"]
    told = [(server.get(p) or {})["reason"] for p in server.objects if "/events/" in p]
    assert told.count("InvalidSpec") == 1


async def test_an_operator_that_finds_a_senseless_job_running_leaves_it_alone() -> None:
    server = Server()
    async with operating(server):
        submit(server)
        await passes()
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes()
    edit(server, BAD)
    async with operating(server):
        await passes()
        assert conditions(server) == ["InvalidSpec", "Created", "Running"]
        phase(server, "j-worker-1", "Succeeded")
        await passes()
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]

        edit(server, MENDED)
        phase(server, "j-worker-0", "Succeeded")
        await passes()
        assert conditions(server) == ["Created", "Succeeded"]


async def test_a_job_whose_objects_are_refused_says_at_least_that_it_is_there() -> None:
    server = Server()
    server.refused = {"services"}
    async with operating(server):
        submit(server)
        await passes(30)
        assert conditions(server) == ["Created"]
        assert server.named("pods") == []

        server.refused = set()
        await passes(120)
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]


async def test_a_change_by_the_user_at_the_time_of_our_own_write_is_not_missed() -> None:
    server = Server()
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


async def test_a_cluster_without_group_crds_still_runs_gangs() -> None:
    server = Server()
    server.missing = {"podgroups"}
    async with operating(server):
        submit(server)
        await passes(10)

    pod = server.get(f"{POD}/j-worker-0")
    assert pod is not None
    assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/name"] == "j"


def finished(name: str) -> Raw:
    raw = manifest(name=name)
    row = {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded"}
    raw["status"] = {"conditions": [row], "completionTime": timestamp(START)}
    del raw["metadata"]["uid"]
    return raw


@pytest.mark.slow
async def test_finished_jobs_are_never_written_to() -> None:
    server = Server()
    for number in range(2000):
        name = f"job{number}"
        server.put(f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}", finished(name))
    version = server.version
    async with operating(server):
        await passes(60)

    assert server.version == version, "a finished job was written to"


def tally(server: Server) -> dict[str, int]:
    """How often each thing was asked for: `POST pods`, `PATCH tfjobs status`, `GET pods one`."""
    count: Counter[str] = Counter()
    for method, path in server.asked:
        resource, *rest = path.partition(f"{NS}/")[2].split("/")
        one = "one" if method == "GET" and rest else "".join(rest[1:])
        count[f"{method} {resource or path} {one}".rstrip()] += 1
    return dict(sorted(count.items()))


@pytest.mark.long
async def test_two_thousand_jobs_come_and_go() -> None:
    server = Server(fail=0.01, slow=0)
    names = [f"job{number}" for number in range(2000)]
    async with operating(server):
        for name in names:
            submit(server, name, runPolicy={"cleanPodPolicy": "All"})
        await passes(600)
        assert len(server.named("pods")) == 3 * len(names)
        print("until all pods are there:", tally(server))
        for name in names:
            phase(server, f"{name}-worker-0", "Succeeded")
        await passes(600)

    print("until the end:", tally(server))
    assert server.named("pods") == server.named("services") == server.named("podgroups") == []
    made = [path for path in server.created if path.startswith(POD)]
    assert len(made) == len(set(made)) == 3 * len(names)


@pytest.mark.parametrize("resource", ["jaxjobs", "secrets", "roles", "podgroups"])
async def test_a_right_that_no_job_needs_stops_nobody(resource: str) -> None:
    server = Server()
    server.forbidden = {f"GET {resource}"}
    async with operating(server):
        submit(server)
        await passes()
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]


@pytest.mark.parametrize("resource", ["services", "podgroups"])
async def test_the_status_says_what_cannot_be_made_until_it_can(resource: str) -> None:
    server = Server()
    server.invalid = {resource}
    async with operating(server):
        submit(server)
        await passes()
        found = server.get(JOB)
        assert found is not None
        waits = found["status"]["waiting"]
        assert waits["reason"] == "FailedCreate"
        assert "cannot be created: " in waits["message"]
        assert server.named("pods") == []

        server.invalid = set()
        await passes(600)
        assert len(server.named("pods")) == 3
        found = server.get(JOB)
        assert found is not None
        assert "waiting" not in found["status"]


async def test_a_job_one_of_whose_roles_is_refused_fails_with_all_of_it() -> None:
    server = Server()
    server.wrong = {"j-ps-0"}
    async with operating(server):
        submit(server, runPolicy={"ttlSecondsAfterFinished": 600})
        await passes()
        assert conditions(server) == ["Created", "Failed"]
        assert server.named("pods") == []
        assert server.named("services") == []
        assert server.named("podgroups") == []

        await passes(620)
        assert server.get(JOB) is None


OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "other"}


async def test_adoption_and_release_leave_other_owners_alone() -> None:
    server = Server()
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


def owners(server: Server, path: str) -> list[Raw]:
    found: list[Raw] = (server.get(path) or {})["metadata"]["ownerReferences"]
    return found


async def test_an_adopted_pod_is_marked_as_of_the_gang() -> None:
    server = Server()
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


async def test_a_second_pod_of_a_replica_is_told_of_and_left_alone() -> None:
    server = Server()
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


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("end", "outcome"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
async def test_a_job_made_senseless_ends_as_its_pods_end(
    restarted: bool, end: str, outcome: str
) -> None:
    server = Server()
    async with operating(server):
        submit(server, roles={"Worker": replica(1)}, runPolicy={"ttlSecondsAfterFinished": 600})
        await passes()
        phase(server, "j-worker-0", "Running")
        await passes()
        if not restarted:
            make_senseless(server)
            await passes()
            phase(server, "j-worker-0", end)
            await passes()
    if restarted:
        make_senseless(server)
        async with operating(server):
            await passes()
            phase(server, "j-worker-0", end)
            await passes()

    found = (server.get(JOB) or {})["status"]["conditions"][-1]
    assert (found["type"], found["reason"]) == (outcome, f"TFJob{outcome}")
    assert server.created.count(f"{POD}/j-worker-0") == 1


def make_senseless(server: Server) -> None:
    roles = {"Worker": {**replica(1), "replicas": -1}}
    server.patch(JOB, {"spec": {"tfReplicaSpecs": roles}, "metadata": {"generation": 2}})
