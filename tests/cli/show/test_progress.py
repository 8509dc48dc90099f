"""Waiting for a job: a line when something changes, and its end as an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from muster.api.core import Pod, PodSpec, PodStatus
from muster.api.meta import ObjectMeta
from muster.cli.show import progress
from muster.errors import JobFailed, MusterError, NotFound, Unreachable
from muster.jobs.summary import JobSummary, instance, summarize

Step = JobSummary | MusterError


def job(status: str, reason: str = "") -> JobSummary:
    raw: dict[str, Any] = {"kind": "TFJob", "metadata": {"name": "j", "namespace": "n"}}
    return msgspec.structs.replace(summarize(raw, []), status=status, reason=reason)


def looking(steps: Iterable[Step]) -> Callable[[], JobSummary]:
    coming = iter(steps)

    def look() -> JobSummary:
        step = next(coming)
        if isinstance(step, MusterError):
            raise step
        return step

    return look


def wait(*steps: Step) -> JobSummary:
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


@pytest.mark.parametrize("kept", [True, False])
def test_who_is_told_of_a_failure_is_sent_to_the_logs_only_if_there_are_any(kept: bool) -> None:
    steps = looking([job("FAILED", "out of memory")])
    with pytest.raises(JobFailed) as failed:
        progress.until_finished(steps, sleep=lambda _: None, keeps_logs=lambda _: kept)

    assert ("arena logs j -n n" in failed.value.hint) is kept
    assert ("logs with them" in failed.value.hint) is not kept


def test_every_instance_is_told_of_where_that_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = Pod(metadata=ObjectMeta(name="j-worker-0"), status=PodStatus(phase="Pending"))
    running = msgspec.structs.replace(
        waiting, spec=PodSpec(node_name="n1"), status=PodStatus(phase="Running")
    )
    steps = [
        msgspec.structs.replace(job("RUNNING"), instances=(instance(pod),))
        for pod in (waiting, waiting, running)
    ]
    progress.until_finished(
        looking([*steps, job("SUCCEEDED")]), instances=True, sleep=lambda _: None
    )

    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("j-worker-0")]
    assert told == ["j-worker-0 Pending", "j-worker-0 Running on n1"]


def test_a_cluster_that_is_away_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert wait(job("RUNNING"), Unreachable("no answer"), job("SUCCEEDED")).status == "SUCCEEDED"
    assert "waiting for the cluster: no answer" in capsys.readouterr().err


def test_a_job_that_is_deleted_meanwhile_is_not_found() -> None:
    with pytest.raises(NotFound, match="the job was deleted meanwhile"):
        wait(job("RUNNING"), NotFound("gone"))


def test_who_stops_waiting_is_told_that_the_job_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        progress.until_finished(looking([job("RUNNING")]), sleep=interrupt)

    assert capsys.readouterr().err.splitlines()[-1] == "no longer waiting; the job goes on"
