"""Jobs that run since older versions of Muster or other operators were here run on unharmed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubekit.objects.kinds import CRDS
from kubekit.objects.meta import Raw
from muster.contract import crds
from tests.drills import verdict
from tests.drills.cluster import (
    ELECTED,
    DrillCluster,
    drill_cluster,
    kill_and_start_again,
    start_both,
)
from tests.drills.pod_history import FOREVER, JOB, ROLE, read_history
from tests.drills.recorded_objects import FOLDER, NODES, path_of, put_back
from tests.drills.traffic import DECISIVE, EXIT
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]
RECORDINGS = sorted(file.stem for file in FOLDER.glob("*.json"))


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[DrillCluster]:
    with drill_cluster(control_plane_binaries, nodes=NODES * len(RECORDINGS)) as started:
        add_groups_of_older_versions(started)
        yield started


def add_groups_of_older_versions(cluster: DrillCluster) -> None:
    """Older versions installed the CRDs of all dialects; `muster install` deletes none of them."""
    for crd in crds.load_all():
        status, answer = cluster.plane.request("POST", CRDS.path(), crd)
        assert status in (201, 409), answer
    cluster.checked("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")


def test_running_jobs_are_taken_over_and_survive_restarts(cluster: DrillCluster) -> None:
    jobs = {
        number: put_back(cluster, recording, number) for number, recording in enumerate(RECORDINGS)
    }
    before = {number: pods(cluster, number) for number in jobs}
    until(lambda: all(all_run(cluster, n) for n in jobs), timeout=60, what="recorded pods run")
    start_both(cluster, *ELECTED)
    kill_and_start_again(cluster)

    for number, recording in enumerate(RECORDINGS):
        for job in jobs[number]:
            await_condition(cluster, number, job, "Running")
        after = pods(cluster, number)
        assert after == before[number], f"{recording}: {cluster.log_tails()}"
    lives = read_history(cluster.plane.audit_log).values()
    old = [life for life in lives if life.namespace.startswith("old-")]
    assert [life.name for life in old if life.binds or life.freed < FOREVER] == []
    assert verdict.over_committed(old, cluster.gpus) == []
    for number in jobs:
        for job in jobs[number]:
            end(cluster, number, job)
            await_condition(cluster, number, job, "Succeeded")
    cluster.assert_daemons_run()


def raw_pods(cluster: DrillCluster, number: int) -> list[Raw]:
    items: list[Raw] = cluster.plane.request("GET", f"/api/v1/namespaces/old-{number}/pods")[1][
        "items"
    ]
    return items


def pods(cluster: DrillCluster, number: int) -> dict[str, tuple[str, str]]:
    """UID and node of every pod."""
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""))
        for pod in raw_pods(cluster, number)
    }


def all_run(cluster: DrillCluster, number: int) -> bool:
    return all(pod["status"]["phase"] == "Running" for pod in raw_pods(cluster, number))


def await_condition(cluster: DrillCluster, number: int, job: Raw, wanted: str) -> None:
    path = path_of(job["apiVersion"], job["kind"], f"old-{number}")

    def reached() -> bool:
        status = cluster.plane.request("GET", f"{path}/{job['metadata']['name']}")[1]["status"]
        on = {row["type"] for row in status["conditions"] if row["status"] == "True"}
        return wanted in on and "waiting" not in status

    name = f"{RECORDINGS[number]}: {job['kind']} {job['metadata']['name']} {wanted}"
    try:
        until(reached, timeout=60, every=0.1, what=name)
    except AssertionError as error:
        job = cluster.plane.request("GET", f"{path}/{job['metadata']['name']}")[1]
        raise AssertionError(f"{error}\n{job['status']}\n{cluster.log_tails()}") from error


def end(cluster: DrillCluster, number: int, job: Raw) -> None:
    """The containers that decide the job exit with 0."""
    for pod in raw_pods(cluster, number):
        labels = pod["metadata"]["labels"]
        if labels[JOB] == job["metadata"]["name"] and labels[ROLE] == DECISIVE[job["kind"]]:
            change = {"metadata": {"annotations": {EXIT: "0"}}}
            path = f"/api/v1/namespaces/old-{number}/pods/{pod['metadata']['name']}"
            assert cluster.plane.request("PATCH", path, change)[0] == 200
