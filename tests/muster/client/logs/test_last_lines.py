"""The last log line of a container that crashed, where its pod's status does not have it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.core import Pod, PodLog
from kubekit.objects.meta import Key, ObjectMeta, Raw
from kubekit.request_errors import NotFound
from muster.client.jobs.lookup import FoundJob
from muster.client.logs.last_lines import MAX_LOGS, lines_of_failure, summary_with_last_lines
from muster.contract.job_kinds import TFJOBS
from tests.muster.cli.fake_cluster import FakeCluster, ago, condition, job, pod
from tests.muster.words import exited, failed_of_late, restarted


class Logs:
    """The logs of one pod: of its last attempt and, with `previous`, of the one before."""

    def __init__(self, last: bytes = b"", previous: bytes = b"") -> None:
        self.texts = {False: last, True: previous}
        self.reads: list[str] = []

    def logs(self, key: Key, *, previous: bool, **_: Any) -> Iterator[bytes]:
        self.reads.append(key.name)
        if not self.texts[previous]:
            raise NotFound("no log")
        yield self.texts[previous]


def crashed(status: Raw, workers: int = 1) -> tuple[FoundJob, list[Pod]]:
    raw = condition(job("TFJob", "j", {"Worker": workers}), "Running")
    pods = [pod(raw, "worker", index, "Running") for index in range(workers)]
    for row in pods:
        row["spec"]["restartPolicy"] = "OnFailure"
        row["status"]["containerStatuses"] = [{"name": "c", "restartCount": 1, **status}]
    return FoundJob(TFJOBS, raw), [msgspec.convert(row, Pod, strict=False) for row in pods]


def end(code: int) -> Raw:
    return {"terminated": {"exitCode": code, "finishedAt": ago(5)}}


WAITS = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": end(3)}


def reason(logs: Logs, status: Raw) -> str:
    return summary_with_last_lines(cast(BlockingClient, logs), *crashed(status)).reason


def test_a_container_that_waits_shows_the_line_of_the_attempt_before() -> None:
    assert reason(Logs(previous=b"boom\n"), WAITS) == f"worker 0 {restarted(1, 3, 'boom')}"
    assert reason(Logs(), WAITS) == f"worker 0 {restarted(1, 3)}"


def test_a_container_that_runs_again_shows_the_line_of_the_attempt_before() -> None:
    status = {"state": {"running": {}}, "lastState": end(3), "restartCount": 3}

    text = f"worker 0 {restarted(3, 3, 'boom')}"
    assert reason(Logs(last=b"new\n", previous=b"boom\n"), status) == text


def test_a_container_that_just_ended_shows_its_own_line() -> None:
    status = {"state": end(4), "lastState": end(3)}

    text = f"worker 0 {restarted(1, 4, 'now')}"
    assert reason(Logs(last=b"now\n", previous=b"before\n"), status) == text


def test_a_few_logs_are_read_however_many_containers_crashed() -> None:
    logs = Logs(previous=b"boom\n")

    result = summary_with_last_lines(cast(BlockingClient, logs), *crashed(WAITS, 2 * MAX_LOGS))

    assert logs.reads == [f"j-worker-{index}" for index in range(MAX_LOGS)]
    assert f"{exited(3, 'boom')}; 5 other replicas restarted too" in result.reason


class Archive(Logs):
    """The logs of attempts at pods that are gone."""

    def list(self, *_: Any, fields: str, **__: Any) -> Any:
        assert fields == "podName=j-worker-0"
        codes = (1, 137, None)
        return SimpleNamespace(items=[attempt(number, code) for number, code in enumerate(codes)])

    def log_of(self, _: Any, key: Key, **__: Any) -> Iterator[bytes]:
        yield f"last words of {key.name}\n".encode()


def attempt(number: int, code: int | None) -> PodLog:
    meta = ObjectMeta(name=f"attempt-{number}", namespace="default")
    return PodLog(metadata=meta, pod_name="j-worker-0", container="c", exit_code=code)


def test_a_recreated_replica_shows_the_line_of_the_pod_that_failed_last() -> None:
    raw = condition(job("TFJob", "j", {"Worker": 1}), "Running")
    last = {"pod": "j-worker-0", "role": "worker", "exitCode": 9}
    row = {"count": 2, "at": ago(5), "last": last}
    raw["status"]["failures"] = {"worker-0": row}
    pods = [msgspec.convert(pod(raw, "worker", 0, "Running"), Pod, strict=False)]

    result = summary_with_last_lines(cast(BlockingClient, Archive()), FoundJob(TFJOBS, raw), pods)

    assert result.reason == failed_of_late("worker 0", 2, 9, "last words of attempt-1")


def test_a_line_that_the_pod_reported_is_not_followed_by_that_of_a_later_attempt() -> None:
    raw = condition(job("TFJob", "j", {"Worker": 1}), "Running")
    last = {"pod": "j-worker-0", "role": "worker", "exitCode": 3, "lastLines": ["boom"]}
    row = {"count": 2, "at": ago(5), "last": last}
    raw["status"]["failures"] = {"worker-0": row}
    pods = [msgspec.convert(pod(raw, "worker", 0, "Running"), Pod, strict=False)]

    result = summary_with_last_lines(cast(BlockingClient, Archive()), FoundJob(TFJOBS, raw), pods)

    assert result.reason == failed_of_late("worker 0", 2, 3, "boom")


class OtherCluster(FakeCluster):
    """A cluster without PodLogs: it has the logs of existing pods only."""

    def __init__(self, pods: list[Raw], last: bytes, previous: bytes) -> None:
        super().__init__({"pods": pods})
        self.texts = {False: last, True: previous}

    def logs(self, pod: Key, **options: Any) -> Iterator[bytes]:
        yield self.texts[options["previous"]]


@pytest.mark.parametrize(("restarts", "lines"), [(0, ("last",)), (1, ("previous",)), (2, ())])
def test_the_failure_of_a_job_on_another_cluster_is_read_from_its_pod(
    restarts: int, lines: tuple[str, ...]
) -> None:
    raw = condition(job("TFJob", "j", {"Worker": 1}), "Failed")
    row = pod(raw, "worker", 0, "Failed")
    state: Raw = end(7) if not restarts else {"running": {}}
    row["status"]["containerStatuses"] = [
        {"name": "c", "restartCount": restarts, "state": state, "lastState": end(3)}
    ]
    raw["status"]["failedAttempt"] = {
        "podName": row["metadata"]["name"], "podUid": row["metadata"]["uid"], "container": "c",
    }  # fmt: skip
    client = OtherCluster([row], b"last\n", b"previous\n")
    summary = FoundJob(TFJOBS, raw).summary([])

    assert summary.failed_attempt is not None
    assert lines_of_failure(client, summary) == lines


def test_a_failure_without_a_pod_has_no_lines() -> None:
    summary = FoundJob(TFJOBS, condition(job("TFJob", "j", {"Worker": 1}), "Failed")).summary([])
    client = FakeCluster({})

    assert lines_of_failure(client, summary) == ()
