"""One hour of faults together: every job ends as its policy says, no acknowledged write is lost.

The faults are kills of pods, shims and the daemon, a full disk, too few descriptors, jumps of the
clock, connections of another user that never end, hostile objects and malformed requests.
MUSTER_CAMPAIGN_SECONDS and MUSTER_CAMPAIGN_SEED choose a shorter campaign and other faults;
MUSTER_CAMPAIGN_LOG names a file that gets a line for each fault.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from threading import Event

import pytest

from kubekit.objects.kinds import NAMESPACES, PODS
from kubekit.objects.meta import Key
from tests.e2e.campaign.disk_space import SIZE, DiskSpace
from tests.e2e.campaign.faults import Faults
from tests.e2e.campaign.hostile import NAMESPACE, Hostile, planted
from tests.e2e.campaign.job_slots import JobSlots
from tests.e2e.campaign.ledger import Ledger
from tests.e2e.campaign.wall_clock import WallClock
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import LocalCluster
from tests.prerequisites import missing_prerequisite
from tests.small_disk import small_disk
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]
SECONDS = float(os.environ.get("MUSTER_CAMPAIGN_SECONDS", "3600"))
SEED = int(os.environ.get("MUSTER_CAMPAIGN_SEED", "20261"))
UP = ("--nodes", "2", "--gpus-per-node", "8")
PATIENCE = 420
"""Longer than the longest back-off of a container, which is five minutes."""


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return Path(os.environ.get("MUSTER_CAMPAIGN_LOG", tmp_path / "campaign.log"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskSpace]:
    if os.geteuid() != 0:
        missing_prerequisite("root", "only root can be another user")
    with small_disk(tmp_path / "disk", f"{SIZE}m") as folder:
        yield DiskSpace(folder)


@pytest.fixture
def local(disk: DiskSpace, log_file: Path) -> Iterator[LocalCluster]:
    """A cluster whose home is on a small disk. Its log is copied beside the campaign's."""
    cluster = LocalCluster(disk.folder / "home")
    yield cluster
    for file in cluster.home.glob("daemon.log*"):
        shutil.copy(file, log_file.with_name(f"{log_file.name}.{file.name}"))
    cluster.arena("down", "--now", check=False)


@pytest.fixture
def log(log_file: Path) -> Callable[[str], None]:
    def write(text: str) -> None:
        with log_file.open("a") as lines:
            lines.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")

    return write


@pytest.mark.timeout(SECONDS + 1800)
def test_an_hour_of_faults_ends_no_job_wrongly_and_leaves_nothing_behind(
    local: LocalCluster, disk: DiskSpace, tmp_path: Path, log: Callable[[str], None]
) -> None:
    before = Footprint.now()
    clock = WallClock(tmp_path)
    gate = tmp_path / "gate"
    gate.mkdir()
    slots = JobSlots(local, gate, Random(SEED), log)
    hostile = Hostile(local, Random(SEED + 1))
    faults = Faults(local, UP, Random(SEED + 2), clock, disk, slots, hostile, log)
    ledger = Ledger(local, SEED + 3)
    local.env.update(clock.variables)
    local.up(*UP)
    file = planted(local.home)
    ledger.prepare()
    hostile.prepare()

    with running(slots.run):
        with running(ledger.write), running(lambda stop: use(local, faults, Random(SEED), stop)):
            faults.cause(SECONDS, every=1.5)
        log("no more faults")
        delete_namespace(local, NAMESPACE)
        slots.closing = True
        _reached(lambda: not slots.unfinished(), PATIENCE)
    problems = [*faults.finds, *slots.finds, *slots.unfinished(), *ledger.differences()]
    log(f"problems so far: {problems}")
    problems += [] if file.exists() else ["a pod has removed a file of the cluster's state"]
    summary = (
        f"seed {SEED}, faults {dict(faults.counts)}, outcomes {dict(slots.outcomes)}, "
        f"writes acknowledged {ledger.acknowledged}, failed {ledger.failed}, "
        f"failed starts {faults.failed_starts}, disk enlarged {disk.enlarged}, "
        f"most memory {faults.most_memory >> 20} MB"
    )
    log(summary)
    print(summary)

    problems += pods_left(local)
    local.down()
    problems += Footprint.now().beyond(before, local.home)
    local.up(*UP)
    problems += ledger.differences()
    local.down()
    problems += Footprint.now().beyond(before, local.home)
    log(f"problems: {problems}")
    assert problems == []


@contextmanager
def running(work: Callable[[Event], None]) -> Iterator[None]:
    """Run the work in a thread during the block."""
    stop = Event()
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(work, stop)
        try:
            yield
        finally:
            stop.set()
            future.result()


def use(local: LocalCluster, faults: Faults, random: Random, stop: Event) -> None:
    """Commands of a user meanwhile: each may fail, but in words and not with a traceback."""
    while not stop.wait(5.0):
        command = random.choice(["list", "status", "top node", "get pods", "list -o json"])
        faults.check_output(command, local.arena(*command.split(), check=False))


def delete_namespace(local: LocalCluster, name: str) -> None:
    with local.client() as client:
        client.delete(NAMESPACES, Key("", name))
        until(
            lambda: client.find(NAMESPACES, Key("", name)) is None,
            timeout=120,
            every=0.5,
            what=f"the end of namespace {name}",
        )


def pods_left(local: LocalCluster) -> list[str]:
    """The records of pods on the node, once every pod is gone from the API."""
    with local.client() as client:
        until(
            lambda: not client.list(PODS).items, timeout=60, every=0.5, what="the end of all pods"
        )
    folder = local.home / "data" / "pods"
    _reached(lambda: not list(folder.iterdir()), 30)
    return [
        f"{path.name}: {sorted(str(p.relative_to(path)) for p in path.rglob('*'))}"
        for path in folder.iterdir()
    ]


def _reached(check: Callable[[], bool], timeout: float) -> bool:
    end = time.monotonic() + timeout
    while not check():
        if time.monotonic() > end:
            return False
        time.sleep(1)  # pace: polls
    return True
