"""A client of a local API server, and the two clusters that controllers are compared on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local_server import local_client
from tests.localkube.controllers import two_clusters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from kubekit.client.client import Client
    from tests.localkube.controllers.two_clusters import ClusterUnderTest


@pytest.fixture
async def api_client(tmp_path: Path) -> AsyncIterator[Client]:
    """The client of an API server without controllers."""
    async with local_client(tmp_path / "api") as client:
        yield client


@pytest.fixture(scope="session")
def both(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClusterUnderTest, ClusterUnderTest]]:
    """Kubernetes' own controllers, then ours."""
    folder = tmp_path_factory.mktemp("workloads")
    with (
        two_clusters.kubernetes(control_plane_binaries) as real,
        two_clusters.local(control_plane_binaries, folder) as ours,
    ):
        yield real, ours
