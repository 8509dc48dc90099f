"""When pods fail: which are replaced or retried, what counts as a restart, when the job fails."""

from __future__ import annotations

from typing import Any

import pytest

from kubekit.objects.enforced_limits import pod_over_limit
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Raw
from muster.operator.decision_types import Delete, PatchStatus
from tests.muster.operator.builders import Model, manifest, replica
from tests.muster.words import failed_of_late, tells


def running(restart: str = "OnFailure", **spec: Any) -> Model:
    """A running job of two workers and a parameter server."""
    roles = {"Worker": replica(2, restart), "PS": replica(1, restart)}
    model = Model(manifest(roles=roles, **spec))
    model.settle()
    model.run()
    model.settle()
    assert model.conditions() == ["Created", "Running"]
    return model


@pytest.mark.parametrize(
    ("restart", "code", "ends"),
    [
        ("Never", 1, "Failed"),
        ("Never", 137, "Failed"),
        ("OnFailure", 1, "Restarting"),
        ("Always", 1, "Restarting"),
        ("ExitCode", 1, "Failed"),
        ("ExitCode", 127, "Failed"),
        ("ExitCode", 128, "Restarting"),
        ("ExitCode", 130, "Restarting"),
        ("ExitCode", 137, "Restarting"),
        ("ExitCode", 143, "Restarting"),
        ("ExitCode", 255, "Restarting"),
    ],
)
def test_a_failed_worker_restarts_or_fails_the_job(restart: str, code: int, ends: str) -> None:
    model = running(restart)

    model.exit("j-worker-1", code)
    model.settle()

    assert model.conditions()[-1] == ends
    again = model.pods["j-worker-1"].status.phase == "Pending"
    assert again is (ends == "Restarting")


def test_a_restart_is_counted_before_the_pod_is_deleted() -> None:
    model = running()
    uid = model.pods["j-worker-1"].metadata.uid
    model.exit("j-worker-1", 1)

    actions = model.step()

    assert isinstance(actions[0], PatchStatus)
    assert actions[-1] == Delete(PODS, "j-worker-1", uid)
    assert model.status["restarts"] == 1
    assert model.status["replaced"] == [uid]
    assert model.step() == []
    model.settle()
    assert "replaced" not in model.status


def test_an_operator_killed_before_deleting_does_not_count_again() -> None:
    model = running()
    model.exit("j-worker-1", 1)
    for action in model.decide():
        if isinstance(action, PatchStatus):
            model._do(action)
            break
    assert model.status["restarts"] == 1

    model.settle()

    assert model.status["restarts"] == 1
    assert model.pods["j-worker-1"].status.phase == "Pending"


def test_a_job_is_running_again_only_when_all_its_pods_are() -> None:
    model = running()
    model.exit("j-worker-1", 1)
    model.settle()
    assert model.conditions() == ["Created", "Restarting"]

    model.run("j-worker-1")
    model.settle()

    assert model.conditions() == ["Created", "Running"]


@pytest.mark.parametrize("restart", ["Never", "OnFailure", "ExitCode"])
def test_a_pod_evicted_for_its_own_use_of_disk_has_failed(restart: str) -> None:
    model = running(restart, runPolicy={"backoffLimit": 0})

    model.pod("j-worker-1", phase="Failed", reason="Evicted", message=pod_over_limit("1Gi"))
    model.settle()

    assert model.conditions()[-1] == "Failed"


