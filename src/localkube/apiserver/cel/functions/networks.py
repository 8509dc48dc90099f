"""Functions of Kubernetes for URLs, IP addresses and CIDR notation.

An address, a network or a URL is a map with one key; equal ones are equal maps.
"""

from __future__ import annotations

import re
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

    from localkube.apiserver.cel.functions.signatures import Implementation

Value = dict[str, str]
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


# -- URLs ----------------------------------------------------------------------------------------


def _url(text: str) -> Value:
    if problem := url_problem(text):
        raise ValueError(f"URL parse error during conversion from string: {problem}")
    return {"url": text}


def url_problem(text: str) -> str:
    """Why a text is no URL; empty if it is one."""
    if not text:
        return 'parse "": empty url'
    if _CONTROL.search(text):
        return f'parse "{text}": net/url: invalid control character in URL'
    if not text.startswith("/") and not _SCHEME.match(text):
        return f'parse "{text}": invalid URI for request'
    try:
        parts = urlsplit(text, allow_fragments=False)
        _ = parts.port
    except ValueError as error:
        return f'parse "{text}": {error}'
    return f'parse "{text}": invalid character " " in host name' if " " in parts.netloc else ""


def _parts(url: Value) -> SplitResult:
    return urlsplit(url["url"], allow_fragments=False)


def _host(url: Value) -> str:
    return _parts(url).netloc.rpartition("@")[2]


def _hostname(url: Value) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: Value) -> str:
    return _host(url).rpartition("]")[2].partition(":")[2]


def _escaped_path(url: Value) -> str:
    return quote(_parts(url).path, safe="/%:@!$&'()*+,;=~-._")


def _query(url: Value) -> dict[str, list[str]]:
    return parse_qs(_parts(url).query, keep_blank_values=True)


# -- addresses -----------------------------------------------------------------------------------


def _address(text: str) -> IPv4Address | IPv6Address:
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.scope_id:
        raise ValueError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _ip(text: str) -> Value:
    try:
        return {"ip": str(_address(text))}
    except ValueError as error:
        raise ValueError(f"IP Address {text!r} parse error during conversion from string: {error}"
                         ) from error  # fmt: skip


def _is(question: str) -> Callable[[Value], bool]:
    """A question about an address, by the name of a property of Python's."""
    return lambda ip: bool(getattr(ip_address(ip["ip"]), question))


def _is_link_local_multicast(ip: Value) -> bool:
    address = ip_address(ip["ip"])
    if isinstance(address, IPv4Address):
        return address in IPv4Interface("224.0.0.0/24").network
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(ip: Value) -> bool:
    address = ip_address(ip["ip"])
    other = address.is_unspecified or address.is_loopback or address.is_multicast
    return not (other or address.is_link_local or ip["ip"] == "255.255.255.255")


# -- networks ------------------------------------------------------------------------------------


def _interface(text: str) -> IPv4Interface | IPv6Interface:
    address, slash, length = text.partition("/")
    if not slash or not length.isdecimal():
        raise ValueError(f'network address parse error during conversion from string: "{text}"')
    _address(address)
    return ip_interface(text)


def _cidr(text: str) -> Value:
    return {"cidr": str(_interface(text))}


def _contains_ip(cidr: Value, ip: str | Value) -> bool:
    address = _address(ip) if isinstance(ip, str) else ip_address(ip["ip"])
    return address in ip_interface(cidr["cidr"]).network


def _contains_cidr(cidr: Value, other: str | Value) -> bool:
    inner = _interface(other) if isinstance(other, str) else ip_interface(other["cidr"])
    outer = ip_interface(cidr["cidr"])
    longer = inner.network.prefixlen >= outer.network.prefixlen
    return longer and inner.network.network_address in outer.network


def _can(call: Callable[[str], Any]) -> Callable[[str], bool]:
    """Whether a text can be converted."""

    def converts(text: str) -> bool:
        try:
            call(text)
        except ValueError:
            return False
        return True

    return converts


FUNCTIONS: dict[str, Implementation] = {
    "url(string) -> URL": _url,
    "isURL(string) -> bool": _can(_url),
    "URL.getScheme() -> string": lambda url: _parts(url).scheme,
    "URL.getHost() -> string": _host,
    "URL.getHostname() -> string": _hostname,
    "URL.getPort() -> string": _port,
    "URL.getEscapedPath() -> string": _escaped_path,
    "URL.getQuery() -> map(string, list(string))": _query,
    "ip(string) -> IP": _ip,
    "isIP(string) -> bool": _can(_ip),
    "ip.isCanonical(string) -> bool": lambda text: str(_address(text)) == text,
    "IP.family() -> int": lambda ip: ip_address(ip["ip"]).version,
    "IP.isUnspecified() -> bool": _is("is_unspecified"),
    "IP.isLoopback() -> bool": _is("is_loopback"),
    "IP.isLinkLocalMulticast() -> bool": _is_link_local_multicast,
    "IP.isLinkLocalUnicast() -> bool": _is("is_link_local"),
    "IP.isGlobalUnicast() -> bool": _is_global_unicast,
    "cidr(string) -> CIDR": _cidr,
    "isCIDR(string) -> bool": _can(_cidr),
    "CIDR.containsIP(string) -> bool": _contains_ip,
    "CIDR.containsIP(IP) -> bool": _contains_ip,
    "CIDR.containsCIDR(string) -> bool": _contains_cidr,
    "CIDR.containsCIDR(CIDR) -> bool": _contains_cidr,
    "CIDR.ip() -> IP": lambda cidr: {"ip": str(ip_interface(cidr["cidr"]).ip)},
    "CIDR.prefixLength() -> int": lambda cidr: ip_interface(cidr["cidr"]).network.prefixlen,
    "CIDR.masked() -> CIDR": lambda cidr: {"cidr": str(ip_interface(cidr["cidr"]).network)},
}
