"""The proxy between this process and the server, if there is one.

The kubeconfig's proxy takes precedence over the environment's. As in kubectl, the environment's
proxy is never used for loopback, and NO_PROXY lists hosts, domains, networks or `*`.
"""

from __future__ import annotations

import base64
import ipaddress
import os
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from muster.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.kube.auth.endpoint import Endpoint


def proxy_for(endpoint: Endpoint, environ: Mapping[str, str] = os.environ) -> str:
    """The URL of the proxy; empty if there is none."""
    if endpoint.proxy:
        return _usable(endpoint.proxy, f"proxy-url of context {endpoint.name}")
    server = urlsplit(endpoint.url)
    variable = f"{server.scheme}_proxy"
    proxy = environ.get(variable) or environ.get(variable.upper()) or ""
    exceptions = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if not proxy or _exempt(server.hostname or "", exceptions):
        return ""
    return _usable(proxy if "://" in proxy else f"http://{proxy}", f"${variable.upper()}")


def connect_request(proxy: str, host: str, port: int) -> bytes:
    """The request that opens a tunnel to a server."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    parts = urlsplit(proxy)
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login).decode()}")
    return "\r\n".join((*lines, "", "")).encode()


def _usable(proxy: str, where: str) -> str:
    parts = urlsplit(proxy)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{where}: {proxy!r} is not an http(s) proxy")
    return proxy


def _exempt(host: str, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for rule in filter(None, (part.strip().lower() for part in exceptions.split(","))):
        if rule in ("*", host) or host.endswith(f".{rule.lstrip('.')}"):
            return True
        if address is not None and "/" in rule and address in _network(rule):
            return True
    return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(rule: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return ipaddress.ip_network("255.255.255.255/32")  # contains no server
