"""kube-state-metrics lists and watches every kind that it knows, and serves metrics about them."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.processes import Child, start_on_free_port
from tests.tools.conftest import Program
from tests.waiting import until

pytestmark = [pytest.mark.kube, pytest.mark.slow]
RESOURCES = (
    "configmaps,cronjobs,daemonsets,deployments,endpoints,endpointslices,ingresses,jobs,leases,"
    "limitranges,mutatingwebhookconfigurations,namespaces,networkpolicies,nodes,"
    "persistentvolumeclaims,persistentvolumes,poddisruptionbudgets,pods,replicasets,replicationcontrollers,resourcequotas,"
    "secrets,services,statefulsets,storageclasses,validatingwebhookconfigurations"
)
"""Its default resources without the kinds that the local cluster does not have (certificate signing
requests, autoscalers, volume attachments); and endpoint slices."""


def page(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return str(answer.read().decode())


def answers(port: int) -> bool:
    try:
        return bool(page(port, "/healthz"))
    except OSError:
        return False


class Exporter:
    """A running kube-state-metrics."""

    def __init__(self, binary: Path, kubeconfig: Path, folder: Path) -> None:
        self._command = [str(binary), f"--kubeconfig={kubeconfig}", "--host=127.0.0.1"]
        self._command += [f"--resources={RESOURCES}", "--telemetry-host=127.0.0.1"]
        self._command += ["--telemetry-port=0"]
        self._folder = folder
        self.port = start_on_free_port(self._start, answers)

    def _start(self, port: int) -> Child:
        self.child = Child([*self._command, f"--port={port}"], self._folder / "exporter.log")
        return self.child

    def log(self) -> str:
        return self.child.log.read_text()


@pytest.fixture
def exporter(kube_state_metrics: Path, kubeconfig: Path, tmp_path: Path) -> Iterator[Exporter]:
    exporter = Exporter(kube_state_metrics, kubeconfig, tmp_path)
    yield exporter
    exporter.child.kill()


def test_metrics_follow_pods_jobs_and_deployments(exporter: Exporter, kubectl: Program) -> None:
    image = ("--image=busybox:1", "--")
    kubectl.output("create", "deployment", "counted", *image, "sleep", "600")
    kubectl.output("create", "job", "counted", *image, "true")
    wanted = [
        'kube_deployment_status_replicas_available{namespace="default",deployment="counted"} 1',
        'kube_job_status_succeeded{namespace="default",job_name="counted"} 1',
    ]
    until(lambda: all(line in page(exporter.port) for line in wanted), timeout=60, what="metrics")
    metrics = page(exporter.port)
    kubectl.output("delete", "deployment,job", "counted", "--cascade=foreground", "--timeout=60s")
    until(lambda: '"counted"' not in page(exporter.port), what="the end of the metrics")

    assert re.search(r'kube_pod_status_phase\{.*pod="counted-.*phase="Running"\} 1', metrics)
    assert re.search(r'kube_node_status_condition\{.*condition="Ready",status="true"\} 1', metrics)
    assert 'kube_namespace_status_phase{namespace="default",phase="Active"} 1' in metrics
    problems = [line for line in exporter.log().splitlines() if line.startswith(("E", "W"))]
    # A real server warns of Endpoints too.
    assert [line for line in problems if "v1 Endpoints is deprecated" not in line] == []
