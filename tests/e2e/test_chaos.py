"""Random kills of processes, shims, pods, nodes and the daemon: every job ends as its policy says.

Afterwards nothing is left on the machine: no process, namespace, mount, link or control group.
MUSTER_CHAOS_SEED chooses other failures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from muster.api.meta import Raw
from tests.e2e.chaos import FAILURES, Chaos
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import EXAMPLES, LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow
UP = ("--nodes", "2", "--gpus-per-node", "4")
SEED = int(os.environ.get("MUSTER_CHAOS_SEED", "20260"))
GPU = "nvidia.com/gpu"

FINAL = {"SUCCEEDED", "FAILED"}


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
    names = [job["metadata"]["name"] for job in submitted]
    chaos = Chaos(local, UP, SEED)
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

    expected = {name: allowed(name, chaos) for name in names}
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
    return {job["name"]: job["status"] for job in listed}


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


def allowed(name: str, chaos: Chaos) -> set[str]:
    """The possible outcomes of a job, by its policy (the first word of its name) and failures."""
    killed, deleted = chaos.killed[name], chaos.deleted[name]
    match name.partition("-")[0]:
        case "retry" | "code" | "gang":
            return {"SUCCEEDED"}
        case "doomed":
            return {"FAILED"}
        case _ if killed and deleted:
            return FINAL  # The failure of a pod that is deleted at once may never be observed.
        case _:
            return {"FAILED"} if killed else {"SUCCEEDED"}


def jobs(each: int, gate: Path, *, work: int) -> list[Raw]:
    """`each` jobs of every policy, which work for so many seconds and until the gate is open."""
    busy = f"[ $i -lt {work * 5} ] || [ ! -e {gate}/open ]"
    sleep = f"i=0; while {busy}; do sleep 0.2; i=$((i+1)); done"
    return [
        job
        for number in range(each)
        for job in (
            alone(f"retry-{number}", "OnFailure", sleep, gate),
            alone(f"never-{number}", "Never", sleep, gate),
            alone(f"code-{number}", "ExitCode", sleep, gate),
            alone(f"limit-{number}", "OnFailure", sleep, gate, backoffLimit=1),
            alone(f"doomed-{number}", "Never", f"{sleep}; exit 3", gate),
            gang(f"gang-{number}", work=work),
        )
    ]


def alone(name: str, restart: str, command: str, gate: Path, **policy: int) -> Raw:
    role = replica(1, restart, command)
    spec = role["template"]["spec"]
    spec["volumes"] = [{"name": "gate", "hostPath": {"path": str(gate)}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "gate", "mountPath": str(gate)}]
    return tfjob(name, {"Worker": role}, policy)


def gang(name: str, *, work: int) -> Raw:
    """Two workers and a server, which start together and continue when one of them comes back."""
    train = f"python {EXAMPLES / 'numpy_ps.py'} --steps {work * 8} --pause 0.1 --stay"
    # A trainer whose server was killed exits with a code that allows a retry.
    train += " || exit 200"
    roles = {"Worker": replica(2, "ExitCode", train), "PS": replica(1, "ExitCode", train, gpus=0)}
    return tfjob(name, roles, {})


def tfjob(name: str, roles: Raw, policy: Raw) -> Raw:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": roles, "runPolicy": policy},
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
