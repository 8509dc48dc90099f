"""A user with few rights sees the objects they may read, and which kinds are left out."""

from __future__ import annotations

import json

import pytest

from tests.muster.cli.fake_cluster import Scene, condition, job, pod

OTHERS = {"mpijobs", "pytorchjobs", "jaxjobs"}


@pytest.fixture
def tensorflow_only(scene: Scene) -> Scene:
    """A job that runs, and one who may read no other kind than its."""
    runs = condition(job("TFJob", "runs", {"Worker": 1}), "Running")
    scene.objects = {
        "tfjobs": [runs], "mpijobs": [], "pytorchjobs": [], "jaxjobs": [], "configmaps": [],
        "pods": [pod(runs, "worker", 0, phase="Running")],
    }  # fmt: skip
    scene.forbidden = set(OTHERS)
    return scene


@pytest.mark.parametrize(
    "words", [["list"], ["top", "job"], ["get", "jobs"], ["prune", "--since", "1s", "--dry-run"]]
)
def test_kinds_that_the_user_may_not_list_are_left_out_and_named(
    tensorflow_only: Scene, words: list[str]
) -> None:
    code, out, err = tensorflow_only.arena(*words)

    assert code == 0
    assert "runs" in out or words[0] == "prune"
    assert err == (
        "not shown, because you may not list them: mpijobs, pytorchjobs, jaxjobs (-T tfjob "
        "asks for no others)\n"
    )


def test_a_chosen_type_is_never_left_out(tensorflow_only: Scene) -> None:
    assert tensorflow_only.arena("list", "-T", "tf")[::2] == (0, "")
    code, out, err = tensorflow_only.arena("list", "-T", "mpi")
    assert (code, out) == (4, "")
    assert "mpijobs" in err


def test_a_user_who_may_list_no_kind_is_forbidden_to_list_jobs(tensorflow_only: Scene) -> None:
    tensorflow_only.forbidden |= {"tfjobs"}

    code, out, err = tensorflow_only.arena("list")

    assert (code, out) == (4, "")
    assert "tfjobs" in err


@pytest.mark.parametrize("verb", ["get", "suspend", "delete", "explain"])
def test_a_job_is_found_among_the_kinds_that_the_user_may_read(
    tensorflow_only: Scene, verb: str
) -> None:
    code, _, err = tensorflow_only.arena(verb, "runs")

    assert code == 0
    assert "mpijobs" not in err


def test_a_missing_job_may_be_of_a_kind_that_the_user_may_not_read(
    tensorflow_only: Scene,
) -> None:
    code, _, err = tensorflow_only.arena("get", "other")

    assert code == 3
    assert "Not found training job other" in err
    assert "You may not read mpijobs, pytorchjobs, jaxjobs: it may be one of these." in err
    tensorflow_only.forbidden |= {"tfjobs"}
    assert tensorflow_only.arena("get", "other")[0] == 4


def test_a_missing_job_is_missing_even_if_its_record_may_not_be_read(
    tensorflow_only: Scene,
) -> None:
    tensorflow_only.forbidden |= {"configmaps"}

    assert tensorflow_only.arena("delete", "other")[0] == 3


def test_a_user_who_may_not_read_the_waiting_line_sees_only_the_reason(scene: Scene) -> None:
    waits = job("TFJob", "waits", {"Worker": 1})
    scene.objects = {"tfjobs": [waits], "pods": [pod(waits, "worker", 0, why="too big")]}
    scene.forbidden = {"configmaps"}

    for verb in ("get", "explain"):
        code, out, err = scene.arena(verb, "waits")
        assert (code, err) == (0, "")
        assert "too big" in out
        assert "Line:" not in out

    lines = scene.arena("--loglevel", "debug", "get", "waits")[2].splitlines()
    assert lines == ["places in line are not shown: you may not read kube-system/muster-line"]


@pytest.fixture
def with_board(scene: Scene) -> Scene:
    """A job with a TensorBoard that runs on a node at 10.0.0.7, on a cluster elsewhere."""
    runs = condition(job("TFJob", "runs", {"Worker": 1}), "Running")
    board = pod(runs, "tensorboard", 0, phase="Running", ip="10.0.0.7")
    board["metadata"] |= {
        "name": "runs-tensorboard-1", "ownerReferences": [],
        "labels": {"release": "runs", "role": "tensorboard"},
    }  # fmt: skip
    board["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    service = {
        "metadata": {
            "name": "runs-tensorboard", "namespace": "default",
            "labels": {"release": "runs", "role": "tensorboard"},
        },
        "spec": {"ports": [{"port": 6006, "nodePort": 30001}]},
    }  # fmt: skip
    scene.objects = {"tfjobs": [runs], "pods": [board], "services": [service], "nodes": []}
    scene.local = False
    return scene


def test_the_tensorboards_address_needs_no_right_to_list_nodes(with_board: Scene) -> None:
    with_board.forbidden = {"nodes"}
    url = "http://10.0.0.7:30001"

    assert url in with_board.arena("get", "runs")[1]
    assert with_board.arena("open", "--print", "runs")[:2] == (0, f"{url}\n")
    listed = json.loads(with_board.arena("list", "-o", "json")[1])
    assert listed[0]["tensorboard"] == url


def test_a_node_without_an_internal_ip_gives_its_other_address(with_board: Scene) -> None:
    with_board.objects["pods"][0]["status"]["hostIP"] = ""
    node = {
        "metadata": {"name": "n"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "Hostname", "address": "n.lab"}],
        },
    }
    with_board.objects["nodes"] = [node]

    assert with_board.arena("open", "--print", "runs")[1] == "http://n.lab:30001\n"


def test_a_tensorboard_without_a_known_address_is_not_reported_as_missing(
    with_board: Scene,
) -> None:
    with_board.objects["pods"][0]["status"] |= {"hostIP": "", "conditions": []}
    with_board.forbidden = {"nodes"}

    _, out, _ = with_board.arena("get", "runs")
    assert "Tensorboard:\n  Its address is not known: " in out

    code, out, err = with_board.arena("open", "--print", "runs")
    assert (code, out) == (1, "")
    assert "the address of the TensorBoard of runs is not known: " in err
    assert "--tensorboard" not in err


def test_without_the_right_to_read_services_open_is_forbidden(
    with_board: Scene,
) -> None:
    with_board.forbidden = {"services"}

    assert with_board.arena("get", "runs")[0] == 0
    code, _, err = with_board.arena("open", "--print", "runs")
    assert code == 4
    assert "services" in err


def test_status_succeeds_if_the_user_may_not_list_nodes(
    scene: Scene,
) -> None:
    scene.forbidden = {"nodes"}

    code, out, err = scene.arena("status")

    assert (code, err) == (0, "")
    assert "nodes:    you may not list them" in out
