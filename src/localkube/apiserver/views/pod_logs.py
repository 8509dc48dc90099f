"""logs.muster.dev: the logs of jobs that outlive their pods, one PodLog per attempt.

Nothing is stored here: the node agent has the logs.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.objects.meta import timestamp
from localkube.apiserver import api_errors
from localkube.apiserver.http.query_options import selection
from localkube.apiserver.http.requests import Answer, Call, json_answer
from localkube.apiserver.views import lists

if TYPE_CHECKING:
    from kubekit.objects.core import PodLog
    from kubekit.objects.meta import Raw
    from localkube.node_interface import NodeBackend

GROUP = "logs.muster.dev"
_EMPTY: tuple[Any, ...] = (None, "", (), {}, [])


async def answer(call: Call, backend: NodeBackend | None) -> Answer:
    """One PodLog, or the list of those that are selected, the oldest first."""
    if call.route.verb == "list":
        items = [_shown(call, log) for log in await selected(call, backend)]
        return json_answer(lists.head(call.resource, {}) | {"items": items})
    return json_answer(_shown(call, await named(call, backend)), 200, call.resource)


async def named(call: Call, backend: NodeBackend | None) -> PodLog:
    """The PodLog of the name and the namespace in the path."""
    logs = await selected(call, backend)
    if not logs:
        raise api_errors.not_found(GROUP, call.resource.plural, call.route.name)
    return logs[0]


async def selected(call: Call, backend: NodeBackend | None) -> list[PodLog]:
    """The logs that the path and the selectors select."""
    selectors = selection(call.resource, call.query, call.route.name)
    logs = await backend.pod_logs() if backend is not None else []
    found: list[tuple[float, str, PodLog]] = []
    for log in logs:
        meta, at = log.metadata, log.metadata.creation_timestamp
        fields = {"metadata.name": meta.name, "metadata.namespace": meta.namespace}
        fields |= {"podName": log.pod_name, "podUid": log.pod_uid}
        if (
            call.route.namespace in ("", meta.namespace)
            and selectors.labels.matches(meta.labels)
            and selectors.fields.matches(fields.__getitem__)
        ):
            found.append((at.timestamp() if at is not None else 0.0, meta.name, log))
    return [log for *_, log in sorted(found, key=lambda row: row[:2])]


def _shown(call: Call, log: PodLog) -> Raw:
    fields = _without_empty(msgspec.to_builtins(log, builtin_types=(datetime,)))
    return {"kind": call.resource.kind, "apiVersion": call.resource.api_version, **fields}


def _without_empty(value: Any) -> Any:
    """The value without empty fields, its times as the API writes them."""
    if isinstance(value, dict):
        fields = {name: _without_empty(field) for name, field in value.items()}
        return {name: field for name, field in fields.items() if field not in _EMPTY}
    if isinstance(value, list | tuple):
        return [_without_empty(item) for item in value]
    return timestamp(value, micro=True) if isinstance(value, datetime) else value
