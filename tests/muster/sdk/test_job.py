"""A job as an object, on a local cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import muster
from tests.muster.words import exited
from tests.waiting import until


def test_the_log_is_followed_to_its_end(cluster: muster.LocalCluster, namespace: str) -> None:
    job = cluster.submit(
        "pytorch",
        name="lines",
        command="echo one; sleep 0.3; echo two; printf three",
        namespace=namespace,
    )

    assert list(job.logs(follow=True)) == ["one", "two", "three"]
    assert job.wait(timeout="1m").status() == "SUCCEEDED"
    assert list(job.logs(tail=1)) == ["three"]


def test_every_line_of_all_replicas_has_its_pod(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    job = cluster.submit("pytorch", "echo hi", name="all", workers=2, namespace=namespace)
    job.wait(timeout="1m")

    assert sorted(job.logs(all_replicas=True)) == ["all-master-0 | hi", "all-worker-0 | hi"]
    assert list(job.logs(replica="worker-0")) == ["hi"]
    with pytest.raises(muster.UsageError, match="cannot be used together"):
        job.logs(replica="worker-0", all_replicas=True)
    with pytest.raises(muster.NotFound, match="no replica worker-7"):
        list(job.logs(replica="worker-7"))


def test_a_failure_names_the_replica_its_exit_code_and_its_last_lines(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    job = cluster.submit(
        "pytorch", "echo loading; echo no GPU found; exit 7", name="bad", namespace=namespace
    )

    with pytest.raises(muster.JobFailed) as failed:
        job.wait(timeout="1m")

    error = failed.value
    assert (error.job, error.replica, error.exit_code) == ("bad", "bad-master-0", 7)
    assert error.last_lines == ("loading", "no GPU found")
    assert f"master {exited(7)}" in str(error)
    assert f"arena logs bad -n {namespace}" in error.__notes__[0]


def test_a_wait_ends_at_its_timeout_and_the_job_goes_on(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    job = cluster.submit("pytorch", "sleep 300", name="long", namespace=namespace)
    job.wait(timeout="1m", until="running")

    with pytest.raises(TimeoutError, match="the job long is still running") as late:
        job.wait(timeout=0.2)

    assert isinstance(late.value, muster.WaitTimeout)
    assert job.status() == "RUNNING"


def test_a_job_that_waits_is_explained(cluster: muster.LocalCluster, namespace: str) -> None:
    job = cluster.submit("pytorch", "true", name="big", gpus=3, namespace=namespace)

    until(lambda: job.explain().code == "FitsNowhere")

    explanation = job.explain()
    assert repr(explanation).startswith(f"big is waiting: {explanation.reason}")


def test_a_job_is_scaled_suspended_resumed_and_deleted(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    job = cluster.submit("pytorch", "sleep 300", name="busy", workers=2, namespace=namespace)
    job.wait(timeout="1m", until="running")

    job.scale(3)
    assert job.summary().replicas == 3
    job.suspend()
    until(lambda: job.status() == "SUSPENDED")
    job.resume()
    job.wait(timeout="1m", until="running")
    job.delete()
    job.wait(timeout="1m", until="deleted")

    with pytest.raises(muster.NotFound, match="the job busy was deleted"):
        job.status()
    job.delete()  # once more is no error
    with pytest.raises(muster.UsageError, match="greater than 0"):
        job.scale(0)


def test_a_job_never_acts_on_another_job_of_its_name(
    cluster: muster.LocalCluster, namespace: str
) -> None:
    first = cluster.submit("pytorch", "sleep 300", name="twin", namespace=namespace)
    first.delete()
    first.wait(timeout="1m", until="deleted")
    second = cluster.submit("pytorch", "sleep 300", name="twin", namespace=namespace)

    first.delete()
    first.wait(timeout="1m", until="deleted")
    with pytest.raises(muster.NotFound):
        list(first.logs())

    assert second != first
    assert second.status() in ("PENDING", "RUNNING")
    assert cluster.get_job("twin", namespace=namespace) == second


INTERRUPTED = """
import sys
import muster
job = muster.submit("pytorch", "echo started; sleep 300", name="watched", namespace=sys.argv[1])
job.wait(until="running")
try:
    print("watching", flush=True)
    {call}
except KeyboardInterrupt:
    print(job.status())
"""


@pytest.mark.parametrize("call", ["job.wait()", "print(*job.logs(follow=True))"])
def test_ctrl_c_ends_the_watching_and_not_the_job(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path, call: str
) -> None:
    program = tmp_path / "watch.py"
    program.write_text(INTERRUPTED.format(call=call))

    watching = subprocess.Popen(
        [sys.executable, program, namespace],
        env={**os.environ, **cluster.environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert watching.stdout.readline() == "watching\n"
    watching.send_signal(signal.SIGINT)
    output, _ = watching.communicate(timeout=60)

    assert output == "RUNNING\n"
