"""Load on the local API server and on kube-apiserver with etcd: creates, gets, watches, memory.

    python -m benchmarks apiserver_load

A Go program (`tests/controlplane/modules/programs/load`) sends 32 requests at once over TLS to one
server, then to the other, in turn. Each server has processes of its own, answers a write when it is
on the disk, and admits pods by all its rules: they get the token volume of a service account.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from tests.controlplane.build import build
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.pin_versions import PROGRAMS

from benchmarks.local_apiserver import ServerProcess
from benchmarks.ratio import Ratio, in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 5
CONFIG_MAPS, PODS, GETS, FOLLOWED = 2_000, 1_000, 4_000, 1_000
WATCHERS = 10
MEBIBYTE = 1 << 20
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@dataclass(frozen=True)
class Target:
    """A server under load."""

    url: str
    token: str
    ca_file: Path
    processes: list[int]
    numbers: Iterator[int]

    def create(self, kind: str, number: int) -> float:
        """Creates a second."""
        return self._load("create", kind, number, f"load-{next(self.numbers)}")

    def get(self, number: int) -> float:
        """Gets a second of pods that `prepare` created."""
        return self._load("get", "pods", number, "read")

    def watch(self, number: int) -> float:
        """Events a second, of creates that all watchers follow."""
        return self._load("watch", "configmaps", number, f"followed-{next(self.numbers)}")

    def prepare(self) -> None:
        """Create the pods that gets read."""
        self._load("create", "pods", GETS, "read")

    def memory(self) -> float:
        """Resident memory of its processes, in MiB."""
        return sum(psutil.Process(pid).memory_info().rss for pid in self.processes) / MEBIBYTE

    def _load(self, verb: str, kind: str, number: int, prefix: str) -> float:
        command = [str(build((PROGRAMS,)) / "api-load"), f"-url={self.url}", f"-ca={self.ca_file}"]
        command += [f"-verb={verb}", f"-kind={kind}", f"-count={number}", f"-prefix={prefix}"]
        command += [f"-watchers={WATCHERS}"]
        environment = {**os.environ, "TOKEN": self.token}
        result = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return float(json.loads(result.stdout)["perSecond"])


def run() -> list[Ratio]:
    with (
        tempfile.TemporaryDirectory(prefix="muster-bench-") as name,
        ControlPlane(build(), durable=True, default_admission=True) as plane,
    ):
        # A cluster without controllers has no account that its pods could use.
        plane.request("POST", ACCOUNTS, {"metadata": {"name": "default"}})
        folder = Path(name)
        server = ServerProcess(folder / "data")
        authority = folder / "ca.crt"
        authority.write_bytes(server.ca)
        ours = Target(server.url, server.token, authority, [server.pid], count())
        real = Target(plane.url, plane.token, plane.ca_file, plane.process_ids(), count())
        try:
            return _ratios(ours, real)
        finally:
            server.stop()


def _ratios(ours: Target, real: Target) -> list[Ratio]:
    def measured(measure: Callable[[Target], float]) -> list[tuple[float, float]]:
        return in_turn(lambda: measure(ours), lambda: measure(real), rounds=ROUNDS)

    ours.prepare()
    real.prepare()
    maps = measured(lambda target: target.create("configmaps", CONFIG_MAPS))
    pods = measured(lambda target: target.create("pods", PODS))
    gets = measured(lambda target: target.get(GETS))
    events = measured(lambda target: target.watch(FOLLOWED))
    memory = [(ours.memory(), real.memory())]
    return [
        Ratio("ConfigMaps created, 32 at once, vs kube-apiserver", maps, "/s", ">= 1.0"),
        Ratio("pods created, 32 at once, vs kube-apiserver", pods, "/s", ">= 1.0"),
        Ratio("pods read, 32 at once, vs kube-apiserver", gets, "/s", ">= 0.25"),
        Ratio(f"events to {WATCHERS} watchers vs kube-apiserver", events, "/s", ">= 1.0"),
        Ratio("resident memory afterwards vs kube-apiserver and etcd", memory, "MiB", "<= 0.33"),
    ]
