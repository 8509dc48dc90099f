"""A node of a cluster on this machine: containerd, kubelet, kube-proxy, and CoreDNS beside them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.prerequisites import missing_prerequisite
from tests.realnode import node_settings as settings
from tests.realnode.node_namespaces import Namespaces, own_namespaces, remove_cgroups
from tests.waiting import until

PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    f"{settings.CNI_PLUGINS}/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "nft": "nftables",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
}
"""Debian's package of each program that the node and its images need."""


def require_programs() -> None:
    """Skip the test, or fail it where `containerd` is required, if a program is missing."""
    if os.geteuid() != 0:
        missing_prerequisite("containerd", "only root can run a node")
    packages = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if packages:
        missing_prerequisite("containerd", f"no real node: apt-get install {' '.join(packages)}")


class Node:
    """The node and its programs, which run until the namespaces end."""

    def __init__(self, plane: ControlPlane, binaries: Path, namespaces: Namespaces) -> None:
        self._plane = plane
        self._binaries = binaries
        self._namespaces = namespaces
        self.folder = namespaces.folder

    def start(self, address: str, images: Sequence[Path], sandbox_image: str) -> None:
        """Start every program; the images are imported before the kubelet starts."""
        self._write_files(address, sandbox_image)
        self._start_containerd()
        for image in images:
            self.run("ctr", "--namespace=k8s.io", "images", "import", str(image))
        self._start_dns(address)
        proxy = f"--config={self.folder}/kube-proxy.json"
        self._namespaces.start("kube-proxy", [str(self._binaries / "kube-proxy"), proxy])
        self._start_kubelet(address)

    def run(self, *words: str) -> str:
        """The output of a command in the node's namespaces."""
        command = self._namespaces.command(*words)
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{words}: {result.stdout}{result.stderr}"
        return result.stdout

    def _write_files(self, address: str, sandbox_image: str) -> None:
        authority, folder = self._plane.authority, self.folder
        serving = authority.server(address, settings.NAME)
        client = authority.client(f"system:node:{settings.NAME}", "system:nodes")
        own = kubeconfig(self._plane.url, authority.certificate, client=client)
        (folder / "cni").mkdir()
        for name, text in {
            "ca.crt": authority.certificate.decode(),
            "kubelet.crt": serving.certificate.decode(),
            "kubelet.key": serving.key.decode(),
            "kubelet.kubeconfig": json.dumps(own),
            "kubelet.json": settings.kubelet(folder, address),
            "kube-proxy.json": settings.kube_proxy(self._plane.kubeconfig),
            "containerd.toml": settings.containerd(folder, sandbox_image),
            "cni/pods.conflist": settings.cni(),
            "Corefile": settings.corefile(address, self._plane.kubeconfig),
            "resolv.conf": "",
        }.items():
            (folder / name).write_text(text)

    def _start_containerd(self) -> None:
        words = ["/usr/bin/containerd", f"--config={self.folder}/containerd.toml"]
        child = self._namespaces.start("containerd", words)
        version = self._namespaces.command("ctr", "version")
        child.await_ready(
            lambda: subprocess.run(version, capture_output=True, check=False).returncode == 0
        )

    def _start_dns(self, address: str) -> None:
        words = [str(self._binaries / "coredns"), f"-conf={self.folder}/Corefile"]
        child = self._namespaces.start("coredns", words)
        child.await_ready(lambda: f"{address}:53" in self.run("ss", "-lun"))

    def _start_kubelet(self, address: str) -> None:
        words = [
            str(self._binaries / "kubelet"),
            f"--config={self.folder}/kubelet.json",
            f"--kubeconfig={self.folder}/kubelet.kubeconfig",
            f"--hostname-override={settings.NAME}",
            f"--node-ip={address}",
        ]
        child = self._namespaces.start("kubelet", words)
        until(lambda: not child.is_running() or self._ready(), timeout=120, what="a ready node")
        assert child.is_running(), (self.folder / "kubelet.log").read_text()[-3000:]

    def _ready(self) -> bool:
        status, node = self._plane.request("GET", f"/api/v1/nodes/{settings.NAME}")
        conditions = node.get("status", {}).get("conditions", []) if status == 200 else []
        return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)


@contextmanager
def running_node(
    plane: ControlPlane, binaries: Path, address: str, images: Sequence[Path], sandbox_image: str
) -> Iterator[Node]:
    """A node that is Ready; at the end no process, mount or cgroup of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="muster-node-"))
    try:
        with own_namespaces(folder) as namespaces:
            node = Node(plane, binaries, namespaces)
            node.start(address, images, sandbox_image)
            yield node
    finally:
        remove_cgroups()
        shutil.rmtree(folder)
