"""The Endpoints and EndpointSlices of a service: pure.

A pod is an endpoint from when it has an address until it has ended. Named ports are looked up in
each pod, so pods of one service may differ in their ports. Both forms group by that: a slice has
the pods that share all ports, a subset of Endpoints has the ports that share all pods.

Only slices lead anywhere, so Endpoints that somebody wrote by hand, for a service without a
selector, are copied to slices: one for each set of ports and each family of addresses.

"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kubekit.objects.core import Service, ServicePort, port_number
from kubekit.objects.kinds import SERVICES, Kind
from localkube.controllers import workloads
from localkube.controllers.workloads import Pod, owner_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kubekit.objects.meta import ObjectMeta, Raw

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
_ENDPOINTS_BY = "endpoints.kubernetes.io/managed-by"
_HEADLESS = "service.kubernetes.io/headless"
_MAX_ENDPOINTS = 100
"""Per slice, as kube-controller-manager has it by default."""


class Port(NamedTuple):
    """A port of a service with its number in one pod."""

    name: str
    number: int
    protocol: str
    app_protocol: str | None

    def manifest(self, *, in_slice: bool) -> Raw:
        manifest: Raw = {"port": self.number, "protocol": self.protocol}
        if self.name or in_slice:
            manifest["name"] = self.name
        if self.app_protocol is not None:
            manifest["appProtocol"] = self.app_protocol
        return manifest


Ports = tuple[Port, ...]


def selects(service: Service) -> bool:
    """Whether its endpoints are computed from pods."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def pods_by_ports(service: Service, pods: Iterable[Pod]) -> dict[Ports, list[Pod]]:
    """The service's pods grouped by their ports; terminating pods are included."""
    selector = service.spec.selector.items()
    groups: dict[Ports, list[Pod]] = {}
    for pod in sorted(pods, key=_name):
        # The plain runtime's pods have the loopback address; no Endpoints object may contain it.
        reachable = pod.status.pod_ip and not pod.status.pod_ip.startswith("127.")
        if pod.finished or not reachable or not selector <= pod.metadata.labels.items():
            continue
        ports = tuple(
            Port(port.name, number, port.protocol, port.app_protocol)
            for port in service.spec.ports
            if (number := _number(port, pod))
        )
        if ports or not service.spec.ports:
            groups.setdefault(ports, []).append(pod)
    return groups


def _name(pod: Pod) -> str:
    return pod.metadata.name


def _number(port: ServicePort, pod: Pod) -> int | None:
    """The port's number in this pod; None if no container has a port of its name."""
    return port_number(port.target_port or port.port, pod.spec.containers, port.protocol)


def _labels(service: Service) -> dict[str, str]:
    headless = {_HEADLESS: ""} if service.spec.cluster_ip == "None" else {}
    return {**service.metadata.labels, **headless}


def _target(pod: Pod) -> Raw:
    meta = pod.metadata
    return {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}


def _with_names(service: Service, pod: Pod, address: Raw) -> Raw:
    """The address with the pod's host name in the service, if it has one, and its node."""
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        address["hostname"] = pod.spec.hostname
    if pod.spec.node_name:
        address["nodeName"] = pod.spec.node_name
    return address


def endpoints(service: Service, groups: dict[Ports, list[Pod]]) -> Raw:
    """The Endpoints object."""
    publish_all = service.spec.publish_not_ready_addresses
    subsets = []
    for ports, pods in _by_pods(groups):
        subset: dict[str, list[Raw]] = {}
        for pod in pods:
            # Endpoints cannot mark a pod as terminating, so it is left out; slices list it.
            if pod.terminating and not publish_all:
                continue
            ready = workloads.ready(pod) or publish_all
            address = {"ip": pod.status.pod_ip, "targetRef": _target(pod)}
            field = "addresses" if ready else "notReadyAddresses"
            subset.setdefault(field, []).append(_with_names(service, pod, address))
        if subset and ports:
            subset["ports"] = [port.manifest(in_slice=False) for port in ports]
        if subset:
            subsets.append(subset)
    meta = service.metadata
    labels = {**_labels(service), _ENDPOINTS_BY: "endpoint-controller"}
    return {
        "metadata": {"name": meta.name, "namespace": meta.namespace, "labels": labels},
        **({"subsets": subsets} if subsets else {}),
    }


def _by_pods(groups: dict[Ports, list[Pod]]) -> list[tuple[Ports, list[Pod]]]:
    """The groups inverted, as subsets are: all ports that the same pods have."""
    by_port: dict[Port, list[Pod]] = {}
    for ports, pods in groups.items():
        for port in ports:
            by_port.setdefault(port, []).extend(pods)
    by_names: dict[tuple[str, ...], tuple[Ports, list[Pod]]] = {}
    for port, pods in by_port.items():
        pods.sort(key=_name)
        names = tuple(map(_name, pods))
        by_names[names] = ((*by_names.get(names, ((), pods))[0], port), pods)
    without_ports = [((), groups[()])] if () in groups else []
    return [*without_ports, *by_names.values()]


