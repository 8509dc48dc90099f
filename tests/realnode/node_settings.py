"""The settings of the programs of a node: containerd, the pods' network, kubelet, CoreDNS.

Where a program has a default path below /var/lib, /var/log or /run, the default is used: the node
has these directories for itself (`node_namespaces.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAME = "node-1"
PODS = "10.88.0.0/16"
DOMAIN = "cluster.local"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CNI_PLUGINS = "/usr/lib/cni"
"""Where Debian's package containernetworking-plugins puts them."""


def containerd(folder: Path, sandbox_image: str) -> str:
    """Without CAP_SYS_RESOURCE no process can lower its OOM score; there may be no AppArmor."""
    return f"""
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{sandbox_image}"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{folder}/cni"
"""


def cni() -> str:
    """One bridge, addresses from a file, and masquerading of what leaves the bridge."""
    bridge: dict[str, Any] = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": PODS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]})


def kubelet(folder: Path, dns: str) -> str:
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{folder}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{folder}/kubelet.crt",
            "tlsPrivateKeyFile": f"{folder}/kubelet.key",
            "clusterDNS": [dns],
            "clusterDomain": DOMAIN,
            "resolvConf": f"{folder}/resolv.conf",
            "volumePluginDir": f"{folder}/volume-plugins",
            "failSwapOn": False,
            # For machines with cgroups v1 too; the machine's own cgroups stay as they are.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            # A machine whose disk is rather full is not this test's subject.
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
        }
    )


def kube_proxy(kubeconfig: Path) -> str:
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "hostnameOverride": NAME,
            "mode": "nftables",
            "clusterCIDR": PODS,
            # Zero: these limits belong to the whole machine and stay as they are.
            "conntrack": {"maxPerCore": 0, "min": 0},
        }
    )


def corefile(address: str, kubeconfig: Path) -> str:
    return f"""
.:53 {{
  bind {address}
  errors
  health 127.0.0.1:8080
  ready 127.0.0.1:8181
  kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
    kubeconfig {kubeconfig}
    pods insecure
    ttl 1
  }}
}}
"""
