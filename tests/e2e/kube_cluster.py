"""A real Kubernetes API with Muster's operator and scheduler as separate processes beside it.

Nodes are objects that kwok keeps Ready; it also sets the status of bound pods.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane.control_plane import ControlPlane
from tests.e2e.real_cluster import RealCluster

BIN = Path(sys.executable).parent


class Kube(RealCluster):
    """A real cluster with `muster operator` and `muster scheduler` beside it."""

    def __init__(self, plane: ControlPlane, logs: Path) -> None:
        super().__init__(logs)
        self.plane = plane
        self.env = {**os.environ, "MUSTER_HOME": str(logs)}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> None:
        command = [str(BIN / "muster"), *words, "--kubeconfig", str(self.plane.kubeconfig)]
        with (self._logs / f"{words[0]}.log").open("wb") as log:
            self._daemons.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log))

    def stop(self) -> None:
        for daemon in self._daemons:
            daemon.terminate()
        codes = [daemon.wait(30) for daemon in self._daemons]
        assert codes == [0] * len(codes), self.log_tails()

    def arena(self, *words: str) -> str:
        result = subprocess.run(
            [BIN / "arena", *words, "--kubeconfig", str(self.plane.kubeconfig)],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, (
            f"{words}\n{result.stdout}{result.stderr}\n{self.log_tails()}"
        )
        return result.stdout

    def submit(self, name: str, workers: int) -> None:
        flags = ["--image=i", "--gang", "--gpus=1", f"--workers={workers}", "--ps=1"]
        self.arena("submit", "tf", f"--name={name}", *flags, "python train.py")

    def shown_job(self, name: str) -> str:
        return self.arena("get", name, "-o", "json")


@contextmanager
def kube_cluster(binaries: Path, folder: Path) -> Iterator[Kube]:
    """Two nodes with one GPU each; logs go to the folder."""
    with ControlPlane(binaries) as plane:
        crds = subprocess.run([BIN / "muster", "crds"], capture_output=True, check=True, text=True)
        applied = plane.kubectl("create", "-f", "-", input=crds.stdout)
        assert applied.returncode == 0, applied.stderr
        plane.start_kwok()
        for number in range(2):
            plane.add_node(f"n{number}", cpu="8", memory="16Gi", gpus=1)
        kube = Kube(plane, folder)
        try:
            kube.start("operator")
            kube.start("scheduler")
            yield kube
        finally:
            kube.stop()
