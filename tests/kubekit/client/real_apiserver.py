"""Objects and a client for tests against a real kube-apiserver."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


def pod(name: str, namespace: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "x"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


async def in_parallel(calls: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(call)
