"""The clusters of the end-to-end tests: a real control plane, and the local API server."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from kubekit.client.auth import kube_config
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import CRDS, Kind
from localkube.controllers.garbage_collector import GarbageCollector
from muster.contract import crds
from muster.contract.job_kinds import TFJOBS
from muster.local_daemon import extensions
from tests.controlplane.control_plane import ControlPlane
from tests.local_server import LocalServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubekit.objects.meta import Raw


@dataclass(frozen=True)
class RunningCluster:
    """A cluster with our CRDs and a garbage collector."""

    endpoint: Endpoint
    plane: ControlPlane | None = None

    def apply(self, namespace: str, text: str) -> None:
        """Apply a manifest, with kubectl where the cluster has one."""
        if self.plane is not None:
            result = self.plane.kubectl("apply", "-n", namespace, "-f", "-", input=text)
            assert result.returncode == 0, result.stderr
            return
        body = yaml.safe_load(text)
        version = body["apiVersion"].partition("/")[2]
        kind = Kind("kubeflow.org", version, "tfjobs", "TFJob", TFJOBS.model)
        with BlockingClient(self.endpoint) as client:
            client.create(kind, body, namespace=namespace)


@contextmanager
def kubernetes(binaries: Path) -> Iterator[RunningCluster]:
    with ControlPlane(binaries) as plane:
        define(plane)
        # After the CRDs: the garbage collector looks for new kinds only twice a minute.
        plane.start_controller_manager()
        yield RunningCluster(kube_config.load(plane.kubeconfig), plane)


def define(plane: ControlPlane) -> None:
    """Install our CRDs."""
    for crd in crds.load_all():
        status, answer = plane.request("POST", CRDS.path(), crd)
        assert status == 201, answer
    until(lambda: _served(plane), what="every CRD being served")


def _served(plane: ControlPlane) -> bool:
    _, listing = plane.request("GET", CRDS.path())
    return all(_established(crd) for crd in listing["items"])


def _established(crd: Raw) -> bool:
    rows = crd.get("status", {}).get("conditions") or ()
    return any(row["type"] == "Established" and row["status"] == "True" for row in rows)


@contextmanager
def local(folder: Path) -> Iterator[RunningCluster]:
    """The local API server with our CRDs, and its garbage collector."""
    with LocalServer(folder, known=extensions(folder).kinds) as server:
        with BlockingClient(server.endpoint) as client:
            for crd in crds.load_all():
                client.create(CRDS.read_as(dict), crd)
        server.run(lambda client: GarbageCollector(client).run())
        yield RunningCluster(server.endpoint)
