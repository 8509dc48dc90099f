"""Logs that outlive their pods, at logs.muster.dev: listed, selected and read per namespace."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.objects.core import PodLog
from kubekit.objects.meta import ObjectMeta, OwnerReference
from localkube.node_interface import LogOptions
from tests.localkube.apiserver.fake_node import FakeNode
from tests.localkube.apiserver.running_server import running_server

if TYPE_CHECKING:
    from pathlib import Path

LOGS = "/apis/logs.muster.dev/v1"
OWN = f"{LOGS}/namespaces/ns/podlogs"


def pod_log(name: str, second: int, namespace: str = "ns", job: str = "j") -> PodLog:
    at = datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC)
    return PodLog(
        metadata=ObjectMeta(
            name=f"{name}.main.0",
            namespace=namespace,
            creation_timestamp=at,
            labels={"job": job},
            owner_references=(OwnerReference(kind="TFJob", name=job, uid="u"),),
        ),
        pod_name=name,
        container="main",
        started_at=at,
        exit_code=0,
        size=12,
    )


class ArchivingNode(FakeNode):
    async def pod_logs(self) -> list[PodLog]:
        return [
            pod_log("b", 2),
            pod_log("a", 1),
            pod_log("c", 3, "other"),
            pod_log("d", 4, job="k"),
        ]


async def test_logs_are_listed_and_read_in_their_namespace(tmp_path: Path) -> None:
    node = ArchivingNode()
    async with running_server(tmp_path, node) as api:

        async def names(query: str, path: str = OWN) -> list[str]:
            items = (await api.send("GET", f"{path}?{query}")).body["items"]
            return [item["podName"] for item in items]

        assert await names("") == ["a", "b", "d"]
        assert await names("", f"{LOGS}/podlogs") == ["a", "b", "c", "d"]
        assert await names("labelSelector=job%3Dj") == ["a", "b"]
        assert await names("fieldSelector=podName%3Db") == ["b"]
        single = (await api.send("GET", f"{OWN}/a.main.0")).body
        assert (single["kind"], single["exitCode"], single["size"]) == ("PodLog", 0, 12)
        assert single["metadata"]["creationTimestamp"] == "2026-01-02T03:04:01.000000Z"

        log = await api.send("GET", f"{OWN}/a.main.0/log?tailLines=3&timestamps=1&follow=1")

        assert log.body == "log of a\n"
        assert node.calls == [LogOptions("main", timestamps=True, tail=3)]
        # The log of another namespace is as unknown as one that does not exist.
        for name in ("c.main.0", "none"):
            assert (await api.send("GET", f"{OWN}/{name}")).status == 404
            assert (await api.send("GET", f"{OWN}/{name}/log")).status == 404
        assert (await api.send("DELETE", f"{OWN}/a.main.0")).status == 405


async def test_a_node_without_an_archive_has_no_logs(tmp_path: Path) -> None:
    async with running_server(tmp_path, FakeNode()) as api:
        assert (await api.send("GET", OWN)).body["items"] == []
        assert (await api.send("GET", f"{OWN}/a.main.0/log")).status == 404
