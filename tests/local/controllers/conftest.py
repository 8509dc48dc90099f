"""The two clusters that controllers are compared on, each once per session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.controllers import two_clusters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.local.controllers.two_clusters import ClusterUnderTest


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
