"""A real cluster on which `muster install` was run, and one of its ordinary users.

The operator and the scheduler run as processes, each with the command line of its Deployment and
with a token of its service account. kwok keeps the nodes Ready and sets the status of pods: they
run until `finish` tells them how to end. kube-scheduler gives nodes to pods that are not of jobs.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kubekit.objects.kinds import DEPLOYMENTS
from kubekit.objects.meta import Raw
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.e2e.real_cluster import RealCluster
from tests.repository import ROOT
from tests.waiting import until

BIN = Path(sys.executable).parent
COMPONENTS = ("operator", "scheduler")
NAMESPACE = "muster"
USER, TEAM = "alice", "team"
DOCS = ROOT / "docs" / "kubernetes.md"
LOG = "step 1 loss 0.9\nstep 2 loss 0.5\n"
"""The log of every container."""


class InstalledCluster(RealCluster):
    """The cluster, and the commands of its user."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        super().__init__(folder)
        self.plane = plane
        self.folder = folder
        inherited = {key: os.environ[key] for key in ("LANG", "PATH") if key in os.environ}
        # The guides' `oc` and `arena` are the same program.
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        for name in ("arena", "muster", "oc"):
            (bin_folder / name).symlink_to(BIN / "arena")
        self.env = {
            **inherited,
            "PATH": f"{bin_folder}:{inherited['PATH']}",
            "HOME": str(folder),
            "MUSTER_HOME": str(folder / "muster"),
            "KUBECONFIG": str(self._user_config()),
        }

    def _user_config(self) -> Path:
        client = self.plane.authority.client(USER, "researchers")
        config = kubeconfig(self.plane.url, self.plane.authority.certificate, client=client)
        config["contexts"][0]["context"]["namespace"] = TEAM
        file = self.folder / "user.kubeconfig"
        file.write_text(json.dumps(config))
        return file

    def run(
        self, line: str, cwd: Path | None = None, *, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """A line as the user types it into a shell."""
        result = subprocess.run(
            ["bash", "-c", f"set -o pipefail\n{line}"],
            cwd=cwd or self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == code, (
            f"{line}\nended with {result.returncode}\n{result.stdout}{result.stderr}\n"
            f"{self.log_tails()}"
        )
        return result

    def first_lines(self, line: str, count: int) -> str:
        """The first lines that a command prints, which then gets a Ctrl-C."""
        with subprocess.Popen(
            shlex.split(line), cwd=self.folder, env=self.env, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(count)]
            process.send_signal(signal.SIGINT)
            process.wait(30)
        return "".join(lines)

    def admin(self, *words: str, text: str | None = None) -> str:
        """`kubectl` as the administrator."""
        result = self.plane.kubectl(*words, input=text)
        assert result.returncode == 0, f"{words}\n{result.stderr}"
        return result.stdout

    def grant(self, block: int) -> None:
        """Grant the user rights: the commands of one block in the section of docs/kubernetes.md."""
        section = DOCS.read_text().partition("\n## Users\n")[2].partition("\n## ")[0]
        for line in section.split("```")[2 * block + 1].strip().splitlines():
            self.admin(*shlex.split(line)[1:])

    def shown_job(self, name: str) -> str:
        return self.run(f"arena get {name} -o json").stdout

    def finish(self, pods: Sequence[str], code: int = 0) -> None:
        """End the containers of pods with an exit code."""
        self.admin("annotate", "pod", "-n", TEAM, *pods, f"muster.dev/test-exit-code={code}")


@contextmanager
def installed_cluster(binaries: Path, folder: Path, nodes: int) -> Iterator[InstalledCluster]:
    """So many nodes, four of which have two GPUs each."""
    # Names of nodes do not resolve here.
    by_address = ["--kubelet-preferred-address-types=InternalIP"]
    plane = ControlPlane(
        binaries, audit="Metadata", default_admission=True, apiserver_args=by_address
    )
    with plane, ExitStack() as on:
        plane.start_controller_manager()
        plane.start_scheduler()
        plane.start_kwok(LOG)
        plane.add_nodes(nodes, of_which_with_gpus=4, gpus=2)
        cluster = InstalledCluster(plane, folder)
        _install(cluster)
        for component in COMPONENTS:
            on.enter_context(_started(cluster, component))
        _lead(cluster)
        yield cluster


def _install(cluster: InstalledCluster) -> None:
    words = ["install", "--yes", "--image", "registry.example.com/muster:1"]
    result = subprocess.run(
        [BIN / "muster", *words, "--kubeconfig", str(cluster.plane.kubeconfig)],
        env=cluster.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@contextmanager
def _started(cluster: InstalledCluster, component: str) -> Iterator[None]:
    """A component as a process, instead of the pods that kwok only pretends to run."""
    plane, name = cluster.plane, f"muster-{component}"
    token = cluster.admin("create", "token", name, "-n", NAMESPACE).strip()
    config = cluster.folder / f"{component}.kubeconfig"
    config.write_text(json.dumps(kubeconfig(plane.url, plane.authority.certificate, token=token)))
    _, deployment = plane.request("GET", DEPLOYMENTS.path(NAMESPACE, name))
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    # Processes on one machine cannot share the port that every pod has of its own.
    words = [word for word in arguments if not word.startswith("--metrics-")]
    command = [BIN / "muster", *words, f"--kubeconfig={config}"]
    env = {key: value for key, value in cluster.env.items() if key != "KUBECONFIG"}
    with (cluster.folder / f"{component}.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(30) == 0, cluster.log_tails()


def _lead(cluster: InstalledCluster) -> None:
    def leads(component: str) -> bool:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster-{component}"
        code, lease = cluster.plane.request("GET", path)
        return code == 200 and bool(lease["spec"].get("holderIdentity"))

    until(lambda: all(map(leads, COMPONENTS)), timeout=60, what=f"both lead\n{cluster.log_tails()}")


def instances(job: Raw) -> dict[str, Any]:
    """The pods of a job by name, as `arena get -o json` has them."""
    return {row["name"]: row for row in job["instances"]}
