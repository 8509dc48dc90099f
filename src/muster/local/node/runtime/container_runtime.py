"""What the pod loop needs of a runtime.

`read` returns what is there; the runtime calls `changed` when a pod should be visited again. Every
method may be called twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from socket import socket

    from muster.api.meta import Key
    from muster.local.node.runtime.pod_records import PodRecord
    from muster.local.node.runtime.rootfs import Mount
    from muster.local.node.runtime.shim_client import ShimConnection


@dataclass(frozen=True)
class SandboxSpec:
    """The namespaces of one pod."""

    uid: str
    key: Key
    hostname: str
    host_network: bool = False
    memory_volumes: dict[str, str] = field(default_factory=dict)
    """Volumes in memory: name to tmpfs options."""


@dataclass(frozen=True)
class ContainerSpec:
    """One attempt at one container."""

    uid: str
    name: str
    number: int
    image: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    mounts: tuple[Mount, ...] = ()
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    """Whether standard input closes when the first attached client closes it or is gone."""
    memory: int | None = None
    """The memory limit in bytes."""
    message_path: str = "/dev/termination-log"
    message_from_log: bool = False
    """Whether the end of the log becomes the message if the program fails without one."""


class Runtime(Protocol):
    """Runs pods. `run` must be running for anything else to work."""

    async def run(self, changed: Callable[[str], None]) -> None:
        """Watch all containers; call `changed(uid)` when a pod should be visited again."""

    def uids(self) -> list[str]:
        """All pods that have a record."""

    def read(self, uid: str) -> PodRecord: ...

    @property
    def shares_files(self) -> bool:
        """Whether pods see this machine's files, and volumes only as links."""

    @property
    def host_address(self) -> str:
        """The address of this machine as pods see it."""

    def address(self, key: Key) -> str:
        """The address that a pod of this name has or will have."""

    def last_address(self, key: Key) -> str:
        """The last address of a pod of this name; empty if unknown."""

    async def open(self, spec: SandboxSpec) -> None:
        """Make the pod's namespaces."""

    async def start(self, spec: ContainerSpec) -> None:
        """Start an attempt at a container in the pod's namespaces."""

    async def stop(self, uid: str, container: str, grace: float) -> None:
        """Send SIGTERM to a container, and SIGKILL after `grace` seconds."""

    async def close(self, uid: str) -> None:
        """Kill the pod's processes and namespaces; its logs and exit codes stay."""

    async def forget(self, uid: str) -> None:
        """Close the pod and delete its record."""

    def attempts(self, uid: str, container: str) -> list[int]:
        """The numbers of the attempts that still have a log."""

    def folder(self, uid: str, container: str, number: int) -> Path:
        """The directory of an attempt, with its log and exit code."""

    async def connect(self, uid: str, port: int) -> socket:
        """A connection to a port inside the pod: on its loopback, else at its address."""

    async def reach(self, uid: str, port: int) -> socket:
        """A connection to a port at the pod's address, as its peers make it."""

    def connect_shim(
        self, uid: str, container: str, **request: Any
    ) -> AbstractAsyncContextManager[ShimConnection]:
        """A connection to the shim of a running container."""
