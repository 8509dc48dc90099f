"""NetworkPolicy: defaults, checks, columns.

It is stored for tools that bring it along. Nothing enforces it: pods of the local cluster reach
each other whatever a policy says, and every writer of a policy is warned of that.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from localkube.apiserver.api_errors import (
    Causes,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from localkube.apiserver.kinds import fields
from localkube.apiserver.kinds.pods.pod_template import selector_text
from localkube.apiserver.resource import Resource, Strategy
from localkube.apiserver.views import cells

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw

WARNING = (
    "the local cluster stores NetworkPolicies and does not enforce them: all connections stay"
    " allowed"
)
_TYPES = ("Ingress", "Egress")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_CIDR_RULE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def _defaults(policy: Raw) -> None:
    spec = fields.ensure_map(policy, "spec")
    fields.ensure_map(spec, "podSelector")
    for direction, _ in _DIRECTIONS:
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                fields.fill(port, protocol="TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _check(policy: Raw) -> Causes:
    spec = policy["spec"]
    yield from fields.check_label_selector(spec["podSelector"], "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for path, rule in fields.each(spec, "spec", direction):
            for where, port in fields.each(rule, path, "ports"):
                yield from _check_port(port, where)
            for where, peer in fields.each(rule, path, peers):
                yield from _check_peer(peer, where)
    types = spec["policyTypes"]
    if len(types) > len(_TYPES):
        yield invalid_value("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for path, kind in fields.each(spec, "spec", "policyTypes"):
        if kind not in _TYPES:
            yield not_supported(path, kind, _TYPES)


def _check_port(port: Raw, path: str) -> Causes:
    if port["protocol"] not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if number is not None:
        yield from fields.check_port(number, f"{path}.port")
    if end is None:
        return
    if number is None:
        yield invalid_value(
            f"{path}.endPort", end, "may not be specified when `port` is not specified"
        )
    elif isinstance(number, str):
        yield invalid_value(
            f"{path}.endPort", end, "may not be specified when `port` is non-numeric"
        )
    elif end < number:
        yield invalid_value(f"{path}.endPort", number, "must be greater than or equal to `port`")
    else:
        yield from fields.check_port_number(end, f"{path}.endPort")


def _check_peer(peer: Raw, path: str) -> Causes:
    selectors = [
        name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None
    ]
    for name in selectors:
        yield from fields.check_label_selector(peer[name], f"{path}.{name}")
    if peer.get("ipBlock") is not None:
        yield from _check_block(peer["ipBlock"], f"{path}.ipBlock")
        if selectors:
            yield forbidden_field(path, "may not specify both ipBlock and another peer")
    elif not selectors:
        yield required(path, "must specify a peer")


def _check_block(block: Raw, path: str) -> Causes:
    if not block.get("cidr"):
        yield required(f"{path}.cidr")
        return
    problems = list(_check_network(block["cidr"], f"{path}.cidr"))
    yield from problems
    for where, part in fields.each(block, path, "except"):
        wrong = list(_check_network(part, where))
        yield from wrong
        if not wrong and not problems and not _is_within(part, block["cidr"]):
            yield invalid_value(where, part, "must be a strict subset of `cidr`")


def _check_network(text: str, path: str) -> Causes:
    try:
        network = ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        network = None
    if network is None:
        yield invalid_value(path, text, _CIDR_RULE)
    elif str(network.network_address) != str(ipaddress.ip_address(text.partition("/")[0])):
        yield invalid_value(path, text, "must not have bits set beyond the prefix length")


def _is_within(part: str, whole: str) -> bool:
    inner, outer = ipaddress.ip_network(part), ipaddress.ip_network(whole)
    if isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network):
        return inner != outer and inner.subnet_of(outer)
    if isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network):
        return inner != outer and inner.subnet_of(outer)
    return False


NETWORK_POLICIES = Resource(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",),
    strategy=Strategy(
        defaults=_defaults,
        check=_check,
        warnings=lambda policy: (WARNING,),
        generation="spec",
        columns=cells.NAME | {
            "Pod-Selector": lambda policy, now: selector_text(
                cells.fields(policy, "spec.podSelector")
            ),
        } | cells.AGE,
    ),
)  # fmt: skip
