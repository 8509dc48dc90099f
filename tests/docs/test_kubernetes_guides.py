"""docs/installing.md and docs/moving-over.md, followed on a real control plane.

kwok says that the pods of the components run; the test runs their commands beside the cluster, with
the arguments of the Deployments. Only the image is not built.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubekit.objects.meta import Raw
from tests.controlplane.control_plane import ControlPlane
from tests.docs import markdown, other_systems
from tests.docs.markdown import Shown
from tests.docs.walkthrough import Reader, missing
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(600)]
BIN = Path(sys.executable).parent
NOT_RUN = ("podman ",)
RUNNING_JOBS = {
    ("TFJob", "old-tf"): {"PS": 1, "Worker": 2},
    ("MPIJob", "old-mpi"): {"Launcher": 1, "Worker": 2},
}
"""Jobs that training-operator has started, with their roles."""
OWN_FLAGS = ("--metrics-", "--scheduler-config")
"""Arguments of a Deployment that only make sense in its pod."""


class Administrator(Reader):
    """A person with an administrator's kubeconfig; Muster's components run where they are asked."""

    def __init__(self, plane: ControlPlane, binaries: Path, folder: Path) -> None:
        path = f"{BIN}:{binaries}:{os.environ['PATH']}"
        home = {"HOME": str(folder), "MUSTER_HOME": str(folder / "muster")}
        super().__init__(folder, {"PATH": path, "KUBECONFIG": str(plane.kubeconfig), **home})
        self._daemons: list[subprocess.Popen[str]] = []

    def follow(self, shown: Shown) -> None:
        if shown.line.startswith("muster scheduler"):
            self._watch(shown)
            return
        super().follow(shown)
        if re.match("muster (un)?install", shown.line) and "--dry-run" not in shown.line:
            self.stop_components()
            self._start_components()

    def apply(self, objects: list[Raw]) -> None:
        """Apply the objects, as soon as the server serves their kinds."""
        file = self.folder / "objects.yaml"
        file.write_text(yaml.safe_dump_all(objects))

        def applied() -> bool:
            text = self.run(f"kubectl apply -f {file} 2>&1 || true")
            return len(re.findall(r" (created|unchanged)$", text, re.MULTILINE)) == len(objects)

        until(applied, timeout=30, every=0.5, what=f"kubectl apply of {objects[0]['kind']}")

    def _watch(self, shown: Shown) -> None:
        """Run a command that does not end by itself until it has printed what the page shows."""
        daemon = self._start(shown.line.split(), "shadow.log")
        log = self.folder / "shadow.log"
        lines = shown.output  # gangs are logged in any order
        until(
            lambda: all(missing([line], log.read_text()) == [] for line in lines),
            timeout=30, every=0.2, what=f"{shown.line}: {lines}",
        )  # fmt: skip
        self._daemons.remove(daemon)
        daemon.send_signal(signal.SIGINT)
        assert daemon.wait(20) == 0

    def _start_components(self) -> None:
        listed = json.loads(self.run("kubectl get deployments -n muster -o json"))
        for deployment in listed["items"]:
            arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
            if "--in-cluster" in arguments:  # the dashboard runs only in a pod
                continue
            words = [word for word in arguments if not word.startswith(OWN_FLAGS)]
            self._start(["muster", *words], f"{words[0]}.log")

    def _start(self, words: list[str], log: str) -> subprocess.Popen[str]:
        with (self.folder / log).open("w") as file:
            daemon = subprocess.Popen(
                [BIN / words[0], *words[1:]], env=self.env, stdout=file, stderr=file, text=True
            )
        self._daemons.append(daemon)
        return daemon

    def stop_components(self) -> None:
        for daemon in self._daemons:
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(30)
        self._daemons.clear()


@pytest.fixture
def administrator(control_plane_binaries: Path, tmp_path: Path) -> Iterator[Administrator]:
    with ControlPlane(control_plane_binaries) as plane:
        plane.start_controller_manager()
        plane.start_scheduler()
        plane.start_kwok()
        for number in range(4):
            plane.add_node(f"gpu-{number}", cpu=16, memory="64Gi", gpus=2)
        plane.add_node("cpu-0")
        person = Administrator(plane, control_plane_binaries, tmp_path)
        yield person
        person.stop_components()


def test_an_empty_cluster_gets_muster_and_a_team(administrator: Administrator) -> None:
    followed = _follow("installing.md", administrator)

    assert len(followed) > 10


def test_a_cluster_moves_over_in_small_steps(administrator: Administrator) -> None:
    (values,) = re.findall(
        r"```yaml\n(.*?)```", (markdown.DOCS / "moving-over.md").read_text(), re.DOTALL
    )
    (administrator.folder / "values.yaml").write_text(values)
    _install_others(administrator)
    before = _uids(administrator)

    followed = _follow("moving-over.md", administrator)

    assert [line for line in followed if "--shadow" in line or "--scheduler-only" in line]
    # Its webhook would reject this, if the page did not delete it.
    administrator.run("arena submit tf --name=after --image=i --gang --workers=2 'python t.py'")
    administrator.follow(Shown("arena get after", ["Status: RUNNING"]))
    for _, name in RUNNING_JOBS:
        administrator.follow(Shown(f"arena get {name}", ["Status: RUNNING"]))
    assert len(before) == 6
    assert _uids(administrator) == before


def _follow(page: str, administrator: Administrator) -> list[str]:
    """Follow a page; returns the commands."""
    shown = markdown.shown_commands(markdown.DOCS / page)
    for each in shown:
        if not each.line.startswith(NOT_RUN):
            administrator.follow(each)
    return [each.line for each in shown]


def _install_others(administrator: Administrator) -> None:
    """A cluster with Volcano and two gangs that wait, training-operator with two jobs that run."""
    administrator.run("muster crds | kubectl create -f -")
    for namespace, deployment in (
        ("volcano-system", "volcano-scheduler"),
        ("kubeflow", "training-operator"),
    ):
        administrator.run(f"kubectl create namespace {namespace}")
        administrator.run(f"kubectl create deployment {deployment} -n {namespace} --image=i")
    administrator.apply(other_systems.volcano_gang("vg", 3) + other_systems.volcano_gang("vbig", 5))
    for (kind, name), roles in RUNNING_JOBS.items():
        administrator.apply([other_systems.training_job(kind, name, roles)])
        job = json.loads(administrator.run(f"kubectl get {kind} {name} -o json"))
        administrator.apply(other_systems.pods_of_training_job(job, roles, "cpu-0"))
    administrator.apply([other_systems.webhook()])


def _uids(administrator: Administrator) -> dict[str, str]:
    """The pods of the jobs that ran before, and their UIDs."""
    pods = json.loads(
        administrator.run("kubectl get pods -o json -l training.kubeflow.org/job-name")
    )
    metas = [pod["metadata"] for pod in pods["items"]]
    names = {name for _, name in RUNNING_JOBS}
    jobs = f"{other_systems.LABEL}/job-name"
    return {meta["name"]: meta["uid"] for meta in metas if meta["labels"][jobs] in names}