def slices(service: Service, groups: dict[Ports, list[Pod]]) -> list[Raw]:
    """The EndpointSlices, without names; a service without pods has one empty slice."""
    return [
        _slice(service, ports, pods[at : at + _MAX_ENDPOINTS])
        for ports, pods in (groups or {(): []}).items()
        for at in range(0, max(1, len(pods)), _MAX_ENDPOINTS)
    ]


def _slice(service: Service, ports: Ports, pods: Sequence[Pod]) -> Raw:
    meta = service.metadata
    ipv6 = any(":" in pod.status.pod_ip for pod in pods)
    return {
        "metadata": {
            "namespace": meta.namespace,
            "labels": {**_labels(service), SERVICE_NAME: meta.name, MANAGED_BY: MANAGER},
            "ownerReferences": [owner_reference(SERVICES, meta)],
        },
        "addressType": "IPv6" if ipv6 else "IPv4",
        "endpoints": [_endpoint(service, pod) for pod in pods],
        "ports": [port.manifest(in_slice=True) for port in ports],
    }


def _endpoint(service: Service, pod: Pod) -> Raw:
    serving = workloads.ready(pod)
    conditions = {
        "ready": service.spec.publish_not_ready_addresses or (serving and not pod.terminating),
        "serving": serving,
        "terminating": pod.terminating,
    }
    endpoint: Raw = {
        "addresses": [pod.status.pod_ip],
        "conditions": conditions,
        "targetRef": _target(pod),
    }
    return _with_names(service, pod, endpoint)


def is_ours(stored: Raw) -> bool:
    """Whether this controller wrote these Endpoints."""
    return _ENDPOINTS_BY in (stored["metadata"].get("labels") or {})


def same(stored: Raw, desired: Raw) -> bool:
    """Whether a stored object needs no update."""
    described = all(
        (stored["metadata"].get(f) or {}) == desired["metadata"][f]
        for f in ("labels", "annotations")
        if f in desired["metadata"]
    )
    return described and _equal(stored, desired, "subsets", "endpoints", "ports", "addressType")


def can_become(stored: Raw, desired: Raw) -> bool:
    """Whether a stored slice can be updated to this one: its family and ports are immutable."""
    return _equal(stored, desired, "addressType", "ports")


def _equal(stored: Raw, desired: Raw, *fields: str) -> bool:
    return all((stored.get(field) or []) == (desired.get(field) or []) for field in fields)


MIRRORING_MANAGER = "endpointslicemirroring-controller.k8s.io"
_SKIP = "endpointslice.kubernetes.io/skip-mirror"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED = (
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
)
_MAX_MIRRORED = 1000
"""Per subset; the controller of a real cluster mirrors no more."""


def is_mirrored(endpoints: Raw, service: Service | None) -> bool:
    """Whether these Endpoints have mirrors: their service exists and selects no pods."""
    meta = endpoints["metadata"]
    return (
        service is not None
        and not service.spec.selector
        and (meta.get("labels") or {}).get(_SKIP) != "true"
        and _LEADER not in (meta.get("annotations") or {})
        and "deletionTimestamp" not in meta
    )


def mirrors(endpoints: Raw, kind: Kind[Raw], meta: ObjectMeta) -> list[Raw]:
    """The slices of Endpoints, without names."""
    slices: dict[tuple[object, ...], Raw] = {}
    labels = endpoints["metadata"].get("labels") or {}
    annotations = endpoints["metadata"].get("annotations") or {}
    for subset in endpoints.get("subsets") or ():
        ports = [{"name": "", **port} for port in subset.get("ports") or ()]
        for family, endpoint in _endpoints_of(subset):
            identity = (family, *(tuple(sorted(port.items())) for port in ports))
            mirror = slices.setdefault(
                identity,
                {
                    "metadata": {
                        "namespace": meta.namespace,
                        "generateName": "",  # an update removes it, as on a real cluster
                        "labels": {
                            **labels,
                            SERVICE_NAME: meta.name,
                            MANAGED_BY: MIRRORING_MANAGER,
                        },
                        "annotations": {
                            k: v for k, v in annotations.items() if k not in _NOT_COPIED
                        },
                        "ownerReferences": [owner_reference(kind, meta)],
                    },
                    "addressType": family,
                    "endpoints": [],
                    "ports": ports,
                },
            )
            mirror["endpoints"].append(endpoint)
    return list(slices.values())


def _endpoints_of(subset: Raw) -> Iterator[tuple[str, Raw]]:
    """The family of each address, and the address as an endpoint of a slice."""
    rows = [(row, True) for row in subset.get("addresses") or ()]
    rows += [(row, False) for row in subset.get("notReadyAddresses") or ()]
    for row, ready in rows[:_MAX_MIRRORED]:
        named = {k: row[k] for k in ("hostname", "nodeName", "targetRef") if row.get(k)}
        endpoint = {"addresses": [row["ip"]], "conditions": {"ready": ready}, **named}
        yield "IPv6" if ":" in row["ip"] else "IPv4", endpoint
