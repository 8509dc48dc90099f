"""Daemon sets with the real kubectl: ours end in the same state as on Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localkube.controllers.kubectl_script import Compare, Run, run_on_both
from tests.localkube.controllers.two_clusters import NODE

if TYPE_CHECKING:
    from tests.localkube.controllers.kubectl_script import Step
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

ALL = Compare("daemonsets,pods,controllerrevisions")
SURGE = "{type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}"
ON_NODE = f"nodeName: {NODE}"
TOLERATIONS = Run("get pods -o jsonpath={.items[*].spec.tolerations}")


def daemon_set(pod: str = ON_NODE, image: str = "busybox:1", **spec: object) -> str:
    rows = "\n".join(f"  {key}: {value}" for key, value in spec.items())
    return f"""
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: w}}
spec:
{rows}
  selector: {{matchLabels: {{app: w}}}}
  template:
    metadata: {{labels: {{app: w}}}}
    spec:
      terminationGracePeriodSeconds: 0
      {pod}
      containers: [{{name: c, image: "{image}"}}]
"""


def node(name: str, labels: str = "{}", taints: str = "[]") -> str:
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {labels}, annotations: {{kwok.x-k8s.io/node: fake}}}}
spec: {{taints: {taints}}}
status: {{allocatable: {{cpu: "8", pods: "110"}}, capacity: {{cpu: "8", pods: "110"}}}}
"""


def has(field: str, value: object) -> Run:
    return Run(f"wait ds/w --for=jsonpath={{.status.{field}}}={value} --timeout=50s")


def look_again(number: int) -> Run:
    """Kubernetes does not see that a node fits no longer while the pod for it is not bound."""
    return Run(f"annotate ds w look={number} --overwrite")


ROLLED = Run("rollout status ds/w --timeout=50s", quiet=True)
ONE = has("numberAvailable", 1)

STORIES: dict[str, list[Step]] = {
    "one pod on the node": [
        Run("apply -f -", daemon_set()),
        ONE,
        ALL,
        TOLERATIONS,
        Run("get ds"),
        Run("delete pod -l app=w --now", quiet=True),
        ALL,
        Run("delete ds w"),
        ALL,
    ],
    "an update, and back": [
        Run("apply -f -", daemon_set()),
        ONE,
        Run("set image ds/w c=busybox:2"),
        ROLLED,
        ALL,
        Run("rollout history ds/w"),
        Run("rollout undo ds/w"),
        ROLLED,
        ALL,
        Run("rollout history ds/w"),
        Run("rollout history ds/w --revision=2"),
        Run("rollout restart ds/w"),
        ROLLED,
    ],
    "an update that starts the new pod first": [
        Run("apply -f -", daemon_set(updateStrategy=SURGE)),
        ONE,
        Run("set image ds/w c=busybox:2"),
        ROLLED,
        ALL,
    ],
    "an update by deletion": [
        Run("apply -f -", daemon_set(updateStrategy="{type: OnDelete}")),
        ONE,
        Run("set image ds/w c=busybox:2"),
        has("numberAvailable", 1),
        ALL,
        Run("delete pod -l app=w --now", quiet=True),
        has("updatedNumberScheduled", 1),
        ALL,
    ],
    "few old templates": [
        Run("apply -f -", daemon_set(revisionHistoryLimit=1)),
        ONE,
        *(
            step
            for version in (2, 3, 4)
            for step in (Run(f"set image ds/w c=busybox:{version}"), ROLLED)
        ),
        ALL,
    ],
    "deleted, its pods kept": [
        Run("apply -f -", daemon_set()),
        ONE,
        Run("delete ds w --cascade=orphan"),
        ALL,
        Run("apply -f -", daemon_set()),
        ONE,
        ALL,
    ],
    "pods for each node that fits": [
        Run("create -f -", node("ds-1", "{disk: ssd}")),
        Run("create -f -", node("ds-2", "{disk: ssd}", "[{key: a, effect: NoSchedule}]")),
        Run("create -f -", node("ds-3", "{disk: ssd, size: '7'}")),
        Run("apply -f -", daemon_set("nodeSelector: {disk: ssd}")),
        has("currentNumberScheduled", 2),
        ALL,
        Run("cordon ds-1"),
        Run("label node ds-3 disk-"),
        look_again(1),
        has("currentNumberScheduled", 1),
        ALL,
        Run("taint node ds-2 a-"),
        look_again(2),
        has("currentNumberScheduled", 2),
        ALL,
        Run("taint node ds-2 a=b:NoExecute"),
        look_again(3),
        has("currentNumberScheduled", 1),
        ALL,
        Run(
            "apply -f -",
            daemon_set(
                "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:"
                " {nodeSelectorTerms: [{matchExpressions:"
                " [{key: size, operator: Gt, values: ['5']}]}]}}}"
            ),
        ),
        ALL,
        Run("delete node ds-1 ds-2 ds-3"),
        look_again(4),
        ALL,
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_daemon_sets_end_as_on_kubernetes(
    story: str, both: tuple[ClusterUnderTest, ClusterUnderTest]
) -> None:
    run_on_both(both, STORIES[story])
