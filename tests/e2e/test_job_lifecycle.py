"""A job on the local cluster: submit, gang, place, run, read logs, survive kills, clean up."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubekit.objects.kinds import NODES
from kubekit.objects.meta import Key
from muster.contract.gang import Topology
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import EXAMPLES, LocalCluster, over, processes_with
from tests.muster.words import no_domain, tells
from tests.waiting import until

pytestmark = pytest.mark.slow
TRAIN = f"python {EXAMPLES / 'numpy_ps.py'}"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes with one declared GPU each; anything they leave on the machine fails the module."""
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    before = Footprint.now()
    cluster.up("--nodes", "2", "--gpus-per-node", "1")
    yield cluster
    cluster.down()
    assert Footprint.now().beyond(before, cluster.home) == []


def test_a_gang_that_does_not_fit_waits_as_a_whole_with_a_reason(local: LocalCluster) -> None:
    local.submit("big", "--gang", "--gpus=1", "--workers=3", "--ps=1", command=TRAIN)

    def explained() -> dict[str, Any] | None:
        job = local.job("big")
        pods = job["instances"]
        return job if len(pods) == 4 and all(pod["reason"] for pod in pods) else None

    job = until(explained, what="every instance has a reason")

    assert job["status"] == "PENDING"
    assert {i["status"] for i in job["instances"]} == {"Pending"}
    assert {i["node"] for i in job["instances"]} == {""}
    assert "nvidia.com/gpu" in job["reason"]
    assert "nvidia.com/gpu" in local.arena("get", "big").stdout
    assert "\nbig waits: " in f"\n{local.arena('list').stderr}"
    assert "Did you mean big?\n" in local.arena("get", "bigg", check=False).stderr
    local.arena("delete", "big")


def test_a_job_with_a_topology_waits_until_one_rack_has_room(local: LocalCluster) -> None:
    rack = "example.com/rack"
    local.submit("racked", f"--topology={rack}", "--gpus=1", "--workers=2", command="sleep 99")

    def explained(*facts: str) -> bool:
        why = re.search("Why: .*", local.arena("explain", "racked").stdout)
        return why is not None and tells(why[0], *facts)

    def label(*racks: str) -> None:
        with local.client() as client:
            nodes = sorted(node.metadata.name for node in client.list(NODES).items)
            for name, value in zip(nodes, racks, strict=True):
                labels = {"metadata": {"labels": {rack: value}}}
                client.patch(NODES, Key("", name), labels)

    no_rack = no_domain(Topology((rack,)), missing_labels=((rack, ""),))
    until(lambda: explained(no_rack), what="no rack")
    label("r1", "r2")
    until(lambda: explained("rack", "r1", "1 of 2 workers"), what="a small rack")
    label("r1", "r1")
    local.wait_job("racked", "RUNNING")
    local.arena("delete", "racked")


def test_a_gang_that_fits_trains_to_the_end(local: LocalCluster) -> None:
    # Without AllWorkers the job ends with worker 0, and a worker that still runs is deleted.
    flags = ("--gang", "--gpus=1", "--workers=2", "--ps=1", "--success-policy=AllWorkers")
    local.submit("fits", *flags, command=f"{TRAIN} --steps 40")

    followed = local.arena("logs", "-f", "fits").stdout
    job = local.wait_job("fits", "SUCCEEDED", "FAILED")

    assert job["status"] == "SUCCEEDED"
    losses = [
        float(value) for value in re.findall(r"^step \d+ loss ([\d.]+)", followed, re.MULTILINE)
    ]
    assert len(losses) >= 4
    assert losses[-1] < losses[0] / 2
    other = local.arena("logs", "fits", "-i", "1").stdout
    assert "trained: loss" in other
    assert "fits" in local.arena("list").stdout
    local.arena("delete", "fits")
    until(lambda: local.arena("get", "fits", check=False).returncode == 3, what="the job is gone")


def test_a_killed_daemon_loses_neither_processes_nor_exit_codes(local: LocalCluster) -> None:
    steps = "--steps=111"
    command = f"{TRAIN} {steps} --pause=0.12 --report=1"
    local.submit("survivor", "--gang", "--gpus=1", "--workers=2", "--ps=1", command=command)
    until(lambda: "step 5 " in local.arena("logs", "survivor", check=False).stdout, what="training")
    before = processes_with(steps)

    local.kill_daemon()
    local.up("--nodes", "2", "--gpus-per-node", "1")

    assert len(before) == 3
    assert processes_with(steps).items() <= before.items()  # Some may have ended.
    job = local.wait_job("survivor", "SUCCEEDED", "FAILED")
    assert job["status"] == "SUCCEEDED"
    log = local.arena("logs", "survivor").stdout
    assert [int(n) for n in re.findall(r"^step (\d+) ", log, re.MULTILINE)] == list(range(1, 112))
    local.arena("delete", "survivor")


def test_a_restarted_cluster_starts_its_jobs_again(local: LocalCluster) -> None:
    steps = "--steps=77"
    command = f"{TRAIN} {steps} --pause=0.05 --report=1"
    local.submit("again", "--gang", "--gpus=1", "--workers=2", "--ps=1", command=command)
    until(lambda: "step 5 " in local.arena("logs", "again", check=False).stdout, what="training")

    daemon = local.daemon
    local.down()
    assert over(daemon)
    assert processes_with(steps) == {}
    local.up("--nodes", "2", "--gpus-per-node", "1")

    assert local.wait_job("again", "SUCCEEDED", "FAILED")["status"] == "SUCCEEDED"
    assert "step 77 " in local.arena("logs", "again").stdout
    local.arena("delete", "again")


def test_a_pod_that_ends_while_the_daemon_is_down_is_reported_with_its_exit_code(
    local: LocalCluster, tmp_path: Path
) -> None:
    """The pod waits for a line in a pipe, so that the test decides when it ends."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    local.submit("late", f"--data-dir={tmp_path}", command=f"read line < {gate}; exit 7")
    local.wait_job("late", "RUNNING")
    shim = local.shim_of("late-chief-0")

    local.kill_daemon()
    gate.write_text("go\n")
    until(lambda: over(shim), what="the pod has ended")
    local.up("--nodes", "2", "--gpus-per-node", "1")

    assert local.wait_job("late", "SUCCEEDED", "FAILED")["status"] == "FAILED"
    ended = local.pod("late-chief-0").status.container_statuses[0].state.terminated
    assert ended is not None
    assert ended.exit_code == 7
    local.arena("delete", "late")
