"""Logs move to the archive when the record of a job's pod is deleted, and survive a crash there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kubekit.objects.kinds import Kind
from kubekit.request_errors import StatusError
from localkube.node.log_archive import LogOwners, job_pod
from localkube.node.node_api import Backend
from localkube.node.pod import Pod
from localkube.node.runtime.container_runtime import Runtime
from localkube.node.runtime.pod_records import PodRecords
from localkube.node_interface import LogOptions
from tests.localkube.node.pod_builders import container, make_pod

JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "name": "j",
    "uid": "u",
    "controller": True,
}
OWNERS = LogOwners((Kind.of("kubeflow.org/v1", "TFJob", dict),))


def owned_pod(**owner: Any) -> Pod:
    meta = {
        "namespace": "ns",
        "uid": "p",
        "labels": {"training.kubeflow.org/job-name": "j"},
        "ownerReferences": [JOB | owner],
    }
    return make_pod("j-worker-0", container(), meta=meta, initContainers=[container("fetch")])


@pytest.fixture
def records(tmp_path: Path) -> PodRecords:
    """One pod of a job, with two attempts at its container."""
    records = PodRecords(tmp_path / "pods")
    owned = job_pod(owned_pod(), OWNERS)
    assert owned is not None
    records.write_pod("p", {"key": "ns/j-worker-0"})
    records.write_job_pod("p", owned)
    for number in range(2):
        write_attempt(records, number)
    return records


def write_attempt(records: PodRecords, number: int, container: str = "main") -> Path:
    folder = records.attempt("p", container, number)
    folder.mkdir(parents=True)
    (folder / "log").write_text(f"attempt {number}")
    (folder / "spec").write_text('{"env": {"PASSWORD": "secret"}}')
    times = {"startedAt": f"2026-01-02T03:04:0{number}.000000000Z"}
    (folder / "started").write_text(json.dumps(times))
    end = {"exitCode": 7, "finishedAt": f"2026-01-02T03:05:0{number}.000000000Z"}
    (folder / "exited").write_text(json.dumps(end))
    return folder


def test_only_pods_of_jobs_have_archived_logs() -> None:
    assert job_pod(owned_pod(), OWNERS) is not None
    assert job_pod(owned_pod(apiVersion="apps/v1", kind="ReplicaSet"), OWNERS) is None
    assert job_pod(owned_pod(apiVersion="batch/v1", kind="Job"), OWNERS) is None
    assert job_pod(owned_pod(controller=False), OWNERS) is None


def test_the_logs_of_a_deleted_pod_are_in_the_archive(records: PodRecords) -> None:
    (records.attempt("p", "main", 0) / "log.1").write_text("earlier")
    write_attempt(records, 0, "fetch")

    records.forget("p")

    logs = {log.metadata.name: log for log in records.archive.entries()}
    assert sorted(logs) == ["p.fetch.0", "p.main.0", "p.main.1"]
    assert [log.init for log in logs.values()] == [True, False, False]
    last = logs["p.main.1"]
    assert (last.pod_name, last.exit_code, last.attempt, last.archived) == (
        "j-worker-0",
        7,
        1,
        True,
    )
    assert last.metadata.namespace == "ns"
    assert last.metadata.labels == {"training.kubeflow.org/job-name": "j"}
    assert [owner.uid for owner in last.metadata.owner_references] == ["u"]
    assert logs["p.main.0"].size == len("attempt 0earlier")
    path = records.archive.path("p.main.0")
    assert path is not None
    assert path.read_text() == "attempt 0"
    assert path.with_name("log.1").read_text() == "earlier"
    # Nothing but logs: the other files of an attempt have secrets of its environment.
    assert not records.pod("p").exists()
    assert sorted({file.name for file in records.archive.root.rglob("*") if file.is_file()}) == [
        "entry",
        "log",
        "log.1",
    ]


def test_the_logs_of_a_pod_without_a_job_are_deleted_with_it(records: PodRecords) -> None:
    (records.pod("p") / "job_pod").unlink()

    records.forget("p")

    assert not records.pod("p").exists()
    assert list(records.archive.entries()) == []


def test_logs_of_attempts_that_a_running_pod_no_longer_keeps_are_archived(
    records: PodRecords,
) -> None:
    write_attempt(records, 2)

    records.forget_old_attempts("p", "main")

    assert [log.metadata.name for log in records.archive.entries()] == ["p.main.0"]
    assert [log.metadata.name for log in records.pod_logs("p")] == ["p.main.1", "p.main.2"]


def test_a_move_that_a_crash_interrupted_is_completed(
    records: PodRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = records.attempt("p", "main", 0)
    (folder / "log.1").write_text("earlier")

    def crash(source: Path, target: Path) -> None:
        if Path(target).name == "log":
            raise KeyboardInterrupt
        os.rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("localkube.node.log_archive.os.replace", crash)
        with pytest.raises(KeyboardInterrupt):
            records.forget("p")
    assert (folder / "log").exists()
    assert not (folder / "log.1").exists()

    records.forget("p")

    path = records.archive.path("p.main.0")
    assert path is not None
    assert (path.read_text(), path.with_name("log.1").read_text()) == ("attempt 0", "earlier")


def test_a_removal_that_a_crash_interrupted_is_completed(records: PodRecords) -> None:
    records.forget("p")
    path = records.archive.path("p.main.0")
    assert path is not None
    path.with_name("entry").unlink()

    records.archive.remove_fragments()
    assert [log.metadata.name for log in records.archive.entries()] == ["p.main.1"]
    assert not path.parent.exists()

    records.archive.remove("u", "p.main.1")
    assert records.archive.jobs() == []


async def test_a_log_is_found_during_a_rotation_and_after_its_move(records: PodRecords) -> None:
    record = "2026-01-02T03:04:00.000000000Z stdout F step 1\n"
    folder = records.attempt("p", "main", 1)
    (folder / "log").unlink()
    (folder / "log.1").write_text(record)
    backend = Backend(cast(Runtime, SimpleNamespace(records=records)))
    log = next(log for log in records.pod_logs("p") if log.attempt == 1)

    async def text() -> bytes:
        return b"".join([data async for data in backend.read_pod_log(log, LogOptions("main"))])

    assert await text() == b"step 1\n"
    records.forget("p")
    assert await text() == b"step 1\n"
    records.archive.remove_job("u")
    with pytest.raises(StatusError, match="was removed"):
        await text()
