"""One cluster with a real node for all tests of this package; outside of it nothing is left."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.fixture import built
from tests.controlplane.pin_versions import NODE
from tests.realnode.cluster import MUSTER, Cluster, running_cluster
from tests.realnode.footprint import NodeFootprint
from tests.realnode.images import MUSTER_IMAGE, Builder
from tests.realnode.node import require_programs


@pytest.fixture(scope="package")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """A builder of images; they are too large to be kept."""
    require_programs()
    folder = tmp_path_factory.mktemp("images")
    yield Builder(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="package")
def images(builder: Builder) -> list[Path]:
    return [builder.python_image(), builder.muster_image()]


@pytest.fixture(scope="package")
def bare_cluster(
    control_plane_binaries: Path, images: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster with Muster's image on its node; nothing of the node is left at the end."""
    binaries = (control_plane_binaries, built(NODE))
    before = NodeFootprint.now()
    with running_cluster(binaries, images, tmp_path_factory.mktemp("home")) as cluster:
        yield cluster
    assert NodeFootprint.now().beyond(before) == []


@pytest.fixture(scope="package")
def cluster(bare_cluster: Cluster) -> Cluster:
    """The cluster after `muster install`, which waits until all pods are ready."""
    output = bare_cluster.muster("install", f"--image={MUSTER_IMAGE}", "--yes", "--timeout=10m")
    assert f"installed in the namespace {MUSTER}: operator, scheduler and dashboard" in output
    return bare_cluster
