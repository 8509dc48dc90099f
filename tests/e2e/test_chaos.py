"""Random kills of processes, shims, pods, nodes and the daemon: every job ends as its policy says.

Afterwards nothing is left on the machine: no process, namespace, mount, link or control group.
MUSTER_CHAOS_SEED draws other blows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

import pytest

from muster.api.meta import Raw
from tests.e2e.chaos import Chaos
from tests.e2e.footprint import Footprint
from tests.e2e.local import EXAMPLES, Local
from tests.waiting import until

pytestmark = pytest.mark.slow
UP = ("--nodes", "2", "--gpus-per-node", "4")
SEED = int(os.environ.get("MUSTER_CHAOS_SEED", "20260"))
GPU = "nvidia.com/gpu"

SLEEP = "i=0; while [ $i -lt 25 ]; do sleep 0.2; i=$((i+1)); done"
# A trainer whose server was killed gives up; what it then says means that it may be tried again.
TRAIN = f"python {EXAMPLES / 'numpy_ps.py'} --steps 40 --pause 0.1 || exit 200"

EITHER = {"SUCCEEDED", "FAILED"}


@pytest.fixture
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    cluster = Local(tmp_path_factory.mktemp("home"))
    before = Footprint.now()
    cluster.up(*UP)
    yield cluster
    cluster.down()
    assert Footprint.now().beyond(before, cluster.home) == []


def test_six_jobs_end_as_their_policies_say_whatever_is_killed(local: Local) -> None:
    outlast(local, jobs(1), seconds=15, every=0.5)


@pytest.mark.long
def test_twenty_jobs_end_as_their_policies_say_after_two_minutes_of_kills(local: Local) -> None:
    outlast(local, [*jobs(3), gang("gang-3"), gang("gang-4")], seconds=120, every=1.0)


def outlast(local: Local, submitted: Sequence[Raw], *, seconds: float, every: float) -> None:
    """Submit, strike, and wait for all to end; a job that nobody struck has no excuse."""
    local.apply(*submitted)
    names = [job["metadata"]["name"] for job in submitted]
    chaos = Chaos(local, UP, SEED)
    chaos.rage(seconds, every)

    found = until(lambda: ends(local, names), timeout=150, every=1.0, what="the end of all jobs")

    said = {name: allowed(name, chaos) for name in names}
    wrong = {name: (found[name], said[name]) for name in names if found[name] not in said[name]}
    assert wrong == {}, f"{chaos.blows} {chaos.killed} {chaos.deleted}\n{local.log_tail()}"
    assert sum(chaos.killed.values()) >= len(names), chaos.blows
    local.arena("delete", *names)


def allowed(name: str, chaos: Chaos) -> set[str]:
    """How a job may end, given its policy (the first word of its name) and what befell it."""
    killed, deleted = chaos.killed[name], chaos.deleted[name]
    match name.partition("-")[0]:
        case "retry" | "code" | "gang":
            return {"SUCCEEDED"}
        case "doomed":
            return {"FAILED"}
        case _ if killed and deleted:
            return EITHER  # a pod that is deleted takes its failure with it if it was not yet seen
        case _:
            return {"FAILED"} if killed else {"SUCCEEDED"}


def ends(local: Local, names: list[str]) -> dict[str, str] | None:
    listed = json.loads(local.arena("list", "-o", "json").stdout)
    found = {job["name"]: job["status"] for job in listed}
    assert set(names) <= set(found), found
    return found if set(found.values()) <= EITHER else None


def jobs(each: int) -> list[Raw]:
    """That many of each policy."""
    return [
        job
        for number in range(each)
        for job in (
            alone(f"retry-{number}", "OnFailure", SLEEP),
            alone(f"never-{number}", "Never", SLEEP),
            alone(f"code-{number}", "ExitCode", SLEEP),
            alone(f"limit-{number}", "OnFailure", SLEEP, backoffLimit=1),
            alone(f"doomed-{number}", "Never", f"{SLEEP}; exit 3"),
            gang(f"gang-{number}"),
        )
    ]


def alone(name: str, restart: str, command: str, **policy: int) -> Raw:
    return tfjob(name, {"Worker": replica(1, restart, command)}, policy)


def gang(name: str) -> Raw:
    """Two workers and a server, which start together and go on when one of them comes back."""
    roles = {"Worker": replica(2, "ExitCode", TRAIN), "PS": replica(1, "ExitCode", TRAIN, gpus=0)}
    return tfjob(name, roles, {})


def tfjob(name: str, roles: Raw, policy: Raw) -> Raw:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": roles, "runPolicy": policy, "successPolicy": "AllWorkers"},
    }


def replica(count: int, restart: str, command: str, gpus: int = 1) -> Raw:
    container: Raw = {
        "name": "tensorflow",
        "image": "python:3.12",
        "command": ["sh", "-c", command],
        "resources": {"limits": {GPU: gpus} if gpus else {}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"replicas": count, "restartPolicy": restart, "template": {"spec": spec}}
