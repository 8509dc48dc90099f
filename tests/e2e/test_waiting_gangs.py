"""Gangs that wait for room: their reasons follow the cluster, and they start with true numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.muster.words import short
from tests.waiting import until

pytestmark = pytest.mark.slow

SIZE = "sh -c 'echo world $WORLD_SIZE nodes $PET_NNODES; exec sleep 99'"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node with two CPUs."""
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up("--cpus-per-node=2")
    yield cluster
    cluster.down()


def test_a_waiting_gang_that_is_scaled_starts_with_the_new_numbers(local: LocalCluster) -> None:
    local.submit("first", "--cpu=2", command="sleep 99")
    local.wait_job("first", "RUNNING")
    flags = ("--name=g", "--image=x", "--gang", "--workers=3", "--cpu=1")
    local.arena("submit", "pytorch", *flags, SIZE)
    until(lambda: local.job("g")["reason"], what="the gang waits with a reason")

    # Room that becomes free changes the reason at once, and everywhere.
    local.arena("delete", "first")
    until(lambda: waits_with(local, short(1, "cpu")), what="the new reason, of every pod")

    local.arena("scale", "g", "--workers=2")

    local.wait_job("g", "RUNNING")

    def lines_of_both() -> list[str]:
        lines = local.arena("logs", "g", "--all").stdout.splitlines()
        return lines if len(lines) == 2 else []

    lines = until(lines_of_both, what="both replicas have started")
    assert [line.split(" world ")[1] for line in lines] == ["2 nodes 2"] * 2


def waits_with(local: LocalCluster, words: str) -> bool:
    """The job, its pods and the explanation have one reason, with these words."""
    explanation = json.loads(local.arena("explain", "g", "-o", "json").stdout)
    reason = str(local.job("g")["reason"])
    members = {member["why"] for member in explanation["members"]}
    return words in reason and members == {reason} and explanation["text"].startswith(reason)


def test_a_running_gang_that_grows_beyond_the_room_still_runs(local: LocalCluster) -> None:
    local.arena("scale", "g", "--workers=5")

    text = "2 of 5 run; "
    until(lambda: local.job("g")["reason"].startswith(text), what="the reason")
    assert local.job("g")["status"] == "RUNNING"

    def explained() -> Any:
        answer = json.loads(local.arena("explain", "g", "-o", "json").stdout)
        return answer if answer["text"].startswith(text) else None

    explanation = until(explained, what="the reason in the explanation")
    assert (explanation["state"], explanation["code"]) == ("running", "NotEnoughRoom")
    waiting = [member["why"] for member in explanation["members"] if not member["node"]]
    assert len(waiting) == 3
    assert set(waiting) == {explanation["reason"]}
