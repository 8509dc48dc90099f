"""When a job succeeds or fails, and which objects are deleted then."""

from __future__ import annotations

import pytest

from kubekit.objects.kinds import PODS, SERVICES
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from muster.operator.decision_types import Delete, PatchStatus
from tests.muster.operator.builders import Model, manifest, replica

GROUP = (VOLCANO_POD_GROUPS.resource, "j")


def test_a_job_succeeds_when_its_first_worker_does() -> None:
    model = Model(manifest())
    model.settle()
    model.run()
    model.settle()
    assert model.conditions() == ["Created", "Running"]

    model.exit("j-worker-0", 0)
    model.settle()

    assert model.conditions() == ["Created", "Running(False)", "Succeeded"]
    assert model.status["completionTime"] == "2026-01-02T03:04:05Z"
    assert GROUP not in model.objects
    assert len(model.pods) == 3
    assert model.status["replicaStatuses"] == {
        "PS": {"active": 1},
        "Worker": {"active": 1, "succeeded": 1},
    }


def test_all_workers_must_succeed_if_the_job_says_so() -> None:
    model = Model(manifest(successPolicy="AllWorkers"))
    model.settle()
    model.run()
    model.exit("j-worker-0", 0)
    model.settle()
    assert model.conditions() == ["Created", "Running"]

    model.exit("j-worker-1", 0)
    model.settle()

    assert "Succeeded" in model.conditions()


def test_with_a_chief_only_the_chief_decides() -> None:
    roles = {"Chief": replica(1), "Worker": replica(1), "PS": replica(1)}
    model = Model(manifest(roles=roles))
    model.settle()
    model.run()
    model.exit("j-worker-0", 0)
    model.settle()
    assert model.conditions() == ["Created", "Running"]

    model.exit("j-chief-0", 0)
    model.settle()

    assert "Succeeded" in model.conditions()


def test_a_chief_that_succeeded_is_not_undone_by_a_worker_that_failed() -> None:
    model = Model(manifest(roles={"Chief": replica(1), "Worker": replica(1)}))
    model.settle()
    model.run()
    model.exit("j-chief-0", 0)
    model.exit("j-worker-0", 1)
    model.settle()

    assert model.conditions() == ["Created", "Succeeded"]


def test_a_job_of_parameter_servers_alone_succeeds_when_all_do() -> None:
    model = Model(manifest(roles={"PS": replica(2)}))
    model.settle()
    model.exit("j-ps-0", 0)
    model.exit("j-ps-1", 0)
    model.settle()

    assert "Succeeded" in model.conditions()


def test_a_failed_pod_that_may_not_restart_fails_the_job() -> None:
    model = Model(manifest())
    model.settle()
    model.run()
    model.settle()

    model.exit("j-ps-0", 1)
    model.settle()

    assert model.conditions() == ["Created", "Running(False)", "Failed"]
    failed = model.status["conditions"][-1]
    assert failed["reason"] == "TFJobFailed"
    first = {"pod": "j-ps-0", "role": "ps", "exitCode": 1}
    expected = {"code": "ReplicasFailed", "first": first, "role": "PS", "count": 1}
    expected |= {"withoutRetry": True}
    assert model.status["failure"] == expected
    assert [e.reason for e in model.events] == ["ExitedWithCode", "TFJobFailed", "JobTerminated"]


@pytest.mark.parametrize("clean", ["Running", "All"])
def test_a_failed_job_names_the_pod_that_failed_and_its_last_lines(clean: str) -> None:
    model = Model(manifest(roles={"Worker": replica(3)}, runPolicy={"cleanPodPolicy": clean}))
    model.settle()
    model.run()
    model.settle()

    model.exit("j-worker-1", 1, message="Traceback:\n  train.py\nValueError: boom\n")
    model.settle()
    model.collect()
    model.settle()

    first = model.status["failure"]["first"]
    assert first["pod"] == "j-worker-1"
    assert first["lastLines"] == ["Traceback:", "  train.py", "ValueError: boom"]
    failed = model.status["conditions"][-1]
    assert failed["type"] == "Failed"
    assert failed["message"].endswith("\nTraceback:\n  train.py\nValueError: boom")
    # Events have one line.
    (event,) = (event for event in model.events if event.reason == "TFJobFailed")
    assert "\n" not in event.message
    assert event.message.endswith(": ValueError: boom")


def test_a_gang_at_its_backoff_limit_names_the_pod_that_failed() -> None:
    raw = manifest(roles={"Worker": replica(3, "OnFailure")}, runPolicy={"backoffLimit": 1})
    raw["metadata"]["annotations"] = {"muster.dev/restart": "gang"}
    model = Model(raw)
    model.settle()
    model.run()
    model.settle()

    model.exit("j-worker-1", 1, message="Traceback:\nValueError: boom\n")
    model.settle()

    failure = model.status["failure"]
    assert (failure["code"], failure["limit"]) == ("BackoffLimitExceeded", "1")
    assert failure["first"]["lastLines"] == ["Traceback:", "ValueError: boom"]


