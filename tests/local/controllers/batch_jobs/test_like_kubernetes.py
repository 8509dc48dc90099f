"""Jobs with the real kubectl: ours end in the same state as on Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.controllers.kubectl_script import Compare, Run, fields, pod_end, run_on_both
from tests.local.controllers.two_clusters import NODE

if TYPE_CHECKING:
    from tests.local.controllers.kubectl_script import Step
    from tests.local.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

ALL = Compare("jobs,pods")
COMPLETE = Run("wait job/j --for=condition=complete --timeout=60s")
FAILED = Run("wait job/j --for=condition=failed --timeout=60s")


def ready(count: int) -> Run:
    """Two jobs that have not begun look the same too, so their pods are waited for."""
    return Run(f"wait job/j --for=jsonpath={{.status.ready}}={count} --timeout=60s")


def job(code: int | None = 0, **spec: object) -> str:
    """A job whose pods end with this code, or run on."""
    return f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: j}}
spec:
{fields(spec)}
  template:
    metadata: {{annotations: {pod_end(code)}}}
    spec:
      restartPolicy: Never
      nodeName: {NODE}
      containers: [{{name: c, image: "busybox:1"}}]
"""


POLICY = "{rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}"
IGNORE = "{rules: [{action: Ignore, onExitCodes: {operator: In, values: [7]}}]}"
END = "annotate pods --all muster.dev/test-exit-code=0"

STORIES: dict[str, list[Step]] = {
    "one pod": [Run("apply -f -", job()), COMPLETE, ALL, Run("delete job j"), ALL],
    "several at a time": [
        Run("apply -f -", job(completions=5, parallelism=2)),
        COMPLETE,
        ALL,
    ],
    "by index": [
        Run("apply -f -", job(completions=3, parallelism=2, completionMode="Indexed")),
        COMPLETE,
        ALL,
    ],
    "from one list of work": [
        Run("apply -f -", job(code=None, parallelism=3)),
        ready(3),
        ALL,
        Run(END, quiet=True),
        COMPLETE,
        ALL,
    ],
    "failing once too often": [Run("apply -f -", job(code=3, backoffLimit=1)), FAILED, ALL],
    "failing with others running": [
        Run("apply -f -", job(code=None, backoffLimit=0, parallelism=3, completions=3)),
        ready(3),
        ALL,
        Run("delete pods --field-selector=status.phase=Running --wait=false", quiet=True),
        FAILED,
        ALL,
    ],
    "running too long": [
        Run("apply -f -", job(code=None, activeDeadlineSeconds=2)),
        FAILED,
        ALL,
    ],
    "suspended and resumed": [
        Run("apply -f -", job(code=None, suspend="true", parallelism=2, completions=2)),
        ALL,
        Run('patch job j --type=merge -p {"spec":{"suspend":false}}'),
        ready(2),
        ALL,
        Run('patch job j --type=merge -p {"spec":{"suspend":true}}'),
        ALL,
        Run('patch job j --type=merge -p {"spec":{"suspend":false,"parallelism":1}}'),
        ALL,
    ],
    "resized": [
        Run("apply -f -", job(code=None, parallelism=4, completions=4)),
        ready(4),
        ALL,
        Run('patch job j --type=merge -p {"spec":{"parallelism":1}}'),
        ALL,
    ],
    "with an exit code that ends it": [
        Run("apply -f -", job(code=42, podFailurePolicy=POLICY, podReplacementPolicy="Failed")),
        FAILED,
        Compare("jobs"),
    ],
    "with an exit code that does not count": [
        Run(
            "apply -f -",
            job(code=7, backoffLimit=0, podFailurePolicy=IGNORE, podReplacementPolicy="Failed"),
        ),
        Compare("jobs"),
        Run("delete job j --cascade=foreground"),
    ],
    "gone when its time is over": [
        Run("apply -f -", job(ttlSecondsAfterFinished=1)),
        Run("wait job/j --for=delete --timeout=60s", quiet=True),
        ALL,
    ],
    "deleted, its pods kept": [
        Run("apply -f -", job(code=None, parallelism=2, completions=2)),
        ready(2),
        ALL,
        Run("delete job j --cascade=orphan"),
        ALL,
    ],
    "deleted in the foreground": [
        Run("apply -f -", job(code=None, parallelism=2, completions=2)),
        ready(2),
        ALL,
        Run("delete job j --cascade=foreground"),
        ALL,
    ],
    "created from flags": [
        Run("create job k --image=busybox:1 -- true"),
        Compare("jobs"),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_jobs_end_as_on_kubernetes(
    story: str, both: tuple[ClusterUnderTest, ClusterUnderTest]
) -> None:
    run_on_both(both, STORIES[story])
