"""Pods and records for tests, in a line each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from localkube.node.pod import Pod
from localkube.node.runtime.pod_records import Attempt, PodRecord, State

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Raw = dict[str, Any]


def container(name: str = "main", *words: str, **fields: Any) -> Raw:
    return {"name": name, "image": "tf:1", "command": list(words or ("true",)), **fields}


def manifest(name: str = "p", *containers: Raw, **spec: Any) -> Raw:
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "nodeName": "muster-0",
            "restartPolicy": "Never",
            "containers": list(containers or (container(),)),
            **spec,
        },
    }


def make_pod(name: str = "p", *containers: Raw, meta: Raw | None = None, **spec: Any) -> Pod:
    """A pod as the node reads it. `status=` sets its status."""
    status = spec.pop("status", {})
    body = manifest(name, *containers, **spec) | {"status": status}
    body["metadata"] |= {"uid": f"uid-{name}"} | (meta or {})
    return msgspec.convert(body, Pod)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def running(number: int = 0, since: float = 5, sandbox: int = 0) -> Attempt:
    return Attempt(number, State.RUNNING, pid=42, started_at=ago(since), sandbox=sandbox)


def exited(
    code: int = 0,
    number: int = 0,
    *,
    restarts: int | None = None,
    since: float = 5,
    ended: float = 1,
    sandbox: int = 0,
) -> Attempt:
    """An attempt that ended; by default all attempts before it were in its sandbox too."""
    return Attempt(
        number,
        State.EXITED,
        pid=42,
        started_at=ago(since),
        finished_at=ago(ended),
        exit_code=code,
        signal=code - 128 if code > 128 else 0,
        reason="Error" if code else "Completed",
        sandbox=sandbox,
        restarts=number if restarts is None else restarts,
    )


def record(
    *, open: bool = True, sandbox: int = 0, **containers: Attempt | tuple[Attempt, ...]
) -> PodRecord:
    """A pod's record on this machine: attempts by container name."""
    attempts = {n: a if isinstance(a, tuple) else (a,) for n, a in containers.items()}
    pause = 7 if open else 0
    return PodRecord(
        "uid-p",
        known=True,
        open=open,
        address="10.1.0.2",
        pause=pause,
        sandbox=sandbox,
        containers=attempts,
    )


NOTHING = PodRecord("uid-p")


def shell(name: str, script: str, **spec: object) -> Raw:
    return manifest(name, container("main", "sh", "-c", script), **spec)


def python(name: str, script: str, **spec: object) -> Raw:
    return manifest(name, container("main", "python", "-c", script), **spec)
