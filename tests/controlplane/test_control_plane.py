"""The real control plane starts, can be killed, and starts again."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.builders import config_map, pod
from tests.controlplane import http_request
from tests.controlplane.build import version_of
from tests.controlplane.certificates import Authority, Pair
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.controlplane.processes import Child, StartFailed, start_on_free_port
from tests.repository import ROOT
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

kube = pytest.mark.kube


@pytest.fixture(scope="module")
def own_plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A cluster of this module's own, to be broken; its watches go to etcd itself."""
    with ControlPlane(control_plane_binaries, audit="Metadata", watch_cache=False) as plane:
        yield plane


def created(plane: ControlPlane, path: str, body: object) -> Any:
    status, answer = plane.request("POST", path, body)
    assert status == 201, answer
    return answer


@kube
def test_the_server_reports_the_pinned_version(control_plane: ControlPlane) -> None:
    status, version = control_plane.request("GET", "/version")

    assert (200, version_of("kubernetes")) == (status, version["gitVersion"])
    assert (version["major"], version["minor"]) == ("1", "36")


@kube
def test_kubectl_works_with_the_kubeconfig(
    control_plane: ControlPlane, fresh_namespace: str
) -> None:
    manifest = config_map("hello", who="world")

    applied = control_plane.kubectl(
        "apply", "-n", fresh_namespace, "-f", "-", input=json.dumps(manifest)
    )
    shown = control_plane.kubectl(
        "get", "configmap", "hello", "-n", fresh_namespace, "-o", "jsonpath={.data.who}"
    )

    assert (applied.returncode, applied.stderr) == (0, "")
    assert shown.stdout == "world"


@kube
def test_kubectl_failure_is_reported_and_not_raised(control_plane: ControlPlane) -> None:
    result = control_plane.kubectl("get", "pod", "nobody")

    assert result.returncode == 1
    assert "NotFound" in result.stderr


