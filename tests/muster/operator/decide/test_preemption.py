"""A job whose pods make room for a gang of higher priority says so until it runs again."""

from __future__ import annotations

import pytest

from kubekit.objects.conditions import disruption_condition, preemption_message
from tests.muster.operator.builders import Model, manifest, replica

BY_BIG = "preempted by ns/big, which has a higher priority"
ROOM = "0 of 2 workers fit; short 2 cpu"


def running(gang: str = "replica") -> Model:
    raw = manifest(roles={"Worker": replica(2)})
    raw["metadata"]["annotations"] = {"muster.dev/restart": gang}
    model = Model(raw)
    model.settle()
    model.run()
    model.settle()
    return model


def preempt(model: Model, *pods: str, message: str = preemption_message("ns/big")) -> None:
    """Mark and delete these pods, as the scheduler does."""
    condition = disruption_condition("PreemptionByScheduler", message, model.now)
    for name in pods:
        model.run(name, conditions=[condition])
        model.request_deletion(name)


def wait_for_room(model: Model) -> None:
    row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ROOM}
    for name, pod in model.pods.items():
        if pod.status.phase == "Pending":
            model.pod(name, phase="Pending", conditions=[row])
    model.settle()


@pytest.mark.parametrize("gang", ["replica", "gang"])
def test_a_preempted_job_names_the_gang_that_preempted_it(gang: str) -> None:
    model = running(gang)
    preempt(model, "j-worker-0", "j-worker-1")
    model.settle()

    assert model.conditions()[-1] == "Restarting"
    assert model.status["restart"]["preempted"] == BY_BIG
    message = model.status["conditions"][-1]["message"]
    assert BY_BIG in message
    assert [e.message for e in model.events if e.reason == "TFJobRestarting"] == [message]
    assert "restarts" not in model.status

    wait_for_room(model)
    assert model.view.reason == f"{BY_BIG}; {ROOM}"


def test_a_job_that_runs_again_was_preempted_no_longer() -> None:
    model = running()
    preempt(model, "j-worker-0", "j-worker-1")
    model.settle()
    model.run("j-worker-0")
    model.settle()
    assert model.status["preempted"] == BY_BIG

    model.run()
    model.settle()

    assert model.conditions()[-1] == "Running"
    assert "preempted" not in model.status
    assert model.view.reason == ""


def test_a_job_that_loses_some_pods_to_another_says_so_while_they_wait() -> None:
    model = running()
    preempt(model, "j-worker-1")
    model.settle()
    wait_for_room(model)

    assert model.view.reason == f"{BY_BIG}; worker 1: {ROOM}"


def test_pods_that_are_gone_before_the_job_is_reconciled_are_not_forgotten() -> None:
    model = running()
    model.pods.clear()
    model.extra["preemption"] = BY_BIG
    model.step()
    model.extra["preemption"] = ""
    model.settle()

    assert f"it was {BY_BIG}" in model.status["conditions"][-1]["message"]


def test_a_scheduler_that_names_nobody_preempted_for_a_pod_of_higher_priority() -> None:
    model = running()
    text = "default-scheduler: preempting to accommodate a higher priority pod"
    preempt(model, "j-worker-0", "j-worker-1", message=text)
    model.settle()

    assert model.status["preempted"] == "preempted by a pod of higher priority"


def test_a_preempted_pod_that_has_failed_is_not_a_failure() -> None:
    model = running()
    condition = disruption_condition("PreemptionByScheduler", BY_BIG, model.now)
    row = {"name": "tensorflow", "state": {"terminated": {"exitCode": 143}}}
    for name in list(model.pods):
        model.pod(name, phase="Failed", conditions=[condition], containerStatuses=[row])
    model.settle()

    assert f"pod j-worker-0 was {BY_BIG}" in model.status["conditions"][-1]["message"]


def test_a_job_that_is_suspended_no_longer_waits_for_room() -> None:
    model = running()
    preempt(model, "j-worker-0", "j-worker-1")
    model.settle()
    model.edit(runPolicy={"suspend": True})
    model.settle()

    assert "preempted" not in model.status
