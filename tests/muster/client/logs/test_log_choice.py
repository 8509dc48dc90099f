"""Which attempt is the log of a failed job: the one that failed, not one that its end killed."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.core import Pod, PodLog
from kubekit.objects.meta import Key, ObjectMeta
from muster.client.jobs import lookup
from muster.client.jobs.lookup import FoundJob
from muster.client.logs import log_choice
from muster.client.logs.attempts import LogSource, at_container
from muster.client.logs.log_choice import WantedLogs, find_logs
from muster.client.logs.pod_log import LogOptions
from muster.contract.job_kinds import TFJOBS
from muster.jobs import names
from tests.muster.cli.fake_cluster import condition, job, pod

POD = "j-worker-0"


def kept_attempt(number: int) -> PodLog:
    labels = names.labels("tfjob-controller", "j", "worker", 0)
    meta = ObjectMeta(name=f"{number}", namespace="default", labels=labels)
    uid = "uid-j-worker-0"
    return PodLog(metadata=meta, pod_name=POD, pod_uid=uid, container="c", attempt=number)


def source(
    monkeypatch: pytest.MonkeyPatch, kept: int, *, restarts: int | None = None, **wanted: Any
) -> LogSource:
    """The log of a job whose second attempt failed; its pod has so many restarts, if it exists."""
    raw = condition(job("TFJob", "j", {"Worker": 1}), "Failed")
    failed = {"podName": POD, "podUid": "uid-j-worker-0", "container": "c", "attempt": 1}
    raw["status"]["failedAttempt"] = failed
    pods = []
    if restarts is not None:
        raw_pod = pod(raw, "worker", 0, "Running")
        raw_pod["status"]["containerStatuses"] = [{"name": "c", "restartCount": restarts}]
        pods = [msgspec.convert(raw_pod, Pod)]
    monkeypatch.setattr(lookup, "get_job_or_pod", lambda *_: FoundJob(TFJOBS, raw))
    monkeypatch.setattr(FoundJob, "pods", lambda *_: pods)
    attempts = [kept_attempt(number) for number in range(kept)]
    monkeypatch.setattr(log_choice, "attempts_of_job", lambda *_: attempts)
    logs = WantedLogs(LogOptions(previous=wanted.pop("previous", False)), **wanted)
    return find_logs(cast(BlockingClient, None), Key("default", "j"), "", logs).sources[0]


@pytest.mark.parametrize("restarts", [2, None])
@pytest.mark.parametrize(
    ("wanted", "number"), [({}, 2), ({"instance": POD}, 2), ({"previous": True}, 2)]
)
def test_the_attempt_that_failed_is_read_and_not_the_one_that_was_killed(
    monkeypatch: pytest.MonkeyPatch, wanted: Any, number: int, restarts: int | None
) -> None:
    chosen = source(monkeypatch, 3, restarts=restarts, **wanted)

    assert (chosen.number, chosen.attempts) == (number, 3)


def test_the_killed_attempt_is_read_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert source(monkeypatch, 3, attempt=3).number == 3


@pytest.mark.parametrize(("restarts", "previous"), [(1, False), (2, True), (3, False)])
def test_a_cluster_that_keeps_no_attempts_has_the_previous_one(
    monkeypatch: pytest.MonkeyPatch, restarts: int, previous: bool
) -> None:
    assert source(monkeypatch, 0, restarts=restarts).previous is previous


def test_the_main_container_is_read_whichever_container_started_first() -> None:
    def log(container: str, *, main: bool = False) -> PodLog:
        return PodLog(pod_name=POD, container=container, main=main)

    rows = [log("side"), log("train", main=True), log("train", main=True)]

    assert at_container(rows, POD) == rows[1:]
    assert at_container([log("first"), log("second")], POD) == [log("first")]
