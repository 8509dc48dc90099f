"""pytest fixtures of the real control plane; loaded by the top-level conftest.

`control_plane` is one cluster for the whole session (one per xdist worker), `fresh_namespace` keeps
tests apart in it. A test that kills the API server or wants other flags starts its own from
`control_plane_binaries`.

Without the binaries and without Go such tests are skipped, unless MUSTER_REQUIRE names `go`: then
they fail. A test that is not marked `kube` or `long` fails if it asks for the binaries: a fresh
machine would build them for minutes in `make test`.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from tests.controlplane.build import Unavailable, build
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.pin_versions import PINS
from tests.prerequisites import missing_prerequisite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.controlplane.pin_versions import Pin

_running: list[pytest.Item] = []
"""The test that runs."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _running[:] = [item]


def built(pins: tuple[Pin, ...] = PINS) -> Path:
    """The folder with the programs of these pins, built now if the cache lacks them."""
    (test,) = _running
    if not any(test.get_closest_marker(mark) for mark in ("kube", "long")):
        pytest.fail(f"{test.nodeid} uses programs that are built with Go, so mark it kube", False)
    try:
        return build(pins)
    except Unavailable as error:
        missing_prerequisite("go", str(error))


@pytest.fixture(scope="session")
def control_plane_binaries() -> Path:
    """The folder with kube-apiserver and the others."""
    return built()


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
