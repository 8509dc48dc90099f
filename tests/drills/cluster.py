"""A real control plane with Muster installed, and its daemons as processes that a drill may kill.

etcd, kube-apiserver with RBAC and an audit log, kube-controller-manager and kwok run as processes.
`muster install` makes the accounts and rights; operator and scheduler run with the tokens of these
accounts. kwok sets the status of nodes and pods, so no image is needed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.controlplane.processes import Child
from tests.kubekit.client.networks.intermediaries import Relay
from tests.waiting import until

NAMESPACE = "muster"
OTHER_VERSION = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from muster.cli.main import muster
muster()
"""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
COMPONENTS = ("operator", "scheduler")
ELECTED = (
    "--leader-elect",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=1s",
)
AUDIT_RULES: list[dict[str, Any]] = [
    {
        "level": "RequestResponse",
        "verbs": ["create", "update", "patch", "delete", "deletecollection"],
        "resources": [{"group": "", "resources": ["pods", "pods/binding", "pods/status"]}],
    },
    {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{NAMESPACE}"]},
    {"level": "None"},
]
"""Writes of pods with request and response; of Muster's other requests only who, what and when."""


class DrillCluster:
    """The cluster and its daemons, each with a name such as `scheduler-b`."""

    def __init__(self, plane: ControlPlane, gpus: dict[str, int]) -> None:
        self.plane = plane
        self.gpus = gpus
        """The GPUs of each node."""
        self.troubles: list[tuple[float, float]] = []
        """The times in which something was out of order."""
        self._daemons: dict[str, Child] = {}
        self._commands: dict[str, list[str]] = {}
        self._tokens: dict[str, str] = {}

    def start(
        self,
        component: str,
        name: str = "",
        *flags: str,
        relay: Relay | None = None,
        source: Path | None = None,
    ) -> Child:
        """Start an operator or a scheduler; with `source`, of the version in that folder."""
        name = name or component
        port = relay.port if relay else int(self.plane.url.rpartition(":")[2])
        config = kubeconfig(
            f"https://127.0.0.1:{port}",
            self.plane.authority.certificate,
            token=self._token(component),
        )
        file = self.plane.folder / f"{name}.kubeconfig"
        file.write_text(json.dumps(config))
        begin = [sys.executable, "-m", "muster"]
        if source is not None:
            begin = [sys.executable, "-c", OTHER_VERSION, str(source)]
        self._commands[name] = [*begin, component, f"--kubeconfig={file}", *flags]
        return self.start_again(name)

    def start_again(self, name: str) -> Child:
        """Start a daemon that was killed, as it was started before."""
        log = self.plane.folder / f"{name}.log"
        child = self._daemons[name] = Child(self._commands[name], log)
        return child

    @property
    def address(self) -> str:
        """Host and port of the API server, for a relay."""
        return self.plane.url.removeprefix("https://")

    def restart_kwok(self) -> None:
        """kwok gives up on a pod whose write failed; a kubelet would not."""
        self.plane.start_kwok()

    def kill(self, *names: str) -> None:
        """SIGKILL: no lease is given up, no write is finished."""
        for name in names:
            self._daemons.pop(name).kill()

    def terminate(self, name: str) -> None:
        """SIGTERM, as a Deployment ends a pod: the lease is given up."""
        child = self._daemons.pop(name)
        os.kill(child.pid, signal.SIGTERM)
        until(lambda: not child.is_running(), timeout=60, what=f"the end of {name}")

    def forget(self, name: str) -> None:
        """A daemon that has ended by itself, as it should."""
        assert not self._daemons.pop(name).is_running()

    def assert_daemons_run(self) -> None:
        dead = [name for name, child in self._daemons.items() if not child.is_running()]
        assert not dead, f"{dead} ended by itself\n{self.log_tails()}"

    def log_tails(self, lines: int = 30) -> str:
        logs = [self.plane.folder / f"{name}.log" for name in self._daemons]
        return "\n".join(
            f"== {log.name}\n" + "\n".join(log.read_text().splitlines()[-lines:]) for log in logs
        )

    def leader(self, component: str) -> str:
        """The identity that holds the lease of a component; empty if nobody does."""
        code, lease = self.plane.request("GET", f"{LEASES}/muster-{component}")
        return lease["spec"].get("holderIdentity", "") if code == 200 else ""

    def await_leader(self, component: str, other_than: str = "", timeout: float = 120) -> str:
        def leads() -> str:
            holder = self.leader(component)
            return "" if holder == other_than else holder

        what = f"a leader of muster-{component}"
        try:
            return until(leads, timeout=timeout, every=0.1, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log_tails()}") from error

    def stop_daemons(self) -> None:
        for child in self._daemons.values():
            child.kill()
        self._daemons.clear()

    def _token(self, component: str) -> str:
        if component not in self._tokens:
            words = ("create", "token", f"muster-{component}", "-n", NAMESPACE, "--duration=24h")
            self._tokens[component] = self.checked(*words).strip()
        return self._tokens[component]

    def checked(self, *words: str, text: str | None = None) -> str:
        """The output of a kubectl command that must succeed."""
        result = self.plane.kubectl(*words, input=text)
        assert result.returncode == 0, result.stderr
        return result.stdout


@contextmanager
def drill_cluster(
    binaries: Path,
    *,
    nodes: int = 4,
    gpus: int = 4,
    watch_cache: bool = True,
) -> Iterator[DrillCluster]:
    """Muster is installed; no daemon runs yet."""
    with ControlPlane(binaries, audit=AUDIT_RULES, watch_cache=watch_cache) as plane:
        install(plane)
        # After the CRDs: the garbage collector looks for new kinds only twice a minute.
        plane.start_controller_manager()
        plane.start_kwok()
        names = {f"n{number}": gpus for number in range(nodes)}
        for name in names:
            plane.add_node(name, cpu=32, gpus=gpus)
        cluster = DrillCluster(plane, names)
        try:
            yield cluster
        finally:
            cluster.stop_daemons()


def install(plane: ControlPlane) -> None:
    """`muster install`, as the admin runs it."""
    words = ["install", "--image=registry.example.com/muster:1", "--yes", "--no-wait"]
    command = [sys.executable, "-m", "muster", *words, f"--kubeconfig={plane.kubeconfig}"]
    child = Child(command, plane.folder / "install.log")
    until(lambda: not child.is_running(), timeout=60, what="muster install")
    text = child.log.read_text()
    assert "installed in the namespace muster" in text, text


def start_both(cluster: DrillCluster, *flags: str, relay: Relay | None = None) -> None:
    """Start operator and scheduler, and wait until they lead."""
    for component in COMPONENTS:
        cluster.start(component, component, *flags, relay=relay)
    for component in COMPONENTS if "--leader-elect" in flags else ():
        cluster.await_leader(component)


def kill_and_start_again(cluster: DrillCluster) -> None:
    """Kill both daemons, and wait until their successors lead."""
    leaders = {name: cluster.leader(name) for name in COMPONENTS}
    cluster.kill(*COMPONENTS)
    for name in COMPONENTS:
        cluster.start_again(name)
    for name, before in leaders.items():
        cluster.await_leader(name, other_than=before)
