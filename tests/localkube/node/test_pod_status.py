"""A pod's status in the API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kubekit.objects.conditions import FILES_DISCARDED
from kubekit.objects.core import PodStatus
from localkube.node.pod import Pod
from localkube.node.pod_status import WaitingReason, pod_status
from localkube.node.runtime.pod_records import LOST, Attempt, PodRecord, State
from tests.localkube.node.pod_builders import (
    NOTHING,
    NOW,
    ago,
    container,
    exited,
    make_pod,
    record,
    running,
)


def status_of(pod: Pod, known: PodRecord, **waiting: WaitingReason) -> dict[str, Any]:
    return pod_status(pod, known, waiting, "10.1.0.1", NOW)


def state(body: dict[str, Any], index: int = 0) -> dict[str, Any]:
    container_state: dict[str, Any] = body["containerStatuses"][index]["state"]
    return container_state


def conditions(body: dict[str, Any]) -> dict[str, str]:
    return {c["type"]: c["status"] for c in body["conditions"]}


def test_a_pod_that_was_just_bound_is_pending_and_being_created() -> None:
    body = status_of(make_pod(), NOTHING)

    assert body["phase"] == "Pending"
    assert state(body) == {"waiting": {"reason": "ContainerCreating"}}
    assert "podIP" not in body


def test_a_running_pod_is_ready_and_has_its_address() -> None:
    body = status_of(make_pod(), record(main=running()))

    assert body["phase"] == "Running"
    assert body["podIP"] == "10.1.0.2"
    assert body["hostIP"] == "10.1.0.1"
    assert conditions(body)["Ready"] == conditions(body)["Initialized"] == "True"
    assert state(body) == {"running": {"startedAt": "2026-01-02T03:04:00Z"}}


def test_a_container_that_exited_makes_the_pod_unready_but_not_finished() -> None:
    pod = make_pod("p", container("a"), container("b"))

    body = status_of(pod, record(a=exited(0), b=running()))

    assert body["phase"] == "Running"
    assert conditions(body)["Ready"] == "False"


def test_exit_code_and_signal_are_reported() -> None:
    body = status_of(make_pod(), record(main=exited(137)))

    assert body["phase"] == "Failed"
    ended = state(body)["terminated"]
    assert (ended["exitCode"], ended["signal"], ended["reason"]) == (137, 9, "Error")


@pytest.mark.parametrize(
    ("message", "env", "hinted"),
    [
        ('cannot run "mpirun": No such file or directory', [], True),
        ('cannot run "mpirun": No such file or directory', [{"name": "PATH"}], False),
        ('cannot run "/opt/mpirun": No such file or directory', [], False),
        ('cannot run "t.sh": No such file or directory: /bin/zsh', [], False),
        ('cannot run "t.sh": Permission denied', [], False),
    ],
)
def test_a_program_that_is_not_in_the_nodes_path_gets_a_hint(
    message: str, env: list[dict[str, str]], hinted: bool
) -> None:
    pod = make_pod("p", container("main", "mpirun", env=env))
    attempt = replace(exited(128), reason="StartError", message=message)

    shown = state(status_of(pod, record(main=attempt)))["terminated"]["message"]

    hint = (
        "; this pod does not have your PATH: write an absolute path, set PATH in its env, "
        "or use `arena submit`"
    )
    assert shown == message + (hint if hinted else "")


def test_a_succeeded_pod_is_not_ready_because_it_completed() -> None:
    body = status_of(make_pod(), record(main=exited(0)))

    assert body["phase"] == "Succeeded"
    ready = next(c for c in body["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")


def test_a_container_that_waits_for_a_restart_shows_its_last_exit_and_restart_count() -> None:
    pod = make_pod(restartPolicy="Always")

    body = status_of(pod, record(main=(exited(1, 1), exited(3, 2))))

    status = body["containerStatuses"][0]
    assert status["restartCount"] == 2
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert body["phase"] == "Running"


def test_the_status_of_a_waiting_pod_is_stable() -> None:
    pod = make_pod(restartPolicy="Always", status={"startTime": ago(60).isoformat()})
    known = record(main=(exited(1, 1), exited(3, 2)))

    first = status_of(pod, known)
    updated = msgspec.structs.replace(pod, status=msgspec.convert(first, PodStatus))

    assert pod_status(updated, known, {}, "10.1.0.1", ago(-3)) == first


def test_a_running_container_shows_its_previous_exit() -> None:
    body = status_of(make_pod(restartPolicy="Always"), record(main=(exited(1, 0), running(1))))

    assert body["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_ordinary_containers_wait_for_the_init_containers() -> None:
    pod = make_pod("p", container(), initContainers=[container("i")])

    body = status_of(pod, record(i=running()))

    assert body["phase"] == "Pending"
    assert state(body) == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(body)["Initialized"] == "False"
    assert "running" in body["initContainerStatuses"][0]["state"]


def test_a_pod_whose_init_container_is_being_created_is_initializing() -> None:
    pod = make_pod("p", container(), initContainers=[container("i")])

    body = status_of(pod, NOTHING)

    assert body["initContainerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_the_reason_why_a_container_waits_is_reported() -> None:
    body = status_of(
        make_pod(), record(), main=WaitingReason("CreateContainerConfigError", "no such map")
    )

    waiting = state(body)["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": "no such map"}


def test_a_pod_whose_container_is_still_starting_is_pending() -> None:
    assert status_of(make_pod(), record(main=Attempt(0, State.STARTING)))["phase"] == "Pending"


def test_a_pod_lost_in_a_machine_restart_has_a_disruption_condition() -> None:
    lost = replace(exited(137), reason=LOST)
    rebooted = replace(record(open=False, main=lost), rebooted=True)

    body = status_of(make_pod(), rebooted)

    assert (body["phase"], body["reason"]) == ("Failed", "Terminated")
    assert conditions(body)["DisruptionTarget"] == "True"
    exited_before = replace(record(open=False, main=exited(1)), rebooted=True)
    for other in (record(open=False, main=lost), exited_before):
        assert "DisruptionTarget" not in conditions(status_of(make_pod(), other))


@pytest.mark.parametrize("code", [0, 143])
def test_a_pod_stopped_with_the_cluster_has_a_disruption_condition(code: int) -> None:
    """Whatever exit code its program has after SIGTERM."""
    stopped = replace(record(open=False, main=exited(code)), stopped=True)

    body = status_of(make_pod(), stopped)

    assert (body["phase"], body["reason"]) == ("Failed", "Terminated")
    assert conditions(body)["DisruptionTarget"] == "True"
    assert status_of(make_pod(restartPolicy="Always"), stopped)["phase"] == "Running"
    second = status_of(make_pod("p", status={"conditions": body["conditions"]}), stopped)
    assert second["conditions"] == body["conditions"]


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    since = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    pod = make_pod("p", status={"conditions": [ready]})

    unchanged = status_of(pod, record(main=running()))["conditions"]
    changed = status_of(pod, record(main=exited(1)))["conditions"]

    assert next(c for c in unchanged if c["type"] == "Ready")["lastTransitionTime"] == since
    assert next(c for c in changed if c["type"] == "Ready")["lastTransitionTime"] != since


def test_conditions_of_others_stay() -> None:
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }

    body = status_of(make_pod("p", status={"conditions": [scheduled]}), record(main=running()))

    assert scheduled in body["conditions"]


def test_a_finished_pod_is_not_written_again() -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    done = make_pod("p", status={"phase": "Succeeded", "containerStatuses": [ended]})

    assert status_of(done, record(main=exited(0))) == {}


def test_a_finished_pod_names_its_discarded_files_once_it_is_closed() -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    ready = {"type": "Ready", "status": "False", "reason": "PodCompleted"}
    status = {"phase": "Succeeded", "containerStatuses": [ended], "conditions": [ready]}
    closed = replace(record(main=exited(0)), closed=True, discarded="/root/model")

    body = status_of(make_pod("p", status=status), closed)

    assert list(body) == ["conditions"]
    assert [c["type"] for c in body["conditions"]] == ["Ready", FILES_DISCARDED]
    assert body["conditions"][1]["message"].endswith(": /root/model")
    assert status_of(make_pod("p", status=status | body), closed) == {}


def test_a_pod_past_its_active_deadline_has_failed() -> None:
    late = make_pod("p", activeDeadlineSeconds=10, status={"startTime": ago(11).isoformat()})

    body = status_of(late, record(main=exited(137)))

    assert (body["phase"], body["reason"]) == ("Failed", "DeadlineExceeded")


def test_an_ephemeral_container_has_a_status_of_its_own_and_is_never_ready() -> None:
    pod = make_pod("p", container(), ephemeralContainers=[container("d"), container("e")])
    body = status_of(pod, record(main=running(), d=exited(3)), e=WaitingReason("Why", "because"))
    ended, waiting = body["ephemeralContainerStatuses"]

    assert ended["state"]["terminated"]["exitCode"] == 3
    assert waiting["state"] == {"waiting": {"reason": "Why", "message": "because"}}
    assert not ended["ready"]
    assert len(body["containerStatuses"]) == 1
    assert conditions(body)["Ready"] == "True"


def test_the_end_of_an_ephemeral_container_is_reported_after_the_end_of_the_pod() -> None:
    states = {"containerStatuses": "terminated", "ephemeralContainerStatuses": "running"}
    rows = {field: [{"name": "x", "state": {state: {}}}] for field, state in states.items()}
    last = msgspec.convert({"phase": "Succeeded", **rows}, PodStatus)
    pod = make_pod("p", container(), ephemeralContainers=[container("d")])

    ended = msgspec.structs.replace(pod, status=last)

    body = status_of(ended, record(main=exited(), d=exited(143)))

    assert body["ephemeralContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
