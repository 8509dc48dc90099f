"""A cluster without job CRDs or without an operator is reported, with the next step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.cli import main
from muster.cli.show.progress import summary
from muster.client.jobs.waiting import JobWatch
from muster.contract.job_kinds import TFJOBS
from tests.local_server import LocalServer
from tests.muster.cli.fake_cluster import FakeCluster, Scene, condition, job, pod

NEXT = "`muster install --image IMAGE`"


@pytest.mark.parametrize(
    "words",
    [
        ["list"], ["get", "jobs"], ["get", "x"], ["logs", "x"], ["wait", "x"], ["top", "job"],
        ["prune", "--since", "1h"],
    ],
)  # fmt: skip
def test_a_cluster_without_the_job_crds_is_reported(scene: Scene, words: list[str]) -> None:
    scene.objects = {"pods": [], "configmaps": []}

    code, out, err = scene.arena(*words)

    assert (code, out) == (3, "")
    assert "the cluster does not know training jobs: their CRDs are not installed" in err
    assert NEXT in err
    assert "arena up" in err


def test_a_missing_crd_of_the_chosen_type_is_named(scene: Scene) -> None:
    scene.objects = {"tfjobs": [], "pods": []}

    code, _, err = scene.arena("list", "-T", "pytorch")

    assert code == 3
    assert "the cluster does not know pytorchjobs: their CRD is not installed" in err
    assert scene.arena("list")[0] == 0
    assert "Not found training job x" in scene.arena("get", "x")[2]


def test_missing_crds_are_reported_with_rights_in_one_namespace_only(scene: Scene) -> None:
    scene.objects, scene.cluster_wide = {"pods": []}, False

    assert "CRDs are not installed" in scene.arena("get", "x")[2]
    assert "CRDs are not installed" in scene.arena("list")[2]


def test_a_pod_is_shown_although_no_job_crd_is_installed(scene: Scene) -> None:
    lone = pod(job("TFJob", "a", {"Worker": 1}), "worker", 0)
    scene.objects = {"pods": [lone]}

    assert "a-worker-0" in scene.arena("get", "a-worker-0")[1]


@pytest.fixture(scope="module")
def bare_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("bare")) as server:
        yield server


def test_submitting_without_the_job_crds_says_what_to_do(
    bare_server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["submit", "tf", "--name=a", "--image=i", "--kubeconfig", str(bare_server.kubeconfig)]

    code = main.run("arena", [*words, "true"])

    err = capsys.readouterr().err
    assert code == 3
    assert "the cluster has no tfjobs.kubeflow.org" in err
    assert NEXT in err


UNSEEN = "no operator has accepted this job; `muster doctor` says why, `muster install` adds one"


def test_a_job_that_no_operator_has_seen_says_so(scene: Scene) -> None:
    scene.objects = {"tfjobs": [job("TFJob", "a", {"Worker": 1}, age=30)], "pods": []}

    for verb in ("get", "explain"):
        assert UNSEEN in scene.arena(verb, "a")[1], verb


def test_waiting_for_a_job_that_no_operator_has_seen_says_so() -> None:
    raw = job("TFJob", "a", {"Worker": 1})
    raw["metadata"] |= {"resourceVersion": "1", "creationTimestamp": "2020-01-01T00:00:00Z"}

    waited = JobWatch(FakeCluster({"tfjobs": [raw], "pods": []}), TFJOBS, raw).look()

    assert summary(waited) == f"a PENDING: {UNSEEN}"


def test_a_job_that_is_new_or_that_an_operator_has_seen_is_not_reported_as_unseen(
    scene: Scene,
) -> None:
    new = job("TFJob", "a", {"Worker": 1}, age=3)
    seen = condition(job("TFJob", "b", {"Worker": 1}, age=30), "Created")
    scene.objects = {"tfjobs": [new, seen], "pods": []}

    for name in "ab":
        assert "Reason:      has no pods yet" in scene.arena("get", name)[1]
