"""`arena down` removes all traces of the cluster, also after its daemon was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import LocalCluster

pytestmark = pytest.mark.slow


def test_a_killed_daemon_that_had_no_pods_leaves_nothing_after_down(tmp_path: Path) -> None:
    local, before = LocalCluster(tmp_path), Footprint.now()
    local.up()
    local.kill_daemon()

    output = local.arena("down").stderr

    assert "the remains of a killed one are removed" in output
    assert Footprint.now().beyond(before, tmp_path) == []
    assert "no local cluster was up\n" in local.arena("down").stderr
