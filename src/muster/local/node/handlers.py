"""What a container may be asked: the handlers of probes and of hooks, as the API has them.

Part of `spec`; carried out by `checks`.
"""

from __future__ import annotations

from muster.api.meta import Object

Port = int | str
"""A number, or the name of one of the container's ports."""


class Exec(Object, frozen=True):
    command: tuple[str, ...] = ()


class Header(Object, frozen=True):
    name: str = ""
    value: str = ""


class HttpGet(Object, frozen=True):
    port: Port = 0
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[Header, ...] = ()


class TcpSocket(Object, frozen=True):
    port: Port = 0
    host: str = ""


class Sleep(Object, frozen=True):
    seconds: float = 0


class Handler(Object, frozen=True):
    """One of these. A gRPC service is only asked whether its port answers."""

    exec: Exec | None = None
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    grpc: TcpSocket | None = None
    sleep: Sleep | None = None


class Probe(Handler, frozen=True):
    """A handler asked again and again, and how often it must agree with itself to be believed."""

    initial_delay_seconds: float = 0
    timeout_seconds: float = 1
    period_seconds: float = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(Object, frozen=True):
    post_start: Handler | None = None
    pre_stop: Handler | None = None
