"""A backlog of jobs on a real kube-apiserver: the operator beside a bare loop of creations.

The jobs exist before the operator's process starts, and time counts from its start to the last pod.
The bare loop creates the same services and pods that the operator creates for these jobs, and
nothing else; each side has a namespace of its own in every round. The last measurement restarts an
operator on many finished jobs, which it must reconcile quickly.
`python -m benchmarks.operator_backlog [JOBS] [ROUNDS]` prints the rates.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psutil
import uvloop
from tests.controlplane.build import build
from tests.controlplane.control_plane import ControlPlane

from benchmarks.ratio import Ratio
from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.objects.kinds import CRDS, NAMESPACES, PODS, SERVICES
from kubekit.request_errors import Conflict
from muster.contract.crds import load_all
from muster.contract.job_kinds import TFJOBS
from muster.jobs import parse
from muster.operator.decide.job_decision import decide
from muster.operator.decision_types import Create, Observed, Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from kubekit.objects.meta import Raw

JOBS, ROUNDS, FINISHED, IN_FLIGHT = 1000, 3, 10_000, 32
PER_JOB = 6
"""A service and a pod for each of a parameter server and two workers."""
_NO_GANG = ("--no-enable-gang-scheduling",)
_DEADLINE = 300.0


@dataclass(frozen=True)
class Rate:
    """Objects per second of the clock, and per second of processor time of all processes."""

    clock: float
    spent: float

    def __str__(self) -> str:
        return f"{self.clock:.0f} objects/s ({self.spent:.0f} per second of processor time)"


class Stopwatch:
    """Time since its creation."""

    def __init__(self) -> None:
        self._start, self._spent = time.perf_counter(), _spent()

    def rate(self, objects: int) -> Rate:
        spent = _spent() - self._spent
        return Rate(objects / (time.perf_counter() - self._start), objects / spent)


def _spent() -> float:
    """Processor time so far of this process and its living descendants."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(process.user + process.system for process in times)


def run() -> list[Ratio]:
    """The rows of `make bench`."""
    return measure(JOBS, ROUNDS)


def measure(jobs: int, rounds: int) -> list[Ratio]:
    with running_plane() as plane:
        with_gangs = [_round(plane, number, jobs) for number in range(rounds)]
        without_gangs = [_round(plane, number, jobs, *_NO_GANG) for number in range(rounds)]
        seconds = _after_restart(plane, FINISHED)
    after = f"{FINISHED} finished jobs after a restart, of 5 s"
    name = f"{jobs} TFJobs: pods and services vs a bare loop"
    return [
        *_ratios(f"{name}, with a group for each", with_gangs),
        *_ratios(f"{name}, without gangs", without_gangs),
        Ratio(after, [(seconds, 5.0)], "s", "<= 1"),
    ]


def _ratios(name: str, rounds: list[tuple[Rate, Rate]]) -> list[Ratio]:
    """Ratios of elapsed time, and of processor time, which a busy machine distorts less."""
    clock = [(ours.clock, bare.clock) for ours, bare in rounds]
    spent = [(ours.spent, bare.spent) for ours, bare in rounds]
    return [
        Ratio(name, clock, "objects/s", ">= 0.6"),
        Ratio(f"{name}, by processor time", spent, "objects/s", ">= 0.6"),
    ]


@contextlib.contextmanager
def running_plane() -> Iterator[ControlPlane]:
    with ControlPlane(build()) as plane:
        for crd in load_all():
            plane.request("POST", CRDS.path(), crd)
        _wait(lambda: plane.request("GET", TFJOBS.path())[0] == 200)
        yield plane


def _round(plane: ControlPlane, number: int, jobs: int, *flags: str) -> tuple[Rate, Rate]:
    """Both sides once, each first in every other round."""
    where = f"{number}-{len(flags)}"
    first = _bare(plane, f"bare-{where}", jobs) if number % 2 else None
    ours = _ours(plane, f"ours-{where}", jobs, flags)
    bare = first or _bare(plane, f"bare-{where}", jobs)
    print(f"  {' '.join(flags)} {ours}; bare {bare}", flush=True)
    return ours, bare


def _ours(plane: ControlPlane, namespace: str, jobs: int, flags: tuple[str, ...]) -> Rate:
    create_jobs(plane, namespace, jobs)
    watch = Stopwatch()
    with running_operator(plane, namespace, *flags) as process:
        wait_for_pods(plane, namespace, 3 * jobs, process)
        rate = watch.rate(PER_JOB * jobs)
        assert _count(plane, namespace, "services") == 3 * jobs
    return rate


def create_jobs(plane: ControlPlane, namespace: str, jobs: int) -> None:
    """Create the backlog."""
    bodies = [_job(namespace, f"job{i}") for i in range(jobs)]
    uvloop.run(_create(plane, namespace, [[("tfjobs", body)] for body in bodies]))


