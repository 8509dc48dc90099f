"""Endpoints and EndpointSlices: ours are what Kubernetes' own controllers write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.workloads.places import NODE
from tests.local.workloads.stories import Look, Say, tell

if TYPE_CHECKING:
    from tests.local.workloads.places import Place
    from tests.local.workloads.stories import Step

pytestmark = [pytest.mark.kube, pytest.mark.slow]

ALL = Look("endpoints,endpointslices")


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

STORIES: dict[str, list[Step]] = {
    "pods come and go": [
        Say("apply -f -", service("[{port: 80, targetPort: 8080}]")),
        ALL,
        Say("apply -f -", pod("a") + pod("b")),
        ALL,
        Say("label pod a --overwrite app=other"),
        ALL,
        Say("delete pod b"),
        ALL,
        Say("delete service s"),
        ALL,
    ],
    "ports by name": [
        Say("apply -f -", service(BY_NAME) + pod("a") + pod("b", 9090)),
        ALL,
        Say('patch service s -p {"spec":{"ports":[{"name":"c","port":82,"appProtocol":"http"}]}}'),
        ALL,
    ],
    "no ports at all, names of their own": [
        Say("apply -f -", service("[]") + pod("a", hostname="one", subdomain="s") + pod("b")),
        ALL,
    ],
    "a pod that is not ready": [
        Say("apply -f -", service("[{port: 80}]") + pod("a") + pod("b")),
        ALL,
        Say(UNREADY),
        ALL,
        Say('patch service s -p {"spec":{"publishNotReadyAddresses":true}}'),
        ALL,
    ],
    "pods that have ended": [
        Say("apply -f -", service("[{port: 80}]") + pod("a", restartPolicy="Never") + pod("b")),
        ALL,
        Say("annotate pod a muster.dev/test-exit-code=0"),
        ALL,
    ],
    "no selector": [Say("apply -f -", WITHOUT_SELECTOR + pod("a")), ALL],
}


@pytest.mark.parametrize("story", STORIES)
def test_endpoints_are_those_of_kubernetes(story: str, both: tuple[Place, Place]) -> None:
    tell(both, STORIES[story])
