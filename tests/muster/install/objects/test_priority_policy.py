"""Who may use which PriorityClass: a user who may create pods tries, on a real kube-apiserver."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubekit.errors import UsageError
from kubekit.objects.kinds import ADMISSION_POLICIES, DEPLOYMENTS, PODS
from kubekit.objects.meta import Raw
from muster.cli import main
from muster.contract.job_kinds import TFJOBS
from muster.install.objects import manifests, priority_policy
from muster.install.objects.values import OperatorValues, Values, check
from tests.builders import container, pod
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.muster.operator.clusters import define
from tests.waiting import until

CLASSES = ("--priority-class=high=prod", "--priority-class=system-node-critical=")
SENTENCE = (
    "the PriorityClass high is not for pods of the namespace team; choose another, or ask an "
    "administrator of the cluster"
)
kube = pytest.mark.kube
slow = pytest.mark.slow


def install(plane: ControlPlane, *words: str) -> None:
    config = ("--kubeconfig", str(plane.kubeconfig), "--yes", "--no-wait")
    assert main.run("muster", ["install", *config, *words]) == 0


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster on which mallory has the role `edit` in team and in prod."""
    with ControlPlane(control_plane_binaries) as plane:
        plane.start_controller_manager()
        define(plane)
        for name in ("high", "low"):
            body = {"metadata": {"name": name}, "value": 1000}
            plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        for name in ("team", "prod"):
            plane.kubectl("create", "namespace", name)
            words = ("rolebinding", "mallory", "-n", name, "--clusterrole=edit", "--user=mallory")
            plane.kubectl("create", *words)
        install(plane, "--image=i", *CLASSES)
        until(lambda: create(plane, "team", "high")[0] == 403, what="the policy in effect")
        yield plane


def create(
    plane: ControlPlane, namespace: str, priority_class: str = "", **fields: Any
) -> tuple[int, str]:
    """The answer to a pod that is not stored, from mallory but in the cluster's namespace."""
    spec: dict[str, Any] = {"priorityClassName": priority_class, **fields}
    body = pod("p", container(), **{key: value for key, value in spec.items() if value})
    words = ["create", "--dry-run=server", "-n", namespace, "-f", "-"]
    user = [] if namespace == "kube-system" else ["--as=mallory"]
    result = plane.kubectl(*words, *user, input=json.dumps({**HEAD, **body}))
    return (201, "") if result.returncode == 0 else (403, result.stderr)


HEAD: Raw = {"apiVersion": "v1", "kind": "Pod"}


@kube
@slow
def test_a_class_is_for_the_pods_of_its_namespaces(cluster: ControlPlane) -> None:
    until(lambda: create(cluster, "prod", "high") == (201, ""), what="mallory may use it in prod")

    status, why = create(cluster, "team", "high")

    assert (status, SENTENCE in why) == (403, True), why
    assert "Forbidden" in why


@kube
@slow
@pytest.mark.parametrize("name", ["", "low"])
def test_pods_without_such_a_class_are_created_anywhere(cluster: ControlPlane, name: str) -> None:
    until(lambda: create(cluster, "team", name) == (201, ""), what="a pod of mallory")


@kube
@slow
def test_the_classes_of_the_cluster_can_be_kept_for_its_own_namespace(
    cluster: ControlPlane,
) -> None:
    assert create(cluster, "team", "system-node-critical")[0] == 403
    assert create(cluster, "prod", "system-node-critical")[0] == 403
    until(
        lambda: create(cluster, "kube-system", "system-node-critical") == (201, ""),
        what="a pod of the cluster",
    )


@kube
@slow
def test_a_number_is_not_a_way_around_it(cluster: ControlPlane) -> None:
    assert create(cluster, "team", priority=1000)[0] == 403


@kube
@slow
def test_a_deployment_is_not_a_way_around_it(cluster: ControlPlane) -> None:
    labels = {"app": "d"}
    spec = {"priorityClassName": "high", "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    made = cluster.kubectl(
        "create", "-n", "team", "-f", "-", "--as=mallory", input=json.dumps(body)
    )
    assert made.returncode == 0, made.stderr

    def refused() -> bool:
        _, found = cluster.request("GET", DEPLOYMENTS.path("team", "d"))
        rows = (found.get("status") or {}).get("conditions") or []
        return any(SENTENCE in row.get("message", "") for row in rows)

    until(refused, what="the Deployment says why it has no pods")
    assert pods(cluster) == []


def pods(plane: ControlPlane) -> list[Raw]:
    _, found = plane.request("GET", PODS.path("team"))
    return list(found["items"])


@kube
@slow
@pytest.mark.parametrize("place", ["template", "schedulingPolicy"])
def test_a_job_is_not_a_way_around_it_and_says_why_it_waits(
    cluster: ControlPlane, place: str
) -> None:
    name = place.lower()
    config = cluster.folder / "mallory.kubeconfig"
    client = cluster.authority.client("mallory", "researchers")
    config.write_text(json.dumps(kubeconfig(cluster.url, cluster.authority.certificate, client)))
    template: Raw = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    spec: Raw = {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}}
    if place == "template":
        template["spec"]["priorityClassName"] = "high"
    else:
        spec["runPolicy"] = {"schedulingPolicy": {"priorityClass": "high"}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}}
    made = cluster.kubectl(
        "create", "-n", "team", "-f", "-", "--as=mallory", input=json.dumps({**job, "spec": spec})
    )
    assert made.returncode == 0, made.stderr
    words = [sys.executable, "-m", "muster", "operator", "--kubeconfig", str(cluster.kubeconfig)]
    operator = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(partial(_says_why, cluster, name), timeout=60, what="the job says why it waits")
    finally:
        operator.terminate()
        operator.wait(30)
    assert pods(cluster) == []


def _says_why(plane: ControlPlane, name: str) -> bool:
    _, found = plane.request("GET", TFJOBS.path("team", name))
    return SENTENCE in json.dumps(found.get("status") or {})


@kube
@slow
def test_the_classes_stay_over_an_upgrade_and_go_with_a_file(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    path = ADMISSION_POLICIES[0].path(name=priority_policy.NAME)
    _, before = cluster.request("GET", path)
    install(cluster, "--image=i:2")
    assert cluster.request("GET", path)[1]["spec"] == before["spec"]

    file = tmp_path / "values.yaml"
    file.write_text("priorityClasses: null")
    install(cluster, "-f", str(file))

    assert [
        cluster.request("GET", row.path(name=priority_policy.NAME))[0] for row in ADMISSION_POLICIES
    ] == [404, 404]
    until(lambda: create(cluster, "team", "high") == (201, ""), what="the class is free for all")


def test_the_policy_is_read_as_it_was_written() -> None:
    classes = {"high": ("b", "a"), "system-node-critical": ()}

    policy, _ = priority_policy.build(classes, "muster")

    assert priority_policy.read(policy, "muster") == classes


def test_without_classes_there_is_no_policy() -> None:
    objects = manifests.components(Values(image="i"), "muster")

    assert priority_policy.NAME not in [row["metadata"]["name"] for row in objects]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (Values("i", priority_classes={"High": ("a",)}), "'High' is not the name of a PriorityCla"),
        (Values("i", priority_classes={"": ("a",)}), "'' is not the name of a PriorityClass"),
        (Values("i", priority_classes={"high": ("Team A",)}), "is not the name of a namespace"),
        (
            Values(
                "i",
                priority_classes={"high": ("a",)},
                operator=OperatorValues(watch_namespace="team"),
            ),
            "for an installation for all namespaces",
        ),
    ],
)
def test_classes_that_cannot_be_kept_are_refused(values: Values, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check(values)
