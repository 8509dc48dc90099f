"""Requests to an API server whose disk another program keeps full."""

from __future__ import annotations

from pathlib import Path

from tests.localkube.apiserver.running_server import MERGE, ApiClient, running_server
from tests.small_disk import fill, small_disk

PODS = "/api/v1/namespaces/default/pods"
MAP = "/api/v1/namespaces/default/configmaps/held"
FULL = "the disk of the local cluster is full"


async def annotate(api: ApiClient, name: str, length: int) -> str:
    """Give a pod a long annotation; returns the message of the error."""
    body = {"metadata": {"annotations": {"example.com/text": "x" * length}}}
    reply = await api.send("PATCH", f"{PODS}/{name}", body, MERGE)
    return "" if reply.status == 200 else str(reply.body["message"])


async def test_large_updates_on_a_full_disk_leave_the_space_that_deletions_need(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", "64m") as disk:
        async with running_server(disk / "data") as api:
            pods = [f"pod-{number}" for number in range(30)]
            for name in pods:
                await api.create_pod(name, nodeName="node")
            held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
            held |= {"data": {"text": "x" * 1_000_000}}
            assert (await api.send("POST", MAP.removesuffix("/held"), held)).status == 201
            await api.server.store.take_reserve()

            answers = []
            for number in range(240):
                fill(disk / "greedy")
                answers.append(await annotate(api, pods[number % 30], 800 * (number + 50)))
            assert "" in answers
            assert all(answer.startswith(FULL) for answer in answers if answer)
            assert answers[-1]

            for name in pods:
                fill(disk / "greedy")
                grace = {"gracePeriodSeconds": 0} if name == pods[0] else None
                assert (await api.send("DELETE", f"{PODS}/{name}", grace)).status == 200, name
                if grace is None:  # the node reports the end
                    end = {"status": {"phase": "Failed", "reason": "x" * 2000}}
                    reply = await api.send("PATCH", f"{PODS}/{name}/status", end, MERGE)
                    assert reply.status == 200, reply.body
                    now = {"gracePeriodSeconds": 0}
                    assert (await api.send("DELETE", f"{PODS}/{name}", now)).status == 200
            assert (await api.send("DELETE", MAP)).status == 200
            freed = await api.send("PATCH", MAP, {"metadata": {"finalizers": None}}, MERGE)
            assert freed.status == 200
            assert (await api.send("GET", MAP)).status == 404
            assert (await api.send("GET", PODS)).body["items"] == []
