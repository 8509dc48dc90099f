"""Jobs of an ordinary user on a real node: training in containers, logs, deletion, MPI by exec."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.local_cluster import EXAMPLES
from tests.examples.training import mpirun, need
from tests.muster.words import tells
from tests.realnode.cluster import MUSTER, TEAM, Cluster
from tests.realnode.images import MUSTER_IMAGE
from tests.repository import ROOT
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.long]
OWNED = "pods,services,configmaps,podgroups.scheduling.volcano.sh"


def test_a_tfjob_of_one_ps_and_two_workers_trains_to_its_end(cluster: Cluster) -> None:
    need("tensorflow", "tensorflow")
    flags = ("--gang", "--ps=1", "--workers=2", "--clean-task-policy=None")
    path = f"--env=PYTHONPATH={ROOT}"
    cluster.submit("tf", "ps", *flags, path, command="python -m tests.realnode.train_ps 300")

    job = cluster.until_job("ps", "SUCCEEDED", "FAILED")

    assert job["status"] == "SUCCEEDED", job
    for worker in ("ps-worker-0", "ps-worker-1"):
        log = cluster.arena("logs", "ps", "-i", worker)
        assert "step 600 of 2 workers: 3.000 x + -1.000" in log
        assert log == cluster.kubectl("logs", worker, f"--namespace={TEAM}")
    names = [row["spec"]["schedulerName"] for row in cluster.objects("pods")]
    assert names == ["muster"] * 3
    cluster.arena("delete", "ps")


def test_deleting_a_job_removes_its_pods_and_services(cluster: Cluster) -> None:
    cluster.submit("tf", "sleeper", "--gang", "--ps=1", "--workers=2", command="sleep infinity")
    cluster.until_job("sleeper", "RUNNING")
    shown = cluster.arena("get", "sleeper")
    assert len(re.findall(r"sleeper-(?:ps-0|worker-[01]) +Running", shown)) == 3, shown
    words = ("attach", "sleeper", "-i", "sleeper-worker-1", "--", "hostname")
    assert cluster.arena(*words) == "sleeper-worker-1\n"

    cluster.arena("delete", "sleeper")

    until(lambda: not cluster.names(OWNED, "sleeper"), timeout=180, every=1, what="the job is gone")
    assert "sleeper" not in cluster.arena("list")


def test_an_mpijob_runs_mpirun_over_exec(cluster: Cluster) -> None:
    need("mpirun", "mpi4py")
    mpirun()
    command = f"mpirun python -m mpi4py {EXAMPLES / 'mpi_allreduce.py'} --steps=60"
    cluster.submit("mpi", "ring", "--workers=2", "--mounts-on-launcher", command=command)

    job = cluster.until_job("ring", "SUCCEEDED", "FAILED")

    log = cluster.arena("logs", "ring")
    assert job["status"] == "SUCCEEDED", log
    assert set(re.findall(r"on (ring-worker-\d)", log)) == {"ring-worker-0", "ring-worker-1"}
    (launcher,) = (name for name in cluster.names("pods", "ring") if "launcher" in name)
    assert log == cluster.kubectl("logs", launcher, f"--namespace={TEAM}")
    role = json.loads(
        cluster.kubectl("get", "role", "ring-launcher", f"--namespace={TEAM}", "-o", "json")
    )
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} <= {"get", "create"}
    cluster.arena("delete", "ring")


def test_a_container_beyond_its_memory_limit_is_named_with_it(cluster: Cluster) -> None:
    command = "python -c 'print(len(bytearray(500 << 20)))'"
    cluster.submit("tf", "large", "--workers=1", "--worker-memory=64Mi", command=command)

    job = cluster.until_job("large", "SUCCEEDED", "FAILED")

    assert tells(job["reason"], "OOMKilled", "137", "64Mi")
    cluster.arena("delete", "large")


def test_a_python_function_runs_in_pods_and_returns_its_result(cluster: Cluster) -> None:
    name = "function"
    flags = f"name={name!r}, namespace={TEAM!r}, image={MUSTER_IMAGE!r}, workers=2"
    script = f"""
import muster, socket
def where(number):
    return number * 2, socket.gethostname()
flags = dict({flags}, image_pull_policy="IfNotPresent")
print(muster.run(where, args=(21,), kind="pytorch", **flags).result())
"""

    assert cluster.python(script) == "(42, 'function-master-0')\n"
    cluster.arena("delete", name)


def test_a_job_runs_on_while_all_pods_of_muster_are_replaced(cluster: Cluster) -> None:
    flags = ("--gang", "--workers=2", "--success-policy=AllWorkers")
    cluster.submit("tf", "calm", *flags, command="sh -c 'until [ -e /tmp/end ]; do sleep 1; done'")
    cluster.until_job("calm", "RUNNING")
    before = {pod["metadata"]["uid"] for pod in cluster.objects("pods")}

    cluster.kubectl("delete", "pods", "--all", f"--namespace={MUSTER}", "--wait=false")
    for worker in ("calm-worker-0", "calm-worker-1"):
        cluster.kubectl("exec", worker, f"--namespace={TEAM}", "--", "touch", "/tmp/end")

    job = cluster.until_job("calm", "SUCCEEDED", "FAILED")
    assert job["status"] == "SUCCEEDED", job
    assert {pod["metadata"]["uid"] for pod in cluster.objects("pods")} <= before
    cluster.arena("delete", "calm")
