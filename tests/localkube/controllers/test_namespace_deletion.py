"""A deleted namespace deletes everything in it, and waits for finalizers."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from tests.localkube.controllers.two_clusters import NODE
from tests.waiting import until

if TYPE_CHECKING:
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

CONTENT = f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: plain}}
---
apiVersion: v1
kind: Service
metadata: {{name: s}}
spec: {{selector: {{app: web}}, ports: [{{port: 80}}], clusterIP: None}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: j}}
spec:
  template:
    spec:
      restartPolicy: Never
      nodeName: {NODE}
      containers: [{{name: c, image: "busybox:1"}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      nodeName: {NODE}
      containers: [{{name: c, image: "busybox:1"}}]
"""
HELD = """
apiVersion: v1
kind: ConfigMap
metadata: {name: held, finalizers: [example.com/hold]}
"""


def furnished(place: ClusterUnderTest, *texts: str) -> str:
    name = f"n-{secrets.token_hex(4)}"
    assert place.kubectl("create", "namespace", name).returncode == 0
    for text in texts:
        result = place.kubectl("-n", name, "create", "-f", "-", text=text)
        assert result.returncode == 0, result.stderr
    return name


def test_everything_in_a_deleted_namespace_is_deleted(
    both: tuple[ClusterUnderTest, ClusterUnderTest],
) -> None:
    for place in both:
        name = furnished(place, CONTENT)
        ready = place.kubectl("-n", name, "rollout", "status", "deploy/web", "--timeout=30s")
        assert ready.returncode == 0, ready.stderr

        result = place.kubectl("delete", "namespace", name, "--timeout=50s")

        assert (result.returncode, result.stderr) == (0, ""), place.name
        assert place.kubectl("get", "namespace", name).returncode == 1
        left = place.kubectl("get", "deploy,rs,pods,jobs,cm,svc,endpointslices", "-n", name)
        assert left.stdout == ""


def conditions(place: ClusterUnderTest, name: str) -> dict[str, tuple[str, str, str]]:
    result = place.kubectl("get", "namespace", name, "-o", "json")
    namespace_body: dict[str, Any] = json.loads(result.stdout)
    rows = namespace_body["status"].get("conditions", [])
    return {row["type"]: (row["status"], row["reason"], row["message"]) for row in rows}


def test_the_conditions_of_a_namespace_say_what_is_left(
    both: tuple[ClusterUnderTest, ClusterUnderTest],
) -> None:
    real, ours = both
    names = {place: furnished(place, HELD) for place in both}
    for place in both:
        place.kubectl("delete", "namespace", names[place], "--wait=false")

    def same() -> bool:
        theirs, own = conditions(real, names[real]), conditions(ours, names[ours])
        wanted = {kind: row for kind, row in theirs.items() if kind in own}
        return bool(own) and "NamespaceContentRemaining" in theirs and own == wanted

    until(same, timeout=20, every=0.3, what="the same conditions")
    for place in both:
        freed = place.kubectl(
            "-n", names[place], "patch", "cm", "held", "--type=merge",
            "-p", '{"metadata":{"finalizers":null}}',
        )  # fmt: skip
        assert freed.returncode == 0, freed.stderr
        gone = place.kubectl("wait", f"namespace/{names[place]}", "--for=delete", "--timeout=40s")
        assert gone.returncode == 0, place.name
