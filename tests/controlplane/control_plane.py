"""A real control plane on loopback: etcd, kube-apiserver; on demand scheduler, controllers, kwok.

Used by the tests through `fixture.py` and by the benchmarks directly; knows nothing of pytest:

    with ControlPlane(build()) as plane:
        plane.kubectl("get", "nodes")

Promises: RBAC decides, as on a real cluster; everything lives in one temporary folder and on
loopback; a killed API server comes back on the same port with the same objects; no process outlives
the one that started it.

etcd listens on a Unix socket, so only servers that speak TLS need ports, and their certificate
proves that the server which answers on a port is ours and not one of another cluster that took it
first.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.controlplane import http_request
from tests.controlplane.certificates import Authority, signing_key
from tests.controlplane.process_flags import IN_CLUSTER_NAMES, Settings, audit_policy, kubeconfig
from tests.controlplane.processes import Child, start_on_free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ADMIN = "muster-admin"
MASTERS = "system:masters"


def kwok_node(
    name: str, room: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A node that kwok manages."""
    metadata = {
        "name": name,
        "annotations": {"kwok.x-k8s.io/node": "fake"},
        "labels": {"kubernetes.io/hostname": name, **(labels or {})},
    }
    status = {"allocatable": room, "capacity": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


class ControlPlane:
    """One cluster.

    `audit` is a level such as Metadata or RequestResponse, or the rules of an audit policy; without
    it nothing is audited.
    `durable` makes etcd wait for the disk. `watch_cache=False` sends every watch to etcd itself, so
    that `compact` makes the next watch from an old version fail with 410; with the cache, the API
    server goes on serving what it remembers until it restarts. `default_admission` has every
    admission plugin that a cluster has by default; it needs the controller manager.
    `address` is the address of a real node on this machine (`tests/realnode/`): its pods reach the
    API server there, with the default admission.
    """

    def __init__(
        self,
        binaries: Path,
        *,
        audit: str | Sequence[dict[str, Any]] | None = None,
        durable: bool = False,
        watch_cache: bool = True,
        default_admission: bool = False,
        address: str = "",
        apiserver_args: Sequence[str] = (),
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="muster-cp-"))
        self.authority = Authority()
        self.token = secrets.token_hex(16)
        self._binaries = binaries
        self._settings = Settings(
            self.folder, durable, watch_cache, audit is not None, default_admission, address
        )
        rules = [{"level": audit or "None"}] if isinstance(audit, str | None) else audit
        self._audit = audit_policy(*rules)
        self._apiserver_args = apiserver_args
        self._children: dict[str, Child] = {}
        self._port = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig, with the client certificate."""
        return self.folder / "kubeconfig"

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def process_ids(self) -> list[int]:
        """The processes that run now."""
        return [child.pid for child in self._children.values()]

    def start(self) -> Self:
        """Start etcd and the API server; on failure nothing is left behind."""
        try:
            self._write_files()
            self.start_etcd()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill every process and remove the folder."""
        while self._children:
            self._children.popitem()[1].kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_etcd(self) -> None:
        """Start etcd; after a kill, with the objects that it had."""
        self._spawn("etcd", self._settings.etcd()).await_ready(self._etcd_answers)

    def kill_etcd(self) -> None:
        """SIGKILL: every request of the API server hangs or fails until it is started again."""
        self._children.pop("etcd").kill()

    def start_apiserver(self) -> None:
        """Start the API server; after a kill, on the port it had."""
        if self._port:
            child = self._spawn("kube-apiserver", self._apiserver_flags(self._port))
            child.await_ready(lambda: self._answers(self._port, "/readyz"))
            return
        self._port = self._serve("kube-apiserver", self._apiserver_flags, "/readyz")
        admin = self.authority.client(ADMIN, MASTERS)
        config = kubeconfig(self.url, self.authority.certificate, client=admin)
        self.kubeconfig.write_text(json.dumps(config))

    def await_ready(self) -> None:
        """Wait until the running API server is ready again."""
        child = self._children["kube-apiserver"]
        child.await_ready(lambda: self._answers(self._port, "/readyz"))

    def kill_apiserver(self) -> None:
        """SIGKILL: open connections are cut, nothing is flushed."""
        self._children.pop("kube-apiserver").kill()

    def start_scheduler(self, *extra_args: str) -> str:
        """Start kube-scheduler; its URL serves /metrics to the admin token."""
        flags = self._settings.scheduler
        port = self._serve("kube-scheduler", lambda port: [*flags(port), *extra_args], "/readyz")
        return f"https://127.0.0.1:{port}"

    def start_controller_manager(self, *extra_args: str) -> str:
        """Start kube-controller-manager; its URL serves /metrics to the admin token."""
        flags, name = self._settings.controller_manager, "kube-controller-manager"
        port = self._serve(name, lambda port: [*flags(port), *extra_args], "/healthz")
        return f"https://127.0.0.1:{port}"

    def start_kwok(self, log: str = "") -> None:
        """Start kwok: nodes become Ready and pods bound to them Running, as stages.yaml says.

        With `log`, these are the lines that every container of every pod has written.
        """
        config = self._log_config(log) if log else None
        self._serve("kwok", lambda port: self._settings.kwok(port, config), "/healthz")

    def kill_kwok(self) -> None:
        """All nodes fall silent, with the pods on them."""
        self._children.pop("kwok").kill()

    def _log_config(self, log: str) -> Path:
        file, config = self.folder / "pods.log", self.folder / "logs.yaml"
        lines = [f"2026-01-01T00:00:00.000000000Z stdout F {line}\n" for line in log.splitlines()]
        file.write_text("".join(lines))  # as container runtimes write logs
        resource = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "every-pod"},
            "spec": {"logs": [{"logsFile": str(file), "follow": False}]},
        }
        config.write_text(json.dumps(resource))
        return config

    def add_node(
        self,
        name: str,
        *,
        cpu: str | int = 8,
        memory: str = "32Gi",
        gpus: int = 0,
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Create a node that kwok manages; it becomes Ready once kwok runs."""
        room = {"cpu": str(cpu), "memory": memory, "pods": str(pods)}
        if gpus:
            room["nvidia.com/gpu"] = str(gpus)
        status, answer = self.request("POST", "/api/v1/nodes", kwok_node(name, room, labels))
        if status != http.client.CREATED:
            raise RuntimeError(f"node {name} was not created: {answer.get('message')}")

    def add_nodes(self, count: int, *, of_which_with_gpus: int, gpus: int) -> None:
        """Create nodes `n000`, `n001` …; the first ones have GPUs."""
        room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        with_gpus = {**room, "nvidia.com/gpu": str(gpus)}
        nodes = [
            kwok_node(f"n{number:03}", with_gpus if number < of_which_with_gpus else room)
            for number in range(count)
        ]
        listed = {"apiVersion": "v1", "kind": "List", "items": nodes}
        created = self.kubectl("create", "-f", "-", input=json.dumps(listed))
        if created.returncode:
            raise RuntimeError(f"nodes were not created: {created.stderr}")

    def kubectl(self, *args: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as admin; the caller checks its exit code."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        return subprocess.run(
            [str(self._binaries / "kubectl"), *args],
            input=input,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One API request with the admin token: the status code and the decoded response.

        The server answers `404 page not found`, without JSON, if it does not know the resource.
        """
        connection = http_request.tls_connection(self._port, self.authority.certificate)
        status, text = http_request.send(connection, method, path, body, self.token)
        try:
            return status, json.loads(text)
        except json.JSONDecodeError:
            return status, {"message": text.decode(errors="replace")}

    def compact(self) -> int:
        """Compact etcd's history up to its newest revision, which is returned."""
        newest = self._etcd("/v3/kv/range", {"key": "AA==", "limit": 1, "keys_only": True})
        revision = int(newest["header"]["revision"])
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})
        return revision

    def _write_files(self) -> None:
        address, accounts = self._settings.address, signing_key()
        serving = self.authority.server(*((address, *IN_CLUSTER_NAMES) if address else ()))
        caller = self.authority.client("kube-apiserver-kubelet-client", MASTERS)
        for name, content in {
            "ca.crt": self.authority.certificate,
            "serving.crt": serving.certificate,
            "serving.key": serving.key,
            "kubelet-client.crt": caller.certificate,
            "kubelet-client.key": caller.key,
            "accounts.pub": accounts.certificate,
            "accounts.key": accounts.key,
            "tokens.csv": f'{self.token},{ADMIN},{ADMIN},"{MASTERS}"\n'.encode(),
            "audit-policy.yaml": json.dumps(self._audit).encode(),
        }.items():
            (self.folder / name).write_bytes(content)

    def _apiserver_flags(self, port: int) -> list[str]:
        return [*self._settings.apiserver(port), *self._apiserver_args]

    def _serve(self, name: str, flags: Callable[[int], list[str]], probe: str) -> int:
        return start_on_free_port(
            lambda port: self._spawn(name, flags(port)), lambda port: self._answers(port, probe)
        )

    def _spawn(self, name: str, flags: Sequence[str]) -> Child:
        former = self._children.pop(name, None)
        if former is not None:
            former.kill()
        command = [str(self._binaries / name), *flags]
        child = self._children[name] = Child(command, self.folder / f"{name}.log")
        return child

    def _answers(self, port: int, probe: str) -> bool:
        connection = http_request.tls_connection(port, self.authority.certificate)
        try:
            return (
                http_request.send(connection, "GET", probe, token=self.token)[0] == http.client.OK
            )
        except (OSError, http.client.HTTPException):
            return False

    def _etcd_answers(self) -> bool:
        try:
            return "header" in self._etcd("/v3/maintenance/status", {})
        except (OSError, http.client.HTTPException):
            return False

    def _etcd(self, method: str, body: object) -> dict[str, Any]:
        return http_request.send_to_etcd(self.folder / "etcd.sock", method, body)
