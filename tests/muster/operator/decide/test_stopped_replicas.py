"""A succeeded job names the workers that were stopped while they still trained."""

from __future__ import annotations

from typing import Any

import pytest

from tests.muster.operator.builders import Model, manifest, replica


def succeeded(policy: str = "Running", chief: str = "j-worker-0", **roles: int) -> Model:
    specs = {role: replica(count) for role, count in roles.items()}
    model = Model(manifest(roles=specs, runPolicy={"cleanPodPolicy": policy}))
    model.settle()
    model.run()
    model.settle()
    model.exit(chief, 0)
    model.settle()
    return model


def stopped(model: Model) -> dict[str, Any] | None:
    result: dict[str, Any] | None = model.status.get("stopped")
    return result


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_a_worker_that_is_stopped_is_named_with_the_cause_and_the_remedy(policy: str) -> None:
    model = succeeded(policy, PS=1, Worker=2)
    assert stopped(model) is None

    model.later(5)
    model.settle()
    model.collect()
    model.settle()

    record = stopped(model)
    assert record is not None
    assert record["names"] == ["j-worker-1"]
    message = record["message"]
    told, _, remedy = message.partition("; ")
    assert told == "Worker 1 was stopped because the job had succeeded (worker 0 had ended)"
    assert "--success-policy=AllWorkers" in remedy
    events = [row.message for row in model.events if row.reason == "ReplicasStopped"]
    assert events == [message]


def test_a_worker_that_ends_by_itself_is_not_named() -> None:
    model = succeeded(PS=1, Worker=2)
    model.exit("j-worker-1", 0)
    model.later(9)
    model.settle()

    assert stopped(model) is None


def test_the_policy_none_stops_no_worker() -> None:
    model = succeeded("None", Worker=2)
    model.later(9)
    model.settle()

    assert stopped(model) is None


@pytest.mark.parametrize(
    ("workers", "subject"),
    [
        (3, "Worker 1 and worker 2 were"),
        (4, "Worker 1, worker 2 and worker 3 were"),
        (9, "Worker 1, worker 2 and 6 others were"),
    ],
)
def test_several_workers_are_stopped_in_one_sentence(workers: int, subject: str) -> None:
    model = succeeded(Worker=workers)
    model.later(5)
    model.settle()

    record = stopped(model)
    assert record is not None
    assert record["message"].startswith(f"{subject} stopped because ")
    assert record["names"] == [f"j-worker-{index}" for index in range(1, workers)]


def test_a_chief_is_named_as_the_replica_that_ended() -> None:
    model = succeeded(chief="j-chief-0", Chief=1, Worker=1)
    model.later(5)
    model.settle()

    record = stopped(model)
    assert record is not None
    assert record["message"] == (
        "Worker 0 was stopped because the job had succeeded (the chief had ended)."
    )


def test_a_failed_job_stops_its_workers_without_this_sentence() -> None:
    model = Model(manifest(roles={"Worker": replica(2)}, runPolicy={"cleanPodPolicy": "All"}))
    model.settle()
    model.run()
    model.settle()
    model.exit("j-worker-0", 1)
    model.settle()

    assert "Failed" in model.conditions()
    assert not model.pods
    assert stopped(model) is None


def test_an_evaluator_that_is_stopped_is_named_too() -> None:
    model = succeeded(chief="j-chief-0", Chief=1, Evaluator=1)
    assert model.wait() == 5
    model.later(5)
    model.settle()

    record = stopped(model)
    assert record is not None
    assert record["names"] == ["j-evaluator-0"]
    events = [row.message for row in model.events if row.reason == "ReplicasStopped"]
    assert events == [record["message"]]
    assert record["message"].startswith("Evaluator 0 was stopped because the job had succeeded")
    assert model.status["replicaStatuses"]["Evaluator"] == {}
