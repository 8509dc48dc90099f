"""`arena top` shows the total, requested and used resources of nodes and jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.muster.cli.fake_cluster import Scene
from tests.muster.cli.place import Place


def test_nodes_are_shown_with_total_allocated_and_used_amounts(busy: Scene) -> None:
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


def test_nodes_are_chosen_by_name_or_gpu_mode(busy: Scene) -> None:
    def names(*words: str) -> list[str]:
        _, out, _ = busy.arena("top", "node", "-o", "json", *words)
        return [row["name"] for row in json.loads(out)]

    assert names("big") == ["big"]
    assert names("-m", "n") == ["small"]
    assert names("-m", "e") == ["big"]
    assert busy.arena("top", "node", "nope")[0] == 3
    assert busy.arena("top", "node", "-m", "share")[0] == 2


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_nodes_for_machines_have_named_amounts(
    busy: Scene, form: str, read: Callable[[str], Any]
) -> None:
    (node,) = read(busy.arena("top", "node", "big", "-o", form)[1])

    assert node["total"] == {
        "cpu": 8000, "memory": 16 << 30, "gpus": 4, "gpu_load": None, "gpu_memory": None,
    }  # fmt: skip
    assert node["used"]["cpu"] == 250
    assert [pod["requested"]["gpus"] for pod in node["instances"]] == [2, 2]


def test_a_node_in_detail_lists_its_pods(busy: Scene) -> None:
    _, out, _ = busy.arena("top", "node", "-d", "big")

    assert "GPUs:     4/4 (allocated/total)" in out
    assert out.splitlines()[-1].split() == ["default", "runs-worker-1", "Running", "2", "0", "0"]


def test_jobs_are_sorted_by_gpus_and_shown_with_used_amounts(busy: Scene) -> None:
    lines = busy.arena("top", "job")[1].splitlines()

    assert lines[0].split() == [
        "NAME", "STATUS", "TRAINER", "AGE", "GPU(Requested)", "GPU(Allocated)", "NODE",
        "CPU(Used)", "MEMORY(Used)",
    ]  # fmt: skip
    assert lines[1].split()[0] == "waits"
    assert lines[2].split()[-3:] == ["10.0.0.2", "0.5", "3Gi"]
    assert lines[-1] == "Total Allocated/Requested GPUs of Training Jobs: 4/12"


def test_one_job_shows_its_instances(busy: Scene) -> None:
    _, out, _ = busy.arena("top", "job", "runs", "-i", "runs-worker-1")

    assert out.endswith(
        "Instances:\n"
        "  NAME           STATUS   GPU(Request)  NODE      CPU(Used)  MEMORY(Used)\n"
        "  ----           ------   ------------  ----      ---------  ------------\n"
        "  runs-worker-1  Running  2             10.0.0.2  0.25       1.5Gi\n\n"
        "GPUs:\n  Allocated/Requested GPUs of Job: 2/4\n"
    )
    assert busy.arena("top", "job", "runs", "-i", "nope")[0] == 3


def test_the_use_of_gpus_is_shown_where_it_is_measured(busy: Scene) -> None:
    gpus = {"nvidia.com/gpu": "1500m", "nvidia.com/gpu-memory": "3Gi"}
    node, container = busy.objects["nodesusage"][0], busy.objects["podsusage"][1]["containers"][0]
    node["usage"] = container["usage"] = {**node["usage"], **gpus}

    nodes = busy.arena("top", "node")[1].splitlines()
    assert nodes[0].split()[-2:] == ["GPU(Used)", "GPU_MEMORY(Used)"]
    assert [line.split()[-2:] for line in nodes[1:3]] == [["N/A", "N/A"], ["1.5", "3Gi"]]
    assert "GPU use:  1.5 GPUs busy, 3Gi of their memory" in busy.arena("top", "node", "-d")[1]
    jobs = busy.arena("top", "job")[1].splitlines()
    assert jobs[2].split()[-2:] == ["1.5", "3Gi"]
    job = json.loads(busy.arena("top", "job", "runs", "-o", "json")[1])
    assert job["used"] | {"cpu": "", "memory": 0} == {
        "cpu": "", "memory": 0, "gpu": "1500m", "gpuMemory": 3 << 30,
    }  # fmt: skip


def test_without_a_metrics_server_the_other_amounts_are_shown(busy: Scene) -> None:
    del busy.objects["nodesusage"], busy.objects["podsusage"]

    assert "N/A/0/8" in busy.arena("top", "node")[1]
    assert busy.arena("top", "job")[0] == 0


def test_the_top_tables_need_no_metrics_server(place: Place) -> None:
    place.job("a")

    assert place.arena("top", "node")[0] == 0
    code, out, _ = place.arena("top", "job")
    assert code == 0
    assert out.splitlines()[1].split()[:3] == ["a", "PENDING", "TFJOB"]
    assert out.splitlines()[1].split()[-2:] == ["N/A", "N/A"]
