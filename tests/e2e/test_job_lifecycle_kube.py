"""Operator and scheduler as separate processes on a real kube-apiserver.

Nodes are objects that kwok keeps Ready; it also sets the status of bound pods. So these tests cover
Muster's part: the life of a job, and the nodes of its pods.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.control_plane import ControlPlane
from tests.misspelt_job import MISSPELT_JOB
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.kube]
BIN = Path(sys.executable).parent


class Kube:
    """A real cluster with `muster operator` and `muster scheduler` beside it."""

    def __init__(self, plane: ControlPlane, logs: Path) -> None:
        self.plane = plane
        self.env = {**os.environ, "MUSTER_HOME": str(logs)}
        self._logs = logs
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

    def log_tails(self) -> str:
        return "\n".join(
            f"== {log.name}\n" + "\n".join(log.read_text().splitlines()[-20:])
            for log in sorted(self._logs.glob("*.log"))
        )

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

    def job(self, name: str) -> dict[str, Any]:
        job: dict[str, Any] = json.loads(self.arena("get", name, "-o", "json"))
        return job

    def until_job(self, name: str, status: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            job = self.job(name)
            return job if job["status"] == status else None

        try:
            return until(reached, timeout=40, every=0.2, what=f"{name} {status}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job(name)}\n{self.log_tails()}") from error


@pytest.fixture(scope="module")
def kube(control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """Two nodes with one GPU each."""
    with ControlPlane(control_plane_binaries) as plane:
        crds = subprocess.run([BIN / "muster", "crds"], capture_output=True, check=True, text=True)
        applied = plane.kubectl("create", "-f", "-", input=crds.stdout)
        assert applied.returncode == 0, applied.stderr
        plane.start_kwok()
        for number in range(2):
            plane.add_node(f"n{number}", cpu="8", memory="16Gi", gpus=1)
        kube = Kube(plane, tmp_path_factory.mktemp("kube"))
        kube.start("operator")
        kube.start("scheduler")
        yield kube
        kube.stop()


def test_a_gang_that_does_not_fit_is_not_bound_and_has_a_reason(kube: Kube) -> None:
    kube.submit("big", workers=3)

    def explained() -> dict[str, Any] | None:
        job = kube.job("big")
        pods = job["instances"]
        return job if len(pods) == 4 and all(pod["reason"] for pod in pods) else None

    job = until(explained, timeout=40, every=0.2, what="every instance has a reason")

    assert job["status"] == "PENDING"
    assert {pod["node"] for pod in job["instances"]} == {""}
    assert "nvidia.com/gpu" in job["reason"]
    kube.arena("delete", "big")


def test_a_gang_that_fits_is_bound_whole_and_the_job_succeeds(kube: Kube) -> None:
    # No controller manager runs here, so the test deletes the objects of the deleted job itself.
    kube.plane.kubectl("delete", "pods,services,podgroups.scheduling.volcano.sh", "--all")
    kube.submit("fits", workers=2)

    def bound() -> dict[str, str] | None:
        pods = kube.job("fits")["instances"]
        nodes = {pod["name"]: pod["node"] for pod in pods if pod["node"]}
        return nodes if len(nodes) == 3 else None

    nodes = until(bound, timeout=40, every=0.2, what="three pods bound")
    kube.until_job("fits", "RUNNING")
    assert set(nodes.values()) == {"n0", "n1"}
    assert nodes["fits-worker-0"] != nodes["fits-worker-1"]
    kube.plane.kubectl("annotate", "pods", "--all", "muster.dev/test-exit-code=0")
    kube.until_job("fits", "SUCCEEDED")


def test_typos_that_the_server_stores_in_silence_are_reported_in_an_event(kube: Kube) -> None:
    applied = kube.plane.kubectl("apply", "-f", "-", input=json.dumps(MISSPELT_JOB))
    assert (applied.returncode, applied.stderr) == (0, "")

    def reported() -> list[str]:
        rows = kube.plane.kubectl(
            *("get", "events", "--field-selector=reason=UnknownField", "-o"),
            "jsonpath={range .items[*]}{.type} {.count} {.message}{'\\n'}{end}",
        )
        return rows.stdout.splitlines()

    assert until(reported, timeout=40, every=0.2, what="the event") == [
        "Warning 1 unknown fields: spec.tfReplicaSpecs.Worker.replica (did you mean replicas?), "
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].comand (did you mean command?)"
    ]
    kube.arena("delete", "typos")
