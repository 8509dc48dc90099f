"""Jobs under the real kubectl: ours end in the state in which Kubernetes' own end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.workloads.places import NODE
from tests.local.workloads.stories import Look, Say, tell

if TYPE_CHECKING:
    from tests.local.workloads.places import Place
    from tests.local.workloads.stories import Step

pytestmark = [pytest.mark.kube, pytest.mark.slow]

ALL = Look("jobs,pods")
COMPLETE = Say("wait job/j --for=condition=complete --timeout=60s")
FAILED = Say("wait job/j --for=condition=failed --timeout=60s")


def ready(count: int) -> Say:
    """Two jobs that have not begun look the same too, so their pods are waited for."""
    return Say(f"wait job/j --for=jsonpath={{.status.ready}}={count} --timeout=60s")


def job(code: int | None = 0, **spec: object) -> str:
    """A job whose pods end with this code, or run on."""
    rows = "\n".join(f"  {key}: {value}" for key, value in spec.items())
    ends = "{}" if code is None else f'{{muster.dev/test-exit-code: "{code}"}}'
    return f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: j}}
spec:
{rows}
  template:
    metadata: {{annotations: {ends}}}
    spec:
      restartPolicy: Never
      nodeName: {NODE}
      containers: [{{name: c, image: "busybox:1"}}]
"""


POLICY = "{rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}"
IGNORE = "{rules: [{action: Ignore, onExitCodes: {operator: In, values: [7]}}]}"
END = "annotate pods --all muster.dev/test-exit-code=0"

STORIES: dict[str, list[Step]] = {
    "one pod": [Say("apply -f -", job()), COMPLETE, ALL, Say("delete job j"), ALL],
    "several at a time": [
        Say("apply -f -", job(completions=5, parallelism=2)),
        COMPLETE,
        ALL,
    ],
    "by index": [
        Say("apply -f -", job(completions=3, parallelism=2, completionMode="Indexed")),
        COMPLETE,
        ALL,
    ],
    "from one list of work": [
        Say("apply -f -", job(code=None, parallelism=3)),
        ready(3),
        ALL,
        Say(END, quiet=True),
        COMPLETE,
        ALL,
    ],
    "failing once too often": [Say("apply -f -", job(code=3, backoffLimit=1)), FAILED, ALL],
    "failing with others running": [
        Say("apply -f -", job(code=None, backoffLimit=0, parallelism=3, completions=3)),
        ready(3),
        ALL,
        Say("delete pods --field-selector=status.phase=Running --wait=false", quiet=True),
        FAILED,
        ALL,
    ],
    "running too long": [
        Say("apply -f -", job(code=None, activeDeadlineSeconds=2)),
        FAILED,
        ALL,
    ],
    "suspended and resumed": [
        Say("apply -f -", job(code=None, suspend="true", parallelism=2, completions=2)),
        ALL,
        Say('patch job j --type=merge -p {"spec":{"suspend":false}}'),
        ready(2),
        ALL,
        Say('patch job j --type=merge -p {"spec":{"suspend":true}}'),
        ALL,
        Say('patch job j --type=merge -p {"spec":{"suspend":false,"parallelism":1}}'),
        ALL,
    ],
    "resized": [
        Say("apply -f -", job(code=None, parallelism=4, completions=4)),
        ready(4),
        ALL,
        Say('patch job j --type=merge -p {"spec":{"parallelism":1}}'),
        ALL,
    ],
    "with an exit code that ends it": [
        Say("apply -f -", job(code=42, podFailurePolicy=POLICY, podReplacementPolicy="Failed")),
        FAILED,
        Look("jobs"),
    ],
    "with an exit code that does not count": [
        Say(
            "apply -f -",
            job(code=7, backoffLimit=0, podFailurePolicy=IGNORE, podReplacementPolicy="Failed"),
        ),
        Look("jobs"),
        Say("delete job j --cascade=foreground"),
    ],
    "gone when its time is over": [
        Say("apply -f -", job(ttlSecondsAfterFinished=1)),
        Say("wait job/j --for=delete --timeout=60s", quiet=True),
        ALL,
    ],
    "deleted, its pods kept": [
        Say("apply -f -", job(code=None, parallelism=2, completions=2)),
        ready(2),
        ALL,
        Say("delete job j --cascade=orphan"),
        ALL,
    ],
    "deleted in the foreground": [
        Say("apply -f -", job(code=None, parallelism=2, completions=2)),
        ready(2),
        ALL,
        Say("delete job j --cascade=foreground"),
        ALL,
    ],
    "created from flags": [
        Say("create job k --image=busybox:1 -- true"),
        Look("jobs"),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_jobs_end_as_on_kubernetes(story: str, both: tuple[Place, Place]) -> None:
    tell(both, STORIES[story])
