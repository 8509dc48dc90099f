"""The last log line of a container that crashed, where its pod's status does not have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from muster.api.core import Pod
from muster.api.kinds import TFJOBS
from muster.api.meta import Key, Raw
from muster.client.jobs.lookup import FoundJob
from muster.client.logs.last_lines import MAX_LOGS, summary_with_last_lines
from muster.errors import NotFound
from muster.kube.blocking_client import BlockingClient
from tests.cli.fake_cluster import ago, condition, job, pod


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
    text = "worker 0 restarted once; the last time it exited with code 3"

    assert reason(Logs(previous=b"boom\n"), WAITS) == f"{text}: boom"
    assert reason(Logs(), WAITS) == text


def test_a_container_that_just_ended_shows_its_own_line() -> None:
    status = {"state": end(4), "lastState": end(3)}

    text = "worker 0 restarted once; the last time it exited with code 4: now"
    assert reason(Logs(last=b"now\n", previous=b"before\n"), status) == text


def test_a_few_logs_are_read_however_many_containers_crashed() -> None:
    logs = Logs(previous=b"boom\n")

    result = summary_with_last_lines(cast(BlockingClient, logs), *crashed(WAITS, 2 * MAX_LOGS))

    assert logs.reads == [f"j-worker-{index}" for index in range(MAX_LOGS)]
    assert "exited with code 3: boom; 5 other replicas restarted too" in result.reason
