"""The two clusters of the workload stories, each once per session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.local.workloads import places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.local.workloads.places import Place


@pytest.fixture(scope="session")
def both(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Place, Place]]:
    """Kubernetes' own controllers, then ours."""
    folder = tmp_path_factory.mktemp("workloads")
    with (
        places.kubernetes(control_plane_binaries) as real,
        places.local(control_plane_binaries, folder) as ours,
    ):
        yield real, ours
