"""The proxy between this process and the server, if there is one. No I/O.

The kubeconfig's `proxy-url` takes precedence over the environment. The rules for the environment
are those of kubectl (Go's httpproxy): `HTTPS_PROXY` or `HTTP_PROXY` by the scheme of the server,
never for loopback, with the exceptions of `NO_PROXY`. `ALL_PROXY` is used if neither is set.

Every request goes through a tunnel (CONNECT), so the proxy sees no token. A login in the URL of the
proxy is sent to the proxy only, and is in no message and no log.

Entries of NO_PROXY are separated by commas: `*` is every server; `10.0.0.0/8` a network;
`10.1.2.3` an address; `corp.example` a name and all names below it; `.corp.example` and
`*.corp.example` only the names below it. An address or a name may end in `:port`, and then matches
that port alone.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from kubekit.client.auth.endpoint import is_loopback
from kubekit.errors import ConfigError

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Mapping

    from kubekit.client.auth.endpoint import Endpoint

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address


_DEFAULT_PORTS = {"http": 80, "https": 443}


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy. `source` says where it is configured: `$HTTPS_PROXY`, `proxy-url of …`."""

    scheme: str
    host: str
    port: int
    source: str
    login: str = ""
    """`user:password`, empty if the URL has none."""

    def __repr__(self) -> str:
        return f"Proxy({self})"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port} ({self.source})"

    @property
    def authorization(self) -> str:
        """The header value of the login."""
        return f"Basic {base64.b64encode(self.login.encode()).decode()}" if self.login else ""


class ProxyError(ConnectionError):
    """The proxy cannot be reached, or refuses. The message is a whole sentence for the user."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def proxy_for(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy to the server of an endpoint; None for a direct connection."""
    if endpoint.proxy:
        return _parse(endpoint.proxy, f"proxy-url of context {endpoint.name}")
    server = urlsplit(endpoint.url)
    host = server.hostname or ""
    if is_loopback(host):
        return None
    for name in (f"{server.scheme}_proxy".upper(), "ALL_PROXY"):
        for variable in (name, name.lower()):
            if url := environ.get(variable):
                port = server.port or _DEFAULT_PORTS[server.scheme]
                exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
                if exceptions and is_exempt(host, port, exceptions):
                    return None
                return _parse(url if "://" in url else f"http://{url}", f"${variable}")
    return None


def connect_request(proxy: Proxy, host: str, port: int) -> bytes:
    """The request that opens a tunnel to a server."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", "User-Agent: muster"]
    if proxy.login:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join((*lines, "", "")).encode()


def refusal(proxy: Proxy, host: str, status: int) -> ProxyError:
    """The error of a proxy that answers a CONNECT with this status, which is not 200."""
    if status == 407 and proxy.login:
        return ProxyError(
            f"the proxy {proxy} does not accept the user and password of its URL (407)",
            f"Correct them in {proxy.source}; special characters are percent-encoded.",
        )
    if status == 407:
        return ProxyError(
            f"the proxy {proxy} asks for a user and password (407)",
            f"Write them into {proxy.source}: {proxy.scheme}://USER:PASSWORD@{proxy.host}:{proxy.port}",
        )
    return ProxyError(
        f"the proxy {proxy} refuses to connect to {host} ({status})",
        f"Its administrator can allow it. If {host} can be reached without, add it to NO_PROXY."
        if proxy.source.startswith("$")
        else "Its administrator can allow it.",
    )


def unreachable(proxy: Proxy, reason: str) -> ProxyError:
    """The error of a proxy that does not answer."""
    return ProxyError(
        f"cannot reach the proxy {proxy}: {reason}", f"Check {proxy.source} and the network."
    )


def _parse(url: str, source: str) -> Proxy:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError:
        # Without the cause: its text may quote the password, and Python prints causes.
        raise ConfigError(f"{source}: is not a URL; percent-encode the password") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        # Never the URL itself: it may hold a password.
        scheme = f"{parts.scheme}://… " if parts.scheme else ""
        raise ConfigError(
            f"{source}: {scheme}is not an http or https proxy",
            hint="Write it as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT.",
        )
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return Proxy(parts.scheme, parts.hostname, port, source, login)


def is_exempt(host: str, port: int, exceptions: str) -> bool:
    """Whether the server is reached without a proxy."""
    name = host.lower().rstrip(".")
    address = _address(name)
    rules = (part.strip().lower() for part in exceptions.split(","))
    return any(_matches(rule, name, address, port) for rule in rules if rule)


def _matches(rule: str, name: str, address: Address | None, port: int) -> bool:
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
        return False  # an address has no suffixes
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


def _in_network(address: Address, rule: str) -> bool:
    import ipaddress

    try:
        return address in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False  # as kubectl, an entry that makes no sense matches nothing


def _address(text: str) -> Address | None:
    import ipaddress  # only where NO_PROXY is set

    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
