"""A job that makes room for one of higher priority says so everywhere, until it runs again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kubekit.objects.conditions import preemption_message
from kubekit.objects.meta import Key, Raw
from muster.contract.job_kinds import TFJOBS
from tests.e2e.local_cluster import LocalCluster
from tests.muster.words import short
from tests.waiting import until

pytestmark = pytest.mark.slow

HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
WORDS = preemption_message("default/big")
GANG = ("--gang", "--workers=2", "--cpu=1")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node with two CPUs."""
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up("--cpus-per-node=2")
    cluster.apply(HIGH)
    yield cluster
    cluster.down()


def restarting(local: LocalCluster) -> Raw | None:
    with local.client() as client:
        rows = client.get(TFJOBS, Key("default", "low"))["status"]["conditions"]
    return next((row for row in rows if row["type"] == "Restarting"), None)


@pytest.mark.parametrize("restart", ["replica", "gang"])
def test_a_preempted_job_says_by_whom_until_it_runs_again(
    local: LocalCluster, restart: str
) -> None:
    local.submit("low", *GANG, f"--restart={restart}", command="sleep 99")
    local.wait_job("low", "RUNNING")
    local.submit("big", *GANG, "--priority=high", command="sleep 99")
    local.wait_job("big", "RUNNING")

    def waits_for_room() -> bool:
        return short(2, "cpu") in local.job("low")["reason"]

    until(waits_for_room, what="the preempted job waits in line")
    assert local.job("low")["reason"].startswith(f"{WORDS}; ")
    assert f"low waits: {WORDS}; " in local.arena("list").stderr
    assert f"Reason:      {WORDS}; " in local.arena("get", "low").stdout
    explanation = json.loads(local.arena("explain", "low", "-o", "json").stdout)
    assert explanation["text"].startswith(f"{WORDS}; {explanation['reason']}")
    condition = restarting(local)
    assert condition is not None
    assert WORDS in condition["message"]
    events = local.arena("get", "low", "-e").stdout
    assert f"[TFJobRestarting] {condition['message']}" in events

    local.arena("delete", "big")

    local.wait_job("low", "RUNNING")
    until(lambda: not local.job("low")["reason"], what="the job has run again")
    local.arena("delete", "low")
