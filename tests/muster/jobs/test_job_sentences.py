"""The sentences about jobs that failed or restart. No other test pins them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubekit.objects.meta import Key
from muster.jobs import job_sentences
from muster.jobs.job_state import state_of
from muster.jobs.job_status import (
    Ending,
    JobCondition,
    JobFailure,
    JobRestart,
    JobStatus,
    ReplicaFailures,
)
from tests.muster.words import exited

LONG_AGO = datetime(2026, 1, 2, tzinfo=UTC)
WORKER = Ending("j-worker-1", "worker", 1, exit_code=2, last_lines=("boom",))
LINES = Ending("j-worker-1", "worker", 1, exit_code=1, last_lines=("Traceback", "ValueError: x"))
NOT_FOUND = Ending("j-worker-1", "worker", 1, exit_code=127, last_lines=("sh: 1: x: not found",))
CHIEF = Ending("j-chief-0", "chief", exit_code=137, reason="OOMKilled")


@pytest.mark.parametrize(
    ("failure", "message", "reason"),
    [
        (
            JobFailure("ReplicasFailed", WORKER, "Worker", 1),
            "TFJob ns/j has failed because 1 Worker replica(s) failed. "
            "First: pod j-worker-1 exited with code 2: boom.",
            "worker 1 exited with code 2: boom.",
        ),
        (
            JobFailure("ReplicasFailed", LINES, "Worker", 3),
            "TFJob ns/j has failed because 3 Worker replica(s) failed. First: pod j-worker-1 "
            "exited with code 1. Its last lines:\nTraceback\nValueError: x",
            "3 workers failed; the first, worker 1, exited with code 1: ValueError: x",
        ),
        (
            JobFailure("ReplicasFailed", WORKER, "Worker", 1, without_retry=True),
            "TFJob ns/j has failed because 1 Worker replica(s) failed. With --retry=3 "
            "(restartPolicy: OnFailure, backoffLimit: 3) it would be tried again. "
            "First: pod j-worker-1 exited with code 2: boom.",
            "worker 1 exited with code 2: boom.",
        ),
        (
            JobFailure("ReplicasFailed", NOT_FOUND, "Worker", 1, without_retry=True),
            "TFJob ns/j has failed because 1 Worker replica(s) failed. "
            "First: pod j-worker-1 exited with code 127: sh: 1: x: not found.",
            "worker 1 exited with code 127: sh: 1: x: not found.",
        ),
        (
            JobFailure("ReplicasFailed", CHIEF, "Chief", 1),
            "TFJob ns/j has failed because 1 Chief replica(s) failed. "
            "First: pod j-chief-0 was OOMKilled (exit code 137).",
            "chief was OOMKilled (exit code 137).",
        ),
        (
            JobFailure("BackoffLimitExceeded", WORKER, limit="3", failures=3),
            "Job j has failed because it has reached the specified backoff limit "
            "(backoffLimit 3, 3 failures). First: pod j-worker-1 exited with code 2: boom.",
            "it failed 3 times, the limit --retry=3 (backoffLimit) is used up; "
            "worker 1 exited with code 2: boom.",
        ),
        (
            JobFailure("DeadlineExceeded", limit="60"),
            "Job j has failed because it was active longer than specified deadline "
            "(activeDeadlineSeconds 60)",
            "it had not ended after 60 seconds, the limit --running-timeout=60s "
            "(activeDeadlineSeconds)",
        ),
        (
            JobFailure("StartingDeadlineExceeded", limit="60"),
            "Job j has failed because it had not started after 60 seconds, the limit "
            "--starting-timeout=60s",
            "it had not started after 60 seconds, the limit --starting-timeout=60s",
        ),
        (
            JobFailure("NoneSucceeded"),
            "TFJob ns/j has failed because all its pods have ended and none that decides its "
            "success succeeded.",
            "all its pods have ended and none that decides its success succeeded.",
        ),
    ],
)
def test_a_failure_has_a_message_for_other_clients_and_a_reason_for_people(
    failure: JobFailure, message: str, reason: str
) -> None:
    assert job_sentences.failure_message("TFJob", Key("ns", "j"), failure) == message
    assert job_sentences.failure_reason(failure) == reason


@pytest.mark.parametrize(
    ("restart", "cause", "reason"),
    [
        (
            JobRestart("ReplicasFailed", WORKER, 1),
            "Worker replica(s) failed. First: pod j-worker-1 exited with code 2: boom.",
            "worker 1 exited with code 2: boom.",
        ),
        (
            JobRestart("Interrupted", Ending("p", reason="Evicted", last_lines=("full",)), 2),
            "2 pods were interrupted. First: pod p was interrupted (Evicted): full.",
            None,
        ),
        (
            JobRestart("Interrupted", Ending("p"), 1, "preempted by ns/big"),
            "pod p was preempted by ns/big.",
            None,
        ),
        (
            JobRestart("WorkerDeleted", Ending("j-worker-0", "worker")),
            "worker 0 was deleted while the launcher ran.",
            None,
        ),
        (JobRestart("ReplicaGone", WORKER), "worker 1 is gone.", None),
        (
            JobRestart("RestartedInPlace", WORKER),
            "worker 1 restarted after it exited with code 2: boom.",
            None,
        ),
        (
            JobRestart("Preempted", preempted="preempted by ns/big"),
            "it was preempted by ns/big.",
            None,
        ),
        (JobRestart("NoneRuns"), "none of its pods runs any more.", None),
    ],
)
def test_a_restart_has_a_message_for_other_clients_and_a_reason_for_people(
    restart: JobRestart, cause: str, reason: str | None
) -> None:
    assert job_sentences.restart_message("j", restart) == f"job j is restarting because {cause}"
    assert job_sentences.restart_reason(restart) == (reason or cause)


def test_failures_of_late_name_the_replica_and_its_last_end() -> None:
    row = ReplicaFailures(3, LONG_AGO, WORKER)
    assert job_sentences.failed_of_late("worker 1", row) == (
        "worker 1 failed 3 times; the last time it exited with code 2: boom"
    )
    assert job_sentences.failed_of_late("worker 1", row, with_gang=True) == (
        "the gang failed 3 times; the last time worker 1 exited with code 2: boom"
    )
    alone = ReplicaFailures(1, LONG_AGO)
    assert job_sentences.failed_of_late("worker 1", alone) == "worker 1 failed once"


def test_a_suspended_job_names_the_command_that_resumes_it() -> None:
    text = "TFJob j is suspended; `arena resume j` starts it again"
    assert job_sentences.suspended("TFJob", "j") == text


@pytest.mark.parametrize("message", ["", "any words at all", "First: pod x y. Its last lines:\nz"])
def test_the_state_of_a_job_does_not_depend_on_the_words_of_its_conditions(message: str) -> None:
    def told(type_: str, **fields: Any) -> tuple[str, str, tuple[str, ...]]:
        conditions = (JobCondition(type_, "True", "r", message),)
        state = state_of(JobStatus(conditions, **fields), [])
        return state.word, state.reason, state.last_lines

    assert told("Failed", failure=JobFailure("ReplicasFailed", LINES, "Worker", 1)) == (
        "FAILED",
        f"worker 1 {exited(1, 'ValueError: x')}",
        ("Traceback", "ValueError: x"),
    )
    assert told("Restarting", restart=JobRestart("ReplicaGone", WORKER)) == (
        "RESTARTING",
        "worker 1 is gone.",
        (),
    )