@kube
def test_a_gang_of_kubernetes_own_dialect_is_served(
    control_plane: ControlPlane, fresh_namespace: str
) -> None:
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{fresh_namespace}/podgroups"
    group = {
        "metadata": {"name": "workers"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    created(control_plane, path, group)
    pods = f"/api/v1/namespaces/{fresh_namespace}/pods"
    member = created(control_plane, pods, pod("w-0", schedulingGroup={"podGroupName": "workers"}))

    _, stored = control_plane.request("GET", f"{path}/workers")

    assert stored["spec"]["schedulingPolicy"]["gang"]["minCount"] == 3
    assert member["spec"]["schedulingGroup"] == {"podGroupName": "workers"}


@kube
def test_a_client_without_permissions_and_an_unknown_one_are_rejected(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    def get_pods(client: Pair) -> str:
        trusted = control_plane.authority.certificate
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(kubeconfig(control_plane.url, trusted, client)))
        return control_plane.kubectl(f"--kubeconfig={path}", "get", "pods").stderr

    issue = control_plane.authority.client

    assert 'User "eve" cannot list resource "pods"' in get_pods(issue("eve"))
    assert "Unauthorized" in get_pods(Authority().client("eve", "system:masters"))
    expired = issue("late", "system:masters", lifetime=-timedelta(hours=1))
    assert "Unauthorized" in get_pods(expired)


@kube
def test_a_server_of_another_authority_is_not_trusted(control_plane: ControlPlane) -> None:
    port = int(control_plane.url.rpartition(":")[2])

    with pytest.raises(ssl.SSLCertVerificationError):
        http_request.send(
            http_request.tls_connection(port, Authority().certificate), "GET", "/readyz"
        )


@kube
def test_a_killed_api_server_comes_back_with_its_objects(own_plane: ControlPlane) -> None:
    before = own_plane.url
    path = "/api/v1/namespaces/default/configmaps"
    old = created(own_plane, path, config_map("survivor"))

    own_plane.kill_apiserver()
    with pytest.raises(ConnectionRefusedError):
        own_plane.request("GET", "/readyz")
    own_plane.start_apiserver()

    _, new = own_plane.request("GET", f"{path}/survivor")
    assert old["metadata"]["uid"] == new["metadata"]["uid"]
    assert before == own_plane.url


@kube
def test_a_watch_from_compacted_history_is_gone(own_plane: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    old = created(own_plane, path, config_map("first"))["metadata"]["resourceVersion"]
    newer = created(own_plane, path, config_map("second"))["metadata"]["resourceVersion"]
    watch = f"{path}?watch=true&timeoutSeconds=1&resourceVersion={old}"
    event = until(lambda: first_event(own_plane, watch), what="the second one being seen")
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "second")

    created(own_plane, path, config_map("third"))  # the newest revision itself stays
    compacted = own_plane.compact()

    assert compacted > int(newer)
    until(
        lambda: first_event(own_plane, watch).get("object", {}).get("code") == 410,
        what="the API server saying that it is gone",
    )


def first_event(plane: ControlPlane, watch: str) -> Any:
    """The first event of a watch; empty if it timed out before."""
    connection = http_request.tls_connection(
        int(plane.url.rpartition(":")[2]), plane.authority.certificate
    )
    _, text = http_request.send(connection, "GET", watch, token=plane.token)
    return json.loads(text.splitlines()[0]) if text else {}


@kube
def test_requests_are_audited_on_request(own_plane: ControlPlane) -> None:
    created(own_plane, "/api/v1/namespaces/default/configmaps", config_map("audited"))

    def seen() -> list[str]:
        lines = own_plane.audit_log.read_text().rpartition("\n")[0].splitlines()
        events = [json.loads(line) for line in lines if '"audited"' in line]
        return [event["verb"] for event in events]

    assert until(seen, what="the audit line") == ["create"]


@kube
def test_scheduler_controllers_and_kwok_run_a_deployment(
    control_plane_binaries: Path,
) -> None:
    with ControlPlane(control_plane_binaries) as plane:
        plane.start_kwok()
        plane.start_scheduler()
        plane.start_controller_manager()
        plane.add_node("n1", cpu=4, gpus=2)
        plane.kubectl("create", "deployment", "web", "--image=none", "--replicas=3")

        def running() -> bool:
            _, pods = plane.request("GET", "/api/v1/namespaces/default/pods")
            where = [(p["spec"].get("nodeName"), p["status"]["phase"]) for p in pods["items"]]
            return where == [("n1", "Running")] * 3

        until(running, timeout=60, what="three pods running on n1")


@kube
def test_kwok_makes_nodes_ready_and_runs_and_deletes_bound_pods(own_plane: ControlPlane) -> None:
    own_plane.start_kwok()
    node = "gpu-node"
    own_plane.add_node(node, cpu="500m", memory="1Gi", gpus=4, pods=7, labels={"zone": "a"})
    pods = "/api/v1/namespaces/default/pods"
    for name in ("stays", "succeeds", "fails"):
        created(own_plane, pods, pod(name, nodeName=node))

    until(lambda: "Ready=True" in conditions(own_plane, f"/api/v1/nodes/{node}"))
    _, created_node = own_plane.request("GET", f"/api/v1/nodes/{node}")
    assert created_node["status"]["allocatable"] == {
        "cpu": "500m",
        "memory": "1Gi",
        "nvidia.com/gpu": "4",
        "pods": "7",
    }
    until(lambda: {"Running"} == set(phases(own_plane, pods).values()), what="all running")

    for name, code in {"succeeds": 0, "fails": 137}.items():
        annotation = f"muster.dev/test-exit-code={code}"
        own_plane.kubectl("annotate", "pod", name, annotation)

    ended = {"stays": "Running", "succeeds": "Succeeded", "fails": "Failed"}
    until(lambda: ended == phases(own_plane, pods), what=f"{ended}")
    _, failed = own_plane.request("GET", f"{pods}/fails")
    state = failed["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 137

    own_plane.request("DELETE", f"{pods}/stays")
    until(lambda: "stays" not in phases(own_plane, pods), what="the deleted pod gone")


def phases(plane: ControlPlane, path: str) -> dict[str, str]:
    _, pods = plane.request("GET", path)
    return {p["metadata"]["name"]: p["status"]["phase"] for p in pods["items"]}


def conditions(plane: ControlPlane, path: str) -> list[str]:
    _, obj = plane.request("GET", path)
    return [f"{c['type']}={c['status']}" for c in obj["status"].get("conditions", [])]


@kube
def test_a_start_that_fails_shows_the_log_and_leaves_nothing(
    control_plane_binaries: Path,
) -> None:
    before = set(psutil.Process().children())
    plane = ControlPlane(control_plane_binaries, apiserver_args=["--no-such-flag"])

    with pytest.raises(StartFailed, match=r"kube-apiserver ended with 1(.|\n)*--no-such-flag"):
        plane.start()

    assert not plane.folder.exists()
    assert set(psutil.Process().children()) == before


def test_a_child_dies_with_its_killed_parent(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from tests.controlplane.processes import Child\n"
        "log = pathlib.Path(sys.argv[1]) / 'sleeper.log'\n"
        "print(Child(['/bin/sleep', '600'], log).pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        sleeper = psutil.Process(int(parent.stdout.readline()))
        until(lambda: sleeper.name() == "sleep")
        parent.send_signal(signal.SIGKILL)

    def dead() -> bool:
        try:
            return sleeper.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    until(dead, what="the sleeper's death")


def test_a_port_that_another_process_took_is_replaced_by_another(tmp_path: Path) -> None:
    tried: list[int] = []

    def start(port: int) -> Child:
        tried.append(port)
        taken = "echo 'listen: address already in use'; exit 1"
        command = taken if len(tried) == 1 else "exec sleep 600"
        return children.setdefault(port, Child(["/bin/sh", "-c", command], tmp_path / "server.log"))

    children: dict[int, Child] = {}
    port = start_on_free_port(start, lambda port: len(tried) == 2 and port == tried[1])
    children[port].kill()

    assert [port] == tried[1:]
    assert tried[0] != port


def test_a_server_that_fails_for_another_reason_is_not_tried_again(tmp_path: Path) -> None:
    tried: list[int] = []

    def start(port: int) -> Child:
        tried.append(port)
        return Child(["/bin/sh", "-c", "echo out of luck; exit 3"], tmp_path / "server.log")

    with pytest.raises(StartFailed, match=r"server ended with 3(.|\n)*out of luck"):
        start_on_free_port(start, lambda _: False)

    assert len(tried) == 1
