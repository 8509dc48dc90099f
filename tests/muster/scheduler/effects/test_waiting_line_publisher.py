"""The ConfigMap of the waiting line: it shows the line of this process and no earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubekit.errors import NotFound
from kubekit.objects.meta import Key, Raw
from muster.contract import waiting_line_format
from muster.contract.waiting_line_format import HeldRoom, WaitingGang
from muster.scheduler.effects.waiting_line_publisher import (
    MAX_ROWS,
    LinePublisher,
    encode_line,
    waiting_gangs,
)
from muster.scheduler.gangs import phase
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster

pytestmark = pytest.mark.looptime
OLD_LINE = {"line": '[{"gang": "default/old", "place": 1}]'}


class ConfigMapServer:
    """The API server's side: one ConfigMap, and every line that was written to it."""

    def __init__(self, data: Raw | None = None) -> None:
        self.data = data
        self.lines: list[list[str]] = []

    async def patch(self, _: Any, key: Key, change: Raw) -> None:
        if self.data is None:
            raise NotFound(f"there is no {key}")
        self._write(change)

    async def create(self, _: Any, body: Raw) -> None:
        self._write(body)

    def _write(self, body: Raw) -> None:
        self.data = body["data"]
        self.lines.append([row.gang for row in waiting_line_format.read(body["data"])])


@asynccontextmanager
async def scheduler(cluster: FakeCluster, publisher: LinePublisher) -> AsyncIterator[None]:
    """One term: the scheduler decides, and publishes its line."""
    async with cluster.running():
        task = asyncio.create_task(publisher.run())
        yield
        task.cancel()


def publisher(server: ConfigMapServer, cluster: FakeCluster) -> LinePublisher:
    client: Any = server
    return LinePublisher(client, cluster.state, "kube-system", quiet=False)


async def test_the_line_of_an_earlier_process_is_emptied_once() -> None:
    server, cluster = ConfigMapServer(OLD_LINE), FakeCluster()
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(60)

    assert server.lines == [[]]


async def test_no_config_map_is_created_for_an_empty_line() -> None:
    server, cluster = ConfigMapServer(), FakeCluster()
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(60)

    assert server.data is None


async def test_a_gang_that_still_waits_after_a_restart_stays_in_the_line() -> None:
    server, cluster = ConfigMapServer(OLD_LINE), FakeCluster()
    cluster.add(node("n1", gpus=1), volcano_group("g", 2), *gang("g", 2, gpus=1))
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(60)

    assert server.lines == [["default/g"]]


@pytest.mark.parametrize(("late", "published"), [(0.5, False), (5.0, True)])
async def test_a_gang_whose_pods_are_just_being_created_is_not_in_the_line(
    late: float, published: bool
) -> None:
    server, cluster = ConfigMapServer(OLD_LINE), FakeCluster()
    cluster.add(node("n1", gpus=2))
    line = publisher(server, cluster)
    async with scheduler(cluster, line):
        await cluster.settle(60)
        cluster.add(volcano_group("g", 2), *gang("g", 1, gpus=1))
        await cluster.settle(0.1)
        line.changed()
        await cluster.settle(late)
        cluster.add(*gang("g", 2, gpus=1)[1:])
        await cluster.settle(60)

    assert len(cluster.bound("g")) == 2
    assert (["default/g"] in server.lines) is published


async def test_the_line_is_written_again_in_each_term() -> None:
    server, cluster = ConfigMapServer(OLD_LINE), FakeCluster()
    line = publisher(server, cluster)
    for _ in range(2):
        async with scheduler(cluster, line):
            await cluster.settle(60)

    assert server.lines == [[], []]


async def test_held_room_is_published_while_it_is_held_and_the_shortage_with_the_line() -> None:
    server, cluster = ConfigMapServer(), FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("g", 2), *gang("g", 2, gpus=1))
    line = publisher(server, cluster)
    async with scheduler(cluster, line):
        await cluster.settle()
        cluster.delete_pod("g-1")
        cluster.add(volcano_group("late", 2, created=9), *gang("late", 2, gpus=1, created=9))
        line.changed()
        await cluster.settle(5)
        assert server.data is not None
        (held,) = waiting_line_format.read_holds(server.data)
        late = {row.gang: row for row in waiting_line_format.read(server.data)}["default/late"]
        await cluster.settle(60)

    assert (held.gang, held.node, held.pods) == ("default/g", "n1", 1)
    assert held.requests["nvidia.com/gpu"] == "1"
    assert held.dialect == "volcano"
    assert late.short == {"nvidia.com/gpu": "2"}
    assert waiting_line_format.read_holds(server.data) == []
    assert waiting_line_format.read_holds({"holds": "not json"}) == []


