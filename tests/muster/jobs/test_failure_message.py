"""Messages of failed jobs in plain words."""

from __future__ import annotations

import pytest

from muster.jobs.job_state import Failure, read_failure


@pytest.mark.parametrize(
    ("message", "reason", "pod"),
    [
        (
            "TFJob ns/j has failed because 1 Worker replica(s) failed. "
            "First: pod j-worker-1 exited with code 2: boom.",
            "worker 1 exited with code 2: boom.",
            "j-worker-1",
        ),
        (
            "TFJob ns/j has failed because 1 Chief replica(s) failed. "
            "First: pod j-chief-0 was OOMKilled (exit code 137).",
            "chief was OOMKilled (exit code 137).",
            "j-chief-0",
        ),
        (
            "TFJob ns/j has failed because 3 Worker replica(s) failed. "
            "First: pod j-worker-2 exited with code 1.",
            "3 workers failed; the first, worker 2, exited with code 1.",
            "j-worker-2",
        ),
        (
            "MPIJob ns/j has failed because 1 Launcher replica(s) failed. "
            "First: pod j-launcher-x7k2p exited with code 1.",
            "launcher exited with code 1.",
            "j-launcher-x7k2p",
        ),
        (
            "Job j has failed because it has reached the specified backoff limit "
            "(backoffLimit 3, 3 failures). First: pod j-worker-1 exited with code 1.",
            "it failed 3 times, the limit --retry=3 (backoffLimit) is used up; "
            "worker 1 exited with code 1.",
            "j-worker-1",
        ),
        (
            "Job j has failed because it has reached the specified backoff limit. "
            "First: pod j-worker-1 exited with code 1.",
            "it has reached the specified backoff limit; worker 1 exited with code 1.",
            "j-worker-1",
        ),
        (
            "TFJob ns/j has failed because 1 Worker replica(s) failed. First: pod odd failed.",
            "pod odd failed.",
            "odd",
        ),
        (
            "Job j has failed because it was active longer than specified deadline",
            "it was active longer than specified deadline",
            "",
        ),
        # training-operator's own message:
        (
            "TFJob ns/j has failed because 1 Worker replica(s) failed.",
            "1 Worker replica(s) failed.",
            "",
        ),
        ("spec.tfReplicaSpecs: is missing", "spec.tfReplicaSpecs: is missing", ""),
        ("", "", ""),
    ],
)
def test_a_failure_names_the_replica_and_how_it_ended(message: str, reason: str, pod: str) -> None:
    assert read_failure(message, "j") == Failure(reason, (), pod)


def test_the_last_lines_follow_the_sentence() -> None:
    message = (
        "TFJob ns/j has failed because 1 Worker replica(s) failed. First: pod j-worker-1 exited "
        "with code 1. Its last lines:\nTraceback. First: pod x y\nValueError: boom"
    )
    lines = ("Traceback. First: pod x y", "ValueError: boom")
    reason = "worker 1 exited with code 1: ValueError: boom"
    assert read_failure(message, "j") == Failure(reason, lines, "j-worker-1")
