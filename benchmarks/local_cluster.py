"""The local cluster against its limits: seconds to ready, to running workers, CPU, memory.

The peer of every row is its limit, so a ratio up to 1 is good. All values are measured on a real
`arena up` with a home of its own, from outside, through `/proc`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.ratio import Ratio, seconds
from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

ARENA = str(Path(sys.executable).with_name("arena"))
READY, RUNNING, BUSY, MEMORY = 2.0, 1.5, 1.0, 150.0
WORKERS = 4
_STARTS, _SUBMITS, _LOOKS, _LOOK = 5, 7, 3, 10.0


def run() -> list[Ratio]:
    starts = [_start() for _ in range(_STARTS)]
    with _cluster() as (home, env):
        submits = [_submit(home, env, f"job-{n}") for n in range(_SUBMITS)]
        pid = int((home / "daemon.lock").read_text())
        time.sleep(5.0)  # The controllers finish the work of the last job.
        busy = [_busy(pid) for _ in range(_LOOKS)]
        held = _megabytes(pid)
    return [
        _limit("arena up: seconds to ready", starts, READY, "s"),
        _limit(f"submit to {WORKERS} workers running", submits, RUNNING, "s"),
        _limit("idle CPU, of one core", busy, BUSY, "%"),
        _limit("memory of the one process", [held], MEMORY, "MB"),
    ]


def _limit(name: str, values: list[float], limit: float, unit: str) -> Ratio:
    return Ratio(name, [(value, limit) for value in values], unit, "<= 1.0")


@contextlib.contextmanager
def _home() -> Iterator[tuple[Path, dict[str, str]]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        yield home, {**inherited, "MUSTER_HOME": str(home)}


@contextlib.contextmanager
def _cluster() -> Iterator[tuple[Path, dict[str, str]]]:
    with _home() as (home, env):
        _arena(env, "up", "--detach", "--cpus-per-node", "64")
        try:
            yield home, env
        finally:
            _arena(env, "down")


def _arena(env: dict[str, str], *words: str) -> None:
    subprocess.run([ARENA, *words], env=env, check=True, capture_output=True)


def _start() -> float:
    with _home() as (_, env):
        try:
            return seconds(lambda: _arena(env, "up", "--detach"))
        finally:
            _arena(env, "down")


def _submit(home: Path, env: dict[str, str], name: str) -> float:
    """From the command to the last worker's process running."""
    begun = time.time()
    flags = [f"--name={name}", f"--workers={WORKERS}", "--image=none"]
    _arena(env, "submit", "tf", *flags, "sleep 1000")
    with BlockingClient(kube_config.load(home / "kubeconfig")) as client:
        pods = _running(client, name)
    files = [next((home / "data/pods" / uid).glob("containers/*/0/started")) for uid in pods]
    last = max(file.stat().st_mtime for file in files)
    _arena(env, "delete", name)
    return last - begun


def _running(client: BlockingClient, job: str) -> list[str]:
    while True:
        pods = client.list(PODS, "default", labels=f"training.kubeflow.org/job-name={job}").items
        running = [pod for pod in pods if pod.status.phase == "Running"]
        if len(running) == WORKERS:
            return [pod.metadata.uid for pod in running]
        time.sleep(0.02)


def _busy(pid: int) -> float:
    """Percent of a core during some seconds without requests."""
    before, begun = _ticks(pid), time.monotonic()
    time.sleep(_LOOK)
    used = (_ticks(pid) - before) / os.sysconf("SC_CLK_TCK")
    return max(100 * used / (time.monotonic() - begun), 0.01)


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
