"""Two clusters for one story: Kubernetes' own controller manager, and ours on the local API server.

kwok plays the nodes' part on both, by the same rules, so that whatever differs between the two
comes from the controllers (or from the API servers, which `tests/localkube/conformance` compares).
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from localkube.controllers import controller_manager
from tests.controlplane import http_request
from tests.controlplane.certificates import Authority
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import Settings
from tests.controlplane.processes import Child, start_on_free_port
from tests.local_server import LocalServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODE = "n0"


@dataclass(frozen=True)
class ClusterUnderTest:
    """A cluster, through kubectl."""

    name: str
    binaries: Path
    kubeconfig: Path

    def kubectl(
        self, *words: str, text: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.binaries / "kubectl"), *words],
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            env={
                "PATH": os.environ["PATH"],
                "KUBECONFIG": str(self.kubeconfig),
                "HOME": str(self.kubeconfig.parent),
            },
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


@contextmanager
def kubernetes(binaries: Path) -> Iterator[ClusterUnderTest]:
    """etcd, kube-apiserver, kube-controller-manager and kwok, with one node."""
    with ControlPlane(binaries) as plane:
        plane.start_controller_manager()
        plane.start_kwok()
        plane.add_node(NODE)
        yield ClusterUnderTest("kubernetes", binaries, plane.kubeconfig)


@contextmanager
def local(binaries: Path, folder: Path) -> Iterator[ClusterUnderTest]:
    """The local API server with our controllers, and kwok with one node."""
    with (
        controlled(binaries, folder, controller_manager.Settings()) as place,
        _kwok(binaries, folder),
    ):
        result = place.kubectl("create", "-f", "-", text=_NODE)
        assert result.returncode == 0, result.stderr
        yield place


@contextmanager
def controlled(
    binaries: Path, folder: Path, settings: controller_manager.Settings
) -> Iterator[ClusterUnderTest]:
    """The local API server with our controllers."""
    with LocalServer(folder) as server:
        with_ca = replace(settings, root_ca=server.server.ca.decode())
        server.run(lambda client: controller_manager.run(client, with_ca))
        yield ClusterUnderTest("local", binaries, server.kubeconfig)


@contextmanager
def _kwok(binaries: Path, folder: Path) -> Iterator[None]:
    root_ca = Authority()
    serving = root_ca.server()
    (folder / "serving.crt").write_bytes(serving.certificate)
    (folder / "serving.key").write_bytes(serving.key)
    flags = Settings(folder, durable=False, watch_cache=True, audited=False).kwok
    children: list[Child] = []

    def start(port: int) -> Child:
        children.append(Child([str(binaries / "kwok"), *flags(port)], folder / "kwok.log"))
        return children[-1]

    def answers(port: int) -> bool:
        try:
            return (
                http_request.send(
                    http_request.tls_connection(port, root_ca.certificate), "GET", "/healthz"
                )[0]
                == 200
            )
        except OSError:
            return False

    try:
        start_on_free_port(start, answers)
        yield
    finally:
        for child in children:
            child.kill()


_NODE = f"""
apiVersion: v1
kind: Node
metadata:
  name: {NODE}
  annotations: {{kwok.x-k8s.io/node: fake}}
  labels: {{kubernetes.io/hostname: {NODE}}}
status:
  allocatable: {{cpu: "8", memory: 32Gi, pods: "110"}}
  capacity: {{cpu: "8", memory: 32Gi, pods: "110"}}
"""
