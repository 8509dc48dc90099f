"""Archived logs are removed with their job, also if it was deleted while no daemon ran."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from kubekit.client.client import Client
from kubekit.objects.core import PodLog
from kubekit.objects.kinds import Kind
from kubekit.objects.meta import Key, ObjectMeta, OwnerReference
from kubekit.request_errors import NotFound, Unreachable
from localkube.node import log_archive_cleaner
from localkube.node.log_archive import LogArchive, LogOwners
from localkube.node.log_archive_cleaner import ArchiveCleaner


def ended_at(job: dict[str, Any]) -> float | None:
    ended = job["status"].get("completionTime")
    return datetime.fromisoformat(ended).timestamp() if ended else None


OWNERS = LogOwners((Kind.of("kubeflow.org/v1", "TFJob", dict),), ended_at)


class Jobs:
    """The API: jobs by name, or an error for a name."""

    def __init__(self, **jobs: dict[str, Any] | Exception) -> None:
        self.jobs = jobs

    async def get(self, kind: Kind[Any], key: Key) -> dict[str, Any]:
        job = self.jobs.get(key.name, NotFound(key.name))
        if isinstance(job, Exception):
            raise job
        return job


def job(name: str, ended: str = "") -> dict[str, Any]:
    done = [{"type": "Succeeded", "status": "True"}] if ended else []
    status = {"conditions": done} | ({"completionTime": ended} if ended else {})
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": status}


def add(archive: LogArchive, folder: Path, name: str, number: int = 0, size: int = 10) -> None:
    log = PodLog(
        metadata=ObjectMeta(
            name=f"{name}-pod.main.{number}",
            namespace="ns",
            owner_references=(
                OwnerReference(
                    api_version="kubeflow.org/v1", kind="TFJob", name=name, uid=f"uid-{name}"
                ),
            ),
        ),
        pod_name=f"{name}-worker-0",
        container="main",
        attempt=number,
        finished_at=datetime(2026, 1, 2, 3, 4, number, tzinfo=UTC),
        size=size,
    )
    folder.mkdir(exist_ok=True)
    (folder / "log").write_text("x" * 10)
    archive.add(log, folder)


def left(archive: LogArchive) -> list[str]:
    return [log.metadata.name for log in archive.entries()]


@pytest.fixture
def archive(tmp_path: Path) -> LogArchive:
    archive = LogArchive(tmp_path / "pod-logs")
    for name in ("a", "b", "c"):
        add(archive, tmp_path / "attempt", name)
    return archive


async def test_only_logs_of_jobs_that_exist_stay(archive: LogArchive) -> None:
    jobs = Jobs(a=job("a"), b=Unreachable("no answer"))

    await ArchiveCleaner(archive, cast(Client, jobs), OWNERS).clean()

    assert left(archive) == ["a-pod.main.0", "b-pod.main.0"]


async def test_another_job_of_the_same_name_does_not_keep_the_logs(archive: LogArchive) -> None:
    successor = job("a") | {"metadata": {"name": "a", "uid": "another"}}

    await ArchiveCleaner(archive, cast(Client, Jobs(a=successor)), OWNERS).clean()

    assert left(archive) == []
    assert archive.jobs() == []


async def test_logs_of_the_job_that_ended_first_make_room(
    archive: LogArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(archive, tmp_path / "attempt", "c", number=1)
    charge = 10 + log_archive_cleaner.OVERHEAD
    monkeypatch.setattr(log_archive_cleaner, "TOTAL", 2 * charge)
    jobs = Jobs(a=job("a", "2026-01-02T04:00:00Z"), b=job("b", "2026-01-02T03:30:00Z"), c=job("c"))

    await ArchiveCleaner(archive, cast(Client, jobs), OWNERS).clean()

    assert left(archive) == ["c-pod.main.0", "c-pod.main.1"]
    assert archive.jobs() == ["uid-c"]
