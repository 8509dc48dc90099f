"""Finding a job's TensorBoard: what its objects are called, and the address a browser takes.

Used by the verbs and pages that show a job. `build/board.py` makes the objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.api.core import Node
    from muster.api.meta import Raw

PORT = 6006
ROLE = {"role": "tensorboard"}
"""The label of TensorBoard's objects, besides `release`, which is the job's name."""


def name(job: str) -> str:
    """What the Deployment and the Service of a job's TensorBoard are called."""
    return f"{job}-tensorboard"


def url(service: Raw, nodes: Iterable[Node] = (), *, local: bool = False) -> str:
    """Where a browser finds it; empty as long as there is no such place.

    `service` is the Service as the API has it. On the local cluster node ports are on this machine;
    elsewhere they are on any node, of which the first that is ready is named.
    """
    spec: dict[str, Any] = service.get("spec") or {}
    port: dict[str, Any] = next(iter(spec.get("ports") or ()), {})
    balancers = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    for row in balancers:
        host = row.get("ip") or row.get("hostname")
        if host:
            return f"http://{host}:{port.get('port', PORT)}"
    if not port.get("nodePort"):
        return ""
    host = "127.0.0.1" if local else _address(nodes)
    return f"http://{host}:{port['nodePort']}" if host else ""


def _address(nodes: Iterable[Node]) -> str:
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        ready = any(row.type == "Ready" and row.status == "True" for row in node.status.conditions)
        address = next(
            (row.address for row in node.status.addresses if row.type == "InternalIP"), ""
        )
        if ready and address:
            return address
    return ""
