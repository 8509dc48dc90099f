"""A pod's status in the API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from muster.api.core import PodStatus
from muster.local.node.pod import Pod
from muster.local.node.pod_status import WaitingReason, pod_status
from muster.local.node.runtime.pod_records import LOST, Attempt, State
from tests.local.node.pod_builders import NOTHING, NOW, ago, container, exited, pod, record, running


def told(one: Pod, known: Any, **troubles: WaitingReason) -> dict[str, Any]:
    return pod_status(one, known, troubles, "10.1.0.1", NOW)


def state(body: dict[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = body["containerStatuses"][index]["state"]
    return found


def conditions(body: dict[str, Any]) -> dict[str, str]:
    return {c["type"]: c["status"] for c in body["conditions"]}


def test_a_pod_that_was_just_bound_is_pending_and_being_created() -> None:
    body = told(pod(), NOTHING)

    assert body["phase"] == "Pending"
    assert state(body) == {"waiting": {"reason": "ContainerCreating"}}
    assert "podIP" not in body


def test_a_running_pod_is_ready_and_has_its_address() -> None:
    body = told(pod(), record(main=running()))

    assert body["phase"] == "Running"
    assert body["podIP"] == "10.1.0.2"
    assert body["hostIP"] == "10.1.0.1"
    assert conditions(body)["Ready"] == conditions(body)["Initialized"] == "True"
    assert state(body) == {"running": {"startedAt": "2026-01-02T03:04:00Z"}}


def test_one_container_that_ended_makes_the_pod_unready_but_not_finished() -> None:
    two = pod("p", container("a"), container("b"))

    body = told(two, record(a=exited(0), b=running()))

    assert body["phase"] == "Running"
    assert conditions(body)["Ready"] == "False"


def test_exit_code_and_signal_are_reported() -> None:
    body = told(pod(), record(main=exited(137)))

    assert body["phase"] == "Failed"
    ended = state(body)["terminated"]
    assert (ended["exitCode"], ended["signal"], ended["reason"]) == (137, 9, "Error")


def test_a_succeeded_pod_is_not_ready_because_it_completed() -> None:
    body = told(pod(), record(main=exited(0)))

    assert body["phase"] == "Succeeded"
    ready = next(c for c in body["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")


def test_waiting_for_a_restart_shows_the_last_end_and_the_count() -> None:
    again = pod(restartPolicy="Always")

    body = told(again, record(main=(exited(1, 1), exited(3, 2))))

    one = body["containerStatuses"][0]
    assert one["restartCount"] == 2
    assert one["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert one["lastState"]["terminated"]["exitCode"] == 3
    assert body["phase"] == "Running"


def test_the_status_of_a_waiting_pod_is_stable() -> None:
    again = pod(restartPolicy="Always", status={"startTime": ago(60).isoformat()})
    known = record(main=(exited(1, 1), exited(3, 2)))

    first = told(again, known)
    seen = msgspec.structs.replace(again, status=msgspec.convert(first, PodStatus))

    assert pod_status(seen, known, {}, "10.1.0.1", ago(-3)) == first


def test_a_running_container_shows_how_it_ended_before() -> None:
    body = told(pod(restartPolicy="Always"), record(main=(exited(1, 0), running(1))))

    assert body["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_ordinary_containers_wait_for_the_init_containers() -> None:
    one = pod("p", container(), initContainers=[container("i")])

    body = told(one, record(i=running()))

    assert body["phase"] == "Pending"
    assert state(body) == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(body)["Initialized"] == "False"
    assert "running" in body["initContainerStatuses"][0]["state"]


def test_the_reason_why_a_container_waits_is_reported() -> None:
    body = told(pod(), record(), main=WaitingReason("CreateContainerConfigError", "no such map"))

    waiting = state(body)["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": "no such map"}


def test_a_container_that_is_only_starting_does_not_make_the_pod_run() -> None:
    assert told(pod(), record(main=Attempt(0, State.STARTING)))["phase"] == "Pending"


def test_a_restart_of_the_machine_is_the_machines_fault() -> None:
    lost = replace(exited(137), reason=LOST)
    rebooted = replace(record(open=False, main=lost), rebooted=True)

    body = told(pod(), rebooted)

    assert (body["phase"], body["reason"]) == ("Failed", "Terminated")
    assert conditions(body)["DisruptionTarget"] == "True"
    assert "DisruptionTarget" not in conditions(told(pod(), record(open=False, main=lost)))
    ended = replace(record(open=False, main=exited(1)), rebooted=True)
    assert "DisruptionTarget" not in conditions(told(pod(), ended))


@pytest.mark.parametrize("code", [0, 143])
def test_being_stopped_with_the_cluster_is_not_the_pods_end(code: int) -> None:
    """However its program takes being asked to end."""
    stopped = replace(record(open=False, main=exited(code)), stopped=True)

    body = told(pod(), stopped)

    assert (body["phase"], body["reason"]) == ("Failed", "Terminated")
    assert conditions(body)["DisruptionTarget"] == "True"
    assert told(pod(restartPolicy="Always"), stopped)["phase"] == "Running"
    again = told(pod("p", status={"conditions": body["conditions"]}), stopped)
    assert again["conditions"] == body["conditions"]


def test_the_time_of_a_condition_moves_only_when_it_changes() -> None:
    since = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    one = pod("p", status={"conditions": [ready]})

    kept = told(one, record(main=running()))["conditions"]
    moved = told(one, record(main=exited(1)))["conditions"]

    assert next(c for c in kept if c["type"] == "Ready")["lastTransitionTime"] == since
    assert next(c for c in moved if c["type"] == "Ready")["lastTransitionTime"] != since


def test_conditions_of_others_are_kept() -> None:
    mine = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    body = told(pod("p", status={"conditions": [mine]}), record(main=running()))

    assert mine in body["conditions"]


def test_a_finished_pod_is_not_written_again() -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    done = pod("p", status={"phase": "Succeeded", "containerStatuses": [ended]})

    assert told(done, record(main=exited(0))) == {}


def test_a_pod_that_ran_too_long_failed() -> None:
    late = pod("p", activeDeadlineSeconds=10, status={"startTime": ago(11).isoformat()})

    body = told(late, record(main=exited(137)))

    assert (body["phase"], body["reason"]) == ("Failed", "DeadlineExceeded")
