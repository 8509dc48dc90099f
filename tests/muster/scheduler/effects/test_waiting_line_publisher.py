"""The ConfigMap of the waiting line: it shows the line of this process and no earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from kubekit.client.client import Client
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Raw
from muster.contract import waiting_line_format
from muster.contract.waiting_line_format import HeldRoom, WaitingGang
from muster.scheduler import isolated_errors
from muster.scheduler.effects.waiting_line_publisher import (
    MAX_ROWS,
    LinePublisher,
    encode_line,
    waiting_gangs,
)
from tests.api_in_memory import ApiInMemory
from tests.muster.scheduler.builders import gang, node, pod, volcano_group
from tests.muster.scheduler.fake_cluster import FakeCluster

pytestmark = pytest.mark.looptime
OLD_LINE = {"line": '[{"gang": "default/old", "place": 1}]'}


LINE = CONFIG_MAPS.path("kube-system", waiting_line_format.CONFIG_MAP)


def server_with(data: Raw) -> ApiInMemory:
    """A server that has the ConfigMap already."""
    server = ApiInMemory()
    server.put(LINE, {"metadata": {"namespace": "kube-system"}, "data": data})
    server.history.clear()
    return server


def held(server: ApiInMemory) -> Raw:
    """The data of the ConfigMap."""
    data: Raw = server.objects[LINE]["data"]
    return data


def lines(server: ApiInMemory) -> list[list[str]]:
    """The gangs of every line that was written."""
    written = [obj["data"] for _, _, _, path, obj, _ in server.history if path == LINE]
    return [[row.gang for row in waiting_line_format.read(data)] for data in written]


@asynccontextmanager
async def scheduler(cluster: FakeCluster, publisher: LinePublisher) -> AsyncIterator[None]:
    """One term: the scheduler decides, and publishes its line."""
    async with cluster.running():
        task = asyncio.create_task(publisher.run())
        yield
        task.cancel()


def publisher(server: ApiInMemory, cluster: FakeCluster) -> LinePublisher:
    return LinePublisher(Client(server), cluster.state, "kube-system", quiet=False)


async def test_the_line_of_an_earlier_process_is_emptied_once() -> None:
    server, cluster = server_with(OLD_LINE), FakeCluster()
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(60)

    assert lines(server) == [[]]


async def test_no_config_map_is_created_for_an_empty_line() -> None:
    server, cluster = ApiInMemory(), FakeCluster()
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(60)

    assert server.get(LINE) is None


async def test_a_gang_that_still_waits_after_a_restart_stays_in_the_line() -> None:
    server, cluster = server_with(OLD_LINE), FakeCluster()
    cluster.add(node("n1", gpus=1), volcano_group("g", 2), *gang("g", 2, gpus=1))
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(60)

    assert lines(server) == [["default/g"]]


@pytest.mark.parametrize(("late", "published"), [(0.5, False), (5.0, True)])
async def test_a_gang_whose_pods_are_just_being_created_is_not_in_the_line(
    late: float, published: bool
) -> None:
    server, cluster = server_with(OLD_LINE), FakeCluster()
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
    assert (["default/g"] in lines(server)) is published


async def test_the_line_is_written_again_in_each_term() -> None:
    server, cluster = server_with(OLD_LINE), FakeCluster()
    line = publisher(server, cluster)
    for _ in range(2):
        async with scheduler(cluster, line):
            await cluster.settle(60)

    assert lines(server) == [[], []]


async def test_held_room_is_published_while_it_is_held_and_the_shortage_with_the_line() -> None:
    server, cluster = ApiInMemory(), FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("g", 2), *gang("g", 2, gpus=1))
    line = publisher(server, cluster)
    async with scheduler(cluster, line):
        await cluster.settle()
        cluster.delete_pod("g-1")
        cluster.add(volcano_group("late", 2, created=9), *gang("late", 2, gpus=1, created=9))
        line.changed()
        await cluster.settle(5)
        (room,) = waiting_line_format.read_holds(held(server))
        late = {row.gang: row for row in waiting_line_format.read(held(server))}["default/late"]
        await cluster.settle(60)

    assert (room.gang, room.node, room.pods) == ("default/g", "n1", 1)
    assert room.requests["nvidia.com/gpu"] == "1"
    assert room.dialect == "volcano"
    assert late.short == {"nvidia.com/gpu": "2"}
    assert waiting_line_format.read_holds(held(server)) == []
    assert waiting_line_format.read_holds({"holds": "not json"}) == []


def standby_of_a_running_gang() -> FakeCluster:
    """A cluster with a gang of three that runs, and a scheduler that watches and does not lead."""
    cluster = FakeCluster()
    members = gang("g", 3, gpus=1)
    bound = [replace(pod, spec=replace(pod.spec, node_name="n1")) for pod in members]
    cluster.add(node("n1", gpus=3), volcano_group("g", 3), *bound)
    return cluster


@pytest.mark.parametrize("also", ["the group first", "the group last", "the pods alone"])
async def test_a_standby_that_takes_over_publishes_no_hold_of_a_gang_that_was_deleted(
    also: str,
) -> None:
    server, cluster = ApiInMemory(), standby_of_a_running_gang()
    if also == "the group first":
        cluster.delete_pod("g-0")
        cluster.delete_group("g")
    for name in sorted(key.name for key in cluster.pods):
        cluster.delete_pod(name)
    if also == "the group last":
        cluster.delete_group("g")
    gone = also != "the pods alone"
    assert gone is not bool(cluster.state.index.gangs), "a standby forgets what is gone"
    cluster.add(volcano_group("late", 4, created=9), *gang("late", 4, gpus=1, created=9))
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(5)

    holds = [waiting_line_format.read_holds(obj["data"]) for *_, obj, _ in server.history]
    assert holds == [[]]
    assert "held" not in cluster.reason("late")


async def test_room_that_is_no_longer_held_leaves_the_published_line_within_seconds() -> None:
    server, cluster = ApiInMemory(), FakeCluster()
    cluster.add(node("n1", gpus=2), volcano_group("g", 2), *gang("g", 2, gpus=1))
    line = publisher(server, cluster)
    cluster.line_changed = line.changed
    async with scheduler(cluster, line):
        await cluster.settle()
        cluster.delete_pod("g-1")
        await cluster.settle(5)
        (room,) = waiting_line_format.read_holds(held(server))
        assert room.gang == "default/g"
        cluster.delete_group("g")
        cluster.delete_pod("g-0")
        await cluster.settle(5)

    assert waiting_line_format.read_holds(held(server)) == []


async def test_a_pod_that_is_deleted_while_it_waits_leaves_the_published_line_within_seconds() -> (
    None
):
    server, cluster = ApiInMemory(), FakeCluster()
    cluster.add(node("n1", gpus=1), pod("p", gpus=2))
    line = publisher(server, cluster)
    cluster.line_changed = line.changed
    async with scheduler(cluster, line):
        await cluster.settle(5)
        assert lines(server) == [["default/p"]]
        cluster.delete_pod("p")
        await cluster.settle(5)

    assert lines(server)[-1] == []


MEBIBYTE = 1 << 20
"""The size of a ConfigMap that the API server accepts."""


def size(data: Raw) -> int:
    return sum(len(name) + len(text.encode()) for name, text in data.items())


async def test_a_pod_with_thousands_of_resource_names_does_not_stop_the_line() -> None:
    names = [f"{'x' * 60}.{'y' * 60}.{'z' * 60}.evil.io/{'r' * 58}{i:04}" for i in range(2150)]
    requests = dict.fromkeys(names, "1")
    containers = [{"name": "main", "resources": {"requests": requests}}]
    server, cluster = ApiInMemory(), FakeCluster()
    cluster.add(node("n1", gpus=1), volcano_group("good", 2), *gang("good", 2, gpus=1))
    cluster.add(pod("evil", spec={"containers": containers}))
    async with scheduler(cluster, publisher(server, cluster)):
        await cluster.settle(60)

    assert size(held(server)) < 20_000
    rows = {row.gang: row for row in waiting_line_format.read(held(server))}
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
    room = HeldRoom(text, "n1", "2026-01-01T00:00:00Z", requests=short)
    line = [honest, *([evil] * n)][:MAX_ROWS]
    data = encode_line(line, [room] * min(n, MAX_ROWS))

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
    monkeypatch.setattr(isolated_errors, "STRICT", False)
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
