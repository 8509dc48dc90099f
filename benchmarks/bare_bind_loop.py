"""The bind ceiling: a process that lists pods and nodes, then only binds.

Started by `scheduler_backlog` as `python -m benchmarks.bare_bind_loop URL CA_FILE TOKEN`. Workers
of a bare aiohttp session take the next pod as soon as the last response is in: no watch, no
decision, no check.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import TYPE_CHECKING, Any

import aiohttp
import uvloop

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = 32


async def drain(url: str, ca: str, token: str) -> None:
    """Bind every pod to a node, in turn."""
    context = ssl.create_default_context(cafile=ca)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=context, limit=WORKERS)
    async with aiohttp.ClientSession(url, connector=connector, headers=headers) as session:
        pods, nodes = await _items(session, "pods"), await _items(session, "nodes")
        work = ((pod, nodes[i % len(nodes)]["metadata"]["name"]) for i, pod in enumerate(pods))
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(_worker(session, work))


async def _items(session: aiohttp.ClientSession, plural: str) -> list[dict[str, Any]]:
    async with session.get(f"/api/v1/{plural}") as answer:
        items: list[dict[str, Any]] = (await answer.json())["items"]
        return items


async def _worker(
    session: aiohttp.ClientSession, work: Iterator[tuple[dict[str, Any], str]]
) -> None:
    for pod, node in work:
        about = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": about["name"], "uid": about["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/binding"
        async with session.post(path, data=json.dumps(body)) as answer:
            await answer.read()
            answer.raise_for_status()


if __name__ == "__main__":
    uvloop.run(drain(*sys.argv[1:]))
