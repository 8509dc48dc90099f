"""Shared fixtures: a scene of fixed objects, and API servers that know the job kinds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import CRDS, NAMESPACES, Kind
from kubekit.request_errors import AlreadyExists, NotFound
from muster.cli.show import messages
from muster.client.server_tables import KINDS_BY_WORD
from muster.contract import crds
from muster.contract.job_kinds import JOB_KINDS
from tests.controlplane.control_plane import ControlPlane
from tests.local_server import LocalServer
from tests.muster.cli.fake_cluster import Scene
from tests.muster.cli.place import Place
from tests.waiting import until


@pytest.fixture(autouse=True)
def shown_lines() -> None:
    """A command sets the level of lines that are shown for the whole process."""
    messages.set_loglevel("info")


@pytest.fixture
def scene(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield Scene(capsys, monkeypatch)
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="session")
def job_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A local API server that knows the job kinds; nothing acts on the objects."""
    with LocalServer(tmp_path_factory.mktemp("jobs")) as server:
        teach(server.kubeconfig)
        yield server


@pytest.fixture(scope="module")
def job_plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """The same with a real API server, one of our own since it learns kinds."""
    with ControlPlane(control_plane_binaries) as plane:
        teach(plane.kubeconfig)
        yield plane


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.kube)])
def place(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Place]:
    """On the local API server and on a real one: the same words."""
    name = "job_server" if request.param == "local" else "job_plane"
    server: LocalServer | ControlPlane = request.getfixturevalue(name)
    with BlockingClient(kube_config.load(server.kubeconfig)) as client:
        created = client.create(NAMESPACES.read_as(dict), {"metadata": {"generateName": "test-"}})
        account = {"metadata": {"name": "default"}}
        with suppress(AlreadyExists):  # a real server takes no pod without it
            accounts = KINDS_BY_WORD["serviceaccounts"]
            client.create(accounts, account, namespace=created["metadata"]["name"])
        yield Place(server.kubeconfig, created["metadata"]["name"], client, capsys)


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
