"""One local cluster for all files of this folder that run in one process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixture import built
from tests.controlplane.pin_versions import KUBE_STATE_METRICS, PROGRAMS
from tests.e2e.local_cluster import LocalCluster


@dataclass(frozen=True)
class Program:
    """A program with the kubeconfig of a cluster and a home of its own."""

    binary: Path
    kubeconfig: Path

    def __call__(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        home = str(self.kubeconfig.parent.with_name("home-of-programs"))
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": home}
        return subprocess.run(
            [str(self.binary), *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def output(self, *words: str) -> str:
        """Its standard output; it must succeed."""
        result = self(*words)
        assert result.returncode == 0, f"{' '.join(words)}: {result.stderr}{result.stdout}"
        return result.stdout

    def json(self, *words: str) -> Any:
        """The JSON that it prints."""
        return json.loads(self.output(*words, "-o", "json"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("home"))
    cluster.up("--nodes", "2", "--no-dashboard")
    yield cluster
    cluster.down()


@pytest.fixture(scope="session")
def kubeconfig(cluster: LocalCluster) -> Path:
    return cluster.home / "kubeconfig"


@pytest.fixture(scope="session")
def kubectl(control_plane_binaries: Path, kubeconfig: Path) -> Program:
    return Program(control_plane_binaries / "kubectl", kubeconfig)


@pytest.fixture(scope="session")
def kube_state_metrics() -> Path:
    return built((KUBE_STATE_METRICS,)) / "kube-state-metrics"


@pytest.fixture(scope="session")
def api_client(kubeconfig: Path) -> Program:
    """The client in `tests/controlplane/modules/programs/client`."""
    return Program(built((PROGRAMS,)) / "api-client", kubeconfig)
