"""The real kubectl on this server alone: commands that need a node or name the server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from muster.contract import crds
from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.conformance.conftest import InThread
from tests.localkube.conformance.transcript import Connection, Step
from tests.misspelt_job import MISSPELT_JOB
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kube

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "labels": {"app": "p"}},
    "spec": {"nodeName": "muster-0", "containers": [{"name": "c", "image": "busybox:1"}]},
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "muster-0"},
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": "it is"}],
        "addresses": [{"type": "InternalIP", "address": "10.9.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "here", "kernelVersion": "6"},
    },
}
RUNNING = {
    "phase": "Running",
    "containerStatuses": [{"name": "c", "ready": True, "state": {"running": {}}}],
}


class Kubectl:
    """kubectl with our server's kubeconfig."""

    def __init__(self, binary: Path, kubeconfig: Path) -> None:
        self._binary = str(binary)
        home = str(kubeconfig.parent)
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": home}

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._binary, *arguments],
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, *arguments: str, stderr: int | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._binary, *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def says(self, *arguments: str, stdin: str = "") -> str:
        """What it printed; it must have ended well."""
        result = self(*arguments, stdin=stdin)
        assert result.returncode == 0, result.stderr
        return result.stdout


@pytest.fixture(scope="module")
def kubectl(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    """A server with our CRDs, one node and one running pod."""
    with InThread(tmp_path_factory.mktemp("alone"), FakeNode()) as host:
        server = host.running
        connection = Connection(server)
        for crd in crds.load_all():
            connection.send(
                Step("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            )
        assert connection.send(Step("POST", "/api/v1/nodes", NODE)).status == 201
        path = "/api/v1/namespaces/default/pods"
        assert connection.send(Step("POST", path, POD)).status == 201
        started = Step("PUT", f"{path}/p/status", {**POD, "status": RUNNING})
        assert connection.send(started).status == 200
        connection.close()
        yield Kubectl(control_plane_binaries / "kubectl", server.kubeconfig)


def test_kubectl_logs_shows_the_log(kubectl: Kubectl) -> None:
    assert kubectl.says("logs", "p") == "one\ntwo\n"
    assert kubectl.says("logs", "-f", "p", "-c", "c", "--tail=5") == "one\ntwo\n"
    assert "there was none before" in kubectl("logs", "p", "--previous").stderr
    assert "NotFound" in kubectl("logs", "none").stderr


def test_exec_passes_streams_and_the_exit_code(kubectl: Kubectl) -> None:
    assert kubectl.says("exec", "-i", "p", "--", "cat", stdin="hello") == "hello"
    ended = kubectl("exec", "p", "--", "exit", "3")

    assert (ended.returncode, "bye" in ended.stderr) == (3, True)


def test_kubectl_attach_shows_the_output(kubectl: Kubectl) -> None:
    assert kubectl.says("attach", "p") == "attached\n"


def test_port_forward_reaches_a_port_of_the_pod(kubectl: Kubectl) -> None:
    with kubectl.start("port-forward", "p", ":8080") as forwarding:
        assert forwarding.stdout is not None
        line = forwarding.stdout.readline()  # Forwarding from 127.0.0.1:40123 -> 8080
        port = int(line.partition("127.0.0.1:")[2].split()[0])
        answers = [repeated(port, text) for text in (b"one", b"t" * 500_000)]
        forwarding.terminate()

    assert answers == [b"ONE", b"T" * 500_000]


def test_port_forward_to_a_service_reaches_the_target_port(kubectl: Kubectl) -> None:
    kubectl.says("expose", "pod", "p", "--name=web", "--port=80", "--target-port=8080")
    with kubectl.start("port-forward", "service/web", ":80") as forwarding:
        assert forwarding.stdout is not None
        line = forwarding.stdout.readline()  # Forwarding from 127.0.0.1:40123 -> 8080
        answer = repeated(int(line.partition("127.0.0.1:")[2].split()[0]), b"one")
        forwarding.terminate()

    assert line.endswith("-> 8080\n")
    assert answer == b"ONE"


def test_port_forward_to_a_port_on_which_nothing_listens_says_so(kubectl: Kubectl) -> None:
    with kubectl.start("port-forward", "p", ":1", stderr=subprocess.PIPE) as forwarding:
        assert forwarding.stdout is not None
        assert forwarding.stderr is not None
        port = int(forwarding.stdout.readline().partition("127.0.0.1:")[2].split()[0])
        answer = repeated(port, b"x")
        said = ""
        while "Connection refused" not in said:
            line = forwarding.stderr.readline()
            assert line, f"no reason in {said!r}"
            said += line
        forwarding.terminate()

    assert answer == b""
    assert "error forwarding port 1 to pod p" in said


def repeated(port: int, text: bytes) -> bytes:
    """The answer of the pod's program to this text; empty if the connection is closed."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            received += piece
    return received


def test_a_watch_shows_changes_as_they_come(kubectl: Kubectl) -> None:
    with kubectl.start("get", "cm", "-w", "-l", "w=1", "-o", "name") as watching:
        assert watching.stdout is not None
        kubectl.says("create", "cm", "w0")
        kubectl.says("label", "cm", "w0", "w=1")
        seen = [watching.stdout.readline()]
        kubectl.says("label", "cm", "w0", "x=y")
        seen.append(watching.stdout.readline())
        watching.terminate()

    assert seen == ["configmap/w0\n", "configmap/w0\n"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("describe node muster-0", ["muster-0", "InternalIP", "10.9.0.1", "Ready", "default"]),
        ("describe pod p", ["Name:", "muster-0", "Running", "busybox:1"]),
        ("get nodes", ["muster-0", "Ready", "v1.36.0"]),
        ("get nodes -o wide", ["10.9.0.1", "here"]),
        ("get pods -o wide", ["muster-0", "1/1", "Running"]),
        (
            "api-resources",
            ["tfjobs", "podgroups", "deployments", "kubeflow.org/v1", "tokenreviews"],
        ),
        ("api-resources --api-group=kubeflow.org -o name", ["tfjobs.kubeflow.org"]),
        ("api-resources --verbs=list --namespaced -o name", ["pods", "tfjobs.kubeflow.org"]),
        ("api-versions", ["apps/v1", "kubeflow.org/v1", "scheduling.volcano.sh/v1beta1", "v1"]),
        ("cluster-info", ["Kubernetes control plane"]),
        ("version", ["Server Version", "localkube"]),
        ("auth can-i --list", ["*.*"]),
        ("auth can-i create tfjobs.kubeflow.org", ["yes"]),
        ("auth whoami", ["Username"]),
        ("explain tfjob", ["apiVersion", "kind", "metadata", "<ObjectMeta>", "spec", "status"]),
        (
            "explain tfjob.spec.tfReplicaSpecs",
            ["replicas", "<integer>", "restartPolicy", "<string>", "template", "Number of pods"],
        ),
        ("explain tfjob.metadata.labels", ["labels", "<map[string]string>"]),
        ("explain pod.spec.containers", ["image", "<string>", "ports", "<[]ContainerPort>"]),
        ("get events", []),
        ("get crds", ["tfjobs.kubeflow.org"]),
        ("get all -A", ["pod/p"]),
        ("cordon muster-0", ["cordoned"]),
        ("uncordon muster-0", ["uncordoned"]),
        ("taint nodes muster-0 a=b:NoSchedule", ["tainted"]),
        ("taint nodes muster-0 a-", ["untainted"]),
    ],
)
def test_kubectl_prints_these_words(kubectl: Kubectl, arguments: str, words: list[str]) -> None:
    text = kubectl.says(*arguments.split())

    assert [word for word in words if word not in text] == []


def test_typos_in_a_job_have_a_warning_each(kubectl: Kubectl) -> None:
    apply = ("apply", "-f", "-")
    warned = kubectl(*apply, stdin=json.dumps(MISSPELT_JOB))
    unchanged = kubectl("annotate", "tfjob", "typos", "a=b")
    kubectl.says("delete", "tfjob", "typos")
    silent = kubectl(*apply, "--validate=ignore", stdin=json.dumps(MISSPELT_JOB))
    kubectl.says("delete", "tfjob", "typos")

    paths = [
        "spec.tfReplicaSpecs.Worker.replica",
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].comand",
    ]
    assert warned.stdout == silent.stdout == "tfjob.kubeflow.org/typos created\n"
    assert warned.stderr.splitlines() == [f'Warning: unknown field "{path}"' for path in paths]
    assert (unchanged.returncode, unchanged.stderr, silent.stderr) == (0, "", "")


def test_a_drained_node_loses_its_pods(kubectl: Kubectl) -> None:
    spec = '{"spec":{"nodeName":"muster-0","terminationGracePeriodSeconds":0}}'
    run = ["run", "doomed", "--image=busybox:1", f"--overrides={spec}"]
    kubectl.says(*run)
    drain = ["drain", "muster-0", "--force", "--pod-selector=run=doomed", "--timeout=20s"]
    kubectl.says(*drain)

    def gone() -> bool:
        return "NotFound" in kubectl("get", "pod", "doomed").stderr

    until(gone, what="the drained pod's end")
    kubectl.says("uncordon", "muster-0")
