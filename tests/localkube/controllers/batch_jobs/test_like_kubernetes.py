"""Jobs with the real kubectl: ours end in the same state as on Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localkube.controllers.kubectl_script import Compare, Run, fields, pod_end, run_on_both
from tests.localkube.controllers.two_clusters import NODE

if TYPE_CHECKING:
    from tests.localkube.controllers.kubectl_script import Step
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

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


def end_index(index: int, code: int) -> Run:
    """The running pods of an index end with this code."""
    label = f"batch.kubernetes.io/job-completion-index={index}"
    running = "--field-selector=status.phase=Running"
    return Run(f"annotate pods -l {label} {running} muster.dev/test-exit-code={code}", quiet=True)


POLICY = "{rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}"
IGNORE = "{rules: [{action: Ignore, onExitCodes: {operator: In, values: [7]}}]}"
FAIL_INDEX = "{rules: [{action: FailIndex, onExitCodes: {operator: In, values: [42]}}]}"
FIRST_INDEX = "{rules: [{succeededCount: 2}, {succeededIndexes: '0'}]}"
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
    "with a limit for each index": [
        Run(
            "apply -f -",
            job(
                code=None,
                completions=3,
                parallelism=3,
                completionMode="Indexed",
                backoffLimitPerIndex=1,
            ),
        ),
        ready(3),
        ALL,
        end_index(0, 0),
        end_index(1, 3),
        end_index(2, 0),
        ALL,
        Run("wait job/j --for=jsonpath={.status.ready}=1 --timeout=60s"),
        ALL,
        end_index(1, 3),
        FAILED,
        ALL,
    ],
    "with a limit for failed indexes": [
        Run(
            "apply -f -",
            job(
                code=3,
                completions=4,
                parallelism=1,
                completionMode="Indexed",
                backoffLimitPerIndex=0,
                maxFailedIndexes=1,
            ),
        ),
        FAILED,
        ALL,
    ],
    "with an exit code that ends an index": [
        Run(
            "apply -f -",
            job(
                code=42,
                completions=2,
                parallelism=1,
                completionMode="Indexed",
                backoffLimitPerIndex=5,
                podFailurePolicy=FAIL_INDEX,
                podReplacementPolicy="Failed",
            ),
        ),
        FAILED,
        ALL,
    ],
    "complete by its success policy": [
        Run(
            "apply -f -",
            job(
                code=None,
                completions=3,
                parallelism=3,
                completionMode="Indexed",
                successPolicy=FIRST_INDEX,
            ),
        ),
        ready(3),
        end_index(0, 0),
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
