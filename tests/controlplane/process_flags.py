"""The settings of the processes of a control plane: flags, kubeconfigs, the audit policy.

`control_plane.py` writes the files named here into the cluster's folder.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.controlplane.certificates import Pair

GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
# Without a controller manager nobody would make the default service account that every pod then
# needs, nor take off the not-ready taint that every new node then gets.
FEWER_ADMISSION_PLUGINS = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
SERVICES = "10.0.0.0/16"
IN_CLUSTER_NAMES = (
    "10.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""The address and the names by which pods reach the API server."""
STAGES = Path(__file__).with_name("stages.yaml")


@dataclass(frozen=True)
class Settings:
    """The flags of every process of the cluster that lives in `folder`."""

    folder: Path
    durable: bool
    watch_cache: bool
    audited: bool
    default_admission: bool = False
    address: str = ""
    """The address of the machine's node, whose pods need the API server; empty without a node."""

    def etcd(self) -> list[str]:
        # An address must be given for others to reach this one by; in a cluster of one nobody does.
        nowhere = "http://127.0.0.1:1"
        return [
            "--name=default",
            "--data-dir=etcd",
            f"--listen-client-urls=unix://{self.folder}/etcd.sock",
            "--listen-peer-urls=unix://peer.sock",
            f"--advertise-client-urls={nowhere}",
            f"--initial-advertise-peer-urls={nowhere}",
            f"--initial-cluster=default={nowhere}",
            f"--unsafe-no-fsync={_flag(not self.durable)}",
            "--quota-backend-bytes=4294967296",
            "--log-level=warn",
        ]

    def apiserver(self, port: int) -> list[str]:
        return [
            f"--etcd-servers=unix://{self.folder}/etcd.sock",
            *(self._with_node() if self.address else self._without_node()),
            f"--secure-port={port}",
            f"--client-ca-file={self.folder}/ca.crt",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder}/accounts.pub",
            f"--service-account-signing-key-file={self.folder}/accounts.key",
            f"--service-cluster-ip-range={SERVICES}",
            "--allow-privileged=true",
            GATES,
            "--runtime-config=scheduling.k8s.io/v1alpha2=true",
            f"--watch-cache={_flag(self.watch_cache)}",
            *(self._audit() if self.audited else ()),
        ]

    def _without_node(self) -> list[str]:
        return [
            *self._serving(),
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            *(() if self.default_admission else (FEWER_ADMISSION_PLUGINS,)),
        ]

    def _with_node(self) -> list[str]:
        return [
            *self._serving("0.0.0.0"),
            f"--advertise-address={self.address}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={self.folder}/ca.crt",
            f"--kubelet-client-certificate={self.folder}/kubelet-client.crt",
            f"--kubelet-client-key={self.folder}/kubelet-client.key",
        ]

    def scheduler(self, port: int) -> list[str]:
        return self._component(port)

    def controller_manager(self, port: int) -> list[str]:
        return [
            *self._component(port),
            f"--service-account-private-key-file={self.folder}/accounts.key",
            f"--root-ca-file={self.folder}/ca.crt",
        ]

    def kwok(self, port: int, logs: Path | None = None) -> list[str]:
        # As the kubelet of its nodes, kwok serves logs where the API server asks for them.
        kubelet = [f"--config={logs}", "--node-ip=127.0.0.1", f"--node-port={port}"]
        return [
            *(kubelet if logs else ()),
            f"--kubeconfig={self.folder}/kubeconfig",
            f"--config={STAGES}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{port}",
            f"--tls-cert-file={self.folder}/serving.crt",
            f"--tls-private-key-file={self.folder}/serving.key",
        ]

    def _component(self, port: int) -> list[str]:
        kubeconfig = f"{self.folder}/kubeconfig"
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            GATES,
            *self._serving(),
            f"--secure-port={port}",
        ]

    def _serving(self, address: str = "127.0.0.1") -> list[str]:
        certificate, key = f"{self.folder}/serving.crt", f"{self.folder}/serving.key"
        return [
            f"--bind-address={address}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
        ]

    def _audit(self) -> list[str]:
        return [
            f"--audit-policy-file={self.folder}/audit-policy.yaml",
            f"--audit-log-path={self.folder}/audit.log",
        ]


def audit_policy(*rules: dict[str, Any]) -> dict[str, Any]:
    """Audit requests by the first rule that fits, once, when the response is complete."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": list(rules),
    }


def kubeconfig(
    url: str, ca: bytes, client: Pair | None = None, token: str | None = None
) -> dict[str, Any]:
    """A kubeconfig with one context, for the holder of that client certificate or that token."""
    user: dict[str, str] = {}
    if client is not None:
        user["client-certificate-data"] = _base64(client.certificate)
        user["client-key-data"] = _base64(client.key)
    if token is not None:
        user["token"] = token
    name = "muster-test"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": url, "certificate-authority-data": _base64(ca)}}
        ],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    }


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
