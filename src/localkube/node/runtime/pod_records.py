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
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubekit.objects.kinds import decoder_of
from localkube.node.log_archive import JobPod, LogArchive, pod_log
from localkube.node.pod import DEFAULT_GRACE
from localkube.node.runtime.remove_tree import remove_tree
from localkube.node.runtime.rootfs import PRIVATE_DIRECTORIES
from localkube.node.standalone.linux import files, kernel
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kubekit.objects.core import PodLog
    from kubekit.objects.meta import Raw

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 2
"""Attempts per container whose files stay in the record: the last one, and the one for
`logs --previous`. Logs of earlier ones are in the archive, if the pod belongs to a job."""
LOST = "ContainerStatusUnknown"
_LOST: Raw = {
    "exitCode": 137,
    "signal": 9,
    "reason": LOST,
    "message": "its supervisor was killed, or the machine restarted, while it ran",
}
_TEMPORARY = (*PRIVATE_DIRECTORIES, "/dev", "/proc", "/sys")
_LARGE = 1 << 20
"""Bytes from which on a file counts although its name has a leading dot."""
_SHOWN, _COUNTED = 3, 1000
_MAX_DEPTH = 100
"""Levels of folders that are searched: a program may make thousands."""
NOTICE_AFTER = 1.0
"""Seconds after which a person wants to know why it takes so long."""


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
        return files.names(self.root)

    def pod(self, uid: str) -> Path:
        return self.root / uid

    def attempt(self, uid: str, container: str, number: int) -> Path:
        return self.root / uid / "containers" / container / str(number)

    def attempts(self, uid: str, container: str) -> list[int]:
        return _numbers(self.root / uid / "containers" / container)

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
                # Checked last: an attempt that was withdrawn in between is not lost.
                if (folder / name / str(number)).exists()
            )
            for name in files.names(folder)
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

    def pod_logs(self, uid: str) -> Iterator[PodLog]:
        """The attempts at containers of a job's pod; none of other pods."""
        try:
            pod = decoder_of(JobPod).decode((self.pod(uid) / "job_pod").read_bytes())
        except (OSError, msgspec.DecodeError):
            return
        for container in files.names(self.pod(uid) / "containers"):
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


def _numbers(container: Path) -> list[int]:
    """The attempts that have files in a container's folder."""
    return sorted(int(name) for name in files.names(container) if name.isdigit())


class Ending(NamedTuple):
    """The pods that still run, and the longest of their grace periods."""

    pods: tuple[str, ...]
    grace: int

    @property
    def text(self) -> str:
        if not self.pods:
            return "stopping the local cluster …"
        first, rest = self.pods[0].rpartition("/")[2], len(self.pods) - 1
        more = f" and {rest} more pod{'s' if rest > 1 else ''}" if rest else ""
        return f"waiting for {first}{more} to end (grace period: {self.grace} s) …"


def read_ending(data: Path) -> Ending:
    """The pods of the cluster with this data directory that have a running container."""
    records = PodRecords(data / "pods")
    pods = [records.read(uid) for uid in records.uids()]
    running = [pod for pod in pods if pod.open and pod.alive]
    return Ending(
        tuple(sorted(pod.key for pod in running)), max((pod.grace for pod in running), default=0)
    )


class AttemptKey(NamedTuple):
    """One attempt at one container of one pod."""

    uid: str
    container: str
    number: int


class State(Enum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True)
class Health:
    """The result of probes and hooks; a running container without any is ready."""

    started: bool = True
    ready: bool = True
    failed: str = ""
    """Why the container must be stopped; empty if it is healthy."""
    grace: int | None = None
    """Seconds to stop it in; None for the pod's own grace period."""


@dataclass(frozen=True)
class Attempt:
    """One run of one container."""

    number: int
    state: State
    pid: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    sandbox: int = 0
    """The number of the sandbox it ran in."""
    restarts: int = 0
    """The number of earlier attempts at this container in the same sandbox."""
    health: Health = Health()

    @property
    def alive(self) -> bool:
        return self.state is not State.EXITED

    @property
    def started(self) -> bool:
        return self.state is State.RUNNING and self.health.started

    @property
    def ready(self) -> bool:
        return self.started and self.health.ready


