"""A right that a daemon lacks: the same sentence on the job and in `muster doctor`, and no restart.

Both daemons run with their own service accounts on a real kube-apiserver. One right is taken from a
ClusterRole, a job is submitted, and the right is given back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubekit.objects.kinds import EVENTS, NAMESPACES, PODS
from kubekit.objects.meta import Raw
from kubekit.rights import MissingRight, Right, compact
from muster.cli import main
from muster.contract.job_kinds import JOB_KINDS
from muster.install.objects import manifests
from muster.install.objects.values import Values
from tests.controlplane.control_plane import ControlPlane
from tests.muster.operator import rbac
from tests.muster.operator.builders import replica
from tests.muster.operator.rbac import Watched, body
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]
KINDS = {kind.kind: kind for kind in JOB_KINDS}
Arena = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[Watched]:
    """Both daemons at work, and the Deployments by which doctor knows of them."""
    with rbac.running(control_plane_binaries) as started:
        rbac.lead(started)
        objects = manifests.components(Values(image="i"), rbac.NAMESPACE)
        deployments = [row for row in objects if row["kind"] == "Deployment"]
        result = started.plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(deployments))
        assert result.returncode == 0, result.stderr
        yield started


@pytest.fixture
def arena(cluster: Watched, capsys: pytest.CaptureFixture[str]) -> Arena:
    def run(*words: str) -> str:
        main.run("muster", [*words, "--kubeconfig", str(cluster.plane.kubeconfig)])
        return capsys.readouterr().out

    return run


def tf(*, workers: int = 1, gpus: int = 0, ends: bool = False, **spec: Any) -> Raw:
    worker = replica(workers)
    if gpus:
        limits = {"limits": {"nvidia.com/gpu": gpus}}
        worker["template"]["spec"]["containers"][0]["resources"] = limits
    if ends:
        worker["template"]["metadata"] = {"annotations": {"muster.dev/test-exit-code": "0"}}
    return body("TFJob", "v1", "j", {"tfReplicaSpecs": {"Worker": worker}, **spec})


def mpi() -> Raw:
    roles = {"Launcher": replica(name="mpi"), "Worker": replica(name="mpi")}
    return body("MPIJob", "v1", "j", {"mpiReplicaSpecs": roles})


def submit(plane: ControlPlane, namespace: str, job: Raw) -> None:
    status, answer = plane.request("POST", NAMESPACES.path(), {"metadata": {"name": namespace}})
    assert status == 201, answer
    status, answer = plane.request("POST", KINDS[job["kind"]].path(namespace), job)
    assert status == 201, answer


def status_of(plane: ControlPlane, namespace: str, job: Raw) -> Raw:
    _, found = plane.request("GET", KINDS[job["kind"]].path(namespace, "j"))
    status: Raw = found.get("status") or {}
    return status


def has_condition(status: Raw, wanted: str) -> bool:
    rows = status.get("conditions") or []
    return any(row["type"] == wanted and row["status"] == "True" for row in rows)


def sentences(plane: ControlPlane, namespace: str) -> list[str]:
    """The messages of the events about missing rights, on whichever object."""
    selector = "fieldSelector=reason%3DMissingRight"
    _, found = plane.request("GET", f"{EVENTS.path(namespace)}?{selector}")
    return [row["message"] for row in found["items"]]


CASES: dict[str, tuple[str, Right, Raw]] = {
    "services": ("operator", Right("create", "", "services"), tf()),
    "pods": ("operator", Right("create", "", "pods"), tf()),
    "job-status": ("operator", Right("patch", "kubeflow.org", "tfjobs/status"), tf()),
    "config-maps": ("operator", Right("create", "", "configmaps"), mpi()),
    "groups": (
        "operator",
        Right("create", "scheduling.volcano.sh", "podgroups"),
        {**tf(), "metadata": {"name": "j", "annotations": {"muster.dev/gang-dialect": "volcano"}}},
    ),
    # Asked for by an admission plugin, which names neither the right nor who lacks it.
    "finalizers": ("operator", Right("update", "kubeflow.org", "tfjobs/finalizers"), tf()),
    "binding": ("scheduler", Right("create", "", "pods/binding"), tf(workers=2)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_job_says_which_right_is_missing_and_goes_on_when_it_is_there(
    case: str, cluster: Watched, arena: Arena
) -> None:
    plane = cluster.plane
    daemon, right, job = CASES[case]
    missing = MissingRight(f"muster-{daemon}", compact([right])[0])
    with rbac.without(plane, daemon, right):
        submit(plane, case, job)
        until(lambda: sentences(plane, case), timeout=60, what="an event")
        assert sentences(plane, case) == [str(missing)]
        assert str(missing) in arena("get", "j", "-n", case, "-e")
        findings = json.loads(arena("doctor", "-o", "json"))
        found = [(row["level"], row["text"], row["fix"]) for row in findings]
        assert ("error", missing.problem, missing.fix) in found
        if case != "job-status":  # then the status cannot tell

            def explained() -> bool:
                waiting = status_of(plane, case, job).get("waiting") or {}
                return str(missing) in waiting.get("message", "")

            until(explained, timeout=60, what="the reason in the job's status")

    until(
        lambda: has_condition(status_of(plane, case, job), "Running"),
        timeout=90,
        what="the job running without a restart of the daemon",
    )
    assert "waiting" not in status_of(plane, case, job)


def test_a_launcher_whose_rights_cannot_be_granted(cluster: Watched) -> None:
    plane, job, namespace = cluster.plane, mpi(), "grants"
    with rbac.without(plane, "operator", Right("create", "", "pods/exec")):
        submit(plane, namespace, job)
        until(lambda: sentences(plane, namespace), timeout=60, what="an event")

    assert sentences(plane, namespace)[0].startswith("muster-operator may not create pods/exec; ")
    until(
        lambda: has_condition(status_of(plane, namespace, job), "Running"),
        timeout=90,
        what="the job running",
    )


def test_pods_that_may_not_be_deleted(cluster: Watched) -> None:
    plane, namespace = cluster.plane, "deletes"
    job = tf(ends=True, runPolicy={"cleanPodPolicy": "All"})
    with rbac.without(plane, "operator", Right("delete", "", "pods")):
        submit(plane, namespace, job)
        until(lambda: sentences(plane, namespace), timeout=60, what="an event")
        assert has_condition(status_of(plane, namespace, job), "Succeeded")

    def gone() -> bool:
        return not plane.request("GET", PODS.path(namespace))[1]["items"]

    until(gone, timeout=90, what="the pods being deleted")


def test_a_scheduler_that_may_not_write_why_a_pod_waits(cluster: Watched) -> None:
    plane, job, namespace = cluster.plane, tf(gpus=100), "explains"
    right = Right("patch", "", "pods/status")
    with rbac.without(plane, "scheduler", right):
        submit(plane, namespace, job)
        until(lambda: sentences(plane, namespace), timeout=60, what="an event")
    missing = MissingRight("muster-scheduler", compact([right])[0])
    assert sentences(plane, namespace) == [str(missing)]

    until(
        lambda: "waiting" in status_of(plane, namespace, job),
        timeout=90,
        what="the reason, once it can be written",
    )


def test_a_user_who_may_not_ask_for_rights_reads_the_events(
    cluster: Watched, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane, namespace, right = cluster.plane, "reads", Right("create", "", "services")
    with rbac.without(plane, "operator", right):
        submit(plane, namespace, tf())
        until(lambda: sentences(plane, namespace), timeout=60, what="an event")
        plane.kubectl("create", "serviceaccount", "reader", "-n", namespace)
        plane.kubectl(
            "create", "rolebinding", "reader", "--clusterrole=view",
            f"--serviceaccount={namespace}:reader", "-n", namespace,
        )  # fmt: skip
        config = rbac.kubeconfig_of(plane, namespace, "reader", tmp_path / "config")
        main.run("muster", ["doctor", "-n", namespace, "--kubeconfig", str(config), "-o", "json"])

    findings = json.loads(capsys.readouterr().out)
    missing = MissingRight("muster-operator", compact([right])[0])
    where = f"by an event on tfjob/j in the namespace {namespace}"
    assert {
        "check": "rights",
        "level": "warning",
        "text": f"{missing.problem}, {where}",
        "fix": missing.fix,
    } in findings
