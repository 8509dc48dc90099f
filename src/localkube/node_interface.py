"""The interface of the node agent: logs, exec, port-forward, proxy and usage of pods.

The server checks that the pod exists and is bound before it calls; `pod` is the stored object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kubekit.errors import MusterError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
    from datetime import datetime
    from socket import socket

    from kubekit.objects.core import PodLog
    from kubekit.objects.meta import Raw


class CannotRun(MusterError):
    """The local node could not create a pod's namespaces or start a container."""


@dataclass(frozen=True)
class LogOptions:
    """`kubectl logs` as the backend sees it. `container` is always filled in."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True)
class ExecOptions:
    """`kubectl exec` and `attach`. No command means attach to the container's own process."""

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


class Streams(Protocol):
    """The client's side of an exec or attach."""

    def stdin(self) -> AsyncIterator[bytes]:
        """The client's input, until the client closes it or disconnects."""

    def resizes(self) -> AsyncIterator[tuple[int, int]]:
        """Terminal sizes as (width, height), only with a tty."""

    async def stdout(self, data: bytes) -> None:
        """Send output to the client."""

    async def stderr(self, data: bytes) -> None:
        """Send error output to the client."""


@dataclass(frozen=True)
class Consumption:
    """Busy cores and bytes of memory; for containers with GPUs, busy GPUs and their memory too."""

    cores: float
    memory: int
    gpus: float | None = None
    gpu_memory: int = 0

    def __add__(self, other: Consumption) -> Consumption:
        measured = [gpus for gpus in (self.gpus, other.gpus) if gpus is not None]
        return Consumption(
            self.cores + other.cores,
            self.memory + other.memory,
            sum(measured) if measured else None,
            self.gpu_memory + other.gpu_memory,
        )


@dataclass(frozen=True)
class Usage:
    """Consumption over the `window` seconds before `at`, by pod uid and container."""

    at: datetime
    window: float
    pods: Mapping[str, Mapping[str, Consumption]]


class NodeBackend(Protocol):
    """The node agent as the API server sees it."""

    def logs(self, pod: Raw, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """The container's output; raises a StatusError if there is none."""

    async def pod_logs(self) -> list[PodLog]:
        """Every attempt at a container of a job's pod, whether or not the pod still exists."""

    def read_pod_log(self, pod_log: PodLog, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """The log of one attempt; raises a StatusError if it was removed in between."""

    async def exec(self, pod: Raw, options: ExecOptions, streams: Streams) -> int:
        """Run the command, or attach, until it ends; returns its exit code."""

    async def connect(self, pod: Raw, port: int) -> socket:
        """A connection to a port of the pod, even if its program listens on loopback only."""

    async def address(self, pod: Raw, port: int) -> tuple[str, int]:
        """The address and the port to dial for a port of the pod."""

    async def dial(self, address: str, port: int) -> socket:
        """A connection to an address of the pods' network, or of any other."""

    async def usage(self) -> Usage:
        """What the pods consume; the newest measurement."""

    @property
    def token_refused(self) -> Callable[[str], None]:
        """To be called with the uid of a pod whose token was refused because of its time."""
