"""The user of a request: found at the gate, and the owner of live objects and streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from kubekit.client.auth.endpoint import Endpoint


@dataclass(frozen=True)
class Identity:
    """The user of one request."""

    user: str
    """Different for every token and choice of namespaces; empty for the owner on loopback."""
    endpoint: Endpoint
    """The cluster, with the credentials to use for this user."""
    secret: str
    """The session or the bearer token; never shown."""
    csrf: str
    name: str = ""
    """As the cluster calls the user; empty for the owner on loopback."""
    namespaces: tuple[str, ...] = ()
    """Namespaces that the user has named at the sign-in."""
    owner: str = ""
    """The same for all tokens of one user; empty for the owner on loopback."""


IDENTITY: web.RequestKey[Identity] = web.RequestKey("identity", Identity)
