"""Nodes without heartbeats and deleted nodes: treated as by Kubernetes' own controllers.

Both sides have a short grace; kwok does not write heartbeats here.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.objects.meta import timestamp
from localkube.controllers.controller_manager import Settings
from tests.controlplane.control_plane import ControlPlane
from tests.localkube.controllers import two_clusters
from tests.localkube.controllers.kubectl_script import agree
from tests.localkube.controllers.normalise import normalised
from tests.localkube.controllers.two_clusters import ClusterUnderTest
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kube, pytest.mark.slow]

Raw = dict[str, Any]

AUTHORITY = "configmap/kube-root-ca.crt"
NODE = """
apiVersion: v1
kind: Node
metadata: {name: far}
---
apiVersion: v1
kind: Node
metadata: {name: near}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: near, namespace: kube-node-lease}
spec: {holderIdentity: near}
"""
READY = json.dumps(
    {
        "status": {
            "conditions": [
                {"type": kind, "status": status, "reason": "Said", "message": "said"}
                for kind, status in [
                    ("Ready", "True"),
                    ("MemoryPressure", "False"),
                    ("DiskPressure", "False"),
                    ("PIDPressure", "False"),
                ]
            ]
        }
    }
)
RUNNING = json.dumps(
    {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
)


def pod(name: str, tolerations: str) -> str:
    return f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: far
  tolerations: {tolerations}
  containers: [{{name: c, image: "busybox:1"}}]
"""


BRIEF = (
    "[{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute,"
    " tolerationSeconds: 1}]"
)
FOREVER = "[{operator: Exists}]"
PODS = pod("brief", BRIEF) + pod("patient", FOREVER)


@pytest.fixture(scope="module")
def impatient(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClusterUnderTest, ClusterUnderTest]]:
    folder = tmp_path_factory.mktemp("impatient")
    ours = Settings(grace=6, missing_node_grace=2)
    with (
        ControlPlane(control_plane_binaries) as plane,
        two_clusters.controlled(control_plane_binaries, folder, ours) as local,
    ):
        plane.start_controller_manager("--node-monitor-grace-period=6s", "--node-monitor-period=1s")
        yield ClusterUnderTest("kubernetes", control_plane_binaries, plane.kubeconfig), local


def kubectl(place: ClusterUnderTest, *words: str, text: str | None = None) -> str:
    result = place.kubectl(*words, text=text)
    assert result.returncode == 0, f"{place.name}: {words}: {result.stderr}"
    return result.stdout


def seen(place: ClusterUnderTest) -> list[Raw]:
    beat(place)
    node = json.loads(kubectl(place, "get", "node", "far", "-o", "json"))
    pods = json.loads(kubectl(place, "get", "pods", "-o", "json"))["items"]
    shown = [
        {"taints": node["spec"].get("taints"), "conditions": node["status"].get("conditions")},
        *(
            {
                "name": pod["metadata"]["name"],
                "terminating": "deletionTimestamp" in pod["metadata"],
                "conditions": pod["status"].get("conditions"),
                "phase": pod["status"]["phase"],
            }
            for pod in pods
        ),
    ]
    return normalised(shown, {}, "none")


def beat(place: ClusterUnderTest) -> None:
    """A heartbeat of the other node: if no node is ready, no pod is evicted."""
    now = timestamp(datetime.now(UTC), micro=True)
    body = {"spec": {"holderIdentity": "near", "renewTime": now}}
    place.kubectl(
        "-n", "kube-node-lease", "patch", "lease", "near", "--type=merge", "-p", json.dumps(body)
    )
    place.kubectl("patch", "node", "near", "--subresource=status", "-p", READY)


def leaving(place: ClusterUnderTest) -> bool:
    return any(row.get("terminating") for row in seen(place))


def revived(place: ClusterUnderTest) -> bool:
    """Whether nothing of the silence is left, once the node speaks again."""
    beat(place)
    kubectl(place, "patch", "node", "far", "--subresource=status", "-p", READY)
    return "unreachable" not in kubectl(place, "get", "node", "far", "-o", "jsonpath={.spec}")


def test_a_node_without_heartbeats_is_unreachable_and_its_pods_are_evicted(
    impatient: tuple[ClusterUnderTest, ClusterUnderTest],
) -> None:
    for place in impatient:
        kubectl(place, "create", "-f", "-", text=NODE)
        kubectl(place, "patch", "node", "far", "near", "--subresource=status", "-p", READY)
        kubectl(place, "create", "-f", "-", text=PODS)
        for name in ("brief", "patient"):
            kubectl(place, "patch", "pod", name, "--subresource=status", "-p", RUNNING)
    until(lambda: all(map(leaving, impatient)), timeout=90, every=0.3, what="an eviction")
    agree(impatient, seen, "node and pods")

    ours = impatient[1]
    until(partial(revived, ours), every=0.3, what="no taints after a sign of life")
    kubectl(ours, "delete", "node", "far")
    until(
        lambda: kubectl(ours, "get", "pods", "-o", "name") == "",
        timeout=20,
        every=0.2,
        what="pods of a node that is no more removed",
    )


def test_every_namespace_has_the_authority_and_an_account(
    impatient: tuple[ClusterUnderTest, ClusterUnderTest],
) -> None:
    maps: list[Raw] = []
    for place in impatient:
        kubectl(place, "create", "namespace", "fresh")

        def read(what: str, place: ClusterUnderTest = place) -> str:
            return place.kubectl("-n", "fresh", "get", what, "-o", "json").stdout

        maps.append(json.loads(until(lambda: read(AUTHORITY), what=AUTHORITY)))
        until(lambda: read("serviceaccount/default"), what="the default account")

    assert maps[0]["metadata"]["annotations"] == maps[1]["metadata"]["annotations"]
    assert [list(one["data"]) for one in maps] == [["ca.crt"], ["ca.crt"]]
    kubectl(impatient[1], "-n", "fresh", "patch", AUTHORITY, "-p", '{"data":{"ca.crt":"x"}}')
    mended = maps[1]["data"]
    until(lambda: json.loads(read(AUTHORITY))["data"] == mended, what="the root_ca put right")
