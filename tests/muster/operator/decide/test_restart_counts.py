"""A replica's restarts are the same number wherever they are shown, whether or not it has a pod."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.objects.core import PodStatus
from muster.jobs.view.summary import summarize
from tests.muster.operator.builders import Model, manifest, replica


def running(policy: str, **run_policy: Any) -> Model:
    run_policy = {"backoffLimit": 9, "cleanPodPolicy": "All", **run_policy}
    model = Model(manifest(roles={"Worker": replica(3, policy)}, runPolicy=run_policy))
    model.settle()
    model.run()
    model.settle()
    return model


def restarted(model: Model, index: int, count: int = 1, **state: Any) -> None:
    row = {"name": "tensorflow", "restartCount": count, "state": state or {"running": {}}}
    model.pod(f"j-worker-{index}", phase="Running", containerStatuses=[row])
    model.settle()


def counts(model: Model) -> dict[str, int]:
    rows = {f"{row.role}-{row.index}": row.restarts for row in model.view.instances}
    assert not rows.keys() & model.view.gone_restarts.keys()
    return rows | model.view.gone_restarts


def assert_counts(model: Model, *expected: int) -> None:
    shown = counts(model)
    assert [shown.get(f"worker-{index}", 0) for index in range(3)] == list(expected)
    assert model.view.restarts == sum(expected)


@pytest.mark.parametrize("pods", ["All", "Running", "None"])
def test_restarts_in_place_are_known_when_the_pods_of_a_finished_job_are_gone(pods: str) -> None:
    model = running("OnFailure", cleanPodPolicy=pods)
    for index in range(3):
        restarted(model, index)
    assert_counts(model, 1, 1, 1)
    logs = [replace(pod, status=PodStatus(phase="Failed")) for pod in model.pods.values()]

    model.exit("j-worker-0", 0, restarts=1)
    model.settle()
    assert_counts(model, 1, 1, 1)
    model.later(9)
    model.settle()
    model.collect()
    model.settle()

    assert_counts(model, 1, 1, 1)
    # The dashboard has a row for each pod of which only the log is left.
    gone = [pod for pod in logs if pod.metadata.name not in model.pods]
    shown = summarize(model.raw, [*model.pods.values(), *gone], model.now)
    assert [row.restarts for row in shown.instances] == [1, 1, 1]
    assert not shown.gone_restarts


def test_a_restart_that_the_end_of_the_job_prevents_is_shown_nowhere() -> None:
    model = running("OnFailure")
    restarted(model, 1, 2, waiting={"reason": "CrashLoopBackOff"})
    assert_counts(model, 0, 2, 0)

    model.exit("j-worker-0", 0)
    model.settle()
    model.later(9)
    model.settle()

    assert_counts(model, 0, 2, 0)


def test_the_restarts_of_a_deleted_pod_stay_with_its_replica() -> None:
    model = running("OnFailure")
    restarted(model, 1, 2)
    model.request_deletion("j-worker-1")
    assert_counts(model, 0, 2, 0)
    model.settle()
    assert_counts(model, 0, 2, 0)
    model.collect()
    assert_counts(model, 0, 2, 0)
    model.settle()
    model.run()
    model.settle()

    restarted(model, 1, 1)
    assert_counts(model, 0, 3, 0)


def test_replicas_without_a_pod_keep_their_counts_in_a_back_off_pause() -> None:
    model = running("ExitCode")
    for _ in range(2):
        for index in range(3):
            model.exit(f"j-worker-{index}", 137)
        model.settle()
        model.collect()
        if "j-worker-0" in model.pods:
            model.run()
            model.settle()

    assert not model.view.instances
    assert_counts(model, 2, 2, 2)


def test_a_suspended_job_keeps_the_counts_of_its_replicas() -> None:
    model = running("OnFailure")
    restarted(model, 2, 2)
    model.raw["spec"].setdefault("runPolicy", {})["suspend"] = True
    model.settle()
    model.collect()
    model.settle()
    assert_counts(model, 0, 0, 2)

    model.raw["spec"]["runPolicy"]["suspend"] = False
    model.settle()
    model.run()
    model.settle()
    restarted(model, 2, 1)
    assert_counts(model, 0, 0, 3)
