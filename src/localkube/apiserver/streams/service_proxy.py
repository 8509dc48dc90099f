"""The endpoint of a service that a request to `services/NAME:PORT/proxy` goes to: pure.

As with a real server, the Endpoints of the service count, not its EndpointSlices.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kubekit.errors import StatusError
from kubekit.objects.annotation_values import read_integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.meta import Raw


def port_name(service: Raw, port: str) -> str:
    """The name of the port that a request gives by its name or by its number."""
    number = read_integer(port)
    if number is None:
        return port
    for row in service["spec"].get("ports") or ():
        if row["port"] == number:
            return str(row.get("name") or "")
    name = service["metadata"]["name"]
    raise _unavailable(f'no service port {port} found for service "{name}"')


def endpoint(endpoints: Raw, name: str, requested: str) -> tuple[str, int]:
    """The address and port of one ready endpoint for the port of this name.

    `requested` is the name in the path, for the message.
    """
    subsets = endpoints.get("subsets") or []
    if not subsets:
        requested = endpoints["metadata"]["name"]
    found = [place for subset in subsets for place in _places(subset, name)]
    if not found:
        raise _unavailable(f'no endpoints available for service "{requested}"')
    return random.choice(found)


def _places(subset: Raw, name: str) -> Iterator[tuple[str, int]]:
    for port in subset.get("ports") or ():
        if (port.get("name") or "") == name:
            for address in subset.get("addresses") or ():
                yield address["ip"], port["port"]


def _unavailable(message: str) -> StatusError:
    return StatusError(message, status=503, reason="ServiceUnavailable")
