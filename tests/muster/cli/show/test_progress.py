"""The status line of a job that is waited for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kubekit.objects.core import Pod, PodSpec, PodStatus
from kubekit.objects.meta import ObjectMeta
from muster.cli.show.progress import StatusLine
from muster.jobs.view.instance import instance
from tests.muster.jobs.builders import summary

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_in_a_pipe_each_change_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with StatusLine(lambda: NOW) as line:
        waits = summary("PENDING", "no room")
        for step in (waits, waits, summary("RUNNING")):
            line.show_job(step)
        line.show("waiting for the cluster: no answer")

    assert capsys.readouterr().err.splitlines() == [
        "j PENDING: no room", "j RUNNING", "waiting for the cluster: no answer",
    ]  # fmt: skip


def test_a_line_whose_next_try_comes_closer_is_not_printed_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    soon = NOW + timedelta(seconds=100)
    with StatusLine(lambda: NOW) as line:
        for seconds in (0, 20):
            waiting = msgspec.structs.replace(
                summary("RESTARTING", "crashed"), next_try=soon - timedelta(seconds=seconds)
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
    with StatusLine(lambda: NOW, instances=True) as line:
        for pod in (waiting, waiting, running):
            line.show_job(msgspec.structs.replace(summary("RUNNING"), instances=(instance(pod),)))

    lines = [row for row in capsys.readouterr().err.splitlines() if row.startswith("j-worker-0")]
    assert lines == ["j-worker-0 Pending", "j-worker-0 Running on n1"]


def test_an_interrupted_wait_says_that_the_job_continues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyboardInterrupt), StatusLine(lambda: NOW):
        raise KeyboardInterrupt

    assert capsys.readouterr().err.splitlines()[-1] == "no longer waiting; the job continues"
