"""Fixtures for pytest: a real Kubernetes API in about a second, without Docker and without Go.

Kept apart because it is a plug-in: pytest finds it by itself where Muster is installed. Nothing is
imported or started before a test asks for a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.sdk.local_cluster import LocalCluster, LocalClusterSettings


@pytest.fixture(scope="session")
def muster_cluster_settings() -> LocalClusterSettings:
    """The arguments of the tests' cluster; override it to declare nodes and GPUs."""
    return {}


@pytest.fixture(scope="session")
def muster_cluster(muster_cluster_settings: LocalClusterSettings) -> Iterator[LocalCluster]:
    """A local cluster for all tests of the session, and the default of `muster.submit`."""
    from muster.sdk.local_cluster import local_cluster

    with local_cluster(**muster_cluster_settings) as cluster:
        yield cluster


@pytest.fixture
def muster_namespace(muster_cluster: LocalCluster) -> Iterator[str]:
    """A new namespace for one test, deleted afterwards with everything in it."""
    with muster_cluster.new_namespace() as name:
        yield name
