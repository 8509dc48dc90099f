"""Waiting for a job: a line when something changes, and its end as an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from muster.cli import progress
from muster.errors import JobFailed, MusterError, NotFound, Unreachable
from muster.jobs.view import View, view

Step = View | MusterError


def job(status: str, reason: str = "") -> View:
    raw: dict[str, Any] = {"kind": "TFJob", "metadata": {"name": "j", "namespace": "n"}}
    return msgspec.structs.replace(view(raw, []), status=status, reason=reason)


def looking(steps: Iterable[Step]) -> Callable[[], View]:
    coming = iter(steps)

    def look() -> View:
        step = next(coming)
        if isinstance(step, MusterError):
            raise step
        return step

    return look


def wait(*steps: Step) -> View:
    return progress.until_finished(looking(steps), sleep=lambda _: None)


def test_success_is_waited_for_and_each_change_is_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = wait(job("PENDING", "no room"), job("PENDING", "no room"), job("RUNNING"),
                 job("SUCCEEDED"))  # fmt: skip

    assert ended.status == "SUCCEEDED"
    assert capsys.readouterr().err.splitlines() == [
        "j PENDING: no room", "j RUNNING", "j SUCCEEDED",
    ]  # fmt: skip


def test_a_failed_job_is_an_error_with_the_exit_code_of_its_own() -> None:
    with pytest.raises(JobFailed, match="the job j failed: out of memory") as failed:
        wait(job("RUNNING"), job("FAILED", "out of memory"))

    assert failed.value.exit_code == 10
    assert "arena logs j -n n" in failed.value.hint


def test_a_cluster_that_is_away_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert wait(job("RUNNING"), Unreachable("no answer"), job("SUCCEEDED")).status == "SUCCEEDED"
    assert "waiting for the cluster: no answer" in capsys.readouterr().err


def test_a_job_that_is_deleted_meanwhile_is_not_found() -> None:
    with pytest.raises(NotFound):
        wait(job("RUNNING"), NotFound("gone"))
