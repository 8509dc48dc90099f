"""Services on a cluster of `arena up`: a Deployment behind a port that is not its own."""

from __future__ import annotations

import os
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.request import Request
from kubekit.objects.kinds import DEPLOYMENTS, EVENTS, PODS, SERVICES
from kubekit.objects.meta import Key
from localkube.node.network.loopback_ports import lowest_port
from tests.e2e.footprint import Footprint
from tests.e2e.local_cluster import LocalCluster
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SERVE = """
import http.server, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(socket.gethostname().encode())
http.server.HTTPServer(("", 8080), Handler).serve_forever()
"""
CALL = """
import os, time, urllib.request
print(os.environ.get("WEB_SERVICE_PORT"), flush=True)
while True:
    try:
        print(urllib.request.urlopen("http://web", timeout=5).read().decode(), flush=True)
    except OSError as error:
        print(error, flush=True)
    time.sleep(0.05)  # pace: of the calls
"""
ROOT = os.geteuid() == 0


def template(code: str, **container: Any) -> dict[str, Any]:
    return {
        "containers": [{"name": "c", "image": "x", "command": ["python", "-c", code]} | container]
    }


WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": template(SERVE, ports=[{"name": "http", "containerPort": 8080}]),
        },
    },
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
}
CLIENT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "client"},
    "spec": template(CALL),
}


def test_pods_and_the_host_reach_a_deployment_behind_another_port(tmp_path: Path) -> None:
    before = Footprint.now()
    local = LocalCluster(tmp_path)
    local.up("--no-dashboard")
    try:
        local.apply(SERVICE, WEB, CLIENT)
        names = until(lambda: seen(local, 2), timeout=60, what="answers of both replicas")
        with local.client() as client:
            pods = {pod.metadata.name for pod in client.list(PODS).items} - {"client"}
            address = client.get(SERVICES, Key("default", "web")).spec.cluster_ip
        assert names == pods
        assert lines(local)[0] == "80"
        # Without root, this machine has an address of its own for each service.
        host = address if ROOT else f"127.{address.partition('.')[2]}"
        port = 80 if ROOT or lowest_port() <= 80 else 8080
        with urllib.request.urlopen(f"http://{host}:{port}", timeout=30) as answer:
            assert answer.read().decode() in pods
        if not ROOT:
            assert f"reaches port 80 at {host}:{port}" in described(local)

        assert proxied(local, "services/web:80") in pods
        assert proxied(local, f"pods/{min(pods)}:8080") == min(pods)

        local.kill_daemon()
        local.up("--no-dashboard")
        count = len(lines(local))
        until(lambda: len(lines(local)) > count + 5, what="calls after a restart of the daemon")
        assert set(lines(local)[count:]) <= pods

        with local.client() as client:
            client.patch(DEPLOYMENTS, Key("default", "web"), {"spec": {"replicas": 0}})
        until(lambda: "refused" in lines(local)[-1], timeout=60, what="a refused connection")
    finally:
        local.arena("down", "--now")
    assert Footprint.now().beyond(before, tmp_path) == []


def proxied(local: LocalCluster, name: str) -> str:
    """The answer of `kubectl get --raw` through the API server."""
    with local.client() as client:
        answer = client.send(Request("GET", f"/api/v1/namespaces/default/{name}/proxy/"))
    return answer.body.decode()


def described(local: LocalCluster) -> str:
    """The messages of the events of the service."""
    with local.client() as client:
        events = client.list(EVENTS.read_as(dict)).items
    return "\n".join(e["message"] for e in events if e["involvedObject"]["kind"] == "Service")


def lines(local: LocalCluster) -> list[str]:
    uid = local.pod("client").metadata.uid
    log = local.home / "data" / "pods" / uid / "containers" / "c" / "0" / "log"
    written = log.read_text().splitlines() if log.exists() else []
    return [re.sub(r"^\S+ \S+ \S+ ", "", line) for line in written]


def seen(local: LocalCluster, count: int) -> set[str]:
    """The replicas that answered, as soon as there are so many."""
    names = {line for line in lines(local) if line.startswith("web-")}
    return names if len(names) == count else set()
