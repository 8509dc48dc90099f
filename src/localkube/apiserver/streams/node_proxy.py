"""`nodes/NAME/proxy/PATH`: the paths of a kubelet that tools read.

They are `healthz`, `pods` and `stats/summary`. With a port in the name, the request goes to that
port of the machine instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kubekit.errors import StatusError
from kubekit.objects.meta import timestamp
from localkube.apiserver import codec
from localkube.node_interface import Consumption, UsageSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubekit.objects.meta import Raw
    from localkube.apiserver.store.store import Store
    from localkube.node_interface import NodeBackend, Usage

_NO_PAGE = "404 page not found\n"


def address_of(node: Raw) -> str:
    """The address of the machine; a node that nothing runs has none."""
    addresses = (node.get("status") or {}).get("addresses") or []
    for row in addresses:
        if row.get("type") == "InternalIP":
            return str(row["address"])
    message = f"no preferred addresses found; known addresses: {addresses}"
    raise StatusError(message, status=500, reason="")


async def answer(node: Raw, path: str, store: Store, backend: NodeBackend | None) -> web.Response:
    """The answer of the kubelet of this node."""
    name = node["metadata"]["name"]
    match path:
        case "healthz":
            return web.Response(text="ok")
        case "pods":
            head = {"kind": "PodList", "apiVersion": "v1", "metadata": {}}
            return _json(head | {"items": _pods_of(store, name)})
        case "stats/summary" if isinstance(backend, UsageSource):
            return _json(summary(name, _pods_of(store, name), await backend.usage()))
        case _:
            return web.Response(status=404, text=_NO_PAGE)


def summary(name: str, pods: Iterable[Raw], usage: Usage) -> Raw:
    """The usage of a node and of its pods: pure."""
    total, rows = Consumption(0.0, 0), []
    for pod in pods:
        meta = pod["metadata"]
        containers = usage.pods.get(meta["uid"])
        if containers is None:
            continue
        of_pod = sum(containers.values(), Consumption(0.0, 0))
        total += of_pod
        shown = [{"name": each} | _amounts(used, usage) for each, used in containers.items()]
        reference = {field: meta[field] for field in ("name", "namespace", "uid")}
        rows.append({"podRef": reference, "containers": shown} | _amounts(of_pod, usage))
    return {"node": {"nodeName": name} | _amounts(total, usage), "pods": rows}


def _amounts(used: Consumption, usage: Usage) -> Raw:
    at = timestamp(usage.at)
    return {
        "cpu": {"time": at, "usageNanoCores": round(used.cores * 1e9)},
        "memory": {"time": at, "workingSetBytes": used.memory},
    }


def _pods_of(store: Store, node: str) -> list[Raw]:
    pods = (codec.decode(entry.value) for entry in store.scan("pods/"))
    return [pod for pod in pods if pod["spec"].get("nodeName") == node]


def _json(document: Raw) -> web.Response:
    return web.Response(body=codec.dump(document), content_type="application/json")