def test_the_group_is_deleted_before_the_pods() -> None:
    model = Model(manifest(runPolicy={"cleanPodPolicy": "All"}))
    model.settle()
    model.run()
    model.exit("j-worker-0", 0)
    assert [a.kind for a in model.step() if isinstance(a, Delete)] == [VOLCANO_POD_GROUPS]

    model.exit("j-worker-1", 0)
    actions = model.step()

    assert isinstance(actions[0], PatchStatus)
    deleted = [a.kind for a in actions if isinstance(a, Delete)]
    assert deleted == [PODS, PODS, PODS, SERVICES, SERVICES, SERVICES]
    assert model.step() == []


def test_the_policy_running_keeps_finished_pods_and_their_services() -> None:
    model = Model(manifest(runPolicy={"cleanPodPolicy": "Running"}))
    model.settle()
    model.run()
    model.pod("j-worker-1", phase="Pending")
    model.exit("j-worker-0", 0)
    model.settle()

    assert sorted(model.pods) == ["j-worker-0"]
    assert sorted(model.services) == ["j-worker-0"]


def test_the_policy_none_keeps_everything() -> None:
    model = Model(manifest())
    model.settle()
    model.run()
    model.exit("j-worker-0", 0)
    model.settle()

    assert len(model.pods) == 3
    assert len(model.services) == 3


def test_a_job_is_deleted_when_its_ttl_is_over() -> None:
    model = Model(manifest(runPolicy={"ttlSecondsAfterFinished": 30}))
    model.settle()
    model.run()
    model.exit("j-worker-0", 0)
    model.settle()
    assert model.wait() == 30

    model.later(29)
    model.settle()
    assert model.wait() == 1
    assert not model.deleted

    model.later(1)
    model.step()
    assert model.deleted


def test_a_deadline_has_a_timer_and_deletes_running_pods_whatever_the_policy() -> None:
    model = Model(manifest(runPolicy={"activeDeadlineSeconds": 60}))
    model.settle()
    model.run()
    model.exit("j-worker-1", 0)
    model.later(20)
    model.settle()
    assert model.wait() == 41

    model.later(41)
    model.settle()

    assert model.conditions() == ["Created", "Running(False)", "Failed"]
    assert "deadline" in model.status["conditions"][-1]["message"]
    assert sorted(model.pods) == ["j-worker-1"]
    assert GROUP not in model.objects


def test_no_deadline_ends_a_job_early_although_its_start_is_stored_in_whole_seconds() -> None:
    model = Model(manifest(runPolicy={"activeDeadlineSeconds": 60}))
    late(model)
    model.later(0.9)
    model.settle()

    model.later(59.9)
    model.settle()
    assert model.conditions() == ["Created"]

    model.later(1)
    model.settle()
    assert model.conditions() == ["Created", "Failed"]


def late(model: Model) -> None:
    model.raw["metadata"]["annotations"] = {"muster.dev/starting-deadline-seconds": "60"}


def test_a_job_that_misses_its_starting_deadline_fails_and_its_pods_are_deleted() -> None:
    model = Model(manifest())
    late(model)
    model.settle()
    assert model.wait() == 61

    model.later(61)
    model.settle()

    assert model.conditions() == ["Created", "Failed"]
    assert model.status["failure"] == {"code": "StartingDeadlineExceeded", "limit": "60"}
    assert not model.pods
    assert GROUP not in model.objects


def test_a_job_that_started_in_time_does_not_fail_for_its_starting_deadline() -> None:
    model = Model(manifest())
    late(model)
    model.settle()
    model.later(59)
    model.run()
    model.settle()
    model.later(1000)
    model.settle()

    assert model.conditions() == ["Created", "Running"]


def test_a_service_without_a_pod_is_deleted_too() -> None:
    model = Model(manifest(runPolicy={"cleanPodPolicy": "Running"}))
    model.settle()
    model.run()
    model.exit("j-worker-0", 0)
    model.exit("j-worker-1", 1)
    del model.pods["j-ps-0"]
    model.settle()

    assert sorted(model.services) == ["j-worker-0", "j-worker-1"]


def test_a_job_whose_chief_has_no_replicas_ends_by_its_workers() -> None:
    model = Model(manifest(roles={"Chief": replica(0), "Worker": replica(2)}))
    model.settle()
    model.run()
    model.settle()
    assert model.conditions() == ["Created", "Running"]

    model.exit("j-worker-0", 0)
    model.settle()
    assert model.conditions()[-1] == "Succeeded"


def test_a_job_that_may_not_restart_never_has_the_condition_restarting() -> None:
    roles = {"Worker": replica(2, "ExitCode")}
    model = Model(manifest(roles=roles, runPolicy={"backoffLimit": 0}))
    model.settle()
    model.run()
    model.settle()
    model.exit("j-worker-1", 137)
    model.settle()

    assert model.conditions() == ["Created", "Running(False)", "Failed"]
    reasons = [event.reason for event in model.events]
    assert "ExitedWithCode" in reasons
    assert "TFJobRestarting" not in reasons
