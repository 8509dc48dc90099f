"""Ports of services at loopback addresses of this machine.

Node ports listen at 127.0.0.1. The virtual addresses of a cluster without root exist only in the
network of its pods. But every user may listen at any address of 127.0.0.0/8, so each service has a
`Place` there: its virtual address with 127 as the first number. Only root may listen on the lowest
ports; 8000 is added. Each connection is forwarded to the next ready pod of the service, or to the
next endpoint if the service has no selector.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.core import Service, ServicePort, port_number
from kubekit.objects.events import EventText, event_subject
from kubekit.objects.kinds import SERVICES
from kubekit.objects.meta import Key, condition_is_true
from kubekit.telemetry.unexpected_errors import isolated
from localkube.node.network.forwarder import Forwarder
from localkube.node.network.pod_network import LOOPBACK
from localkube.node.network.service_addresses import API_SERVICE, has_address, service_ports
from localkube.node.pod_events import COMPONENT
from localkube.node_interface import CannotRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kubekit.control.event_recorder import EventRecorder
    from kubekit.serving.acceptor import Acceptor
    from kubekit.watch.informer import Informer
    from localkube.node.network.service_addresses import EndpointSlice
    from localkube.node.pod import Pod
    from localkube.node.runtime.container_runtime import Runtime

log = logging.getLogger(__name__)

_ADDED_TO_LOW_PORTS = 8000
_LOWEST_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_BACKLOG = 100
_LISTEN_AGAIN = 5.0
"""Seconds until a port is tried again at which listening failed."""


class Place(NamedTuple):
    """An address and a port of this machine."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


class Target(NamedTuple):
    """A port of a service."""

    service: Key
    port: ServicePort


def node_ports(services: Iterable[Service]) -> dict[Place, Target]:
    """The node ports of all services."""
    return {
        Place(LOOPBACK, port.node_port): Target(service.metadata.key, port)
        for service in services
        for port in service.spec.ports
        if port.node_port and port.protocol == "TCP"
    }


def host_places(service: Service, lowest: int) -> Iterator[tuple[Place, ServicePort]]:
    """The TCP ports of a service, each with its place on this machine.

    `lowest` is the lowest port that our user may listen on. The API needs no place: it has
    its own address.
    """
    if not has_address(service) or service.metadata.key == API_SERVICE:
        return
    address = f"127.{service.spec.cluster_ip.partition('.')[2]}"
    own = {port.port for port in service.spec.ports}
    for port in service.spec.ports:
        number = port.port
        if number < lowest:
            number += _ADDED_TO_LOW_PORTS
            if number in own:
                continue
        if port.protocol == "TCP":
            yield Place(address, number), port


def lowest_port() -> int:
    """The lowest port that our user may listen on."""
    if os.geteuid() == 0:
        return 1
    try:
        return int(_LOWEST_PORT.read_text())
    except OSError:  # not Linux
        return 1024


def ready_targets(service: Service, pods: Iterable[Pod], port: int | str) -> list[tuple[str, int]]:
    """The ready pods of a service, by uid, and the port's number in each."""
    selector = service.spec.selector.items()
    targets = []
    for pod in pods:
        same_namespace = pod.metadata.namespace == service.metadata.namespace
        matches = selector and selector <= pod.metadata.labels.items()
        ready = not pod.terminating and condition_is_true(pod.status.conditions, "Ready")
        if same_namespace and matches and ready:
            number = port_number(port, pod.spec.containers)
            if number:
                targets.append((pod.metadata.uid, number))
    return sorted(targets)


@dataclass
class LoopbackPorts:
    _runtime: Runtime
    _pods: Informer[Pod]
    _services: Informer[Service]
    _slices: Informer[EndpointSlice]
    _events: EventRecorder
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _listening: dict[Place, Acceptor] = field(default_factory=dict, init=False)
    _failed: set[Place] = field(default_factory=set, init=False)
    _turn: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._lowest_port = lowest_port()
        self._forwarder = Forwarder(self._runtime.descriptors)
        self._services.subscribe(lambda _: self._changed.set())

    async def run(self) -> None:
        """Listen for all services, until cancelled."""
        await self._services.synced()
        try:
            while True:
                self._listen(self._targets())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LISTEN_AGAIN if self._failed else None):
                        await self._changed.wait()
                self._changed.clear()
        finally:
            self._listen({})
            await self._forwarder.close()

    def _targets(self) -> dict[Place, Target]:
        targets: dict[Place, Target] = {}
        for service in self._services.all():
            key = service.metadata.key
            with isolated("services", key):
                targets |= node_ports([service])
                if self._runtime.network.host_needs_proxy:
                    places = host_places(service, self._lowest_port)
                    targets |= {place: Target(key, port) for place, port in places}
        return targets

    def _listen(self, targets: dict[Place, Target]) -> None:
        for place in self._listening.keys() - targets:
            self._listening.pop(place).close()
        for place in targets.keys() - self._listening:
            try:
                sock = socket.create_server(place, backlog=_BACKLOG)
            except (OSError, OverflowError, ValueError) as error:
                # Another program has the port, or it is not a valid one: the rest must work.
                if place not in self._failed:
                    self._report_failure(place, targets[place], error)
                self._failed.add(place)
                continue
            self._failed.discard(place)
            name = f"service {targets[place].service} at {place}"
            self._listening[place] = self._forwarder.listen(
                sock, name, partial(self._connect, place)
            )
            if place.address != LOOPBACK:
                message = f"This machine reaches port {targets[place].port.port} at {place}"
                self._record(targets[place], EventText("HostAddress", message))
        self._failed &= targets.keys()

    def _report_failure(self, place: Place, target: Target, error: Exception) -> None:
        number = error.errno if isinstance(error, OSError) else None
        # `create_server` adds the address to the error's text.
        why = os.strerror(number) if number else str(error)
        log.warning("service %s: cannot listen at %s: %s", target.service, place, why)
        message = f"This machine does not reach the service at {place}: {why}"
        self._record(target, EventText("HostAddressFailed", message, "Warning"))

    def _record(self, target: Target, event: EventText) -> None:
        if (service := self._services.get(target.service)) is not None:
            self._events.record(event_subject(SERVICES, service.metadata, COMPONENT), event)

    async def _connect(self, place: Place) -> socket.socket:
        # Looked up for every connection: services and pods change while the port stays open.
        target = self._targets().get(place)
        service = self._services.get(target.service) if target else None
        if target is None or service is None:
            raise CannotRun(f"no service at {place}")
        self._turn += 1
        if not service.spec.selector:
            return await self._connect_to_endpoint(service, target.port)
        port = target.port.target_port or target.port.port
        pods = ready_targets(service, self._pods.all(), port)
        if not pods:
            raise CannotRun(f"no ready pod for {place}")
        return await self._runtime.reach(*pods[self._turn % len(pods)])

    async def _connect_to_endpoint(self, service: Service, port: ServicePort) -> socket.socket:
        for found in service_ports([service], self._slices.all()):
            if (found.port, found.protocol) == (port.port, port.protocol) and found.endpoints:
                return await self._runtime.network.connect(
                    *found.endpoints[self._turn % len(found.endpoints)]
                )
        raise CannotRun(f"no endpoint for port {port.port}")