MEBIBYTE = 1 << 20
"""The size of a ConfigMap that the API server accepts."""


def size(data: Raw) -> int:
    return sum(len(name) + len(text.encode()) for name, text in data.items())


async def test_a_pod_with_thousands_of_resource_names_does_not_stop_the_line() -> None:
    names = [f"{'x' * 60}.{'y' * 60}.{'z' * 60}.evil.io/{'r' * 58}{i:04}" for i in range(2150)]
    requests = dict.fromkeys(names, "1")
    containers = [{"name": "main", "resources": {"requests": requests}}]
    server, cluster = ConfigMapServer(), FakeCluster()
    cluster.add(node("n1", gpus=1), volcano_group("good", 2), *gang("good", 2, gpus=1))
    cluster.add(pod("evil", spec={"containers": containers}))
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(60)

    assert server.data is not None
    assert size(server.data) < 20_000
    rows = {row.gang: row for row in waiting_line_format.read(server.data)}
    assert set(rows) == {"default/evil", "default/good"}
    assert rows["default/good"].reason == cluster.reason("good")
    assert all(len(report.reason.text) < 3000 for report in cluster.reports if report.reason)


LONG = ["x" * 20_000, "\0" * 2_000, "ü" * 5_000, '"' * 10_000]


@pytest.mark.parametrize("text", LONG, ids=["x", "NUL", "umlaut", "quote"])
@pytest.mark.parametrize("n", [1, 3, 1000, 5000])
def test_any_number_of_gangs_with_any_names_fits_a_config_map(text: str, n: int) -> None:
    short = {f"{text[:300]}{i}": "1" for i in range(100)}
    honest = WaitingGang("default/good", 1, "NotEnoughRoom", "short 2 gpu", "2026-01-01T00:00:00Z")
    evil = WaitingGang(text, 2, "NotEnoughRoom", text, "2026-01-01T00:00:00Z", short=short)
    held = HeldRoom(text, "n1", "2026-01-01T00:00:00Z", requests=short)
    line = [honest, *([evil] * n)][:MAX_ROWS]
    data = encode_line(line, [held] * min(n, MAX_ROWS))

    assert size(data) < MEBIBYTE - 4096
    rows = waiting_line_format.read(data)
    assert rows[0] == honest
    assert len(rows) == len(line)
    assert len(waiting_line_format.read_holds(data)) > 0


def test_ordinary_rows_are_published_whole() -> None:
    short = {"nvidia.com/gpu": "2"}
    rows = [
        WaitingGang(
            f"team/job-{i}", i, "NotEnoughRoom", "x" * 300, "2026-01-01T00:00:00Z", short=short
        )
        for i in range(MAX_ROWS)
    ]
    holds = [
        HeldRoom(f"team/job-{i}", "n1", "2026-01-01T00:00:00Z", requests=short)
        for i in range(MAX_ROWS)
    ]
    data = encode_line(rows, holds)

    assert waiting_line_format.read(data) == rows
    assert waiting_line_format.read_holds(data) == holds


async def test_a_gang_whose_row_raises_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase, "STRICT", False)
    cluster = FakeCluster()
    cluster.add(node("n1", gpus=1), volcano_group("bad", 2), *gang("bad", 2, gpus=1))
    cluster.add(volcano_group("good", 2), *gang("good", 2, gpus=1))
    await cluster.run(2.0)
    original = cluster.state.members

    def members(row: Any) -> Any:
        if row.key.name == "bad":
            raise ZeroDivisionError("a bug")
        return original(row)

    monkeypatch.setattr(cluster.state, "members", members)

    assert [row.gang for row in waiting_gangs(cluster.state, cluster.state.now)] == ["default/good"]
