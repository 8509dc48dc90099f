"""Deployments under the real kubectl: ours end in the state in which Kubernetes' own end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.workloads.places import NODE
from tests.local.workloads.stories import Look, Say, tell

if TYPE_CHECKING:
    from tests.local.workloads.places import Place
    from tests.local.workloads.stories import Step

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
ALL = Look("deploy,rs,pods")
STATUS = Say("rollout status deploy/web --timeout=40s", quiet=True)

STORIES: dict[str, list[Step]] = {
    "updated, undone, restarted": [
        Say("apply -f -", WEB),
        STATUS,
        ALL,
        Say("set image deploy/web c=busybox:2"),
        STATUS,
        ALL,
        Say("rollout history deploy/web"),
        Say("rollout undo deploy/web"),
        STATUS,
        ALL,
        Say("rollout history deploy/web"),
        Say("rollout undo deploy/web --to-revision=2"),
        STATUS,
        ALL,
        Say("rollout history deploy/web --revision=4", quiet=True),
        Say("wait deploy/web --for=condition=Available --timeout=20s"),
    ],
    "scaled": [
        Say("apply -f -", WEB),
        STATUS,
        Say("scale deploy/web --replicas=7"),
        STATUS,
        ALL,
        Say("scale deploy/web --replicas=1"),
        STATUS,
        ALL,
        Say("scale deploy/web --replicas=0"),
        STATUS,
        ALL,
    ],
    "recreated": [
        Say("apply -f -", RECREATED),
        STATUS,
        ALL,
        Say("set image deploy/web c=busybox:2"),
        STATUS,
        ALL,
    ],
    "paused": [
        Say("apply -f -", WEB),
        STATUS,
        Say("rollout pause deploy/web"),
        Look("deploy"),
        Say("set image deploy/web c=busybox:2"),
        Say("scale deploy/web --replicas=5"),
        ALL,
        Say("rollout resume deploy/web"),
        STATUS,
        ALL,
    ],
    "with a short memory": [
        Say("apply -f -", WEB + "  revisionHistoryLimit: 1\n"),
        STATUS,
        Say("set image deploy/web c=busybox:2"),
        STATUS,
        Say("set image deploy/web c=busybox:3"),
        STATUS,
        ALL,
    ],
    "stuck past its deadline": [
        Say("apply -f -", WEB),
        STATUS,
        Say(
            "patch deploy web -p "
            '{"spec":{"progressDeadlineSeconds":2,"template":{"spec":{"nodeName":"none"}}}}'
        ),
        ALL,
        Say("rollout status deploy/web --timeout=20s", quiet=True),
        Say("rollout undo deploy/web"),
        STATUS,
        ALL,
    ],
    "its pods let go and taken in": [
        Say("apply -f -", WEB),
        STATUS,
        Say("label pods -l app=web --overwrite app=other", quiet=True),
        STATUS,
        ALL,
        Say("delete deploy web --cascade=orphan"),
        Look("deploy,rs,pods"),
        Say("apply -f -", WEB),
        STATUS,
        ALL,
        Say("delete deploy web --cascade=foreground"),
        Look("deploy,rs"),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_deployments_end_as_on_kubernetes(story: str, both: tuple[Place, Place]) -> None:
    tell(both, STORIES[story])
