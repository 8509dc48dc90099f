"""A cluster of one real node with Muster's image on it, and the commands that a test runs there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import own_network
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.controlplane.processes import Child
from tests.examples.training import PYTHON
from tests.realnode.images import PYTHON_IMAGE
from tests.realnode.node import running_node
from tests.repository import ROOT
from tests.waiting import until

BIN = Path(sys.executable).parent
MUSTER, TEAM, USER = "muster", "team", "alice"
JOB_SECONDS = 900
"""Long enough for TensorFlow's imports on a busy machine."""


class Cluster:
    """Commands on the cluster: as its administrator, or as an ordinary user of one namespace."""

    def __init__(self, plane: ControlPlane, kubectl: Path, home: Path) -> None:
        self.plane = plane
        self._kubectl = kubectl
        self._home = home
        self._user = home / "user.kubeconfig"
        client = plane.authority.client(USER)
        config = kubeconfig(plane.url, plane.authority.certificate, client=client)
        config["contexts"][0]["context"]["namespace"] = TEAM
        self._user.write_text(json.dumps(config))
        self.kubectl("create", "namespace", TEAM)
        binding = ("rolebinding", USER, "--clusterrole=edit", f"--user={USER}")
        self.kubectl("create", *binding, f"--namespace={TEAM}")

    def kubectl(self, *words: str) -> str:
        """The output of kubectl as the administrator."""
        result = self.plane.kubectl(*words)
        assert result.returncode == 0, f"kubectl {words}: {result.stderr}"
        return result.stdout

    def objects(self, kind: str, namespace: str = TEAM) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(
            self.kubectl("get", kind, f"--namespace={namespace}", "--output=json")
        )["items"]
        return items

    def names(self, kinds: str, prefix: str) -> list[str]:
        """The names of the team's objects that begin so."""
        names = [item["metadata"]["name"] for item in self.objects(kinds)]
        return [name for name in names if name.startswith(prefix)]

    def apply(self, *objects: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        result = self.plane.kubectl("apply", f"--namespace={TEAM}", "-f", "-", input=text)
        assert result.returncode == 0, result.stderr

    @contextmanager
    def forwarded(self, namespace: str, target: str, port: int) -> Iterator[str]:
        """The address on loopback to which kubectl forwards a port."""
        options = [f"--kubeconfig={self.plane.kubeconfig}", f"--namespace={namespace}"]
        words = [str(self._kubectl), *options, "port-forward", target, f":{port}"]
        log = self._home / "port-forward.log"
        child = Child(words, log)
        try:
            child.await_ready(lambda: "Forwarding from 127.0.0.1" in log.read_text())
            (local,) = re.findall(r"from 127.0.0.1:(\d+)", log.read_text())
            yield f"http://localhost:{local}"
        finally:
            child.kill()

    def muster(self, *words: str) -> str:
        """The output of `muster` as the administrator."""
        return self._command("muster", self.plane.kubeconfig, words)

    def arena(self, *words: str) -> str:
        """The output of `arena` as the user."""
        return self._command("arena", self._user, words)

    def python(self, script: str) -> str:
        """The output of a Python program as the administrator."""
        return self._command("python", self.plane.kubeconfig, ("-c", script))

    def submit(self, kind: str, name: str, *flags: str, command: str) -> None:
        """Submit a job whose pods have the training environment's Python and this repository."""
        path = f"{Path(PYTHON).parent}:/usr/bin:/bin"
        image = [f"--image={PYTHON_IMAGE}", "--image-pull-policy=IfNotPresent"]
        folders = [f"--data-dir={folder}" for folder in (*_environment(), str(ROOT))]
        words = ["submit", kind, f"--name={name}", *image, f"--env=PATH={path}", *folders]
        self.arena(*words, *flags, command)

    def until_job(self, name: str, *states: str) -> dict[str, Any]:
        """The job once it is in one of the states."""

        def reached() -> dict[str, Any] | None:
            job: dict[str, Any] = json.loads(self.arena("get", name, "-o", "json"))
            return job if job["status"] in states else None

        try:
            return until(reached, timeout=JOB_SECONDS, every=1, what=f"{name} {states}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.kubectl('describe', 'pods', '-A')}") from error

    def _command(self, program: str, config: Path, words: tuple[str, ...]) -> str:
        environment = {**os.environ, "MUSTER_HOME": str(self._home), "KUBECONFIG": str(config)}
        result = subprocess.run(
            [BIN / program, *words], env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{program} {words}\n{result.stdout}{result.stderr}"
        return result.stdout


@contextmanager
def running_cluster(
    binaries: tuple[Path, Path], images: list[Path], home: Path
) -> Iterator[Cluster]:
    """A control plane and a node, in a network of their own; the images are on the node."""
    control_plane, node_programs = binaries
    address = own_network.ADDRESS
    with own_network.entered(), ControlPlane(control_plane, address=address) as plane:
        plane.start_controller_manager()
        plane.start_scheduler()
        with running_node(plane, node_programs, address, images, PYTHON_IMAGE):
            yield Cluster(plane, control_plane / "kubectl", home)


def _environment() -> list[str]:
    """The directories of the training environment: its own, and that of its interpreter."""
    script = "import sys; print(*sorted({sys.prefix, sys.base_prefix} - {'/usr'}), sep='\\n')"
    shown = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True)
    return shown.stdout.split()
