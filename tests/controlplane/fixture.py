"""pytest fixtures of the real control plane; loaded by the top-level conftest.

`control_plane` is one cluster for the whole session (one per xdist worker), `fresh_namespace` keeps
tests apart in it. A test that kills the API server or wants other flags starts its own from
`control_plane_binaries`.

Without the binaries and without Go such tests are skipped, unless MUSTER_REQUIRE names `go`: then
they fail.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from tests.controlplane.build import Unavailable, build
from tests.controlplane.control_plane import ControlPlane
from tests.prerequisites import missing_prerequisite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def control_plane_binaries() -> Path:
    """The folder with kube-apiserver and the others, built now if the cache lacks them."""
    try:
        return build()
    except Unavailable as error:
        missing_prerequisite("go", str(error))


@pytest.fixture(scope="session")
def control_plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, shared: leave no cluster-wide objects behind, and break nothing."""
    with ControlPlane(control_plane_binaries) as plane:
        yield plane


@pytest.fixture
def fresh_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a new namespace; its deletion is requested, not awaited."""
    name = f"test-{secrets.token_hex(4)}"
    status, answer = control_plane.request(
        "POST", "/api/v1/namespaces", {"metadata": {"name": name}}
    )
    assert status == 201, answer
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")