def read_attempt(folder: Path, number: int) -> Attempt:
    """One attempt of the container with this folder."""
    attempt = folder / str(number)
    end = files.read_json(attempt / "exited")
    if not end and not files.is_locked(attempt / "lock"):
        # Read again: the shim may have written the exit code and exited between the two checks.
        end = files.read_json(attempt / "exited") or _lost(attempt)
    start = files.read_json(attempt / "started")
    placement = files.read_json(attempt / "placement")
    state = State.EXITED if end else State.RUNNING if start else State.STARTING
    return Attempt(
        number,
        state,
        int(start.get("pid", 0)),
        _time(start.get("startedAt")),
        _time(end.get("finishedAt")) or (_modified(attempt) if end else None),
        int(end.get("exitCode", 0)),
        int(end.get("signal", 0)),
        end.get("reason", ""),
        end.get("message", ""),
        int(placement.get("sandbox", 0)),
        int(placement.get("restarts", 0)),
    )


def _lost(attempt: Path) -> Raw:
    """Write an exit code for an attempt whose shim is gone, with the current time."""
    end = _LOST | {"finishedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    with contextlib.suppress(OSError):  # the pod is being removed
        if (attempt / "lock").exists():
            files.replace(attempt / "exited", json.dumps(end))
    return end


def _time(text: str | None) -> datetime | None:
    # The shim writes nanoseconds; datetime has microseconds.
    return datetime.fromisoformat(text[:26] + "+00:00") if text else None


def _modified(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    except OSError:
        return None


def names_of_discarded_files(pod: Path) -> str:
    """The first files that the pod with this folder wrote to private directories, which are
    discarded with it, and how many more there are; empty if none.

    A container's new directories are beside the record of its attempt. All entries in them that the
    plan of its root directory does not name were written by its programs. Temporary directories and
    small files with a leading dot (caches, settings) are not worth a message.
    """
    paths = [_readable(path) for path in islice(_written(pod), _COUNTED + 1)]
    more = len(paths) - _SHOWN
    if more <= 0:
        return ", ".join(paths)
    count = str(more) if len(paths) <= _COUNTED else f"at least {more}"
    return f"{', '.join(paths[:_SHOWN])} and {count} more"


def _readable(path: str) -> str:
    """The path as the API accepts it: file names are bytes, and may not be text."""
    return os.fsencode(path).decode(errors="replace")


def _written(pod: Path) -> Iterator[str]:
    for container in sorted(pod.glob("containers/*")):
        for number in _numbers(container)[-1:]:
            yield from _written_in_attempt(container / str(number))
    # The working directory of a pod without its own root directory.
    yield from _Search(str(pod / "work"), {}).walk()


def _written_in_attempt(attempt: Path) -> Iterator[str]:
    steps = files.read_json(attempt / "spec").get("steps") or []
    planned = {step[2] if step[0] == "bind" else step[1]: step[0] for step in steps}
    yield from _Search(str(attempt / "root"), planned).walk()
    # A new directory over one of the host is stored beside the root.
    over = {path: "dir" if action == "disk" else action for path, action in planned.items()}
    for path in [path for path, action in planned.items() if action == "disk"]:
        for parent in PurePosixPath(path).parents:
            over.pop(str(parent), None)  # mounted from the host, e.g. /home
    yield from _Search(str(attempt / "root.over"), over).walk()


class _Search:
    """Files below `root` that are not planned; a plan is an operation by path."""

    def __init__(self, root: str, planned: Mapping[str, str]) -> None:
        self._root = root
        self._planned = planned
        self._above = {str(parent) for path in planned for parent in PurePosixPath(path).parents}

    def walk(self, path: str = "", *, temporary: bool = False) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(self._root + path), key=lambda entry: entry.name)
        except OSError:
            return
        is_deepest = path.count("/") >= _MAX_DEPTH
        for entry in entries:
            place = f"{path}/{entry.name}"
            planned = place in self._planned
            if (planned and self._planned[place] != "dir") or entry.name == "__pycache__":
                continue  # the mount point of a file or directory that stays, or noise
            if entry.is_dir(follow_symlinks=False):
                if is_deepest:
                    continue
                # The home or another new directory may be inside a temporary one.
                inside = place in _TEMPORARY or (temporary and not planned)
                if not inside or planned or place in self._above:
                    yield from self.walk(place, temporary=inside)
            elif not temporary and _counts(place, entry):
                yield place


def _counts(place: str, entry: os.DirEntry[str]) -> bool:
    if "/." not in place:
        return True
    try:
        return entry.stat(follow_symlinks=False).st_size >= _LARGE
    except OSError:  # an ordinary user may list a directory without the right to enter it
        return False
