"""A pod's state on disk: the truth after a crash of the daemon.

The pod loop reads it again on every visit.

    pods/<uid>/pod                          the sandbox: its number, first process, address; for
                                            pods without namespaces, that it is open; the pod's
                                            grace period
    pods/<uid>/job_pod                      of a job's pod: whose logs the archive gets
    pods/<uid>/hosts, resolv.conf           mounted into the containers
    pods/<uid>/volumes/<name>/              contents of volumes
    pods/<uid>/containers/<name>/<n>/       attempt n: spec, placement, lock, started, log,
                                            exited

A sandbox is one set of namespaces; a pod gets a new one when the old one is lost. An attempt is one
run of a container. Its shim holds `lock` as long as it lives: an attempt without an exit code whose
lock is free was lost. All files are replaced by rename, so a reader never sees half of one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from kubekit.errors import CannotRun
from kubekit.objects.kinds import decoder_of
from localkube.node.log_archive.archive import JobPod, LogArchive, pod_log
from localkube.node.pod import DEFAULT_GRACE
from localkube.node.runtime.attempts import read_attempt
from localkube.node.runtime.discarded_files import names_of_discarded_files
from localkube.node.runtime.remove_tree import remove_tree
from localkube.node.standalone.linux import files, kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from kubekit.objects.meta import Raw
    from kubekit.objects.pod_logs import PodLog
    from localkube.node.runtime.attempts import Attempt

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 2
"""Attempts per container whose files stay in the record: the last one, and the one for
`logs --previous`. Logs of earlier ones are in the archive, if the pod belongs to a job."""


@dataclass(frozen=True)
class PodRecord:
    """A pod on this machine, with the last attempts at each container in order."""

    uid: str
    known: bool = False
    open: bool = False
    address: str = ""
    pause: int = 0
    """The PID of the pod's first process. As soon as it begins to exit, the pod is not open."""
    key: str = ""
    rebooted: bool = False
    """Whether the machine was restarted since the pod's namespaces were made."""
    sandbox: int = 0
    """The number of the last sandbox."""
    stopped: bool = False
    """Whether the cluster was stopped while the pod ran."""
    closed: bool = False
    """Whether the last sandbox was closed to the end, after its pod had ended."""
    discarded: str = ""
    """The first files that the ended pod wrote to private directories."""
    grace: int = DEFAULT_GRACE
    """Seconds to stop the pod in."""
    containers: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)

    def last(self, container: str) -> Attempt | None:
        attempts = self.containers.get(container, ())
        return attempts[-1] if attempts else None

    def current(self, container: str) -> Attempt | None:
        """The last attempt, if it ran in the last sandbox."""
        last = self.last(container)
        return last if last is not None and last.sandbox == self.sandbox else None

    @property
    def next_sandbox(self) -> int:
        return self.sandbox + 1 if self.known else 0

    @property
    def alive(self) -> list[str]:
        return [name for name, attempts in self.containers.items() if attempts[-1].alive]


