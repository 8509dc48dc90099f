"""One local cluster for the tests of the Python API: four nodes with two declared GPUs each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import muster


@pytest.fixture(scope="session")
def session_cluster() -> Iterator[muster.LocalCluster]:
    cluster = muster.local_cluster(nodes=4, gpus_per_node=2, cpus_per_node=16).start()
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(
    session_cluster: muster.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> muster.LocalCluster:
    """The cluster, with a directory of the test's own as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    return session_cluster


@pytest.fixture
def namespace(cluster: muster.LocalCluster) -> Iterator[str]:
    """A namespace of the test's own, in which nothing is left running."""
    with cluster.new_namespace() as name:
        yield name
