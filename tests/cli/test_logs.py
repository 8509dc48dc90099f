"""`arena logs` of a job that has no pods says why, and waits only where there is hope."""

from __future__ import annotations

from typing import Any, cast

import pytest

from muster.cli.follow import with_instances
from muster.errors import MusterError
from muster.jobs.view import View, view


def job(*conditions: dict[str, str]) -> View:
    raw: dict[str, Any] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "j", "namespace": "default", "uid": "u"},
        "status": {"conditions": list(conditions)},
    }
    return view(raw, [])


@pytest.mark.parametrize("follow", [True, False])
def test_a_job_that_failed_without_pods_is_not_waited_for(follow: bool) -> None:
    failed = job({"type": "Failed", "status": "True", "message": "no"})

    with pytest.raises(MusterError, match="the job j has failed and has no pods") as told:
        with_instances(cast(Any, None), failed, follow=follow)
    assert "--clean-task-policy=None" in told.value.hint


def test_without_follow_a_job_that_has_no_pods_yet_is_not_waited_for() -> None:
    with pytest.raises(MusterError, match="has no instances yet"):
        with_instances(cast(Any, None), job(), follow=False)
