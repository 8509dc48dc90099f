"""How conditions follow one another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kubekit.objects.meta import timestamp
from muster.jobs.job_status import JobStatus
from muster.operator.decide import job_conditions
from tests.muster.operator.builders import NOW, Model, manifest, replica

LATER = NOW + timedelta(seconds=10)


def types(status: JobStatus) -> list[str]:
    return [row.type + ("" if row.status == "True" else "(False)") for row in status.conditions]


def after(*types: str) -> JobStatus:
    status = JobStatus()
    for type_ in types:
        status = job_conditions.with_condition(status, type_, "True", f"TFJob{type_}", "m", NOW)
    return status


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (["Created"], ["Created"]),
        (["Created", "Running"], ["Created", "Running"]),
        (["Created", "Running", "Restarting"], ["Created", "Restarting"]),
        (["Created", "Running", "Restarting", "Running"], ["Created", "Running"]),
        (["Created", "Running", "Succeeded"], ["Created", "Running(False)", "Succeeded"]),
        (["Created", "Running", "Failed"], ["Created", "Running(False)", "Failed"]),
        (["Created", "Succeeded", "Failed"], ["Created", "Succeeded"]),
        (["Created", "Failed", "Succeeded"], ["Created", "Failed"]),
        (["Created", "Failed", "Running"], ["Created", "Failed"]),
    ],
)
def test_conditions_follow_one_another(events: list[str], expected: list[str]) -> None:
    assert types(after(*events)) == expected


def test_the_same_condition_again_changes_nothing_not_even_the_message() -> None:
    before = after("Created", "Running")

    again = job_conditions.with_condition(before, "Running", "True", "TFJobRunning", "other", LATER)

    assert again is before


def test_a_new_reason_alone_keeps_the_time_of_the_transition() -> None:
    again = job_conditions.with_condition(after("Running"), "Running", "True", "Other", "m", LATER)
    (row,) = again.conditions
    assert row.last_transition_time == timestamp(NOW)
    assert row.last_update_time == timestamp(LATER)

    turned = job_conditions.with_condition(
        after("Running"), "Running", "False", "Other", "m", LATER
    )
    assert turned.conditions[0].last_transition_time == timestamp(LATER)


def test_the_first_version_also_has_a_phase_and_a_state() -> None:
    raw = manifest(roles={"Worker": replica(1)})
    rows = raw["spec"].pop("tfReplicaSpecs")
    raw["spec"]["replicaSpecs"] = [{"tfReplicaType": "MASTER", **rows["Worker"]}]
    model = Model(raw)
    model.settle()
    assert (model.status["phase"], model.status["state"]) == ("Creating", "Unknown")

    model.run()
    model.settle()
    assert (model.status["phase"], model.status["state"]) == ("Running", "Running")

    model.exit("j-master-0", 0)
    model.settle()
    assert (model.status["phase"], model.status["state"]) == ("Done", "Succeeded")


def failing(**spec: Any) -> Model:
    """A job of three roles that runs until one worker fails for good."""
    roles = {"Chief": replica(1), "PS": replica(2), "Worker": replica(2)}
    model = Model(manifest(roles=roles, **spec))
    model.settle()
    model.run()
    model.settle()
    model.exit("j-worker-1", 1)
    model.settle()
    assert model.conditions()[-1] == "Failed"
    return model


def test_pods_that_run_on_after_a_failure_are_counted_until_they_end() -> None:
    model = failing(runPolicy={"cleanPodPolicy": "None"})
    rows = {"Chief": {"active": 1}, "PS": {"active": 2}, "Worker": {"active": 1, "failed": 1}}
    assert model.status["replicaStatuses"] == rows

    model.exit("j-chief-0", 0)
    model.request_deletion("j-ps-1")
    model.settle()
    ended = {"Chief": {"succeeded": 1}, "PS": {"active": 1}}
    assert model.status["replicaStatuses"] == {**rows, **ended}


@pytest.mark.parametrize("clean", ["Running", "All"])
def test_pods_deleted_by_a_failure_are_not_counted(clean: str) -> None:
    model = failing(runPolicy={"cleanPodPolicy": clean})

    assert model.status["replicaStatuses"] == {"Chief": {}, "PS": {}, "Worker": {"failed": 1}}


def test_workers_that_run_on_after_their_launcher_failed_are_counted() -> None:
    roles = {"Launcher": replica(1, "Never", "mpi"), "Worker": replica(2, "Never", "mpi")}
    model = Model(manifest("MPIJob", roles, runPolicy={"cleanPodPolicy": "None"}))
    for _ in range(2):
        model.settle()
        model.run()
    model.settle()
    launcher = next(name for name in model.pods if "launcher" in name)
    model.exit(launcher, 1, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Failed"
    assert model.status["replicaStatuses"] == {"Launcher": {"failed": 1}, "Worker": {"active": 2}}


def test_a_job_suspended_while_it_restarts_is_not_restarting_any_more() -> None:
    model = Model(manifest(roles={"Worker": replica(2, "OnFailure")}))
    model.settle()
    model.run()
    model.exit("j-worker-1", 137)
    model.settle()
    assert model.conditions() == ["Created", "Restarting"]

    model.edit(runPolicy={"suspend": True})
    model.settle()
    assert model.conditions() == ["Created", "Restarting(False)", "Suspended"]

    model.edit(runPolicy={"suspend": False})
    model.settle()
    model.run()
    model.settle()
    assert model.conditions() == ["Created", "Suspended(False)", "Running"]


@pytest.mark.parametrize("policy", ["", "AllWorkers"])
def test_a_job_whose_deciding_pods_have_all_failed_has_failed(policy: str) -> None:
    roles = {"PS": replica(1), "Worker": replica(3)}
    model = Model(manifest(roles=roles, enableDynamicWorker=True, successPolicy=policy))
    model.settle()
    model.run()
    for index in (1, 2):
        model.exit(f"j-worker-{index}", 1)
        model.settle()
        assert model.conditions()[-1] == "Running"

    model.exit("j-worker-0", 1)
    model.settle()
    assert model.conditions()[-1] == "Failed"
    failure = model.status["failure"]
    assert (failure["code"], failure["role"], failure["count"]) == ("ReplicasFailed", "Worker", 3)


def test_with_all_workers_required_a_failed_dynamic_worker_fails_the_job() -> None:
    roles = {"Worker": replica(2)}
    model = Model(manifest(roles=roles, enableDynamicWorker=True, successPolicy="AllWorkers"))
    model.settle()
    model.run()
    model.exit("j-worker-0", 0)
    model.exit("j-worker-1", 1)
    model.settle()

    assert model.conditions()[-1] == "Failed"


def test_an_mpi_job_whose_workers_ended_before_its_launcher_started_has_failed() -> None:
    roles = {"Launcher": replica(1, "Never", "mpi"), "Worker": replica(2, "Never", "mpi")}
    model = Model(manifest("MPIJob", roles))
    model.settle()
    model.exit("j-worker-0", 0, "mpi")
    model.exit("j-worker-1", 0, "mpi")
    model.settle()

    assert model.conditions()[-1] == "Failed"
    assert model.status["failure"] == {"code": "NoneSucceeded"}


@pytest.mark.parametrize("loss", ["terminating", "gone"])
def test_a_job_that_lost_all_its_pods_restarts_and_says_so(loss: str) -> None:
    model = Model(manifest())
    model.settle()
    model.run()
    model.settle()
    for name in list(model.pods):
        if loss == "gone":
            del model.pods[name]
        else:
            model.request_deletion(name)
    model.step()

    assert model.conditions() == ["Created", "Restarting"]
    assert model.status["restart"] == {"code": "NoneRuns"}
    message = model.status["conditions"][-1]["message"]
    assert [event.message for event in model.events if event.reason == "TFJobRestarting"] == [
        message
    ]
    model.settle()
    model.run("j-ps-0")
    model.settle()
    assert model.conditions() == ["Created", "Restarting"]
    model.run()
    model.settle()
    assert model.conditions() == ["Created", "Running"]
    assert "restarts" not in model.status


def succeeded_beside_a_refused_worker() -> Model:
    """A job of two workers: one has run and succeeded, the quota refuses the other."""
    model = Model(manifest("PyTorchJob", {"Worker": replica(2, name="pytorch")}))
    model.step()
    del model.pods["j-worker-1"]
    model.extra["quota_refusal"] = "exceeded quota"
    model.run("j-worker-0")
    model.settle()
    assert model.conditions() == ["Created", "Running"]
    model.exit("j-worker-0", 0, "pytorch")
    model.settle()
    return model


def test_a_job_with_a_succeeded_pod_and_a_pod_that_was_never_created_is_not_restarting() -> None:
    model = succeeded_beside_a_refused_worker()

    assert model.conditions() == ["Created", "Running"]
    assert model.status["waiting"]["reason"] == "QuotaExceeded"
    assert not [event for event in model.events if "Restarting" in event.reason]


def test_a_job_that_lost_its_last_running_pod_restarts_though_another_has_succeeded() -> None:
    model = succeeded_beside_a_refused_worker()
    model.extra["quota_refusal"] = ""
    model.settle()
    model.run("j-worker-1")
    model.settle()
    del model.pods["j-worker-1"]
    model.step()

    assert model.conditions() == ["Created", "Restarting"]


def test_a_job_one_of_whose_pods_is_lost_still_runs() -> None:
    model = Model(manifest())
    model.settle()
    model.run()
    model.settle()
    model.request_deletion("j-worker-1")
    model.settle()

    assert model.conditions() == ["Created", "Running"]
