"""Service, Endpoints and EndpointSlice: defaults, checks, what an update keeps, columns.

A client that changes only the type of a service need not know which other fields belong to the old
type, so an update drops them. Addresses and node ports are in `service_addresses`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.quantity import whole_amount
from localkube.apiserver import causes, codec, rules
from localkube.apiserver.admission import names
from localkube.apiserver.kinds import field_rules, service_addresses
from localkube.apiserver.kinds.field_rules import ensure_map, fill
from localkube.apiserver.kinds.pod_resources import ONE
from localkube.apiserver.kinds.service_addresses import HEADLESS, TYPES
from localkube.apiserver.resource import STATUS, Resource
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from datetime import datetime
    from ipaddress import IPv4Network

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.kinds.pod_resources import Charge
    from localkube.apiserver.store.collection import ObjectReader


_CHOICES = {
    "sessionAffinity": ("ClientIP", "None"),
    "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "internalTrafficPolicy": ("Cluster", "Local"),
}
_AFFINITY_SECONDS, _MAX_AFFINITY_SECONDS = 3 * 3600, 86400
_ADDRESS_FIELDS = (
    "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy",
)  # fmt: skip
_EXTERNAL_FIELDS = ("externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts")
_BALANCED_ONLY = "may only be used when `type` is 'LoadBalancer'"
_HEALTH_PORT = (
    "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
)


# -- defaults and updates ------------------------------------------------------------------------


def _complete_service(service: Raw) -> None:
    spec = fill(ensure_map(service, "spec"), type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        fill(spec, internalTrafficPolicy="Cluster")
    if spec["type"] in TYPES:
        fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill(spec, allocateLoadBalancerNodePorts=True)
    if spec["sessionAffinity"] == "ClientIP":
        client = ensure_map(ensure_map(spec, "sessionAffinityConfig"), "clientIP")
        fill(client, timeoutSeconds=_AFFINITY_SECONDS)
    else:
        spec.pop("sessionAffinityConfig", None)
    for port in spec.get("ports") or ():
        field_rules.fill_zeros(port, protocol="TCP", targetPort=port.get("port"))
    fill(service, status={"loadBalancer": {}})


def _prepare_update(new: Raw, old: Raw) -> None:
    """Keep the addresses of the service, and drop the fields that its new type does not have."""
    spec, before = new.get("spec") or {}, old["spec"]
    # Clients that send an old manifest leave out addresses that the server allocated.
    external_name = spec.get("type") == "ExternalName"
    if not external_name and not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
        spec["clusterIPs"] = spec.get("clusterIPs") or list(before.get("clusterIPs") or ())
    elif not external_name and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
    dropped: tuple[str, ...] = ()
    if external_name and before["type"] != "ExternalName":
        dropped = _ADDRESS_FIELDS
    if spec.get("type") not in TYPES and before["type"] in TYPES:
        dropped += _EXTERNAL_FIELDS
    for name in dropped:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _check_update(new: Raw, old: Raw) -> Causes:
    """The cause for an address that changes: clients of the service may have it."""
    spec, before = new["spec"], old["spec"]
    has_address = "ExternalName" not in (spec["type"], before["type"]) and before.get("clusterIP")
    if has_address and spec.get("clusterIP") != before["clusterIP"]:
        yield causes.invalid(
            "spec.clusterIPs[0]", spec.get("clusterIPs"), "may not change once set"
        )


# -- checks --------------------------------------------------------------------------------------


def _check_service(service: Raw) -> Causes:
    spec = service["spec"]
    ports, type_ = spec.get("ports") or [], spec.get("type")
    if not ports and type_ != "ExternalName" and spec.get("clusterIP") != "None":
        yield causes.required("spec.ports")
    yield from (_check_external_name if type_ == "ExternalName" else service_addresses.check)(spec)
    if type_ in TYPES and spec.get("clusterIP") == HEADLESS:
        detail = f"may not be set to 'None' for {type_} services"
        yield causes.invalid("spec.clusterIPs[0]", HEADLESS, detail)
    yield from names.check_labels(spec.get("selector") or {}, "spec.selector")
    for field, allowed in _CHOICES.items():
        yield from field_rules.one_of(spec, field, allowed, "spec")
    port_names: set[str] = set()
    used: set[tuple[object, object]] = set()
    for path, port in field_rules.each(spec, "spec", "ports"):
        yield from _check_port(port, path, port_names, alone=len(ports) == 1)
        if port.get("targetPort"):
            yield from field_rules.check_port(port["targetPort"], f"{path}.targetPort")
        identity = (port.get("port"), port.get("protocol"))
        if identity in used:
            yield causes.duplicate(path, _go_port(port))
        used.add(identity)
    yield from _check_external(spec)
    path = "sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = codec.at(spec, path)
    if seconds is not None and not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
        yield causes.invalid(f"spec.{path}", seconds, detail)


def _check_external_name(spec: Raw) -> Causes:
    name = {"externalName": str(spec.get("externalName") or "").rstrip(".")}
    yield from field_rules.check_name(name, "spec", names.check_subdomain, "externalName")
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        yield causes.forbidden("spec.clusterIPs", "may not be set for ExternalName services")


def _check_external(spec: Raw) -> Causes:
    """Fields that only services reached from outside have."""
    for path, address in field_rules.each(spec, "spec", "externalIPs"):
        problems = list(field_rules.check_address(address, path))
        yield from problems or field_rules.check_reachable(address, path)
    type_, policy = spec.get("type"), spec.get("externalTrafficPolicy")
    if type_ != "LoadBalancer" and spec.get("loadBalancerSourceRanges"):
        yield causes.forbidden("spec.LoadBalancerSourceRanges", _BALANCED_ONLY)
    if policy and type_ not in TYPES and not spec.get("externalIPs"):
        detail = "may only be set for externally-accessible services"
        yield causes.invalid("spec.externalTrafficPolicy", policy, detail)
    port = spec.get("healthCheckNodePort")
    if port and (type_, policy) != ("LoadBalancer", "Local"):
        yield causes.invalid("spec.healthCheckNodePort", port, _HEALTH_PORT)


def _check_port(port: Raw, path: str, port_names: set[str], *, alone: bool) -> Causes:
    name = str(port.get("name") or "")
    if name or not alone:
        yield from field_rules.check_name(port, path, names.check_label)
    if name in port_names:
        yield causes.duplicate(f"{path}.name", name)
    port_names |= {name} - {""}
    yield from field_rules.check_port_number(port.get("port") or 0, f"{path}.port")
    yield from field_rules.one_of(port, "protocol", field_rules.PROTOCOLS, path)


def _go_port(port: Raw) -> Raw:
    """A port as the real server prints it in a cause: the fields of its Go struct."""
    shown = {"Name": "", "Protocol": port.get("protocol"), "AppProtocol": None}
    return shown | {"Port": port.get("port"), "TargetPort": 0, "NodePort": 0}


# -- quota and columns ---------------------------------------------------------------------------


def _charge(service: Raw) -> Charge:
    spec = service.get("spec") or {}
    used = {"services": ONE}
    balanced = spec.get("type") == "LoadBalancer"
    if balanced:
        used["services.loadbalancers"] = ONE
    if spec.get("type") == "NodePort" or (
        balanced and spec.get("allocateLoadBalancerNodePorts") is not False
    ):
        used["services.nodeports"] = whole_amount(len(spec.get("ports") or ()))
    return used


def _ports(service: Raw, now: datetime) -> str:
    ports = []
    for port in cells.rows(service, "spec.ports"):
        node = f":{port['nodePort']}" if cells.number(port, "nodePort") else ""
        ports.append(f"{cells.number(port, 'port')}{node}/{cells.text(port, 'protocol', 'TCP')}")
    return ",".join(ports) or cells.NONE


def _external_address(service: Raw, now: datetime) -> str:
    type_, addresses = codec.at(service, "spec.type"), cells.words(service, "spec.externalIPs")
    if type_ == "ExternalName":
        return cells.text(service, "spec.externalName", cells.NONE)
    if type_ == "LoadBalancer":
        ingress = cells.rows(service, "status.loadBalancer.ingress")
        balanced = [cells.text(i, "ip") or cells.text(i, "hostname") for i in ingress]
        return ",".join(balanced + addresses) or "<pending>"
    return ",".join(addresses) or cells.NONE


def services(service_range: IPv4Network) -> Resource:
    """The resource of services that get addresses of this range."""

    def admit_create(service: Raw, store: ObjectReader, now: datetime) -> None:
        service_addresses.allocate(service, store, service_range)
        service_addresses.admit_create(service, store, now)

    def admit_update(new: Raw, old: Raw, store: ObjectReader, now: datetime) -> None:
        if new["spec"].get("clusterIPs") != old["spec"].get("clusterIPs") or (
            not new["spec"].get("clusterIP")
        ):
            service_addresses.allocate(new, store, service_range)
        service_addresses.admit_update(new, old, store, now)

    return Resource(
        "", "v1", "services", "Service", short=("svc",), categories=("all",),
        subresources=STATUS | {"proxy"}, fields=("spec.clusterIP", "spec.type"),
        create_on_update=True,
        strategy=rules.Strategy(
            completion=rules.Completion(
                prepare_update=_prepare_update,
                defaults=_complete_service,
                finish_create=lambda new, now: service_addresses.complete(new["spec"], {}),
                finish_update=lambda new, old, _: service_addresses.complete(
                    new["spec"], old["spec"]
                ),
            ),
            checks=rules.Checks(
                always=_check_service, name=names.check_label, update=_check_update
            ),
            admission=rules.Admission(admit_create, admit_update),
            deletion=rules.Deletion(answer="object"),
            quota=rules.Quota(charge=_charge),
            table=rules.Table(cells.NAME | {
                "Type": cells.text_at("spec.type", "ClusterIP"),
                "Cluster-IP": cells.text_at("spec.clusterIP", cells.NONE),
                "External-IP": _external_address,
                "Port(s)": _ports,
            } | cells.AGE | {"Selector+": cells.pairs_at("spec.selector")}),
        ),
    )  # fmt: skip


SERVICES = services(service_addresses.DEFAULT_RANGE)


# -- Endpoints -----------------------------------------------------------------------------------

_SIDES = ("addresses", "notReadyAddresses")


def _complete_endpoints(endpoints: Raw) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            fill(port, protocol="TCP")


def _check_endpoints(endpoints: Raw) -> Causes:
    for path, subset in field_rules.each(endpoints, "", "subsets"):
        if not any(subset.get(side) for side in _SIDES):
            yield causes.required(path, "must specify `addresses` or `notReadyAddresses`")
        for side in _SIDES:
            for where, address in field_rules.each(subset, path, side):
                yield from _check_address(address, where)
        for where, port in field_rules.each(subset, path, "ports"):
            yield from _check_port(port, where, set(), alone=len(subset["ports"]) == 1)


def _check_address(address: Raw, path: str) -> Causes:
    ip = str(address.get("ip") or "")
    yield from field_rules.check_address(ip, f"{path}.ip")
    if address.get("hostname"):
        yield from field_rules.check_name(address, path, names.check_label, "hostname")
    if field_rules.is_address(ip):
        yield from field_rules.check_reachable(ip, f"{path}.ip")
    else:
        yield causes.invalid(f"{path}.ip", ip, field_rules.IP_RULE)


def _addresses(endpoints: Raw, now: datetime) -> str:
    addresses = [
        cells.text(address, "ip") + (f":{cells.number(port, 'port')}" if port else "")
        for subset in cells.rows(endpoints, "subsets")
        for address in cells.rows(subset, "addresses")
        for port in cells.rows(subset, "ports") or ({},)
    ]
    return _first_three(addresses) or cells.NONE


def _first_three(items: list[str]) -> str:
    more = f" + {len(items) - 3} more..." if len(items) > 3 else ""
    return ",".join(items[:3]) + more


ENDPOINTS = Resource(
    "", "v1", "endpoints", "Endpoints", singular="endpoints", short=("ep",), create_on_update=True,
    deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=_complete_endpoints),
        checks=rules.Checks(always=_check_endpoints),
        table=rules.Table(cells.NAME | {"Endpoints": _addresses} | cells.AGE),
    ),
)  # fmt: skip


# -- EndpointSlice -------------------------------------------------------------------------------


def _complete_slice(endpoints: Raw) -> None:
    for port in endpoints.get("ports") or ():
        fill(port, protocol="TCP", name="")


def _slice_ports(endpoints: Raw, now: datetime) -> str:
    ports = [str(cells.number(p, "port")) for p in cells.rows(endpoints, "ports") if "port" in p]
    return _first_three(ports) or cells.UNSET


def _slice_addresses(endpoints: Raw, now: datetime) -> str:
    rows = cells.rows(endpoints, "endpoints")
    addresses = [address for row in rows for address in cells.words(row, "addresses")]
    return _first_three(addresses) or cells.UNSET


ENDPOINT_SLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice",
    strategy=rules.Strategy(
        completion=rules.Completion(defaults=_complete_slice),
        checks=rules.Checks(immutable=("addressType",)),
        generation="spec",
        generation_metadata="labels",
        table=rules.Table(cells.NAME | {
            "AddressType": cells.text_at("addressType"),
            "Ports": _slice_ports,
            "Endpoints": _slice_addresses,
        } | cells.AGE),
    ),
)  # fmt: skip
