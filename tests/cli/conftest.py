"""What the tests of verbs share: a scene of fixed objects, and a local API server of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.api import crds
from muster.api.kinds import CRDS, JOB_KINDS, Kind
from muster.errors import NotFound
from muster.kube.auth import kube_config
from muster.kube.blocking_client import BlockingClient
from tests.cli.fake_cluster import Scene
from tests.cli.verbs.test_apply import LocalServer
from tests.controlplane.control_plane import ControlPlane
from tests.waiting import until


@pytest.fixture
def scene(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield Scene(capsys, monkeypatch)
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="session")
def job_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A local API server that knows the job kinds; nothing acts on what is written there."""
    with LocalServer(tmp_path_factory.mktemp("jobs")) as server:
        teach(server.kubeconfig)
        yield server


@pytest.fixture(scope="module")
def job_plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """The same with a real API server, one of our own since it learns kinds."""
    with ControlPlane(control_plane_binaries) as plane:
        teach(plane.kubeconfig)
        yield plane


def teach(kubeconfig: Path) -> None:
    """Make the server know the job kinds, and wait until it does."""
    with BlockingClient(kube_config.load(kubeconfig)) as client:
        for crd in crds.load_all():
            client.create(CRDS.read_as(dict), crd)
        for kind in JOB_KINDS:
            until(partial(served, client, kind), what=f"{kind.kind} is served")


def served(client: BlockingClient, kind: Kind[Any]) -> bool:
    try:
        client.list(kind)
    except NotFound:
        return False
    return True
