"""`kubectl apply -k`: overlays with generated names, patches and pruning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.conftest import Program

pytestmark = [pytest.mark.kube, pytest.mark.slow]
OVERLAYS = Path(__file__).parent / "kustomize" / "overlays"
IN = ("-n", "kustomized")


def test_overlays_are_applied_diffed_and_deleted(kubectl: Program) -> None:
    kubectl.output("create", "namespace", "kustomized")
    for colour in ("blue", "green"):
        kubectl.output("apply", "-k", str(OVERLAYS / colour))
    ready = "jsonpath={.status.readyReplicas}=2"
    kubectl.output(*IN, "wait", "deployment/green-page", f"--for={ready}", "--timeout=40s")
    again = kubectl.output("apply", "-k", str(OVERLAYS / "green"))
    server_side = ("--server-side", "--force-conflicts", "-k", str(OVERLAYS / "green"))
    applied = kubectl.output("apply", *server_side)
    difference = kubectl("diff", "-k", str(OVERLAYS / "blue"))
    pods = kubectl.json(*IN, "get", "pods", "-l", "app=page,colour=green")["items"]
    environment = kubectl.output(*IN, "exec", "deploy/green-page", "--", "printenv", "colour")
    kubectl.output("delete", "-k", str(OVERLAYS / "blue"))
    left = kubectl.output(*IN, "get", "deployments,services,cm,secrets", "-o", "name").split()

    assert [line.split()[-1] for line in again.splitlines()] == ["unchanged"] * 4
    assert all(line.endswith("serverside-applied") for line in applied.splitlines())
    assert (difference.returncode, difference.stdout) == (0, "")
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["busybox:1"] * 2
    assert environment == "green\n"
    assert not any("blue" in name for name in left)
    assert len(left) == 4 + ("configmap/kube-root-ca.crt" in left)
    kubectl.output("delete", "namespace", "kustomized", "--wait=false")
