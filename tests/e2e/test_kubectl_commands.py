"""kubectl's everyday commands on a local cluster whose pods are real processes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.local_cluster import LocalCluster
from tests.e2e.terminal import Terminal
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kube, pytest.mark.slow]

WORKLOAD = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: python:3.12
        command: [tail, -f, /dev/null]
        ports: [{{containerPort: 8080}}]
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""


class Kubectl:
    """The real kubectl on one local cluster."""

    def __init__(self, binary: Path, home: Path) -> None:
        self._binary = str(binary)
        self._env = {**os.environ, "KUBECONFIG": str(home / "kubeconfig"), "HOME": str(home)}

    def run(self, words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._binary, *shlex.split(words)],
            input=text,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def __call__(self, words: str, text: str = "") -> str:
        """What it prints; it must succeed."""
        result = self.run(words, text)
        assert result.returncode == 0, f"kubectl {words}\n{result.stdout}{result.stderr}"
        return result.stdout

    def terminal(self, words: str) -> Terminal:
        """The command on a terminal of its own."""
        return Terminal([self._binary, *words.split()], self._env)

    def value(self, what: str, path: str) -> str:
        """One field; the path may have double quotes."""
        return self(f"get {what} -o 'jsonpath={{{path}}}'")


@pytest.fixture(scope="module")
def kubectl(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    """A cluster of two nodes with the deployment `web`."""
    cluster = LocalCluster(tmp_path_factory.mktemp("kubectl"))
    cluster.up("--nodes=2")
    try:
        command = Kubectl(control_plane_binaries / "kubectl", cluster.home)
        command("apply -f -", WORKLOAD.format(kind="Deployment", name="web"))
        command("rollout status deploy/web --timeout=60s")
        yield command
    finally:
        cluster.down()


def pod_of(kubectl: Kubectl, app: str = "web") -> str:
    return kubectl.value(f"pod -l app={app}", ".items[0].metadata.name")


def test_cp_copies_files_in_both_directions(kubectl: Kubectl, tmp_path: Path) -> None:
    pod, folder = pod_of(kubectl), tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    (folder / "b.bin").write_bytes(bytes(range(256)) * 1000)

    kubectl(f"cp {folder} {pod}:/tmp/copied")
    kubectl(f"cp {pod}:/tmp/copied {tmp_path}/back")

    assert kubectl(f"exec {pod} -- cat /tmp/copied/a.txt") == "hello\n"
    assert (tmp_path / "back/b.bin").read_bytes() == (folder / "b.bin").read_bytes()


def test_a_deployment_is_updated_rolled_back_and_restarted(kubectl: Kubectl) -> None:
    first = pod_of(kubectl)
    kubectl("set image deploy/web main=python:3.11")
    assert "successfully rolled out" in kubectl("rollout status deploy/web --timeout=60s")
    # The old pod may still be ending.
    images = kubectl.value("pod -l app=web", ".items[*].spec.containers[0].image")
    assert "python:3.11" in images.split()

    kubectl("rollout undo deploy/web")
    kubectl("rollout status deploy/web --timeout=60s")
    history = kubectl("rollout history deploy/web").split()
    assert [word for word in history if word.isdigit()] == ["2", "3"]
    assert "python:3.12" in kubectl("rollout history deploy/web --revision=3")

    kubectl("rollout restart deploy/web")
    kubectl("rollout status deploy/web --timeout=60s")
    assert kubectl.run(f"get pod {first}").returncode == 1


def test_expose_makes_a_service_of_the_deployment(kubectl: Kubectl) -> None:
    kubectl("expose deploy/web --port=80 --name=front")
    service = json.loads(kubectl("get service front -o json"))
    kubectl("delete service front")

    assert service["spec"]["selector"] == {"app": "web"}
    assert service["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


def test_a_daemon_set_runs_on_each_node_and_survives_a_drain(kubectl: Kubectl) -> None:
    kubectl("apply -f -", WORKLOAD.format(kind="DaemonSet", name="agent"))
    kubectl("rollout status ds/agent --timeout=60s")
    nodes = kubectl.value("pod -l app=agent", ".items[*].spec.nodeName").split()
    assert sorted(nodes) == ["muster-0", "muster-1"]

    kubectl("apply -f -", BUDGET)
    node = kubectl.value(f"pod/{pod_of(kubectl)}", ".spec.nodeName")
    refused = kubectl.run(f"drain {node} --timeout=1s")
    assert "cannot delete DaemonSet-managed Pods" in refused.stderr
    held = kubectl.terminal(f"drain {node} --ignore-daemonsets")
    try:
        held.wait_for("would violate the pod's disruption budget")
    finally:
        held.kill()

    kubectl("scale deploy/web --replicas=2")
    kubectl("rollout status deploy/web --timeout=60s")
    kubectl(f"drain {node} --ignore-daemonsets --timeout=60s")
    bound = kubectl.value("pod -l app=web", ".items[*].spec.nodeName").split()
    daemons = kubectl.value("ds/agent", ".status.numberReady")
    kubectl(f"uncordon {node}")
    kubectl("delete pdb web")

    assert node not in bound
    assert daemons == "2"
    assert not kubectl.value(f"node/{node}", ".spec.unschedulable")


def test_pods_wait_while_all_nodes_are_cordoned(kubectl: Kubectl) -> None:
    kubectl("cordon muster-0 muster-1")
    try:
        kubectl("run waits --image=python:3.12 --restart=Never -- true")
        reason = '.status.conditions[?(@.type=="PodScheduled")].status'
        until(lambda: kubectl.value("pod/waits", reason) == "False", what="the pod waiting")
    finally:
        kubectl("uncordon muster-0 muster-1")
    kubectl("wait pod/waits --for=jsonpath={.status.phase}=Succeeded --timeout=60s")
    kubectl("delete pod waits")


def test_prune_deletes_what_a_manifest_no_longer_has(kubectl: Kubectl) -> None:
    kept = WORKLOAD.format(kind="DaemonSet", name="agent")
    extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, labels: {app: agent}}\n"
    kubectl("apply -f -", f"{kept}---\n{extra}")

    pruned = kubectl("apply --prune -l app=agent -f -", kept)

    assert "configmap/extra pruned" in pruned
    assert "daemonset.apps/agent unchanged" in pruned


def test_kustomize_makes_objects(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {a: b}\n"
    )
    (tmp_path / "kustomization.yaml").write_text("namePrefix: team-\nresources: [map.yaml]\n")

    kubectl(f"create -k {tmp_path}")
    made = kubectl.value("configmap/team-plain", ".data.a")
    kubectl(f"delete -k {tmp_path}")

    assert made == "b"


@pytest.mark.parametrize("metric", ["", " --cpu=50%"])
def test_autoscale_is_refused_with_the_next_step(kubectl: Kubectl, metric: str) -> None:
    result = kubectl.run(f"autoscale deploy/web --max=3{metric}")

    assert result.returncode == 1
    assert "no HorizontalPodAutoscaler" in result.stderr
    assert "kubectl scale" in result.stderr
    assert result.stderr.count("Warning:") == 1


# -- kubectl debug -------------------------------------------------------------------------------

EPHEMERAL = '.status.ephemeralContainerStatuses[?(@.name=="{name}")].state'


def test_debug_opens_a_shell_beside_the_programs_of_the_pod(kubectl: Kubectl) -> None:
    pod = pod_of(kubectl)
    network = kubectl(f"exec {pod} -c main -- readlink /proc/self/ns/net").strip()
    shell = kubectl.terminal(f"debug -it {pod} --image=busybox:1 --target=main -c shell")
    try:
        shell.wait_for("command prompt")
        shell.type("n=$(grep -l '^tail$' /proc/[0-9]*/comm | wc -l)\n")
        shell.type("echo in=$(hostname) sees=$n\n")
        shell.wait_for(f"in={pod} sees=1")
        shell.type("readlink /proc/self/ns/net\n")
        shell.wait_for(network)
        shell.type("exit 3\n")
        assert shell.exit_code() == 0, shell.shown
    finally:
        shell.kill()

    ended = EPHEMERAL.format(name="shell") + ".terminated.exitCode"
    until(lambda: kubectl.value(f"pod/{pod}", ended) == "3", what="the end in the status")
    assert f"in={pod} sees=1" in kubectl(f"logs {pod} -c shell")
    assert kubectl.value(f"pod/{pod}", ".status.containerStatuses[0].ready") == "true"
    assert kubectl.value(f"pod/{pod}", ".status.containerStatuses[0].restartCount") == "0"


def test_commands_run_in_an_ephemeral_container_until_the_pod_is_deleted(kubectl: Kubectl) -> None:
    kubectl("run target --image=python:3.12 --restart=Never --command -- sleep 10000")
    kubectl("wait pod/target --for=condition=Ready --timeout=60s")
    kubectl("debug target --image=busybox:1 -c tool --env=A=b -i --attach=false -- cat")
    running = EPHEMERAL.format(name="tool") + ".running"
    until(lambda: bool(kubectl.value("pod/target", running)), what="the container running")

    assert kubectl("exec target -c tool -- sh -c 'echo $A'").strip() == "b"
    client = kubectl.terminal("attach -i target -c tool")
    try:
        client.wait_for("pressing enter.")
        client.type("hello\n")
        client.wait_for("hello\r\nhello")  # the terminal's own echo, then that of the container
    finally:
        client.kill()
    assert "hello" in kubectl("logs target -c tool")
    again = kubectl.run("debug target --image=busybox:1 -c tool -- true")
    assert "already exists" in again.stderr or "may not be changed" in again.stderr
    kubectl("delete pod target --grace-period=1 --timeout=30s")


def test_the_end_of_the_input_reaches_the_command(kubectl: Kubectl) -> None:
    # Only v5.channel.k8s.io has a message for it; without the message, `wc` would wait for ever.
    counted = kubectl(f"exec -i {pod_of(kubectl)} -- wc -c", "x" * 300_000)
    traced = kubectl.run(f"exec -i -v=8 {pod_of(kubectl)} -- cat", "end")

    assert counted.strip() == "300000"
    assert traced.stdout == "end"
    assert "v5.channel.k8s.io" in traced.stderr


def test_debug_copies_a_pod_and_enters_a_node(kubectl: Kubectl) -> None:
    kubectl(f"debug {pod_of(kubectl)} --copy-to=copy --image=busybox:1 -c tool -- sleep 10000")
    kubectl("wait pod/copy --for=condition=Ready --timeout=60s")
    assert kubectl.value("pod/copy", ".spec.containers[*].name") == "main tool"
    kubectl("delete pod copy --grace-period=1")

    made = kubectl("debug node/muster-1 --image=busybox:1 -- ls /host/etc/passwd")
    pod = made.split("Creating debugging pod ")[1].split()[0]
    kubectl(f"wait pod/{pod} --for=jsonpath={{.status.phase}}=Succeeded --timeout=60s")
    assert kubectl(f"logs {pod}") == "/host/etc/passwd\n"
    assert kubectl.value(f"pod/{pod}", ".spec.nodeName") == "muster-1"
    kubectl(f"delete pod {pod}")
