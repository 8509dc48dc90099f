"""What is on disk about a pod: the truth, whatever crashed. Read anew at every look.

    pods/<uid>/pod                          the sandbox: which of the pod's it is, first process,
                                            its identity, address; or, where there are no
                                            namespaces, that it is open
    pods/<uid>/hosts, resolv.conf           bound into the containers
    pods/<uid>/volumes/<name>/              contents of volumes
    pods/<uid>/containers/<name>/<n>/       attempt n: spec, turn, lock, started, log, exited

Written by `sandbox`, `shims` and the shims themselves, always by rename; read by the pod loop.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from muster.local.node.standalone.linux import kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.meta import Raw

KEPT_ATTEMPTS = 2


class State(Enum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True)
class Health:
    """What probes and hooks say of a running container; without any, running is well.

    `unwell` says why it is to be stopped, in at most `grace` seconds if that is not the pod's own.
    """

    started: bool = True
    ready: bool = True
    unwell: str = ""
    grace: int | None = None


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
    """Which of the pod's sandboxes it ran in."""
    row: int = 0
    """How many attempts at its container there were before it in that sandbox."""
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


@dataclass(frozen=True)
class PodRecord:
    """A pod as this machine knows it. Attempts are in order, the last ones only."""

    uid: str
    known: bool = False
    open: bool = False
    address: str = ""
    pause: int = 0
    """The pod's first process, also while it is ending: then the pod is open no more."""
    key: str = ""
    rebooted: bool = False
    """The machine was restarted since the pod's namespaces were made."""
    sandbox: int = 0
    """Which of the pod's sandboxes the last one is: a pod gets another when one is lost."""
    stopped: bool = False
    """The cluster was stopped while the pod ran."""
    containers: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)

    def last(self, container: str) -> Attempt | None:
        attempts = self.containers.get(container, ())
        return attempts[-1] if attempts else None

    def current(self, container: str) -> Attempt | None:
        """The last attempt, if it was made in the pod's last sandbox."""
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
        self.boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

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
        facts = _json(self.pod(uid) / "pod")
        pause = int(facts.get("pause", 0))
        same = facts.get("boot") == self.boot
        same = same and (not pause or kernel.start_time(pause) == facts.get("started"))
        folder = self.pod(uid) / "containers"
        names = sorted(os.listdir(folder)) if folder.is_dir() else []
        containers = {
            name: tuple(
                read_attempt(folder / name, number)
                for number in self.attempts(uid, name)[-KEPT_ATTEMPTS:]
            )
            for name in names
        }
        return PodRecord(
            uid,
            bool(facts),
            same and (not kernel.is_exiting(pause) if pause else bool(facts.get("plain"))),
            facts.get("address", ""),
            pause if same else 0,
            facts.get("key", ""),
            bool(facts) and facts.get("boot") != self.boot,
            int(facts.get("sandbox", 0)),
            bool(facts.get("stopped")),
            {name: attempts for name, attempts in containers.items() if attempts},
        )

    def supervised(self, uid: str) -> list[Path]:
        """The attempts whose shims still live, if only to finish."""
        locks = self.pod(uid).glob("containers/*/[0-9]*/lock")
        return [file.parent for file in locks if is_locked(file)]

    def write_pod(self, uid: str, facts: Raw) -> None:
        write_atomically(self.pod(uid) / "pod", json.dumps({"boot": self.boot} | facts))

    def write_stopped(self, uid: str) -> None:
        """Note that the pod was ended with the cluster; the next sandbox knows nothing of it."""
        file = self.pod(uid) / "pod"
        write_atomically(file, json.dumps(_json(file) | {"stopped": True}))

    def forget(self, uid: str) -> None:
        shutil.rmtree(self.pod(uid), ignore_errors=True)

    def forget_old_attempts(self, uid: str, container: str) -> None:
        for number in self.attempts(uid, container)[:-KEPT_ATTEMPTS]:
            shutil.rmtree(self.attempt(uid, container, number), ignore_errors=True)


def read_attempt(folder: Path, number: int) -> Attempt:
    """One attempt's state. No exit code and no lock means that its shim was killed."""
    here = folder / str(number)
    ended = _json(here / "exited")
    alive = not ended and is_locked(here / "lock")
    if not ended and not alive:
        ended = _json(here / "exited") or _lost(here)  # it may have ended between the two looks
    start, turn = _json(here / "started"), _json(here / "turn")
    state = State.EXITED if ended else State.RUNNING if start else State.STARTING
    return Attempt(
        number,
        state,
        int(start.get("pid", 0)),
        _time(start.get("startedAt")),
        _time(ended.get("finishedAt")) or (_modified(here) if ended else None),
        int(ended.get("exitCode", 0)),
        int(ended.get("signal", 0)),
        ended.get("reason", ""),
        ended.get("message", ""),
        int(turn.get("sandbox", 0)),
        int(turn.get("row", 0)),
    )


LOST = "ContainerStatusUnknown"
_LOST: Raw = {
    "exitCode": 137,
    "signal": 9,
    "reason": LOST,
    "message": "its supervisor was killed, or the machine restarted, while it ran",
}


def _lost(here: Path) -> Raw:
    """Write down that the attempt was lost, and when that was seen: nobody else will."""
    found = _LOST | {"finishedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    with contextlib.suppress(OSError):  # the pod is being forgotten
        if (here / "lock").exists():
            write_atomically(here / "exited", json.dumps(found))
    return found


def is_locked(path: Path) -> bool:
    """Whether somebody holds the file's lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _json(path: Path) -> Raw:
    try:
        found: Raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text[:26] + "+00:00") if text else None


def _modified(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    except OSError:
        return None
