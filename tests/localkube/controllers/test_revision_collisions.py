"""A new revision whose name is taken by another template: the same as on Kubernetes."""

from __future__ import annotations

import json
import secrets
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.localkube.controllers.kubectl_script import agree
from tests.waiting import until

if TYPE_CHECKING:
    from tests.localkube.controllers.kubectl_script import Raw
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

SET = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: s}}
spec:
  selector: {{matchLabels: {{app: s}}}}
  template:
    metadata: {{labels: {{app: s}}}}
    spec:
      nodeSelector: {{none: none}}
      containers: [{{name: c, image: "busybox:1"}}]
"""
OTHER = """
apiVersion: apps/v1
kind: ControllerRevision
metadata: {{name: {name}}}
data: {{other: true}}
revision: 1
"""


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_the_next_name_is_taken_and_the_collision_is_counted(
    kind: str, both: tuple[ClusterUnderTest, ClusterUnderTest]
) -> None:
    namespace = f"w-{secrets.token_hex(4)}"
    for place in both:
        place.kubectl("create", "namespace", namespace)
        _take_name(place, namespace, kind)

    seen = agree(both, partial(_seen, namespace=namespace, kind=kind), kind, count=2)

    assert [one["collisions"] for one in seen] == [1, 1]
    for place in both:
        place.kubectl("delete", "namespace", namespace, "--wait=false")


def _take_name(place: ClusterUnderTest, namespace: str, kind: str) -> None:
    """Create a set whose revision has the name of another revision."""

    def kubectl(*words: str, text: str | None = None) -> str:
        result = place.kubectl("-n", namespace, *words, text=text)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def names() -> list[str]:
        found = kubectl("get", "controllerrevisions", "-o", "jsonpath={.items[*].metadata.name}")
        return found.split()

    kubectl("apply", "-f", "-", text=SET.format(kind=kind))
    name = until(names, what="the first revision")[0]
    kubectl("delete", kind, "s")
    until(lambda: not names(), what="the end of the first revision")
    kubectl("create", "-f", "-", text=OTHER.format(name=name))
    kubectl("apply", "-f", "-", text=SET.format(kind=kind))


def _seen(place: ClusterUnderTest, namespace: str, kind: str) -> list[Raw]:
    """The revisions, each with the collisions that their set has counted."""
    result = place.kubectl("-n", namespace, "get", f"{kind},controllerrevisions", "-o", "json")
    items = json.loads(result.stdout)["items"]
    collisions = [one["status"].get("collisionCount") for one in items if one["kind"] == kind]
    revisions = [one for one in items if one["kind"] == "ControllerRevision"]
    return sorted(
        (
            {"owned": "ownerReferences" in one["metadata"], "collisions": collisions[0]}
            for one in revisions
        ),
        key=str,
    )
