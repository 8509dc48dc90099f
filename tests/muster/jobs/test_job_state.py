"""The word for a job that restarts: which replica, how it ended, how often, and the next try."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.objects.core import Pod
from muster.jobs import job_sentences
from muster.jobs.job_state import crash_of
from muster.jobs.view.summary import summarize
from tests.muster.jobs.test_summary import job, pod
from tests.muster.words import exited, failed_of_late, restarted

ENDED = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-02T03:05:00Z"}
LOOP = {"reason": "CrashLoopBackOff", "message": "back-off 20s restarting failed container=x"}


def container(restarts: int = 2, last: dict[str, Any] | None = None, **state: Any) -> Any:
    """The statuses of a pod whose only container crashed."""
    row = {"name": "tensorflow", "restartCount": restarts, "state": state}
    return {"containerStatuses": [row | {"lastState": {"terminated": last or ENDED}}]}


def at(minute: int, second: int) -> datetime:
    return datetime(2026, 1, 2, 3, minute, second, tzinfo=UTC)


def test_a_job_with_a_crashing_replica_is_restarting() -> None:
    crashed = pod(index=1, **container(last=ENDED | {"message": "step 1\nboom\n"}, waiting=LOOP))
    summary = summarize(job("Created", "Running"), [pod(), crashed])

    assert summary.status == "RESTARTING"
    text = f"restarted 2 times; the last time it {exited(3, 'boom')}"
    assert summary.reason == f"worker 1 {text}"
    assert summary.next_try == at(5, 20)
    assert summary.counts == "1 running, 1 restarting of 3"
    assert [row.reason for row in summary.instances] == ["", text]


@pytest.mark.parametrize(
    ("policy", "state", "expected"),
    [
        ("Running", {"phase": "Running"}, "1 failed, 1 stopping of 3"),
        ("Running", {"phase": "Pending"}, "1 failed, 1 stopping of 3"),
        ("Running", container(waiting=LOOP), "2 failed of 3"),
        ("None", {"phase": "Running"}, "1 failed, 1 still running of 3"),
        ("None", {"phase": "Pending"}, "1 failed, 1 still pending of 3"),
        ("None", container(waiting=LOOP), "1 failed, 1 still restarting of 3"),
    ],
)
def test_the_counts_of_a_job_that_failed_call_no_replica_running_that_is_being_stopped(
    policy: str, state: dict[str, Any], expected: str
) -> None:
    failed = job("Failed", replicaStatuses={"Worker": {"failed": 1}})
    failed["spec"]["cleanPodPolicy"] = policy
    pods = [pod(phase="Failed"), pod(index=1, **state)]

    assert summarize(failed, pods).counts == expected


def test_a_job_that_exceeded_its_deadline_is_stopped_whatever_its_policy() -> None:
    failed = job("Failed", failure={"code": "DeadlineExceeded", "limit": "60"})
    summary = summarize(failed, [pod(), pod(index=1)])

    assert summary.counts == "2 stopping of 3"
    assert summary.left_pods == ""


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        ("2026-01-02T03:04:50Z", "worker 1 "),
        ("2026-01-02T02:04:50Z", f"worker 0 {restarted(1, 3)}"),
    ],
)
def test_a_crash_of_several_replicas_names_the_one_that_came_first(
    finished: str, expected: str
) -> None:
    killed = {"exitCode": 137, "signal": 9, "finishedAt": finished}
    pods = [
        pod(index=0, **container(1, waiting=LOOP)),
        pod(index=1, **container(2, killed, waiting=LOOP)),
    ]
    summary = summarize(job("Created", "Running"), pods)

    assert summary.reason.startswith(expected)
    assert summary.reason.endswith("; 1 other replica restarted too")


def test_a_long_log_line_is_cut_in_the_reason_and_whole_in_the_crash() -> None:
    row = pod(**container(1, ENDED | {"message": "x" * 200}, waiting=LOOP))
    summary = summarize(job("Created", "Running"), [row])

    assert summary.reason.endswith(f"{exited(3)}: {'x' * 120}…")
    crash = summary.instances[0].crash
    assert crash is not None
    assert crash.last_line == "x" * 200


def test_a_replica_that_runs_again_says_how_often_it_crashed() -> None:
    summary = summarize(job("Created", "Running"), [pod(**container(running={}))])

    assert (summary.status, summary.next_try) == ("RUNNING", None)
    assert summary.reason == f"worker 0 {restarted(2, 3)}"


def test_a_crashing_init_container_restarts_the_job_too() -> None:
    row = container(1, waiting=LOOP)["containerStatuses"][0] | {"name": "sync-code"}
    spec = {"containers": [{"name": "tensorflow"}], "initContainers": [{"name": "sync-code"}]}
    waiting = pod(phase="Pending", initContainerStatuses=[row], spec=spec)
    summary = summarize(job("Created"), [waiting])

    assert summary.status == "RESTARTING"
    assert summary.reason == f"worker 0 {restarted(1, 3, container='sync-code')}"


def test_a_backoff_of_the_operator_is_a_restart_with_a_time() -> None:
    waiting = {"reason": "BackOff", "message": "why", "until": "2026-01-02T03:06:00Z"}
    summary = summarize(job("Created", "Restarting", waiting=waiting, restarts=4), [])

    assert (summary.status, summary.reason) == ("RESTARTING", "why")
    assert (summary.next_try, summary.restarts) == (at(6, 0), 4)


def test_the_end_of_a_backoff_is_of_the_replica_in_its_message() -> None:
    lasts = [{"pod": f"j-worker-{n}", "role": "worker", "index": n, "exitCode": n} for n in (1, 2)]
    failures = {
        "worker-1": {"count": 5, "at": "2026-01-02T03:00:00Z", "last": lasts[0]},
        "worker-2": {"count": 1, "at": "2026-01-02T03:01:00Z", "last": lasts[1]},
    }
    for with_gang in (False, True):
        message = failed_of_late("worker 1", 5, 1, with_gang=with_gang)
        waiting = {"reason": "BackOff", "message": message}
        raw = job("Created", "Restarting", waiting=waiting, failures=failures)

        ending = summarize(raw, []).ending
        assert ending is not None
        assert ending.pod == "j-worker-1"


def test_a_job_whose_reason_is_its_manifest_has_no_end_of_a_replica() -> None:
    last = {"pod": "j-worker-1", "role": "worker", "index": 1, "exitCode": 1}
    row = {"count": 1, "at": "2026-01-02T03:00:00Z", "last": last}
    raw = job("Created", "Running", failures={"worker-1": row})
    assert summarize(raw, []).ending is not None

    raw["spec"]["runPolicy"] = "none"
    summary = summarize(raw, [])
    assert ("runPolicy" in summary.reason, summary.ending) == (True, None)


def test_a_failure_of_a_replica_that_no_operator_names_so_is_shown_by_its_name() -> None:
    row = {"count": 1, "at": "2026-01-02T03:00:00Z", "last": {"pod": "x", "exitCode": 1}}
    raw = job("Created", "Running", failures={"no index": row})

    assert summarize(raw, []).reason == failed_of_late("no index", 1, 1)


def test_an_old_reason_is_not_shown_once_all_pods_run() -> None:
    raw = job("Created")
    raw["status"]["waiting"] = {"reason": "Unschedulable", "message": "0 of 2 workers fit"}

    assert summarize(raw, [pod(), pod(index=1)]).reason == ""
    assert summarize(raw, []).reason == "0 of 2 workers fit"


def test_a_replacement_that_waits_for_a_node_is_pending() -> None:
    row = {"type": "PodScheduled", "status": "False", "message": "short 1 GPU"}
    summary = summarize(job("Created", "Restarting"), [pod(phase="Pending", conditions=[row])])

    assert (summary.status, summary.reason) == ("PENDING", "short 1 GPU")


def test_a_replica_that_waits_beside_running_ones_is_named() -> None:
    row = {"type": "PodScheduled", "status": "False", "message": "short 1 GPU"}
    summary = summarize(
        job("Created", "Running"), [pod(), pod(index=1, phase="Pending", conditions=[row])]
    )

    assert (summary.status, summary.reason) == ("PENDING", "worker 1: short 1 GPU")


NO_ROOM = "0 of 1 worker fit; short 1 GPU"


@pytest.mark.parametrize(
    ("size", "formed", "expected"),
    [
        (
            "worker=4",
            True,
            ("RUNNING", f"1 of 2 run; the others wait: {NO_ROOM}"),
        ),
        ("worker=2", True, ("PENDING", f"worker 1: {NO_ROOM}")),
        ("worker=4", False, ("PENDING", f"worker 1: {NO_ROOM}")),
    ],
)
def test_only_a_job_that_was_scaled_up_runs_on_while_replicas_wait(
    size: str, formed: bool, expected: tuple[str, str]
) -> None:
    row = {"type": "PodScheduled", "status": "False", "message": NO_ROOM}
    pods = [
        _of_size(pod(), "worker=2"),
        _of_size(pod(index=1, phase="Pending", conditions=[row]), size),
    ]
    summary = summarize(job("Created", "Running", formed=formed), pods)

    assert (summary.status, summary.reason) == expected


def test_a_job_that_runs_in_part_says_that_a_quota_refuses_the_rest() -> None:
    waits = {"reason": "QuotaExceeded", "message": "exceeded quota: team"}
    summary = summarize(job("Created", "Running", waiting=waits), [pod()])

    assert summary.status == "RUNNING"
    assert summary.reason == "the other replicas wait: exceeded quota: team"


def _of_size(row: Pod, size: str) -> Pod:
    annotations = {"muster.dev/cluster-size": size}
    return replace(row, metadata=replace(row.metadata, annotations=annotations))


def test_a_suspended_job_says_so() -> None:
    summary = summarize(job("Created", "Suspended"), [])

    assert summary.reason == job_sentences.suspended("TFJob", "j")


@pytest.mark.parametrize(
    ("phases", "status", "expected"),
    [
        (["Succeeded"], {"Worker": {"succeeded": 2}, "PS": {"succeeded": 1}}, "3 succeeded of 3"),
        ([], {"Worker": {"succeeded": 2}, "PS": {"succeeded": 1}}, "3 succeeded of 3"),
        (["Succeeded", "Running"], {"Worker": {"succeeded": 1}}, "1 succeeded, 1 running of 3"),
        (["Succeeded", "Running"], {"Worker": {"succeeded": 3}}, "3 succeeded of 3"),
        (
            ["Succeeded", "Running", "Running"],
            {"Worker": {"succeeded": 1}, "PS": {"succeeded": 1}},
            "2 succeeded, 1 running of 3",
        ),
        (
            [],
            {"Worker": {"succeeded": 1, "failed": 1}, "PS": {"succeeded": 1}},
            "2 succeeded, 1 failed of 3",
        ),
        ([], {"Worker": {"succeeded": 2}}, "2 succeeded, 1 not finished of 3"),
        ([], {}, ""),
    ],
)
def test_the_counts_of_a_job_that_succeeded_include_pods_that_are_gone(
    phases: list[str], status: dict[str, Any], expected: str
) -> None:
    pods = [pod(index=index, phase=phase) for index, phase in enumerate(phases)]
    summary = summarize(job("Succeeded", replicaStatuses=status), pods)

    assert summary.counts == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("back-off 10s restarting failed container=x pod=y", at(5, 10)),
        ("back-off 2m40s restarting failed container=x pod=y", at(7, 40)),
        ("back-off 5m0s restarting failed container=x pod=y", at(10, 0)),
        ("back-off 1.5.3s restarting failed container=x pod=y", None),
        (f"back-off {'9' * 400}h restarting failed container=x pod=y", None),
        ("something else", None),
        ("", None),
    ],
)
def test_the_next_try_is_counted_from_the_last_end(message: str, expected: datetime | None) -> None:
    crash = crash_of(pod(**container(waiting={"reason": "CrashLoopBackOff", "message": message})))

    assert crash is not None
    assert crash.next_try == expected


@pytest.mark.parametrize(
    "status",
    [
        {},
        container(0, {}, running={}),
        container(1, {"exitCode": 0}, running={}),
        {"containerStatuses": [{"name": "x", "state": {"waiting": {"reason": "ErrImagePull"}}}]},
    ],
    ids=["new", "first run", "ended well", "no image"],
)
def test_a_pod_without_a_crash_has_none(status: dict[str, Any]) -> None:
    assert crash_of(pod(**status)) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("job j is restarting because Worker 1 is gone.", "Worker 1 is gone."),
        (
            "job j is restarting because it was preempted by ns/big, which has a higher priority.",
            "it was preempted by ns/big, which has a higher priority.",
        ),
        ("Another operator's words.", "Another operator's words."),
    ],
)
def test_the_reason_of_a_restart_in_words_of_others_says_nothing_twice(
    message: str, reason: str
) -> None:
    raw = job("Created", "Restarting")
    raw["status"]["conditions"][-1]["message"] = message

    summary = summarize(raw, [])

    assert (summary.status, summary.reason) == ("RESTARTING", reason)


def test_what_took_the_pods_and_why_the_next_ones_wait_are_one_sentence() -> None:
    waits = {"reason": "Unschedulable", "message": "0 of 2 workers fit", "since": None}
    raw = job("Created", preempted="stopped by node n: The cluster stopped.", waiting=waits)

    summary = summarize(raw, [])

    assert summary.reason == "stopped by node n: The cluster stopped; 0 of 2 workers fit"
