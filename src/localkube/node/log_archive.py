"""The archive of logs: when the record of an owned pod is deleted, its logs are moved here.

    pod-logs/<uid of the owner>/<uid of the pod>.<container>.<n>/    attempt n: entry, log, log.1

`entry` is the attempt as a PodLog. It is written before the log is moved, and a move that a crash
interrupts is repeated with the pod's removal, so a log is always in one of the two places. Only
pods of the kinds in `LogOwners`, here called jobs, have a `job_pod` file in their record, and only
their logs are archived.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kubekit.objects.core import PodLog
from kubekit.objects.kinds import Kind, decoder_of
from kubekit.objects.meta import ObjectMeta, OwnerReference, Raw
from localkube.node.standalone.linux import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from localkube.node.pod import Pod
    from localkube.node.runtime.pod_records import Attempt

_ENTRY = "entry"
_LOGS = ("log.1", "log")
"""The files of a log, the older one first."""


@dataclass(frozen=True)
class LogOwners:
    """The kinds whose pods' logs are kept until the owner is deleted: here called jobs."""

    kinds: tuple[Kind[Raw], ...] = ()
    ended_at: Callable[[Raw], float | None] = lambda job: None
    """When a job ended, as a timestamp; None while it goes on."""

    def kind_of(self, owner: OwnerReference) -> Kind[Raw] | None:
        """The kind of an owner, if its pods' logs are kept."""
        group = owner.api_version.rpartition("/")[0]
        return next((k for k in self.kinds if (k.group, k.kind) == (group, owner.kind)), None)


class JobPod(msgspec.Struct, frozen=True):
    """A pod of a job: what must be known about it after it is gone."""

    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    job: OwnerReference
    init_containers: tuple[str, ...] = ()
    main_container: str = ""


def job_pod(pod: Pod, owners: LogOwners) -> JobPod | None:
    """The pod, if a job controls it."""
    meta, owner = pod.metadata, pod.metadata.controller
    if owner is None or owners.kind_of(owner) is None:
        return None
    init = tuple(container.name for container in pod.spec.init_containers)
    main = pod.spec.containers[0].name
    return JobPod(meta.namespace, meta.name, meta.uid, meta.labels, owner, init, main)


def pod_log(pod: JobPod, container: str, attempt: Attempt, folder: Path) -> PodLog:
    """The attempt whose files are in `folder`."""
    return PodLog(
        metadata=ObjectMeta(
            name=f"{pod.uid}.{container}.{attempt.number}",
            namespace=pod.namespace,
            creation_timestamp=attempt.started_at or attempt.finished_at,
            labels=pod.labels,
            owner_references=(pod.job,),
        ),
        pod_name=pod.name,
        pod_uid=pod.uid,
        container=container,
        init=container in pod.init_containers,
        main=container == pod.main_container,
        attempt=attempt.number,
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        exit_code=None if attempt.alive else attempt.exit_code,
        signal=attempt.signal,
        reason=attempt.reason,
        size=_size(folder),
    )


class LogArchive:
    """The logs below one directory. `changed` is called, in any thread, when one was added."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changed: Callable[[], None] = lambda: None
        # A job may be deleted while the logs of its pods are being archived.
        self._lock = threading.Lock()

    def add(self, log: PodLog, folder: Path) -> None:
        """Move the log files of an attempt from its folder to the archive."""
        if not any((folder / name).exists() for name in _LOGS):
            return
        target = self.root / log.metadata.owner_references[0].uid / log.metadata.name
        with self._lock:
            if not (target / _ENTRY).exists():
                entry = msgspec.json.encode(replace(log, archived=True)).decode()
                files.write_atomically(target / _ENTRY, entry)
            for name in _LOGS:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(folder / name, target / name)
        self.changed()

    def entries(self) -> Iterator[PodLog]:
        """All archived logs; an unreadable entry is left out."""
        for job in self.jobs():
            for name in files.names(self.root / job):
                with contextlib.suppress(OSError, msgspec.DecodeError):
                    entry = (self.root / job / name / _ENTRY).read_bytes()
                    yield decoder_of(PodLog).decode(entry)

    def jobs(self) -> list[str]:
        """The UIDs of the jobs that have logs here."""
        return files.names(self.root)

    def path(self, name: str) -> Path | None:
        """The log file of the entry of that name."""
        folders = (self.root / job / name for job in self.jobs())
        return next((folder / "log" for folder in folders if folder.is_dir()), None)

    def remove(self, job: str, name: str) -> None:
        with self._lock:
            shutil.rmtree(self.root / job / name, ignore_errors=True)
            self._remove_if_empty(job)

    def remove_job(self, job: str) -> None:
        with self._lock:
            shutil.rmtree(self.root / job, ignore_errors=True)

    def remove_fragments(self) -> None:
        """Remove folders without an entry: a crash interrupted their removal."""
        with self._lock:
            for job in self.jobs():
                for name in files.names(self.root / job):
                    if not (self.root / job / name / _ENTRY).exists():
                        shutil.rmtree(self.root / job / name, ignore_errors=True)
                self._remove_if_empty(job)

    def _remove_if_empty(self, job: str) -> None:
        with contextlib.suppress(OSError):  # entries are left
            os.rmdir(self.root / job)


def _size(folder: Path) -> int:
    size = 0
    for name in _LOGS:
        with contextlib.suppress(FileNotFoundError):
            size += (folder / name).stat().st_size
    return size
