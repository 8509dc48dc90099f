"""Endpoints and EndpointSlices: ours are the same as on Kubernetes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.localkube.controllers.kubectl_script import Compare, Run, run_on_both
from tests.localkube.controllers.two_clusters import NODE

if TYPE_CHECKING:
    from tests.localkube.controllers.kubectl_script import Step
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

ALL = Compare("endpoints,endpointslices")


def pod(name: str, port: int = 8080, **spec: str) -> str:
    rows = "\n".join(f"  {key}: {value}" for key, value in spec.items())
    return f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: web}}}}
spec:
  nodeName: {NODE}
{rows}
  containers: [{{name: c, image: "busybox:1", ports: [{{name: http, containerPort: {port}}}]}}]
"""


def service(ports: str, more: str = "") -> str:
    return f"""
apiVersion: v1
kind: Service
metadata: {{name: s, labels: {{tier: front}}}}
spec: {{clusterIP: None, selector: {{app: web}}, ports: {ports}{more}}}
"""


BY_NAME = "[{name: a, port: 80, targetPort: http}, {name: b, port: 81, targetPort: 9000}]"
# kwok makes every pod ready: this is what a failing readiness probe would write.
UNREADY = (
    "patch pod a --subresource=status -p "
    '{"status":{"conditions":[{"type":"Ready","status":"False"}]}}'
)
WITHOUT_SELECTOR = """
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {clusterIP: None, ports: [{port: 80}]}
"""

BY_HAND = """
apiVersion: v1
kind: Endpoints
metadata: {name: s, labels: {tier: back}, annotations: {a: b}}
subsets:
- addresses:
  - {ip: 198.51.100.1, hostname: one, nodeName: node-1}
  - {ip: "2001:db8::1"}
  notReadyAddresses: [{ip: 198.51.100.2}]
  ports: [{name: a, port: 80}, {name: b, port: 81, protocol: UDP, appProtocol: http}]
- addresses: [{ip: 198.51.100.3}]
  ports: [{name: a, port: 8080}]
- addresses: [{ip: 198.51.100.4}]
"""
CHANGE = [
    {"op": "remove", "path": "/subsets/0"},
    {"op": "add", "path": "/metadata/annotations/c", "value": "d"},
]

STORIES: dict[str, list[Step]] = {
    "pods come and go": [
        Run("apply -f -", service("[{port: 80, targetPort: 8080}]")),
        ALL,
        Run("apply -f -", pod("a") + pod("b")),
        ALL,
        Run("label pod a --overwrite app=other"),
        ALL,
        Run("delete pod b"),
        ALL,
        Run("delete service s"),
        ALL,
    ],
    "a service with an address": [
        Run("apply -f -", service(BY_NAME).replace("clusterIP: None, ", "") + pod("a")),
        ALL,
    ],
    "ports by name": [
        Run("apply -f -", service(BY_NAME) + pod("a") + pod("b", 9090)),
        ALL,
        Run('patch service s -p {"spec":{"ports":[{"name":"c","port":82,"appProtocol":"http"}]}}'),
        ALL,
    ],
    "no ports at all, names of their own": [
        Run("apply -f -", service("[]") + pod("a", hostname="one", subdomain="s") + pod("b")),
        ALL,
    ],
    "a pod that is not ready": [
        Run("apply -f -", service("[{port: 80}]") + pod("a") + pod("b")),
        ALL,
        Run(UNREADY),
        ALL,
        Run('patch service s -p {"spec":{"publishNotReadyAddresses":true}}'),
        ALL,
    ],
    "pods that have ended": [
        Run("apply -f -", service("[{port: 80}]") + pod("a", restartPolicy="Never") + pod("b")),
        ALL,
        Run("annotate pod a muster.dev/test-exit-code=0"),
        ALL,
    ],
    "endpoints written by hand": [
        Run("apply -f -", WITHOUT_SELECTOR),
        Run("create -f -", BY_HAND),
        Compare(ALL.kinds, count=5),
        Run("patch endpoints s --type=json -p " + json.dumps(CHANGE, separators=(",", ":"))),
        Compare(ALL.kinds, count=3),
        Run("label endpoints s endpointslice.kubernetes.io/skip-mirror=true"),
        Compare(ALL.kinds, count=1),
        Run("label endpoints s endpointslice.kubernetes.io/skip-mirror-"),
        Compare(ALL.kinds, count=3),
        Run("delete service s"),
        ALL,
    ],
    "no selector": [Run("apply -f -", WITHOUT_SELECTOR + pod("a")), ALL],
}


@pytest.mark.parametrize("story", STORIES)
def test_endpoints_are_the_same_as_on_kubernetes(
    story: str, both: tuple[ClusterUnderTest, ClusterUnderTest]
) -> None:
    run_on_both(both, STORIES[story])
