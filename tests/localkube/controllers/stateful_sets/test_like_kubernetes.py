"""Stateful sets with the real kubectl: ours end in the same state as on Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localkube.controllers.kubectl_script import Compare, Run, fields, run_on_both
from tests.localkube.controllers.two_clusters import NODE

if TYPE_CHECKING:
    from tests.localkube.controllers.kubectl_script import Step
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

ALL = Compare("statefulsets,pods,controllerrevisions")
CLAIMS = """
  volumeClaimTemplates:
  - metadata: {name: data, labels: {of: claim}}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: none
      resources: {requests: {storage: 1Gi}}
"""


def stateful_set(more: str = "", image: str = "busybox:1", **spec: object) -> str:
    return f"""
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: w}}
spec:
{fields(spec)}
  serviceName: s
  selector: {{matchLabels: {{app: w}}}}
  template:
    metadata: {{labels: {{app: w}}}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeName: {NODE}
      containers: [{{name: c, image: "{image}"}}]
{more}"""


def has(field: str, value: object) -> Run:
    return Run(f"wait sts/w --for=jsonpath={{.status.{field}}}={value} --timeout=50s")


ROLLED = Run("rollout status sts/w --timeout=50s", quiet=True)


def retained(deleted: str, scaled: str) -> str:
    policy = f'{{"whenDeleted":"{deleted}","whenScaled":"{scaled}"}}'
    return f'patch sts w -p {{"spec":{{"persistentVolumeClaimRetentionPolicy":{policy}}}}}'


BYSTANDER = f"""
apiVersion: v1
kind: Pod
metadata: {{name: bystander, labels: {{app: w}}}}
spec:
  nodeName: {NODE}
  containers: [{{name: c, image: "busybox:1"}}]
"""

STORIES: dict[str, list[Step]] = {
    "one after the other, more and fewer": [
        Run("apply -f -", stateful_set(replicas=2)),
        has("availableReplicas", 2),
        ALL,
        Run("scale sts/w --replicas=3"),
        has("availableReplicas", 3),
        ALL,
        Run("scale sts/w --replicas=1"),
        has("replicas", 1),
        ALL,
        Run("delete pod w-0", quiet=True),
        ALL,
        Run("delete sts w"),
        ALL,
    ],
    "all at once, with claims and other numbers": [
        Run(
            "apply -f -",
            stateful_set(CLAIMS, replicas=3, podManagementPolicy="Parallel", ordinals="{start: 5}"),
        ),
        has("availableReplicas", 3),
        ALL,
        Compare("pvc"),
        Run("scale sts/w --replicas=1"),
        has("replicas", 1),
        ALL,
        Compare("pvc"),
    ],
    "claims deleted with the set and with pods beyond its replicas": [
        Run("apply -f -", stateful_set(CLAIMS, replicas=3)),
        has("availableReplicas", 3),
        Run(retained("Delete", "Delete")),
        Compare("pvc"),
        Run("scale sts/w --replicas=2"),
        Compare("pvc"),
        Run(retained("Retain", "Delete")),
        Compare("pvc"),
        Run("scale sts/w --replicas=1"),
        Compare("pvc"),
        Run(retained("Delete", "Retain")),
        Run("scale sts/w --replicas=2"),
        has("availableReplicas", 2),
        Run("scale sts/w --replicas=1"),
        Compare("pvc"),
        Run("delete sts w"),
        Compare("pvc,sts,pods"),
    ],
    "beside a pod with its labels and another name": [
        Run("apply -f -", BYSTANDER),
        Run("apply -f -", stateful_set(replicas=1)),
        has("availableReplicas", 1),
        ALL,
        Run("delete sts w"),
        ALL,
    ],
    "an update, and back": [
        Run("apply -f -", stateful_set(replicas=2)),
        has("availableReplicas", 2),
        Run("set image sts/w c=busybox:2"),
        ROLLED,
        ALL,
        Run("rollout history sts/w"),
        Run("rollout undo sts/w"),
        ROLLED,
        ALL,
        Run("rollout history sts/w"),
    ],
    "an update of a part": [
        Run(
            "apply -f -",
            stateful_set(
                replicas=3,
                updateStrategy="{type: RollingUpdate, rollingUpdate: {partition: 2}}",
            ),
        ),
        has("availableReplicas", 3),
        Run("set image sts/w c=busybox:2"),
        has("updatedReplicas", 1),
        ALL,
        Run("delete pod w-0 w-2", quiet=True),
        has("availableReplicas", 3),
        ALL,
    ],
    "an update by deletion": [
        Run("apply -f -", stateful_set(replicas=2, updateStrategy="{type: OnDelete}")),
        has("availableReplicas", 2),
        Run("set image sts/w c=busybox:2"),
        ALL,
        Run("delete pod w-0", quiet=True),
        has("updatedReplicas", 1),
        ALL,
    ],
    "few old templates": [
        Run("apply -f -", stateful_set(replicas=1, revisionHistoryLimit=1)),
        has("availableReplicas", 1),
        *(
            step
            for version in (2, 3, 4)
            for step in (Run(f"set image sts/w c=busybox:{version}"), ROLLED)
        ),
        ALL,
    ],
    "deleted, its pods kept": [
        Run("apply -f -", stateful_set(replicas=2)),
        has("availableReplicas", 2),
        Run("delete sts w --cascade=orphan"),
        ALL,
        Run("apply -f -", stateful_set(replicas=2)),
        has("availableReplicas", 2),
        ALL,
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_stateful_sets_end_as_on_kubernetes(
    story: str, both: tuple[ClusterUnderTest, ClusterUnderTest]
) -> None:
    run_on_both(both, STORIES[story])
