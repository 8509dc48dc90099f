"""`arena down` removes all traces of the cluster, also after its daemon was killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

pytestmark = pytest.mark.slow


def test_a_killed_daemon_that_had_no_pods_leaves_nothing_after_down(tmp_path: Path) -> None:
    local, before = LocalCluster(tmp_path), Footprint.now()
    local.up()
    local.kill_daemon()

    output = local.arena("down").stderr

    assert "the remains of a killed one are removed" in output
    assert Footprint.now().beyond(before, tmp_path) == []
    assert "no local cluster was up\n" in local.arena("down").stderr


def test_status_says_that_a_cluster_is_stopping_while_its_pods_end(tmp_path: Path) -> None:
    local = LocalCluster(tmp_path)
    local.up()
    try:
        # The shell reports that it ignores SIGTERM before `down` sends it.
        local.submit("slow", command="trap '' TERM; echo deaf; while true; do sleep 0.1; done")
        local.wait_job("slow", "RUNNING")
        until(lambda: "deaf" in local.arena("logs", "slow").stdout, what="the trap is set")
        assert json.loads(local.arena("status", "-o", "json").stdout)["local"] == "up"

        down = local.start("down")

        def stopping() -> bool:
            shown = local.arena("status", "-o", "json", check=False).stdout
            return bool(json.loads(shown)["local"] == "stopping")

        until(stopping, what="the cluster is stopping")
        line = local.arena("status", check=False).stdout
        assert "stopping; waiting for slow-chief-0 to end (grace period: 30 s)\n" in line
        assert "dashboard:" not in line
    finally:
        local.arena("down", "--now")
    down.communicate(timeout=60)
    shown = local.arena("status", "-o", "json", check=False).stdout
    assert json.loads(shown)["local"] == "down"
