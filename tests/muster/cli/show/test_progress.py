"""The status line of a job that is waited for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kubekit.objects.core import Pod, PodSpec, PodStatus
from kubekit.objects.meta import ObjectMeta, Raw
from muster.cli.show.progress import StatusLine
from muster.jobs.view.instance import instance
from muster.jobs.view.summary import JobSummary, summarize


def job(status: str, reason: str = "") -> JobSummary:
    raw: Raw = {"kind": "TFJob", "metadata": {"name": "j", "namespace": "n"}}
    return msgspec.structs.replace(summarize(raw, []), status=status, reason=reason)


def test_in_a_pipe_each_change_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with StatusLine() as line:
        for step in (job("PENDING", "no room"), job("PENDING", "no room"), job("RUNNING")):
            line.show_job(step)
        line.show("waiting for the cluster: no answer")

    assert capsys.readouterr().err.splitlines() == [
        "j PENDING: no room", "j RUNNING", "waiting for the cluster: no answer",
    ]  # fmt: skip


def test_a_line_whose_next_try_comes_closer_is_not_printed_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=100)
    with StatusLine() as line:
        for seconds in (0, 20):
            waiting = msgspec.structs.replace(
                job("RESTARTING", "crashed"), next_try=soon - timedelta(seconds=seconds)
            )
            line.show_job(waiting)

    (text,) = capsys.readouterr().err.splitlines()
    assert text.startswith("j RESTARTING: crashed; next try in 1 min ")


def test_every_change_of_an_instance_is_printed_on_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = Pod(metadata=ObjectMeta(name="j-worker-0"), status=PodStatus(phase="Pending"))
    running = msgspec.structs.replace(
        waiting, spec=PodSpec(node_name="n1"), status=PodStatus(phase="Running")
    )
    with StatusLine(instances=True) as line:
        for pod in (waiting, waiting, running):
            line.show_job(msgspec.structs.replace(job("RUNNING"), instances=(instance(pod),)))

    lines = [row for row in capsys.readouterr().err.splitlines() if row.startswith("j-worker-0")]
    assert lines == ["j-worker-0 Pending", "j-worker-0 Running on n1"]


def test_an_interrupted_wait_says_that_the_job_continues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyboardInterrupt), StatusLine():
        raise KeyboardInterrupt

    assert capsys.readouterr().err.splitlines()[-1] == "no longer waiting; the job continues"
