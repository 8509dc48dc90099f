"""Random kills of processes, shims, pods, nodes and the daemon: every job ends as its policy says.

Afterwards nothing is left on the machine: no process, namespace, mount, link or control group.
MUSTER_CHAOS_SEED chooses other failures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from kubekit.objects.meta import Raw
from tests.e2e.campaign.jobs import FINAL, allowed, gang, job
from tests.e2e.chaos import FAILURES, Chaos
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow
UP = ("--nodes", "2", "--gpus-per-node", "4")
SEED = int(os.environ.get("MUSTER_CHAOS_SEED", "20260"))


@pytest.fixture
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    before = Footprint.now()
    cluster.up(*UP)
    yield cluster
    cluster.down()
    assert Footprint.now().beyond(before, cluster.home) == []


def test_six_jobs_end_as_their_policies_say_whatever_is_killed(
    local: LocalCluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    survive_failures(local, gate, jobs(1, gate, work=10), seconds=0, every=0.4)


@pytest.mark.long
def test_twenty_jobs_end_as_their_policies_say_after_two_minutes_of_kills(
    local: LocalCluster, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    more = [gang("gang-3", work=15), gang("gang-4", work=15)]
    survive_failures(local, gate, [*jobs(3, gate, work=15), *more], seconds=120, every=1.0)


def survive_failures(
    local: LocalCluster, gate: Path, submitted: Sequence[Raw], *, seconds: float, every: float
) -> None:
    """Submit, cause failures, wait for all jobs to end, and compare their outcomes.

    Until the gate is opened only gangs end by themselves, so there is always a job to hit.
    """
    gate.mkdir()
    local.apply(*submitted)
    names = [each["metadata"]["name"] for each in submitted]
    chaos = Chaos(local, lambda: local.up(*UP), Random(SEED))
    chaos.cause_failures(seconds, every)
    (gate / "open").touch()

    try:
        until(
            lambda: set(statuses(local).values()) <= FINAL,
            timeout=150,
            every=1.0,
            what="the end of all jobs",
        )
    except AssertionError as error:
        raise AssertionError(f"{error}\n{chaos}\n{unfinished(local)}") from error
    outcomes = statuses(local)
    print(f"{chaos}\noutcomes {outcomes}")

    expected = {name: allowed(name, chaos.killed[name], chaos.deleted[name]) for name in names}
    wrong = {
        name: (outcomes[name], expected[name])
        for name in names
        if outcomes[name] not in expected[name]
    }
    assert wrong == {}, f"{chaos}\n{local.log_tail()}"
    assert set(chaos.failures) == set(FAILURES), chaos
    local.arena("delete", *names)


def statuses(local: LocalCluster) -> dict[str, str]:
    listed = json.loads(local.arena("list", "-o", "json").stdout)
    return {each["name"]: each["status"] for each in listed}


def unfinished(local: LocalCluster) -> str:
    """The state of the jobs that have not ended, for the message."""
    names = [name for name, status in statuses(local).items() if status not in FINAL]
    shown = [local.arena("get", name).stdout for name in names]
    for name in names:
        for instance in local.job(name)["instances"]:
            pod = instance["name"]
            log = local.arena("logs", name, "-i", pod, "--tail", "5", check=False).stdout
            shown.append(f"--- {pod}\n{log}\n{local.inside(pod)}")
    return "\n".join([*shown, local.log_tail()])


def jobs(each: int, gate: Path, *, work: int) -> list[Raw]:
    """`each` jobs of every policy, which work for so many seconds and until the gate is open."""
    policies = ("retry", "never", "code", "limit", "doomed", "gang")
    return [job(f"{policy}-{number}", gate, work) for number in range(each) for policy in policies]