@pytest.mark.parametrize(
    "status",
    [
        {"reason": "Evicted"},
        {"reason": "NodeLost"},
        {"reason": "Terminated"},
        {"reason": "OutOfcpu"},
        {"reason": "OutOfnvidia.com/gpu"},
        {"reason": "NodeAffinity"},
        {"reason": "UnexpectedAdmissionError"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ],
    ids=lambda status: str(next(iter(status.values())))[:20],
)
@pytest.mark.parametrize("restart", ["Never", "OnFailure", "ExitCode"])
def test_pods_ended_by_the_cluster_are_replaced_whatever_the_policy_and_not_counted(
    status: dict[str, Any], restart: str
) -> None:
    model = running(restart, runPolicy={"backoffLimit": 0})

    model.pod("j-worker-1", phase="Failed", **status)
    model.settle()

    assert model.pods["j-worker-1"].status.phase == "Pending"
    assert "Failed" not in model.conditions()
    assert "restarts" not in model.status


def test_a_rejection_after_a_container_started_is_the_jobs_own_failure() -> None:
    model = running("Never")
    row = {"name": "tensorflow", "state": {"terminated": {"exitCode": 1}}}

    model.pod("j-worker-1", phase="Failed", reason="OutOfcpu", containerStatuses=[row])
    model.settle()

    assert model.conditions()[-1] == "Failed"


def test_a_pod_being_deleted_is_neither_active_nor_failed_and_is_recreated() -> None:
    model = running("Never")
    pod = model.pods["j-worker-1"]
    model._do(Delete(PODS, "j-worker-1", pod.metadata.uid))
    model.step()
    assert model.status["replicaStatuses"]["Worker"] == {"active": 1}

    model.settle()

    assert model.pods["j-worker-1"].status.phase == "Pending"
    assert "Failed" not in model.conditions()


@pytest.mark.parametrize(("limit", "survived"), [(0, 0), (1, 0), (2, 1), (3, 2)])
def test_recreated_pods_count_for_the_backoff_limit(limit: int, survived: int) -> None:
    model = running(runPolicy={"backoffLimit": limit})
    for _ in range(survived):
        model.exit("j-worker-1", 1)
        model.settle()
        assert model.conditions()[-1] == "Restarting"
        model.later(60)
        model.settle()
        model.run("j-worker-1")
        model.settle()

    model.exit("j-worker-1", 1)
    model.settle()

    assert model.conditions()[-1] == "Failed"
    assert model.status["failure"]["code"] == "BackoffLimitExceeded"


def test_restarts_in_place_and_by_replacement_count_together() -> None:
    model = running(runPolicy={"backoffLimit": 3})
    model.exit("j-worker-1", 1, restarts=1)
    model.settle()
    assert model.status["restarts"] == 2
    assert model.conditions()[-1] == "Restarting"
    model.run("j-worker-1")
    model.settle()

    row = {"name": "tensorflow", "restartCount": 1, "state": {"running": {}}}
    model.pod("j-ps-0", phase="Running", containerStatuses=[row])
    model.settle()

    assert model.conditions()[-1] == "Failed"


def test_restarts_in_place_of_a_pod_that_never_restarts_do_not_count() -> None:
    model = running("Never", runPolicy={"backoffLimit": 1})
    row = {"name": "tensorflow", "restartCount": 5, "state": {"running": {}}}

    model.pod("j-ps-0", phase="Running", containerStatuses=[row])
    model.settle()

    assert model.conditions()[-1] == "Running"


def restarted(model: Model, name: str, count: int) -> None:
    """Let the node have restarted the pod's container so many times."""
    row = {"name": "tensorflow", "restartCount": count, "state": {"running": {}}}
    model.pod(name, phase="Running", containerStatuses=[row])
    model.settle()


def test_restarts_of_a_pod_that_never_got_beyond_its_init_containers_count() -> None:
    model = running(runPolicy={"backoffLimit": 2})
    for count, state in ((1, "Running"), (2, "Failed")):
        row = {"name": "prepare", "restartCount": count, "state": {"waiting": {}}}
        model.pod("j-worker-1", phase="Pending", initContainerStatuses=[row])
        model.settle()
        assert model.conditions()[-1] == state

    failure = model.status["failure"]
    assert (failure["code"], failure["first"]["pod"]) == ("BackoffLimitExceeded", "j-worker-1")
    assert (failure["limit"], failure["failures"]) == ("2", 2)
    assert model.status["restarts"] == 2


@pytest.mark.parametrize("cause", ["drained", "evicted", "gone at once"])
def test_restarts_of_a_pod_that_was_replaced_are_not_forgotten(cause: str) -> None:
    model = running(runPolicy={"backoffLimit": 5})
    restarted(model, "j-worker-0", 1)
    restarted(model, "j-worker-1", 3)
    if cause == "drained":
        model.request_deletion("j-worker-1")
    elif cause == "evicted":
        model.pod("j-worker-1", phase="Failed", reason="Evicted")
    else:
        del model.pods["j-worker-1"]
    model.settle()
    assert model.status["restarts"] == 4
    assert model.status["restarted"] == {"j-worker-0": 1}
    assert "Failed" not in model.conditions()

    restarted(model, "j-worker-1", 1)

    assert model.status["restarts"] == 5
    assert model.conditions()[-1] == "Failed"


def test_a_restart_in_place_counts_once_however_often_it_is_observed() -> None:
    model = running()
    for _ in range(3):
        restarted(model, "j-worker-1", 2)
    model.edit(runPolicy={"suspend": True})
    model.settle()
    model.edit(runPolicy={"suspend": False})
    model.settle()

    assert model.status["restarts"] == 2
    assert "restarted" not in model.status


def test_at_a_limit_running_pods_are_deleted_and_finished_pods_stay() -> None:
    model = running(runPolicy={"backoffLimit": 0})
    model.exit("j-worker-1", 1)
    model.settle()

    assert sorted(model.pods) == ["j-worker-1"]


def test_the_whole_gang_restarts_if_the_job_says_so_and_counts_once() -> None:
    raw = manifest(roles={"Worker": replica(2, "OnFailure"), "PS": replica(1, "OnFailure")})
    raw["metadata"]["annotations"] = {"muster.dev/restart": "gang"}
    model = Model(raw)
    model.settle()
    before = {pod.metadata.uid for pod in model.pods.values()}
    model.run()
    model.exit("j-worker-1", 1)
    model.settle()

    after = {pod.metadata.uid for pod in model.pods.values()}
    assert len(after) == 3
    assert not before & after
    assert model.status["restarts"] == 1


def test_dynamic_workers_may_fail_without_failing_the_job() -> None:
    model = running("Never", enableDynamicWorker=True)
    model.exit("j-worker-1", 1)
    model.settle()
    assert model.conditions()[-1] == "Running"

    model.exit("j-ps-0", 1)
    model.settle()
    assert model.conditions()[-1] == "Failed"


def test_an_event_names_the_exit_code_of_a_failed_pod() -> None:
    model = running()
    model.exit("j-worker-1", 3)
    model.settle()

    events = {event.reason: event.message for event in model.events}
    assert tells(events["ExitedWithCode"], "ns.j-worker-1", "3")
    assert "TFJobRestarting" in events
    first = {"pod": "j-worker-1", "role": "worker", "index": 1, "exitCode": 3}
    assert model.status["restart"] == {"code": "ReplicasFailed", "first": first, "count": 1}


def test_pods_that_the_cluster_ended_are_interrupted_and_have_not_failed() -> None:
    model = running("Never")
    stopped = {
        "phase": "Failed",
        "reason": "Terminated",
        "message": "The local cluster was stopped while the pod ran.",
        "containerStatuses": [{"name": "tensorflow", "state": {"running": {}}}],
    }
    model.pod("j-worker-1", **stopped)
    model.settle()
    lines = ["The local cluster was stopped while the pod ran."]
    first = {"role": "worker", "reason": "Terminated", "lastLines": lines}
    whole = {**first, "pod": "j-worker-1", "index": 1}
    assert model.status["restart"] == {"code": "Interrupted", "first": whole, "count": 1}

    model.run()
    model.settle()
    for name in ("j-worker-0", "j-worker-1"):
        model.pod(name, **stopped)
    model.settle()
    whole = {**first, "pod": "j-worker-0"}
    assert model.status["restart"] == {"code": "Interrupted", "first": whole, "count": 2}


def crash(model: Model, name: str) -> float | None:
    """Let the pod fail; returns the seconds until it is recreated."""
    model.run(name)
    model.settle()
    model.exit(name, 137)
    model.settle()
    waited = model.wait() if name not in model.pods else None
    model.later(waited or 0)
    model.settle()
    return waited


def test_a_replica_that_keeps_failing_is_recreated_at_growing_intervals() -> None:
    model = Model(manifest(roles={"Worker": replica(2, "ExitCode")}))
    model.settle()

    waits = [crash(model, "j-worker-1") for _ in range(8)]

    assert waits == [None, 10, 20, 40, 80, 160, 300, 300]
    assert crash(model, "j-worker-0") is None
    assert model.status["restarts"] == 9


def test_a_replica_that_ran_well_for_long_is_recreated_at_once() -> None:
    model = Model(manifest(roles={"Worker": replica(1, "ExitCode")}))
    model.settle()
    for _ in range(3):
        crash(model, "j-worker-0")
    model.later(3600)

    assert crash(model, "j-worker-0") is None


def test_the_status_says_which_replica_waits_and_until_when() -> None:
    model = Model(manifest(roles={"Worker": replica(1, "ExitCode")}))
    model.settle()
    crash(model, "j-worker-0")
    model.exit("j-worker-0", 137)
    model.settle()

    assert model.status["waiting"] == {
        "reason": "BackOff",
        "message": failed_of_late("worker 0", 2, 137),
        "until": "2026-01-02T03:04:15Z",
    }
    model.later(10)
    model.settle()
    assert "j-worker-0" in model.pods
    assert "waiting" not in model.status


def evict(model: Model, name: str, *, started: bool = True) -> float | None:
    """Let a node evict the pod; returns the seconds until it is recreated."""
    row = {"name": "tensorflow", "state": {"terminated": {"exitCode": 137}}}
    rows = [row] if started else []
    model.pod(name, phase="Failed", reason="Evicted", containerStatuses=rows)
    model.settle()
    waited = model.wait() if name not in model.pods else None
    model.later(waited or 0)
    model.settle()
    return waited


@pytest.mark.parametrize("annotations", [{}, {"muster.dev/restart": "gang"}])
def test_an_evicted_replica_is_recreated_at_once_however_often(annotations: dict[str, str]) -> None:
    raw = manifest(roles={"Worker": replica(2, "ExitCode")})
    raw["metadata"]["annotations"] = annotations
    model = Model(raw)
    model.settle()

    assert [evict(model, "j-worker-1") for _ in range(4)] == [None] * 4
    assert "failures" not in model.status


def test_a_replica_that_nodes_reject_is_recreated_at_growing_intervals() -> None:
    model = Model(manifest(roles={"Worker": replica(2, "ExitCode")}))
    model.settle()

    waits = [evict(model, "j-worker-1", started=False) for _ in range(4)]

    assert waits == [None, 10, 20, 40]
    assert "restarts" not in model.status


def test_a_clock_that_was_set_back_does_not_delay_a_replica() -> None:
    model = Model(manifest(roles={"Worker": replica(2, "ExitCode")}))
    model.settle()
    evict(model, "j-worker-1", started=False)
    model.pod("j-worker-1", phase="Failed", reason="Evicted")
    model.settle()
    assert "j-worker-1" not in model.pods

    model.later(-3600)
    model.settle()

    assert "j-worker-1" in model.pods


@pytest.mark.parametrize("limit", [2, 3])
def test_the_status_of_a_job_that_ended_has_no_transient_fields(limit: int) -> None:
    model = running("ExitCode", runPolicy={"backoffLimit": limit})
    restarted(model, "j-ps-0", 1)
    model.exit("j-worker-1", 137)
    model.step()
    if limit == 3:
        assert model.status["replaced"]
        model.exit("j-worker-0", 0)
        model.step()

    assert model.conditions()[-1] in ("Succeeded", "Failed")
    # At the limit a restart is counted that does not happen.
    history = ["earlierRestarts", "restarted", "unfinished"]
    if limit == 2:
        history = ["failedAttempt", "failure", "restarted", "unstarted"]
    permanent = ["conditions", "formed", "observedGeneration", "replicaStatuses", "restarts"]
    assert sorted(model.status) == sorted(["completionTime", *history, "startTime", *permanent])


def crash_loop(model: Model, name: str, restarts: int) -> None:
    """Let the container have failed once more, and its node wait before it restarts it."""
    row = {
        "name": "tensorflow",
        "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}},
    }
    model.pod(name, phase="Running", containerStatuses=[row])
    model.settle()


@pytest.mark.parametrize(
    ("limit", "policy"), [(None, "OnFailure"), (0, "Never"), (1, "Never"), (2, "OnFailure")]
)
def test_a_node_does_not_restart_a_replica_whose_first_failure_ends_the_job(
    limit: int | None, policy: str
) -> None:
    model = running("OnFailure", runPolicy={} if limit is None else {"backoffLimit": limit})

    assert {pod.spec.restart_policy for pod in model.pods.values()} == {policy}
    if policy == "Never":
        uid = model.pods["j-worker-1"].metadata.uid
        model.exit("j-worker-1", 3)
        model.settle()
        assert model.conditions()[-1] == "Failed"
        assert model.pods["j-worker-1"].metadata.uid == uid  # it stays for its log
        assert model.status["failedAttempt"] == {
            "podName": "j-worker-1",
            "podUid": uid,
            "container": "tensorflow",
        }


def test_a_restart_that_a_node_delays_counts_before_it_happens_and_only_once() -> None:
    model = running("OnFailure", runPolicy={"backoffLimit": 3})

    crash_loop(model, "j-worker-1", 1)
    assert (model.status["restarts"], model.conditions()[-1]) == (2, "Running")
    restarted(model, "j-worker-1", 2)
    assert (model.status["restarts"], model.conditions()[-1]) == (2, "Running")
    crash_loop(model, "j-worker-1", 2)

    assert model.conditions()[-1] == "Failed"
    failure = model.status["failure"]
    assert (failure["code"], failure["limit"], failure["failures"]) == (
        "BackoffLimitExceeded",
        "3",
        3,
    )
    assert (failure["first"]["pod"], failure["first"]["exitCode"]) == ("j-worker-1", 3)
    # No attempt after the third one has started.
    assert model.status["failedAttempt"]["attempt"] == 2


def test_a_container_that_runs_again_at_the_limit_is_not_the_attempt_that_failed() -> None:
    model = running("OnFailure", runPolicy={"backoffLimit": 2})
    row = {
        "name": "tensorflow",
        "restartCount": 2,
        "state": {"running": {}},
        "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}},
    }

    model.pod("j-worker-1", phase="Running", containerStatuses=[row])
    model.settle()

    assert model.status["failedAttempt"]["attempt"] == 1


def test_a_replica_counts_the_restarts_of_its_earlier_pods() -> None:
    model = running("ExitCode", runPolicy={})
    for _ in range(2):
        model.exit("j-worker-1", 137)
        model.settle()
        model.later(60)
        model.settle()
        model.run("j-worker-1")
        model.settle()

    assert model.status["earlierRestarts"] == {"worker-1": 2}


def test_a_job_that_succeeded_does_not_wait_for_a_replica_in_a_crash_loop() -> None:
    model = running("OnFailure", runPolicy={"cleanPodPolicy": "Running"})
    crash_loop(model, "j-worker-1", 1)

    model.exit("j-worker-0", 0)
    actions = model.step()

    assert model.conditions()[-1] == "Succeeded"
    deleted = {action.name for action in actions if isinstance(action, Delete)}
    assert "j-worker-1" in deleted


OOM = {"reason": "OOMKilled", "exitCode": 137}


@pytest.mark.parametrize(
    ("restart", "limit", "end", "helps"),
    [
        ("", None, {"exitCode": 3}, True),
        ("Never", 0, {"exitCode": 137}, True),
        ("Never", 3, {"exitCode": 3}, False),
        ("ExitCode", None, {"exitCode": 3}, False),
        ("Never", None, OOM, False),
        ("Never", None, {"reason": "StartError", "exitCode": 128}, False),
    ],
)
def test_a_failure_names_the_retries_that_would_have_helped(
    restart: str, limit: int | None, end: Raw, helps: bool
) -> None:
    policy = {} if limit is None else {"backoffLimit": limit}
    model = Model(manifest(roles={"Worker": replica(2, restart)}, runPolicy=policy))
    model.settle()
    model.run()
    row = {"name": "tensorflow", "state": {"terminated": end}}
    model.pod("j-worker-1", phase="Failed", containerStatuses=[row])
    model.settle()

    assert model.conditions()[-1] == "Failed"
    assert ("--retry=3" in model.status["conditions"][-1]["message"]) is helps
    assert ("--retry=3" in model.view.remedy) is helps
