"""`arena list` and `arena top` show every job and node in arena's columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.fake_cluster import Scene, condition, job, pod


@pytest.fixture
def busy(scene: Scene) -> Scene:
    """A job that runs, one that waits and one that is done; two nodes, one with GPUs."""
    runs = condition(job("TFJob", "runs", {"Worker": 2}, gpus=2, age=90), "Running")
    waits = job("MPIJob", "waits", {"Launcher": 1, "Worker": 2}, gpus=4, age=30)
    done = condition(job("TFJob", "done", {"Worker": 1}, age=7200), "Succeeded", age=3600)
    how: dict[str, Any] = {"phase": "Running", "node": "big", "ip": "10.0.0.2", "gpus": 2}
    pods = [pod(runs, "worker", i, **how) for i in range(2)]
    pods += [pod(waits, "worker", i, gpus=4, why="too big") for i in range(2)]

    def node(name: str, ip: str, gpus: int) -> dict[str, Any]:
        return {
            "metadata": {"name": name},
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": str(gpus)},
                "addresses": [{"type": "InternalIP", "address": ip}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    used = {"cpu": "250m", "memory": "1536Mi"}
    scene.objects = {
        "tfjobs": [done, runs],
        "mpijobs": [waits],
        "pods": pods,
        "nodes": [node("big", "10.0.0.2", 4), node("small", "10.0.0.1", 0)],
        "nodesusage": [{"metadata": {"name": "big"}, "usage": used}],
        "podsusage": [
            {
                "metadata": {"name": f"runs-worker-{i}", "namespace": "default"},
                "containers": [{"name": "c", "usage": used}],
            }
            for i in range(2)
        ],
    }
    return scene


def test_jobs_are_listed_newest_first(busy: Scene) -> None:
    assert busy.arena("list")[:2] == (
        0,
        "NAME   STATUS     TRAINER  DURATION  GPU(Requested)  GPU(Allocated)  NODE\n"
        "waits  PENDING    MPIJOB   30s       8               0               N/A\n"
        "runs   RUNNING    TFJOB    1m        4               4               10.0.0.2\n"
        "done   SUCCEEDED  TFJOB    1h        0               N/A             N/A\n",
    )


def test_all_namespaces_come_with_their_names(busy: Scene) -> None:
    lines = busy.arena("list", "-A")[1].splitlines()

    assert lines[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert lines[1].split()[:2] == ["default", "waits"]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--status", "running"], ["runs"]),
        (["--status", "RUNNING", "--status", "PENDING"], ["waits", "runs"]),
        (["--type", "mpi"], ["waits"]),
        (["-T", "tfjob"], ["runs", "done"]),
        (["-T", "PyTorch"], []),
    ],
)
def test_only_some_jobs(busy: Scene, flags: list[str], names: list[str]) -> None:
    out = busy.arena("list", "-o", "name", *flags)[1]

    assert [line.partition("/")[2] for line in out.splitlines()] == names


def test_no_jobs_is_a_header_alone(scene: Scene) -> None:
    scene.objects = {"tfjobs": [], "pods": []}

    assert scene.arena("list")[1].splitlines() == [
        "NAME  STATUS  TRAINER  DURATION  GPU(Requested)  GPU(Allocated)  NODE"
    ]


def test_unknown_types_and_states_are_refused(busy: Scene) -> None:
    assert busy.arena("list", "--type", "tfjobb")[::2] == (
        2,
        "error: no such job type: tfjobb; did you mean tfjob?\n"
        "Types: tfjob, mpijob, pytorchjob, jaxjob.\n",
    )
    assert busy.arena("list", "--status", "asleep")[0] == 2


def test_nodes_with_what_they_have_gave_and_use(busy: Scene) -> None:
    assert busy.arena("top", "node")[1] == (
        "NAME   IPADDRESS  ROLE    STATUS  GPU(Total)  GPU(Allocated)"
        "  CPU(Used/Requested/Total)  MEMORY(Used/Requested/Total)\n"
        "small  10.0.0.1   <none>  Ready   0           0             "
        "  N/A/0/8                    N/A/0/16Gi\n"
        "big    10.0.0.2   <none>  Ready   4           4             "
        "  0.25/0/8                   1.5Gi/0/16Gi\n"
        + "-" * 99
        + "\nAllocated/Total GPUs In Cluster:\n4/4 (100.0%)\n"
    )


def test_some_nodes_or_those_of_a_mode(busy: Scene) -> None:
    def names(*words: str) -> list[str]:
        _, out, _ = busy.arena("top", "node", "-o", "json", *words)
        return [row["name"] for row in json.loads(out)]

    assert names("big") == ["big"]
    assert names("-m", "n") == ["small"]
    assert names("-m", "e") == ["big"]
    assert busy.arena("top", "node", "nope")[0] == 3
    assert busy.arena("top", "node", "-m", "share")[0] == 2


def test_a_node_in_detail_lists_its_pods(busy: Scene) -> None:
    _, out, _ = busy.arena("top", "node", "-d", "big")

    assert "GPUs:     4/4 (allocated/total)" in out
    assert out.splitlines()[-1].split() == ["default", "runs-worker-1", "Running", "2", "0", "0"]


def test_jobs_by_gpus_with_what_they_use(busy: Scene) -> None:
    lines = busy.arena("top", "job")[1].splitlines()

    assert lines[0].split() == [
        "NAME", "STATUS", "TRAINER", "AGE", "GPU(Requested)", "GPU(Allocated)", "NODE",
        "CPU(Used)", "MEMORY(Used)",
    ]  # fmt: skip
    assert lines[1].split()[0] == "waits"
    assert lines[2].split()[-3:] == ["10.0.0.2", "0.5", "3Gi"]
    assert lines[-1] == "Total Allocated/Requested GPUs of Training Jobs: 4/4"


def test_one_job_by_instances(busy: Scene) -> None:
    _, out, _ = busy.arena("top", "job", "runs", "-i", "runs-worker-1")

    assert out.endswith(
        "Instances:\n"
        "  NAME           STATUS   GPU(Request)  NODE      CPU(Used)  MEMORY(Used)\n"
        "  ----           ------   ------------  ----      ---------  ------------\n"
        "  runs-worker-1  Running  2             10.0.0.2  0.25       1.5Gi\n\n"
        "GPUs:\n  Allocated/Requested GPUs of Job: 2/4\n"
    )
    assert busy.arena("top", "job", "runs", "-i", "nope")[0] == 2


def test_without_a_metrics_server_the_rest_is_still_told(busy: Scene) -> None:
    del busy.objects["nodesusage"], busy.objects["podsusage"]

    assert "N/A/0/8" in busy.arena("top", "node")[1]
    assert busy.arena("top", "job")[0] == 0


def test_data_of_all_jobs_has_the_addresses_of_their_tensorboards(busy: Scene) -> None:
    metadata = {
        "name": "runs-tensorboard",
        "namespace": "default",
        "labels": {"role": "tensorboard"},
    }
    spec = {"ports": [{"port": 6006, "nodePort": 30001}]}
    balanced = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
    busy.objects["services"] = [
        {"metadata": metadata, "spec": spec},
        {"metadata": {**metadata, "name": "done-tensorboard"}, "spec": spec, "status": balanced},
        {"metadata": {**metadata, "name": "waits-tensorboard", "labels": {}}, "spec": spec},
    ]

    _, out, _ = busy.arena("list", "-o", "json")

    assert {job["name"]: job["tensorboard"] for job in json.loads(out)} == {
        "waits": "",
        "runs": "http://127.0.0.1:30001",
        "done": "http://1.2.3.4:6006",
    }
