"""Cron jobs with the real kubectl: ours end in the same state as on Kubernetes.

The stories set the last time of the schedule back, so that a job is due at once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.localkube.controllers.kubectl_script import Compare, Run, fields, pod_end, run_on_both
from tests.localkube.controllers.two_clusters import NODE

if TYPE_CHECKING:
    from tests.localkube.controllers.kubectl_script import Step
    from tests.localkube.controllers.two_clusters import ClusterUnderTest

pytestmark = [pytest.mark.kube, pytest.mark.slow]

ALL = Compare("cronjobs,jobs")
YEARLY = "0 0 1 1 *"


def cron_job(code: int | None = 0, **spec: object) -> str:
    """A suspended cron job whose pods end with this code, or run on."""
    return f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: c}}
spec:
  schedule: "{YEARLY}"
  suspend: true
{fields(spec)}
  jobTemplate:
    metadata: {{labels: {{from: cron}}, annotations: {{a: b}}}}
    spec:
      backoffLimit: 0
      template:
        metadata: {{annotations: {pod_end(code)}}}
        spec:
          restartPolicy: Never
          nodeName: {NODE}
          containers: [{{name: c, image: "busybox:1"}}]
"""


def last(time: str) -> Run:
    status = f'{{"status":{{"lastScheduleTime":"{time}"}}}}'
    return Run(f"patch cronjob c --subresource=status --type=merge -p {status}")


def patched(spec: str) -> Run:
    return Run(f'patch cronjob c --type=merge -p {{"spec":{spec}}}')


def has(field: str, value: str = "") -> Run:
    equal = f"={value}" if value else ""
    return Run(f"wait cronjob c --for=jsonpath={{.status.{field}}}{equal} --timeout=50s")


LONG_AGO = last("2020-01-01T00:00:00Z")
RESUME = patched('{"suspend":false}')

STORIES: dict[str, list[Step]] = {
    "one that is due": [
        Run("apply -f -", cron_job()),
        LONG_AGO,
        RESUME,
        has("lastSuccessfulTime"),
        ALL,
        Run("delete cronjob c"),
        ALL,
    ],
    "one that fails": [
        Run("apply -f -", cron_job(1)),
        LONG_AGO,
        RESUME,
        has("lastScheduleTime", f"{datetime.now(UTC).year}-01-01T00:00:00Z"),
        Run("wait job -l from=cron --for=condition=failed --timeout=50s", quiet=True),
        ALL,
    ],
    "none while a job runs, then another in its place": [
        Run("apply -f -", cron_job(None, concurrencyPolicy="Forbid")),
        LONG_AGO,
        RESUME,
        has("active[0].name"),
        ALL,
        last("2021-01-01T00:00:00Z"),
        ALL,
        patched('{"concurrencyPolicy":"Replace","schedule":"@monthly"}'),
        ALL,
    ],
    "too late": [
        Run("apply -f -", cron_job(startingDeadlineSeconds=100)),
        LONG_AGO,
        RESUME,
        ALL,
    ],
    "suspended": [Run("apply -f -", cron_job()), LONG_AGO, ALL],
    "made by hand": [
        Run("create cronjob d --image=busybox:1 --schedule=@yearly -- true"),
        Run("create job now --from=cronjob/d"),
        Run("get cronjob d --no-headers"),
        ALL,
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_cron_jobs_end_as_on_kubernetes(
    story: str, both: tuple[ClusterUnderTest, ClusterUnderTest]
) -> None:
    run_on_both(both, STORIES[story])
