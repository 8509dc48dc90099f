"""`arena list` shows every job in arena's columns."""

from __future__ import annotations

import json

import pytest

from tests.muster.cli.fake_cluster import Scene


def test_jobs_are_listed_newest_first(busy: Scene) -> None:
    assert busy.arena("list")[:2] == (
        0,
        "NAME   STATUS     TRAINER  DURATION  GPU(Requested)  GPU(Allocated)  NODE\n"
        "waits  PENDING    MPIJOB   30s       8               0               N/A\n"
        "runs   RUNNING    TFJOB    1m        4               4               10.0.0.2\n"
        "done   SUCCEEDED  TFJOB    1h        0               N/A             N/A\n",
    )


def test_all_namespaces_adds_a_column(busy: Scene) -> None:
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
def test_jobs_are_filtered_by_status_and_type(
    busy: Scene, flags: list[str], names: list[str]
) -> None:
    out = busy.arena("list", "-o", "name", *flags)[1]

    assert [line.partition("/")[2] for line in out.splitlines()] == names


def test_without_jobs_the_table_is_a_header_alone(scene: Scene) -> None:
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
