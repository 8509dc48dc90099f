"""Helm installs, upgrades, rolls back, tests and removes charts of the usual form."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.tools.conftest import Program
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]
CHARTS = Path(__file__).parent / "charts"
WAIT = ("--wait", "--timeout", "40s")


@pytest.fixture(scope="module")
def charts(helm: Path, kubeconfig: Path) -> Program:
    """Helm on the cluster."""
    return Program(helm, kubeconfig)


def revisions(charts: Program, release: str) -> list[tuple[int, str]]:
    return [(row["revision"], row["status"]) for row in charts.json("history", release)]


def test_a_web_server_is_installed_upgraded_rolled_back_tested_and_removed(
    charts: Program, kubectl: Program
) -> None:
    chart = str(CHARTS / "web")
    installed = charts.json("install", "shop", chart, *WAIT)
    more = ["--set", "message=changed", "--set", "replicaCount=2"]
    charts.output("upgrade", "shop", chart, *more, *WAIT)
    deployment = kubectl.json("get", "deployment", "shop-web")
    tested = charts.output("test", "shop", "--logs", "--timeout", "40s")
    charts.output("rollback", "shop", "1", *WAIT)
    rolled_back = kubectl.json("get", "configmap", "shop-web")["data"]["index.html"]

    assert installed["info"]["status"] == "deployed"
    assert "http://shop-web:8080" in installed["info"]["notes"]
    assert deployment["status"]["readyReplicas"] == 2
    assert deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert "Phase:          Succeeded" in tested
    assert "changed" in tested.splitlines()  # the page, in the log of the test
    assert rolled_back == "hello\n"
    assert revisions(charts, "shop") == [
        (1, "superseded"),
        (2, "superseded"),
        (3, "deployed"),
    ]
    assert [row["name"] for row in charts.json("list", "--filter", "^shop$")] == ["shop"]
    assert charts.json("status", "shop")["version"] == 3
    assert "kind: ServiceAccount" in charts.output("get", "manifest", "shop")
    assert charts.json("get", "values", "shop", "--revision", "2") == {
        "message": "changed",
        "replicaCount": 2,
    }

    charts.output("uninstall", "shop", *WAIT)
    left = kubectl.json("get", "all,cm,sa", "-l", "app.kubernetes.io/instance=shop")["items"]
    assert [item["kind"] for item in left if item["kind"] != "Pod"] == []


def test_replicas_with_volumes_keep_their_data_over_upgrades(
    charts: Program, kubectl: Program
) -> None:
    chart = str(CHARTS / "store")
    charts.output("install", "kept", chart, *WAIT)
    before = secret(kubectl)
    # An upgrade as CI runs it: install or upgrade, and go back if it fails.
    words = ["--install", "--atomic", "--set", "message=second,replicas=2"]
    charts.output("upgrade", "kept", chart, *words, *WAIT)
    starts = kubectl.output("exec", "kept-0", "--", "cat", "/data/starts")
    claims = kubectl.json("get", "pvc", "-l", "app.kubernetes.io/instance=kept")["items"]
    same = secret(kubectl)
    charts.output("uninstall", "kept", *WAIT)
    left = kubectl.output("get", "pvc", "-l", "app.kubernetes.io/instance=kept", "-o", "name")
    kubectl.output("delete", "pvc", "-l", "app.kubernetes.io/instance=kept")

    assert starts == "first\nsecond\n"
    assert {claim["status"]["phase"] for claim in claims} == {"Bound"}
    assert before == same
    assert left.split() == [f"persistentvolumeclaim/data-kept-{n}" for n in (0, 1)]


def secret(kubectl: Program) -> bytes:
    found: dict[str, Any] = kubectl.json("get", "secret", "kept")
    return base64.b64decode(found["data"]["password"])


def test_hooks_run_in_order_and_definitions_come_first(charts: Program, kubectl: Program) -> None:
    chart = str(CHARTS / "batch")
    wait = (*WAIT, "--wait-for-jobs")
    charts.output("install", "night", chart, *wait)
    hooks = kubectl.output("get", "jobs", "-o", "name").split()
    first = kubectl.output("logs", "job/night-post-install")
    recipe = kubectl.json("get", "recipe", "night")["spec"]
    tested = charts.json("status", "night") if charts("test", "night").returncode == 0 else {}
    charts.output("upgrade", "night", chart, "--set", "steps=2", *wait)
    second = kubectl.output("logs", "job/night-pre-upgrade")
    steps = kubectl.output("get", "recipe", "night").splitlines()[1].split()[:2]
    charts.output("uninstall", "night", *WAIT)

    assert {"job.batch/night-post-install", "job.batch/night-r1"} <= set(hooks)
    assert "job.batch/night-pre-install" not in hooks  # deleted, because it succeeded
    assert first == "post-install of night revision 1\n"
    assert recipe == {"steps": 1, "kind": "plain"}
    assert tested["info"]["status"] == "deployed"
    assert second == "pre-upgrade of night revision 2\n"
    assert steps == ["night", "2"]
    assert "NotFound" in kubectl("get", "job", "night-pre-delete").stderr
    # Helm never removes definitions.
    assert kubectl.output("delete", "crd", "recipes.example.org").endswith("deleted\n")


def test_an_upgrade_that_fails_leaves_the_former_revision(
    charts: Program, kubectl: Program
) -> None:
    chart = str(CHARTS / "web")
    quick = ("--wait", "--timeout", "3s")
    charts.output("install", "firm", chart, *WAIT)
    never_ready = ["--set", "service.port=1000000"]
    refused = charts("upgrade", "firm", chart, *never_ready, *quick)
    slow = charts("upgrade", "firm", chart, "--set", "nodeSelector.disk=none", "--atomic", *quick)
    history = revisions(charts, "firm")
    charts.output("uninstall", "firm")
    until(lambda: "firm" not in kubectl.output("get", "deployments"), what="the end of firm")

    assert refused.returncode == slow.returncode == 1
    assert "must be between 1 and 65535" in refused.stderr
    assert "has been rolled back" in slow.stderr
    assert history[-1][1] == "deployed"
