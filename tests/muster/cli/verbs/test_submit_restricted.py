"""Jobs of `arena submit` run in namespaces that enforce the pod security standard `restricted`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubekit.errors import UsageError
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Raw
from muster.jobs.build import job_manifest
from muster.jobs.build.flags import BY_TYPE, Site, TensorFlow
from tests.controlplane.control_plane import ControlPlane
from tests.muster.cli.submit_dry_run import DryRun, Machine
from tests.muster.operator.clusters import define
from tests.waiting import until

SITE = Site(restricted=True)
NAMESPACE = {
    "metadata": {"name": "team", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
}


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    with ControlPlane(control_plane_binaries) as plane:
        define(plane)
        status, answer = plane.request("POST", "/api/v1/namespaces", NAMESPACE)
        assert status == 201, answer
        account = "/api/v1/namespaces/team/serviceaccounts"
        plane.request("POST", account, {"metadata": {"name": "default"}})
        until(partial(_is_refused, plane), what="the standard is enforced")
        yield plane


def create_pod(plane: ControlPlane, spec: Raw) -> tuple[int, str]:
    """The answer to the pod of a template, which is not stored."""
    pod = {"metadata": {"name": "p"}, "spec": {"restartPolicy": "Never", **spec}}
    status, answer = plane.request("POST", PODS.path("team") + "?dryRun=All", pod)
    return status, answer.get("message", "")


def _is_refused(plane: ControlPlane) -> bool:
    return create_pod(plane, {"containers": [{"name": "c", "image": "i"}]})[0] == 403


@pytest.fixture
def machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    monkeypatch.chdir(tmp_path)
    return Machine(tmp_path, capsys, monkeypatch)


def submit(plane: ControlPlane, machine: Machine, type_: str, *flags: str) -> tuple[DryRun, str]:
    """The objects that the server would store, and what the command says."""
    where = ("--kubeconfig", str(plane.kubeconfig), "-n", "team", "--dry-run=server", "-o", "json")
    words = ("--name=j", "--image=i:1", "--workers=2", *flags)
    code, out, err = machine.run("submit", type_, *where, *words, "python t.py")
    assert code == 0, err
    shown = json.loads(out)
    return DryRun(shown["items"] if shown["kind"] == "List" else [shown]), err


@pytest.mark.kube
@pytest.mark.slow
@pytest.mark.parametrize("type_", BY_TYPE)
def test_the_pods_of_a_job_are_admitted(plane: ControlPlane, machine: Machine, type_: str) -> None:
    code = ("--sync-mode=git", "--sync-source=https://example.com/p.git")
    data = ("--tensorboard", "--data=c:/data", "--logdir=/data/logs")
    sent, err = submit(plane, machine, type_, *code, *data)

    templates = [row["template"]["spec"] for row in sent.replicas.values()]
    boards = [
        row["spec"]["template"]["spec"] for row in sent.objects if row["kind"] == "Deployment"
    ]
    assert (bool(templates), len(boards)) == (True, 1)
    for spec in (*templates, *boards):
        assert create_pod(plane, spec) == (201, "")
    assert "pod security" not in err


@pytest.mark.kube
@pytest.mark.slow
def test_flags_for_what_the_standard_forbids_are_named(
    plane: ControlPlane, machine: Machine
) -> None:
    flags = ("--hostNetwork", "--rdma", "--data-dir=/data", "--run-as-user=0")
    sent, err = submit(plane, machine, "tf", *flags)

    assert (
        "warning: the namespace team admits only pods of the pod security standard restricted, "
        "without hostNetwork, the directory /data of the node, the user 0, the capability IPC_LOCK"
    ) in err
    status, why = create_pod(plane, sent.pod("Worker"))
    assert (status, "violates PodSecurity" in why) == (403, True)


def pod(site: Site, **flags: Any) -> Raw:
    job = job_manifest.bundle(TensorFlow(("t",), name="j", image="i", workers=2, **flags), site).job
    spec: Raw = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    return spec


def test_a_job_of_another_namespace_keeps_the_user_of_its_image() -> None:
    assert "securityContext" not in pod(Site())
    assert pod(Site(), run_as_user="7")["securityContext"] == {"runAsUser": 7}


def test_tensorboard_is_refused_with_logs_that_are_on_a_node() -> None:
    """The pods would never be created."""
    with pytest.raises(UsageError, match="--tensorboard keeps the logs") as refused:
        pod(SITE, tensorboard=True)

    assert "--data=CLAIM:/data --logdir=/data/logs" in refused.value.hint
    assert pod(SITE, tensorboard=True, data=("c:/data",), logdir="/data/logs")


def test_the_user_may_be_chosen() -> None:
    assert pod(SITE)["securityContext"]["runAsUser"] == 1000
    assert pod(SITE, run_as_user="7")["securityContext"]["runAsUser"] == 7


def test_the_container_works_where_its_user_may_write() -> None:
    """Images give root a home that nobody else may enter."""
    (main,) = pod(SITE)["containers"]
    (chosen,) = pod(SITE, working_dir="/work", env=("HOME=/work",))["containers"]

    assert main["workingDir"] == "/tmp"
    assert {"name": "HOME", "value": "/tmp"} in main["env"]
    assert chosen["workingDir"] == "/work"
    assert [row["value"] for row in chosen["env"] if row["name"] == "HOME"] == ["/work"]
