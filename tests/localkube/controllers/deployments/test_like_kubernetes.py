"""Deployments with the real kubectl: ours end in the same state as on Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localkube.controllers.kubectl_script import Compare, Run, run_on_both
from tests.localkube.controllers.two_clusters import NODE

if TYPE_CHECKING:
    from tests.localkube.controllers.kubectl_script import Step
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

WEB = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, annotations: {{told: by-me}}}}
spec:
  replicas: 4
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      nodeName: {NODE}
      containers: [{{name: c, image: "busybox:1"}}]
"""
RECREATED = WEB.replace("replicas: 4", "replicas: 2\n  strategy: {type: Recreate}")
ALL = Compare("deploy,rs,pods")
STATUS = Run("rollout status deploy/web --timeout=40s", quiet=True)

STORIES: dict[str, list[Step]] = {
    "updated, undone, restarted": [
        Run("apply -f -", WEB),
        STATUS,
        ALL,
        Run("set image deploy/web c=busybox:2"),
        STATUS,
        ALL,
        Run("rollout history deploy/web"),
        Run("rollout undo deploy/web"),
        STATUS,
        ALL,
        Run("rollout history deploy/web"),
        Run("rollout undo deploy/web --to-revision=2"),
        STATUS,
        ALL,
        Run("rollout history deploy/web --revision=4", quiet=True),
        Run("get deploy web -o jsonpath={.metadata.generation}"),
        Run("wait deploy/web --for=condition=Available --timeout=20s"),
    ],
    "scaled": [
        Run("apply -f -", WEB),
        STATUS,
        Run("scale deploy/web --replicas=7"),
        STATUS,
        ALL,
        Run("scale deploy/web --replicas=1"),
        STATUS,
        ALL,
        Run("scale deploy/web --replicas=0"),
        STATUS,
        ALL,
    ],
    "recreated": [
        Run("apply -f -", RECREATED),
        STATUS,
        ALL,
        Run("set image deploy/web c=busybox:2"),
        STATUS,
        ALL,
    ],
    "paused": [
        Run("apply -f -", WEB),
        STATUS,
        Run("rollout pause deploy/web"),
        Compare("deploy"),
        Run("set image deploy/web c=busybox:2"),
        Run("scale deploy/web --replicas=5"),
        ALL,
        Run("rollout resume deploy/web"),
        STATUS,
        ALL,
    ],
    "with a short memory": [
        Run("apply -f -", WEB + "  revisionHistoryLimit: 1\n"),
        STATUS,
        Run("set image deploy/web c=busybox:2"),
        STATUS,
        Run("set image deploy/web c=busybox:3"),
        STATUS,
        ALL,
    ],
    "stuck past its deadline": [
        Run("apply -f -", WEB),
        STATUS,
        Run(
            "patch deploy web -p "
            '{"spec":{"progressDeadlineSeconds":2,"template":{"spec":{"nodeName":"none"}}}}'
        ),
        ALL,
        Run("rollout status deploy/web --timeout=20s", quiet=True),
        Run("rollout undo deploy/web"),
        STATUS,
        ALL,
    ],
    "its pods let go and taken in": [
        Run("apply -f -", WEB),
        STATUS,
        Run("label pods -l app=web --overwrite app=other", quiet=True),
        STATUS,
        ALL,
        Run("delete deploy web --cascade=orphan"),
        Compare("deploy,rs,pods"),
        Run("apply -f -", WEB),
        STATUS,
        ALL,
        Run("delete deploy web --cascade=foreground"),
        Compare("deploy,rs"),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_deployments_end_as_on_kubernetes(
    story: str, both: tuple[ClusterUnderTest, ClusterUnderTest]
) -> None:
    run_on_both(both, STORIES[story])