class PodRecords:
    """All pods under one data directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.archive = LogArchive(root.parent / "pod-logs")
        self.boot = kernel.boot_id()

    def uids(self) -> list[str]:
        return sorted(os.listdir(self.root)) if self.root.is_dir() else []

    def pod(self, uid: str) -> Path:
        return self.root / uid

    def attempt(self, uid: str, container: str, number: int) -> Path:
        return self.root / uid / "containers" / container / str(number)

    def attempts(self, uid: str, container: str) -> list[int]:
        folder = self.root / uid / "containers" / container
        names = os.listdir(folder) if folder.is_dir() else []
        return sorted(int(name) for name in names if name.isdigit())

    def read(self, uid: str) -> PodRecord:
        saved = files.read_json(self.pod(uid) / "pod")
        pause = int(saved.get("pause", 0))
        # PIDs are reused: it is the same process only with the same start time in the same boot.
        same_boot = saved.get("boot") == self.boot
        same_process = not pause or kernel.start_time(pause) == saved.get("started")
        valid = same_boot and same_process
        folder = self.pod(uid) / "containers"
        containers = {
            name: tuple(
                attempt
                for number in self.attempts(uid, name)[-MAX_ATTEMPTS:]
                for attempt in [read_attempt(folder / name, number)]
                # Checked last: an attempt that was withdrawn meanwhile is not lost.
                if (folder / name / str(number)).exists()
            )
            for name in self._containers(uid)
        }
        return PodRecord(
            uid,
            bool(saved),
            valid and (not kernel.is_exiting(pause) if pause else bool(saved.get("plain"))),
            saved.get("address", ""),
            pause if valid else 0,
            saved.get("key", ""),
            bool(saved) and not same_boot,
            int(saved.get("sandbox", 0)),
            bool(saved.get("stopped")),
            bool(saved.get("closed")),
            saved.get("discarded", ""),
            int(saved.get("grace", DEFAULT_GRACE)),
            {name: attempts for name, attempts in containers.items() if attempts},
        )

    def read_open(self, uid: str) -> PodRecord:
        """The record of a pod that must be running."""
        record = self.read(uid)
        if not record.open:
            raise CannotRun("the pod is not running")
        return record

    def supervised(self, uid: str) -> list[Path]:
        """The directories of attempts whose shims still run."""
        # Every attempt, not only the last: a hanging shim may be of an earlier one.
        locks = self.pod(uid).glob("containers/*/[0-9]*/lock")
        return [file.parent for file in locks if files.is_locked(file)]

    def write_pod(self, uid: str, body: Raw) -> None:
        files.write_atomically(self.pod(uid) / "pod", json.dumps({"boot": self.boot} | body))

    def write_stopped(self, uid: str) -> None:
        """Record that the pod was stopped with the cluster; the next sandbox clears it."""
        file = self.pod(uid) / "pod"
        files.replace(file, json.dumps(files.read_json(file) | {"stopped": True}))

    def write_closed(self, uid: str) -> None:
        """Record that the ended pod is closed, and the files that go with it."""
        file = self.pod(uid) / "pod"
        body = {"closed": True, "discarded": names_of_discarded_files(self.pod(uid))}
        files.replace(file, json.dumps(files.read_json(file) | body))

    def discard_files(self, uid: str) -> None:
        """Delete the files that the pod's programs wrote; its record and its logs stay."""
        folder = self.pod(uid)
        own = [folder / name for name in ("volumes", "root", "tmp", "work")]
        for place in (*own, *folder.glob("containers/*/*/root*")):
            remove_tree(place)

    def write_job_pod(self, uid: str, pod: JobPod) -> None:
        """Record that the pod belongs to a job, so that its logs are archived."""
        text = msgspec.json.encode(pod).decode()
        files.replace(self.pod(uid) / "job_pod", text)

    def read_job_pod(self, uid: str) -> JobPod | None:
        try:
            return decoder_of(JobPod).decode((self.pod(uid) / "job_pod").read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def pod_logs(self, uid: str) -> Iterator[PodLog]:
        """The attempts at containers of a job's pod; none of other pods."""
        pod = self.read_job_pod(uid)
        if pod is None:
            return
        for container in self._containers(uid):
            for number in self.attempts(uid, container):
                folder = self.attempt(uid, container, number)
                yield pod_log(pod, container, read_attempt(folder.parent, number), folder)

    def forget(self, uid: str) -> bool:
        """Delete the record; the logs of a job's pod are moved to the archive.

        False if something of it is left: a late writer may have put a file into it.
        """
        self._archive_logs(self.pod_logs(uid))
        remove_tree(self.pod(uid))
        return not self.pod(uid).exists()

    def forget_old_attempts(self, uid: str, container: str) -> None:
        old = self.attempts(uid, container)[:-MAX_ATTEMPTS]
        if old:
            logs = self.pod_logs(uid)
            self._archive_logs(p for p in logs if p.container == container and p.attempt in old)
        for number in old:
            with contextlib.suppress(OSError):
                remove_tree(self.attempt(uid, container, number))

    def _archive_logs(self, logs: Iterable[PodLog]) -> None:
        try:
            for pod_log in logs:
                folder = self.attempt(pod_log.pod_uid, pod_log.container, pod_log.attempt)
                self.archive.add(pod_log, folder)
        except OSError as error:  # a full disk must not keep the pod
            log.warning("a log is lost: %s", error)

    def _containers(self, uid: str) -> list[str]:
        folder = self.pod(uid) / "containers"
        return sorted(os.listdir(folder)) if folder.is_dir() else []
