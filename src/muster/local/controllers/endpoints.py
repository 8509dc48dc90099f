"""A service and its pods -> the addresses behind it, as Endpoints and as EndpointSlices. Pure.

Called by `services.py`. A pod is behind a service from when it has an address until it has ended;
named ports are looked up in each pod, so pods of one service may differ in their ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from muster.local.controllers import pod_readiness
from muster.local.controllers.kinds import SERVICES, owner_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster.api.meta import Raw
    from muster.local.controllers.kinds import Pod, Service, ServicePort

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
_ENDPOINTS_BY = "endpoints.kubernetes.io/managed-by"
_HEADLESS = "service.kubernetes.io/headless"
_MOST = 100


class Port(NamedTuple):
    """A port of a service as one pod has it."""

    name: str
    number: int
    protocol: str
    application: str | None

    def row(self, *, sliced: bool) -> Raw:
        found: Raw = {"port": self.number, "protocol": self.protocol}
        if self.name or sliced:
            found["name"] = self.name
        if self.application is not None:
            found["appProtocol"] = self.application
        return found


Ports = tuple[Port, ...]


def selects(service: Service) -> bool:
    """Whether its addresses follow from pods at all."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def pods_by_ports(service: Service, pods: Iterable[Pod]) -> dict[Ports, list[Pod]]:
    """The service's pods, grouped by the ports they have; going ones included."""
    wanted = service.spec.selector.items()
    groups: dict[Ports, list[Pod]] = {}
    for pod in sorted(pods, key=lambda one: one.metadata.name):
        if pod.finished or not pod.status.pod_ip or not wanted <= pod.metadata.labels.items():
            continue
        ports = tuple(
            Port(port.name, number, port.protocol, port.app_protocol)
            for port in service.spec.ports
            if (number := _number(port, pod))
        )
        if ports or not service.spec.ports:
            groups.setdefault(ports, []).append(pod)
    return groups


def _number(port: ServicePort, pod: Pod) -> int:
    """The port's number in this pod; 0 if a name is not there."""
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    for container in pod.spec.containers:
        for one in container.ports:
            if (one.name, one.protocol) == (port.target_port, port.protocol):
                return one.container_port
    return 0


def _labels(service: Service) -> dict[str, str]:
    headless = {_HEADLESS: ""} if service.spec.cluster_ip == "None" else {}
    return {**service.metadata.labels, **headless}


def _target(pod: Pod) -> Raw:
    meta = pod.metadata
    return {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}


def _named(service: Service, pod: Pod, found: Raw) -> Raw:
    """The address, with what a pod that has a name of its own in the service adds."""
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        found["hostname"] = pod.spec.hostname
    if pod.spec.node_name:
        found["nodeName"] = pod.spec.node_name
    return found


def endpoints(service: Service, groups: dict[Ports, list[Pod]]) -> Raw:
    """The Endpoints object."""
    subsets = []
    for ports, pods in _by_pods(groups):
        staying = [pod for pod in pods if service.spec.publish_not_ready or not pod.leaving]
        rows: dict[str, list[Raw]] = {}
        for pod in staying:
            ready = pod_readiness.ready(pod) or service.spec.publish_not_ready
            address = {"ip": pod.status.pod_ip, "targetRef": _target(pod)}
            where = "addresses" if ready else "notReadyAddresses"
            rows.setdefault(where, []).append(_named(service, pod, address))
        if rows:
            listed = {"ports": [port.row(sliced=False) for port in ports]} if ports else {}
            subsets.append({**rows, **listed})
    meta = service.metadata
    labels = {**_labels(service), _ENDPOINTS_BY: "endpoint-controller"}
    return {
        "metadata": {"name": meta.name, "namespace": meta.namespace, "labels": labels},
        **({"subsets": subsets} if subsets else {}),
    }


def _by_pods(groups: dict[Ports, list[Pod]]) -> list[tuple[Ports, list[Pod]]]:
    """The groups turned around, as subsets are: the ports that the same pods have."""
    having: dict[Port, list[Pod]] = {}
    for ports, pods in groups.items():
        for port in ports:
            having.setdefault(port, []).extend(pods)
    found: dict[tuple[str, ...], tuple[Ports, list[Pod]]] = {}
    for port, pods in having.items():
        pods.sort(key=lambda one: one.metadata.name)
        who = tuple(pod.metadata.name for pod in pods)
        found[who] = ((*found.get(who, ((), pods))[0], port), pods)
    bare = [((), groups[()])] if () in groups else []
    return [*bare, *found.values()]


def slices(service: Service, groups: dict[Ports, list[Pod]]) -> list[Raw]:
    """The EndpointSlices, without names; a service without pods has an empty one."""
    return [
        _slice(service, ports, pods[at : at + _MOST])
        for ports, pods in (groups or {(): []}).items()
        for at in range(0, max(1, len(pods)), _MOST)
    ]


def _slice(service: Service, ports: Ports, pods: Sequence[Pod]) -> Raw:
    meta = service.metadata
    six = any(":" in pod.status.pod_ip for pod in pods)
    return {
        "metadata": {
            "namespace": meta.namespace,
            "labels": {**_labels(service), SERVICE_NAME: meta.name, MANAGED_BY: MANAGER},
            "ownerReferences": [owner_reference(SERVICES, meta)],
        },
        "addressType": "IPv6" if six else "IPv4",
        "endpoints": [_endpoint(service, pod) for pod in pods],
        "ports": [port.row(sliced=True) for port in ports],
    }


def _endpoint(service: Service, pod: Pod) -> Raw:
    serving = pod_readiness.ready(pod)
    conditions = {
        "ready": service.spec.publish_not_ready or (serving and not pod.leaving),
        "serving": serving,
        "terminating": pod.leaving,
    }
    found: Raw = {
        "addresses": [pod.status.pod_ip],
        "conditions": conditions,
        "targetRef": _target(pod),
    }
    return _named(service, pod, found)


def is_ours(found: Raw) -> bool:
    """Whether stored Endpoints are ours, and not somebody's own."""
    return _ENDPOINTS_BY in (found["metadata"].get("labels") or {})


def same(found: Raw, wanted: Raw) -> bool:
    """Whether a stored object already is as it should be."""
    fields = ("subsets", "endpoints", "ports", "addressType")
    labels = (found["metadata"].get("labels") or {}) == wanted["metadata"]["labels"]
    return labels and all((found.get(f) or []) == (wanted.get(f) or []) for f in fields)


def can_become(found: Raw, wanted: Raw) -> bool:
    """Whether a stored slice can become this one: families and ports do not change."""
    return all((found.get(f) or []) == (wanted.get(f) or []) for f in ("addressType", "ports"))
