"""The seam to the node agent: what the API server asks of whoever runs the pods.

`serve.py` turns log, exec, attach, port-forward and proxy requests into calls of a `NodeBackend`;
the node agent implements it, tests use a small fake. The server has already checked that the pod
exists and is bound; `pod` is the stored object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime

    from muster.api.meta import Raw


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
    """The client's side of an exec or attach, whatever carries it."""

    def stdin(self) -> AsyncIterator[bytes]:
        """What the client types; ends when the client closes its input or goes away."""

    def resizes(self) -> AsyncIterator[tuple[int, int]]:
        """Terminal sizes as (width, height), only with a tty."""

    async def stdout(self, data: bytes) -> None:
        """Show it to the client."""

    async def stderr(self, data: bytes) -> None:
        """Show it to the client as an error."""


class Pipe(Protocol):
    """One forwarded connection."""

    async def receive(self) -> bytes:
        """The next bytes from the client; empty at the end."""

    async def send(self, data: bytes) -> None:
        """Bytes to the client."""


@dataclass(frozen=True)
class Consumption:
    """What somebody uses: cores kept busy, bytes held."""

    cores: float
    memory: int


@dataclass(frozen=True)
class Usage:
    """What was used over the `window` seconds before `at`, by pod uid and container."""

    at: datetime
    window: float
    pods: Mapping[str, Mapping[str, Consumption]]


@runtime_checkable
class UsageSource(Protocol):
    """A backend that can also say what its pods use; one that cannot has no data to show."""

    async def usage(self) -> Usage:
        """The newest measurement."""


class NodeBackend(Protocol):
    """Whoever runs the pods."""

    def logs(self, pod: Raw, options: LogOptions) -> AsyncIterator[bytes]:
        """The container's output. Raises a Refusal if there is none to show."""

    async def exec(self, pod: Raw, options: ExecOptions, streams: Streams) -> int:
        """Run the command, or attach, until it ends; returns its exit code."""

    async def forward(self, pod: Raw, port: int, pipe: Pipe) -> None:
        """Carry bytes between the client and a port of the pod until either side closes."""

    async def address(self, pod: Raw, port: int) -> tuple[str, int]:
        """Where the server can reach a port of the pod, for `pods/proxy`."""
