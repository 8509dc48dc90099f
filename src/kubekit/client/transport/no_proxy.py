"""NO_PROXY: the servers that are reached without the environment's proxy. No I/O.

The rules are those of Go's httpproxy, and so of kubectl. Entries are separated by commas:
`*` is every server; `10.0.0.0/8` a network; `10.1.2.3` an address; `corp.example` a name and all
names below it; `.corp.example` and `*.corp.example` only the names below it. An address or a name
may end in `:port`, and then matches that port alone.
"""

from __future__ import annotations

import ipaddress


def is_exempt(host: str, port: int, exceptions: str) -> bool:
    """Whether the server is reached without a proxy."""
    name = host.lower().rstrip(".")
    address = _address(name)
    rules = (part.strip().lower() for part in exceptions.split(","))
    return any(_matches(rule, name, address, port) for rule in rules if rule)


def _matches(
    rule: str,
    name: str,
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None,
    port: int,
) -> bool:
    if rule == "*":
        return True
    if "/" in rule:
        return address is not None and _in_network(address, rule)
    rule_name, rule_port = _split_port(rule)
    if rule_port and rule_port != str(port):
        return False
    if (rule_address := _address(rule_name)) is not None:
        return rule_address == address
    if address is not None:
        return False  # `.2.3` is no suffix of an address
    rule_name = rule_name.removeprefix("*").rstrip(".")
    if rule_name.startswith("."):
        return name.endswith(rule_name)
    return name == rule_name or name.endswith(f".{rule_name}")


def _split_port(rule: str) -> tuple[str, str]:
    """The name or address of a rule, and its port or nothing."""
    if rule.startswith("["):  # [fd00::1]:6443
        inner, _, rest = rule[1:].partition("]")
        return inner, rest.removeprefix(":")
    if rule.count(":") == 1:
        before, _, after = rule.partition(":")
        return before, after
    return rule, ""  # a name, or a bare IPv6 address


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, rule: str) -> bool:
    try:
        return address in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False  # as kubectl, an entry that makes no sense matches nothing


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
