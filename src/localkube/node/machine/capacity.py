"""The machine's resources, and the nodes declared on it.

Declared nodes share the machine: each has all of its CPU and memory unless declared otherwise, and
as many GPUs as declared. Real GPUs are used first, each on one node only. Without a declaration the
first node has all real GPUs.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from localkube import KUBERNETES_VERSION
from localkube.node.machine import gpus
from localkube.node.standalone.linux import kernel

_PODS = 250
"""The limit of pods per node; the kubelet's default is 110."""


@dataclass(frozen=True)
class NodeSpec:
    """A declared node; resources as in the API."""

    name: str
    resources: dict[str, str] = field(default_factory=dict)
    gpus: tuple[int, ...] = ()
    """The indexes of its real GPUs; other GPUs are only declared."""


def cpus() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0))


def memory() -> int:
    """The machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def declare_nodes(
    count: int,
    cpus_each: int | None = None,
    memory_each: str | None = None,
    gpus_each: int | None = None,
) -> list[NodeSpec]:
    """Nodes named muster-0, muster-1, …; by default each has all resources of the machine."""
    resources = {
        "cpu": str(cpus_each or cpus()),
        "memory": memory_each or f"{memory() // 1024}Ki",
        "pods": str(_PODS),
        "ephemeral-storage": f"{shutil.disk_usage('/').total // 1024}Ki",
    }
    real = gpus.find_gpus()
    each = len(real) if gpus_each is None else gpus_each
    nodes = []
    for number in range(count):
        indexes = real[number * each : (number + 1) * each]  # no GPU is on two nodes
        gpu_count = len(indexes) if gpus_each is None else gpus_each
        gpu = {gpus.RESOURCE: str(gpu_count)} if gpu_count else {}
        nodes.append(NodeSpec(f"muster-{number}", resources | gpu, indexes))
    return nodes


def node_info() -> dict[str, str]:
    """`status.nodeInfo`."""
    system = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return {
        "architecture": architecture(),
        "bootID": kernel.boot_id(),
        "containerRuntimeVersion": f"localkube://{KUBERNETES_VERSION}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        # Tools compare it with the version of the API server.
        "kubeletVersion": KUBERNETES_VERSION,
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": system.get("PRETTY_NAME", "Linux"),
        "systemUUID": "",
    }


def architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
