"""One run of a container, as its shim recorded it: how to read it, and its health."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from localkube.node.standalone.linux import files

if TYPE_CHECKING:
    from pathlib import Path

    from kubekit.objects.meta import Raw


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


LOST = "ContainerStatusUnknown"
_LOST: Raw = {
    "exitCode": 137,
    "signal": 9,
    "reason": LOST,
    "message": "its supervisor was killed, or the machine restarted, while it ran",
}


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
