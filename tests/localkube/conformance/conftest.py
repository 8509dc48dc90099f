"""Both servers: this one, in a thread of its own, and the real one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import pytest

from localkube.apiserver.kinds.custom_resources import KnownKinds
from localkube.apiserver.kinds.pods import PODS, complete_scheduling
from localkube.apiserver.resource_registry import Registry, builtin
from muster.contract import crds
from muster.jobs.unknown_fields import unknown_field_paths
from tests.controlplane.process_flags import SERVICES
from tests.local_server import LocalServer
from tests.localkube.conformance.recording import Recorder
from tests.localkube.conformance.transcript import Connection, Step
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localkube.node_interface import NodeBackend
    from tests.controlplane.control_plane import ControlPlane


@dataclass(frozen=True)
class Running:
    """A server that can be talked to."""

    url: str
    token: str
    authority_pem: bytes
    kubeconfig: Path


_KNOWN = KnownKinds(unknown_field_paths, crds.immutable_fields())


def _without_accounts() -> Registry:
    """The kinds of a server on which pods get nothing from service accounts."""
    completion = replace(PODS.strategy.completion, complete_create=complete_scheduling)
    pods = replace(PODS, strategy=replace(PODS.strategy, completion=completion))
    kinds = builtin(IPv4Network(SERVICES), _KNOWN)
    return Registry((pods if kind is PODS else kind for kind in kinds), _KNOWN)


class InThread(LocalServer):
    """Our server with what the real server of the tests has."""

    def __init__(
        self,
        folder: Path,
        backend: NodeBackend | None = None,
        *,
        admit_service_accounts: bool = False,
    ) -> None:
        # The real server of the tests has no controller that makes accounts (`process_flags.py`).
        super().__init__(
            folder,
            backend=backend,
            service_range=IPv4Network(SERVICES),
            known=_KNOWN,
        )
        if not admit_service_accounts:
            self.server.registry = _without_accounts()

    @property
    def running(self) -> Running:
        server = self.server
        return Running(server.url, server.token, server.ca, self.kubeconfig)

    def compact(self) -> None:
        """Forget all history."""
        store = self.server.store
        self.call(store.compact(store.revision))


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with InThread(tmp_path_factory.mktemp("apiserver")) as host:
        yield host.running


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.save()


@pytest.fixture(scope="session")
def real(control_plane: ControlPlane) -> Running:
    return Running(
        control_plane.url,
        control_plane.token,
        control_plane.authority.certificate,
        control_plane.kubeconfig,
    )


@pytest.fixture(scope="session")
def installed_here(ours: Running) -> None:
    """Our CRDs on our server."""
    install(ours)


@pytest.fixture(scope="session")
def installed(installed_here: None, real: Running) -> None:
    """Our CRDs on both servers."""
    install(real)


def install(server: Running) -> None:
    """Our CRDs, served."""
    connection = Connection(server)
    for crd in crds.load_all():
        created = connection.send(
            Step("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        )
        assert created.status in (201, 409), created.body
    until(partial(_serves_jobs, connection), what="the jobs' CRD being served")
    connection.close()


def _serves_jobs(connection: Connection) -> bool:
    return connection.send(Step("GET", "/apis/kubeflow.org/v1/tfjobs")).status == 200
