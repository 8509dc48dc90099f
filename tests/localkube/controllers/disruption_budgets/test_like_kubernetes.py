"""Disruption budgets with the real kubectl: ours have the same status as on Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localkube.controllers.kubectl_script import Compare, Run, run_on_both
from tests.localkube.controllers.two_clusters import NODE

if TYPE_CHECKING:
    from tests.localkube.controllers.kubectl_script import Step
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]


def workload(kind: str, replicas: int) -> str:
    return f"""
---
apiVersion: apps/v1
kind: {kind}
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      nodeName: {NODE}
      containers: [{{name: c, image: "busybox:1"}}]
"""


def budget(**spec: str) -> str:
    (side,) = (f"{name}: {value}" for name, value in spec.items())
    return f"""
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web}}
spec: {{{side}, selector: {{matchLabels: {{app: web}}}}}}
"""


JOB = f"""
---
apiVersion: batch/v1
kind: Job
metadata: {{name: web}}
spec:
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      nodeName: {NODE}
      restartPolicy: Never
      containers: [{{name: c, image: "busybox:1"}}]
"""
POD = f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: alone, labels: {{app: web}}}}
spec:
  nodeName: {NODE}
  containers: [{{name: c, image: "busybox:1"}}]
"""
BUDGET = Compare("pdb")
UNREADY = (
    "patch pod alone --subresource=status -p "
    '{"status":{"conditions":[{"type":"Ready","status":"False"}]}}'
)

STORIES: dict[str, list[Step]] = {
    "a number of pods": [
        Run("apply -f -", budget(minAvailable="1")),
        BUDGET,
        Run("apply -f -", POD),
        BUDGET,
        Run("apply -f -", workload("Deployment", 2)),
        BUDGET,
        Run("get pdb", quiet=True),
        Run("scale deploy web --replicas=1"),
        BUDGET,
        Run(UNREADY),
        BUDGET,
        Run("delete pod alone"),
        BUDGET,
    ],
    "a share of the pods that there should be": [
        Run("apply -f -", workload("Deployment", 3) + budget(maxUnavailable="34%")),
        BUDGET,
        Run("scale deploy web --replicas=6"),
        BUDGET,
        Run('patch pdb web --type=merge -p {"spec":{"maxUnavailable":0}}'),
        BUDGET,
        Run('patch pdb web --type=merge -p {"spec":{"maxUnavailable":null,"minAvailable":"50%"}}'),
        BUDGET,
        Run("delete deploy web --cascade=foreground"),
        BUDGET,
    ],
    "stateful sets and pods without an owner": [
        Run("apply -f -", workload("StatefulSet", 2) + POD + budget(maxUnavailable="1")),
        BUDGET,
        Run("delete pod alone"),
        BUDGET,
    ],
    "owners without a size": [
        Run("apply -f -", JOB + budget(maxUnavailable="1")),
        BUDGET,
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_ours_ends_like_kubernetes(
    both: tuple[ClusterUnderTest, ClusterUnderTest], story: str
) -> None:
    run_on_both(both, STORIES[story])
