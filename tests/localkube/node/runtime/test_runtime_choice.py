"""Pods of a killed daemon are stopped by the runtime that started them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import ROOTLESS, needs_namespaces
from tests.localkube.node.pod_builders import container, manifest
from tests.waiting import until

pytestmark = [pytest.mark.slow, needs_namespaces]

SECONDS = 100_000 + os.getpid()
"""A number that no other run of these tests has."""


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "home")
    yield cluster
    cluster.down()
    until(lambda: not leftovers.of(tmp_path), what="nothing is left")


def start(local: LocalCluster, runtime: str) -> None:
    """Start a cluster with a pod that has a process in a session of its own."""
    local.up("--runtime", runtime)
    script = f"setsid sleep {SECONDS} & sleep 500"
    pod = manifest("p", container("main", "sh", "-c", script))
    del pod["spec"]["nodeName"]
    local.apply({"apiVersion": "v1", "kind": "Pod", **pod})
    until(sleeping, what="the process in its own session")


def sleeping() -> list[int]:
    """The PID of the process in its own session, if it runs."""
    words = ["sleep", str(SECONDS)]
    pids = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
        except OSError:
            continue
        if arguments == words:
            pids.append(pid)
    return pids


def test_down_kills_all_processes_of_plain_pods(local: LocalCluster) -> None:
    start(local, "plain")
    local.kill_daemon()

    local.down()

    assert sleeping() == []


@pytest.mark.parametrize(("first", "second"), [("namespaces", "plain"), ("plain", "namespaces")])
def test_up_with_another_runtime_stops_the_pods_of_the_earlier_runtime(
    local: LocalCluster, first: str, second: str
) -> None:
    start(local, first)
    local.kill_daemon()
    before = leftovers.of(local.home / "data")
    assert ROOTLESS or bool(before.links) == (first == "namespaces")

    local.up("--runtime", second)

    assert sleeping() == []
    pod = until(lambda: ended(local), what="the pod's end")
    assert pod == ("Failed", "Terminated", ["DisruptionTarget"])
    local.down()
    assert not leftovers.of(local.home)


def ended(local: LocalCluster) -> tuple[str, str, list[str]] | None:
    """Phase, reason and disruption conditions of the pod, once it has failed."""
    status = local.pod("p").status
    disruptions = [c.type for c in status.conditions if c.type == "DisruptionTarget"]
    return (status.phase, status.reason, disruptions) if status.phase == "Failed" else None


@pytest.mark.parametrize("runtime", ["plain", "auto"])
def test_up_with_the_same_runtime_or_auto_finds_running_pods(
    local: LocalCluster, runtime: str
) -> None:
    start(local, "plain")
    before = sleeping()
    local.kill_daemon()

    local.up("--runtime", runtime)

    until(lambda: local.pod("p").status.phase == "Running", what="the pod runs")
    assert sleeping() == before