def wait_for_pods(
    plane: ControlPlane, namespace: str, pods: int, operator: subprocess.Popen[bytes]
) -> None:
    """Wait until the operator has created so many pods."""
    _wait(lambda: _alive(operator) and _count(plane, namespace, "pods") >= pods)


def _bare(plane: ControlPlane, namespace: str, jobs: int) -> Rate:
    todo = [_objects(_job(namespace, f"job{i}", uid=f"uid-{i}")) for i in range(jobs)]
    uvloop.run(_create(plane, namespace, []))
    watch = Stopwatch()
    uvloop.run(_create(plane, "", todo))
    return watch.rate(PER_JOB * jobs)


def _after_restart(plane: ControlPlane, jobs: int) -> float:
    """Seconds a new operator takes to reconcile so many finished jobs."""
    namespace = "finished"
    uvloop.run(_finished(plane, namespace, jobs))
    start = time.perf_counter()
    port = _free_port()
    with running_operator(plane, namespace, "--metrics-port", str(port)) as process:
        _wait(lambda: _alive(process) and _reconciled(port) >= jobs)
        seconds = time.perf_counter() - start
        idle = _cpu(process.pid)
        time.sleep(2.0)
        idle = _cpu(process.pid) - idle
    print(f"  {jobs} finished jobs: {seconds:.2f} s, idle CPU {idle / 2:.1%}", flush=True)
    return seconds


def _alive(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise SystemExit(f"the operator ended with code {process.returncode}")
    return True


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _reconciled(port: int) -> float:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return 0.0
    rows = [line for line in lines if "reconcile_total{" in line and 'loop="operator"' in line]
    return sum(float(row.split()[-1]) for row in rows)


def _cpu(pid: int) -> float:
    """Seconds of processor time so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@contextlib.contextmanager
def running_operator(
    plane: ControlPlane, namespace: str, *more: str, module: str = "muster"
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", module, "operator", "--kubeconfig", str(plane.kubeconfig)]
    process = subprocess.Popen(
        [*command, "-n", namespace, *more], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _count(plane: ControlPlane, namespace: str, plural: str) -> int:
    """The number of objects, without reading them."""
    _, page = plane.request("GET", f"/api/v1/namespaces/{namespace}/{plural}?limit=1")
    meta = page.get("metadata", {})
    return len(page.get("items", ())) + int(meta.get("remainingItemCount") or 0)


async def _finished(plane: ControlPlane, namespace: str, jobs: int) -> None:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    row = {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded"}
    status = {"status": {"conditions": [row], "completionTime": at}}
    bodies = [_job(namespace, f"job{i}") for i in range(jobs)]
    await _create(plane, namespace, [[("tfjobs", body)] for body in bodies])
    async with Client.connect(load(plane.kubeconfig)) as client:

        async def finish(body: Raw) -> None:
            key = parse.parse_job(body).key
            await client.patch(TFJOBS, key, status, subresource="status")

        await _drain(bodies, finish)


async def _create(plane: ControlPlane, namespace: str, todo: list[list[tuple[str, Raw]]]) -> None:
    kinds: dict[str, Any] = {"tfjobs": TFJOBS, "services": SERVICES, "pods": PODS}
    async with Client.connect(load(plane.kubeconfig)) as client:
        if namespace:
            with contextlib.suppress(Conflict):
                await client.create(NAMESPACES, {"metadata": {"name": namespace}})
                meta = {"name": "default", "namespace": namespace}
                plane.request(
                    "POST",
                    f"/api/v1/namespaces/{namespace}/serviceaccounts",
                    {"metadata": meta},
                )

        async def make(objects: list[tuple[str, Raw]]) -> None:
            for plural, body in objects:
                await client.create(kinds[plural], body)

        await _drain(todo, make)


async def _drain(items: Iterable[Any], work: Callable[[Any], Awaitable[None]]) -> None:
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


def _objects(raw: Raw) -> list[tuple[str, Raw]]:
    """The services and pods that the operator creates for this job."""
    actions = decide(parse.parse_job(raw), Observed(), Settings(), datetime.now(UTC))
    creates = [action for action in actions if isinstance(action, Create)]
    return [(a.kind.plural, a.manifest) for a in creates if a.kind in (SERVICES, PODS)]


def _job(namespace: str, name: str, uid: str = "") -> Raw:
    container = {
        "name": "tensorflow",
        "image": "tensorflow/tensorflow",
        "command": ["python", "train.py"],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    template = {"spec": {"containers": [container]}}
    roles = {role: {"replicas": n, "template": template} for role, n in (("PS", 1), ("Worker", 2))}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})},
        "spec": {"tfReplicaSpecs": json.loads(json.dumps(roles))},
    }


def _wait(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not check():
        if time.monotonic() > deadline:
            raise SystemExit("the benchmark timed out")
        time.sleep(0.25)


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:]]
    for ratio in measure(*(sizes or [JOBS, ROUNDS])):
        print(ratio.row())
