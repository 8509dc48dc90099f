"""What the tests of verbs share: a scene of fixed objects, and a local API server of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from muster.api import crds
from muster.api.kinds import CRDS
from muster.kube import config
from muster.kube.blocking import BlockingClient
from tests.cli.objects import Scene
from tests.cli.test_apply import LocalServer


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
        with BlockingClient(config.load(server.kubeconfig)) as client:
            for crd in crds.load_all():
                client.create(CRDS.read_as(dict), crd)
        yield server
