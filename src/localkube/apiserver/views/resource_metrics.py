"""metrics.k8s.io: the CPU, memory and GPUs that pods and nodes use now, for `top`.

Nothing is stored: the node agent measures. A pod that it does not know is not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.objects.meta import timestamp
from localkube.apiserver import api_errors, codec
from localkube.apiserver.http.query_options import selection
from localkube.apiserver.http.requests import Answer, Call, json_answer
from localkube.apiserver.views import lists
from localkube.node_interface import Consumption

if TYPE_CHECKING:
    from kubekit.objects.meta import Raw
    from localkube.apiserver.resource_registry import Registry
    from localkube.apiserver.store.store import Store
    from localkube.node_interface import NodeBackend, Usage

GROUP = "metrics.k8s.io"
_METADATA = ("name", "namespace", "labels", "creationTimestamp")


async def answer(
    call: Call, store: Store, registry: Registry, backend: NodeBackend | None
) -> Answer:
    """The usage of one pod or node, or the list for all that are selected."""
    # Selectors and namespaces are those of the core resource with the same plural.
    measured = registry.find("", "v1", call.resource.plural)
    assert measured is not None
    selected = selection(measured, call.query, call.route.name)
    prefix = codec.prefix(measured, call.route.namespace if measured.namespaced else "")
    metas = [codec.decode(e.value)["metadata"] for e in store.scan(prefix) if selected.matches(e)]
    items: list[Raw] = []
    if backend is not None:
        usage = await backend.usage()
        of_nodes = call.resource.plural == "nodes"
        by_key = _nodes(store, usage) if of_nodes else _pods(usage)
        key = "name" if of_nodes else "uid"
        items = [_shown(call, m, usage) | by_key[m[key]] for m in metas if m[key] in by_key]
    if call.route.verb == "list":
        return json_answer(lists.head(call.resource, {}) | {"items": items})
    if not items:
        raise api_errors.not_found(GROUP, call.resource.plural, call.route.name)
    return json_answer(items[0], 200, call.resource)


def _pods(usage: Usage) -> dict[str, Raw]:
    """The usage of pods by uid."""
    return {
        uid: {"containers": [{"name": n, "usage": _amounts(u)} for n, u in containers.items()]}
        for uid, containers in usage.pods.items()
    }


def _nodes(store: Store, usage: Usage) -> dict[str, Raw]:
    """The usage of nodes by name: the sum of its pods, because declared nodes share one machine."""
    total = {e.key.rpartition("/")[2]: Consumption(0.0, 0) for e in store.scan("nodes/")}
    for entry in store.scan("pods/"):
        pod = codec.decode(entry.value)
        node = pod["spec"].get("nodeName")
        for used in usage.pods.get(pod["metadata"]["uid"], {}).values():
            if node in total:
                total[node] += used
    return {name: {"usage": _amounts(used)} for name, used in total.items()}


def _shown(call: Call, meta: Raw, usage: Usage) -> Raw:
    return {
        "kind": call.resource.kind,
        "apiVersion": call.resource.api_version,
        "metadata": {field: meta[field] for field in _METADATA if field in meta},
        "timestamp": timestamp(usage.at),
        "window": f"{usage.window:.3f}s",
    }


def _amounts(consumed: Consumption) -> Raw:
    # The units of the real metrics server: billionths of a core, and KiB.
    amounts = {"cpu": f"{round(consumed.cores * 1e9)}n", "memory": f"{consumed.memory // 1024}Ki"}
    if consumed.gpus is not None:
        amounts["nvidia.com/gpu"] = f"{round(consumed.gpus * 1000)}m"
        amounts["nvidia.com/gpu-memory"] = f"{consumed.gpu_memory // 1024}Ki"
    return amounts
