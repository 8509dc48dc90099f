"""A job that succeeds while a replica failed or kept restarting says so, for good."""

from __future__ import annotations

from typing import Any

import pytest

from tests.muster.operator.builders import Model, manifest, replica
from tests.muster.words import exited, failed_of_late, restarted

LOOP = {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container"}
ERROR = "KeyError: 'labels'"
CRASHED = exited(1, ERROR)
HINT = "--success-policy=AllWorkers waits for all workers."


def crashed(restarts: int, **state: Any) -> dict[str, Any]:
    """The status of a pod whose container crashed and is started again."""
    last = {"terminated": {"exitCode": 1, "reason": "Error", "message": "a\nKeyError: 'labels'\n"}}
    row = {"name": "tensorflow", "restartCount": restarts, "state": state, "lastState": last}
    return {"phase": "Running", "containerStatuses": [row]}


def started(workers: int = 3, restart: str = "OnFailure", **spec: Any) -> Model:
    model = Model(manifest(roles={"Worker": replica(workers, restart)}, **spec))
    model.settle()
    model.run()
    model.settle()
    return model


def message(model: Model) -> str:
    condition = model.status["conditions"][-1]
    assert condition["type"] == "Succeeded"
    text: str = condition["message"]
    return text


def test_a_job_whose_chief_decides_gets_no_hint_of_the_policy() -> None:
    roles = {"Chief": replica(1), "Worker": replica(1, "OnFailure")}
    model = Model(manifest(roles=roles))
    model.settle()
    model.run()
    model.settle()
    model.pod("j-worker-0", **crashed(3, waiting=LOOP))
    model.exit("j-chief-0", 0)
    model.settle()

    assert message(model).endswith(f"{CRASHED}.")


@pytest.mark.parametrize("policy", ["Running", "All", "None"])
def test_a_replica_that_waits_for_its_next_try_is_named_although_its_pod_goes(policy: str) -> None:
    model = started(runPolicy={"cleanPodPolicy": policy})
    model.pod("j-worker-1", **crashed(3, waiting=LOOP))
    model.exit("j-worker-0", 0)
    model.settle()
    text = message(model)
    crash = restarted(3, 1, ERROR)
    told = f"When the job succeeded, worker 1 had not finished: it {crash}; {HINT}"
    assert model.status["unfinished"] == {"names": ["j-worker-1"], "message": told}
    assert text.endswith(f" {told}")
    model.later(60)
    model.settle()
    model.collect()
    assert message(model) == text


def test_several_replicas_are_counted() -> None:
    model = started(4)
    for index in (1, 2, 3):
        model.pod(f"j-worker-{index}", **crashed(2, waiting=LOOP))
    model.exit("j-worker-0", 0)
    model.settle()
    assert message(model).endswith(f"'labels'; 2 other replicas failed too; {HINT}")


def test_a_replica_that_failed_in_the_same_moment_is_named() -> None:
    model = started(2, "Never")
    model.exit("j-worker-0", 0)
    model.exit("j-worker-1", 3, message="boom")
    model.settle()
    assert f"succeeded, worker 1 had failed: it {exited(3, 'boom')}; " in message(model)


def test_a_replica_that_waits_to_be_recreated_is_named() -> None:
    model = started(2)
    for _ in range(2):
        model.exit("j-worker-1", 1)
        model.settle()
        model.collect()
        model.settle()
        if "j-worker-1" in model.pods:
            model.run("j-worker-1")
            model.settle()
    model.exit("j-worker-0", 0)
    model.settle()
    assert f"worker 1 had not finished: {failed_of_late('it', 2, 1)}; " in message(model)


def test_a_replica_that_runs_after_many_restarts_is_still_running() -> None:
    model = started(2)
    model.pod("j-worker-1", **crashed(2, running={}))
    model.exit("j-worker-0", 0)
    model.settle()
    assert f"worker 1 was still running: it {restarted(2, 1, ERROR)}" in message(model)


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_replica_that_just_takes_longer_is_not_named(restarts: int) -> None:
    model = started(2)
    if restarts:
        model.pod("j-worker-1", **crashed(restarts, running={}))
    model.exit("j-worker-0", 0)
    model.settle()
    assert "unfinished" not in model.status
    assert "worker" not in message(model)


def test_a_replica_that_succeeded_after_restarts_is_not_named() -> None:
    model = started(2)
    model.exit("j-worker-1", 0, restarts=3)
    model.exit("j-worker-0", 0)
    model.settle()
    assert "unfinished" not in model.status
    assert "worker" not in message(model)
