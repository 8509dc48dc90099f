"""The metrics API as `kubectl top` and k9s read it."""

from __future__ import annotations

import json

import pytest

from tests.tools.conftest import Program
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]


def test_usage_of_pods_and_nodes_is_served(kubectl: Program) -> None:
    command = ("--image=busybox:1", "--restart=Never", "--", "sleep", "600")
    kubectl.output("run", "measured", *command)
    until(
        lambda: kubectl("top", "pod", "measured", "--no-headers").stdout.startswith("measured"),
        timeout=60,
        every=0.3,
        what="the usage of the pod",
    )
    path = "/apis/metrics.k8s.io/v1beta1"
    pods = json.loads(kubectl.output("get", "--raw", f"{path}/namespaces/default/pods"))
    nodes = kubectl.output("top", "nodes", "--no-headers").splitlines()
    kubectl.output("delete", "pod", "measured", "--now", "--wait=false")

    usage = next(item for item in pods["items"] if item["metadata"]["name"] == "measured")
    assert set(usage["containers"][0]["usage"]) == {"cpu", "memory"}
    assert len(nodes) == 2
