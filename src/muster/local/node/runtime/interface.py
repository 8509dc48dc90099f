"""The seam between the pod loop and whatever runs pods on this machine.

The loop asks, the runtime does; the runtime says through `changed` that a pod should be looked at
again, and `read` tells what is there. Every method bears being called twice.
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
    from muster.local.node.runtime.shims import ShimConnection


@dataclass(frozen=True)
class SandboxSpec:
    """What a pod needs before its first container starts."""

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
    """Whether its input ends when the first who typed has ended, or is gone."""
    memory: int | None = None
    """The most bytes that its processes may use."""
    message_path: str = "/dev/termination-log"
    """Where the program may write its last words."""
    message_from_log: bool = False
    """Whether the end of the log is taken for them if it fails without any."""


class Runtime(Protocol):
    """Runs pods. `run` must be running for anything else to work."""

    async def run(self, changed: Callable[[str], None]) -> None:
        """Watch over what runs; call `changed(uid)` when a pod should be looked at again."""

    def uids(self) -> list[str]:
        """Every pod of which there is anything."""

    def read(self, uid: str) -> PodRecord:
        """What there is of a pod."""

    @property
    def shares_files(self) -> bool:
        """Whether pods see this machine's files as they are, volumes only as links."""

    @property
    def host_address(self) -> str:
        """This machine as pods see it."""

    def address(self, key: Key) -> str:
        """The address that a pod of this name has, or will have."""

    def last_address(self, key: Key) -> str:
        """The address that a pod of this name had, if it is remembered."""

    async def open(self, spec: SandboxSpec) -> None:
        """Make the pod's namespaces."""

    async def start(self, spec: ContainerSpec) -> None:
        """Start a container in them."""

    async def stop(self, uid: str, container: str, grace: float) -> None:
        """Ask a container to end, and kill it after `grace` seconds."""

    async def close(self, uid: str) -> None:
        """End the pod's processes and namespaces; its logs and exit codes stay."""

    async def forget(self, uid: str) -> None:
        """Remove the rest."""

    def attempts(self, uid: str, container: str) -> list[int]:
        """The numbers of the attempts at a container of which there still is a log."""

    def folder(self, uid: str, container: str, number: int) -> Path:
        """Where an attempt's log and exit code are."""

    async def connect(self, uid: str, port: int) -> socket:
        """A connection to a port inside the pod."""

    async def reach(self, uid: str, port: int) -> socket:
        """A connection to a port at the pod's own address, as its peers would make it."""

    def ask(
        self, uid: str, container: str, **request: Any
    ) -> AbstractAsyncContextManager[ShimConnection]:
        """Talk to the supervisor of a running container."""
