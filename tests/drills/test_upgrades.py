"""The first version of Muster is replaced by this one while jobs run and arrive."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.drills.cluster import COMPONENTS, drill_cluster
from tests.drills.drill import drill
from tests.repository import ROOT

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.long]
FIRST_VERSION = "0698eb10"
"""A commit of the first day on which operator and scheduler could be run as daemons."""


@pytest.fixture
def first_version(tmp_path: Path) -> Path:
    """The package as it was, from the repository's history."""
    command = ["git", "archive", FIRST_VERSION, "src"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if result.returncode:
        pytest.skip(f"the history of the repository lacks {FIRST_VERSION}")
    subprocess.run(["tar", "-x", "-C", tmp_path], input=result.stdout, check=True)
    return tmp_path / "src"


def test_old_and_new_replicas_side_by_side(
    control_plane_binaries: Path, first_version: Path
) -> None:
    with drill_cluster(control_plane_binaries) as cluster:
        for name in COMPONENTS:
            cluster.start(name, f"{name}-old", "--leader-elect", source=first_version)
        leaders = {name: cluster.await_leader(name) for name in COMPONENTS}
        with drill(cluster, "upgrade") as current:
            current.traffic.until_more_end(2)
            for name in COMPONENTS:
                cluster.start(name, f"{name}-new", "--leader-elect")
            current.traffic.until_more_end(2)
            with current.trouble():
                for name, before in leaders.items():
                    cluster.terminate(f"{name}-old")
                    leaders[name] = cluster.await_leader(name, other_than=before)
            current.traffic.until_more_end(2)
            for name in COMPONENTS:  # and back again
                cluster.start_again(f"{name}-old")
            with current.trouble():
                for name, before in leaders.items():
                    cluster.terminate(f"{name}-new")
                    cluster.await_leader(name, other_than=before)
