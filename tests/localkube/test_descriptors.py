"""The shares of the daemon's descriptors, and the limit that `up` needs."""

from __future__ import annotations

import asyncio
import os
import resource

import pytest

from kubekit.errors import MusterError, OutOfDescriptors
from kubekit.serving.limits import Connections, Limits
from kubekit.serving.peer import Peer
from localkube.descriptors import Descriptors
from muster.local_daemon import check_descriptor_limit
from tests.no_descriptors import KEPT, no_descriptor_left, room_for


class Client:
    peer, header_bytes = Peer("x"), 0

    def drop(self) -> None: ...


def test_the_node_has_what_the_api_and_the_store_leave() -> None:
    descriptors = Descriptors()
    with room_for(5) as limit:
        limits = Limits.for_descriptors(limit)
        free = limit - len(os.listdir("/proc/self/fd")) + 1 - 5

        assert descriptors.has_room(5)
        assert not descriptors.has_room(6)
        assert not descriptors.has_room_to_watch(), "room is kept to start containers"
        assert free >= limits.waiting + limits.authenticated + KEPT


def test_connections_of_the_api_do_not_count_for_the_node() -> None:
    connections = Connections()
    for _ in range(3):
        connections.enter(Client())
    with room_for(5):
        assert Descriptors(connections).has_room(8)
        assert not Descriptors(connections).has_room(9)


def test_streams_may_be_opened_when_containers_have_used_up_the_share() -> None:
    descriptors = Descriptors()
    with room_for(0):
        assert not descriptors.has_room(1)
        descriptors.check_stream()
    with no_descriptor_left(), pytest.raises(OutOfDescriptors, match="raise `ulimit -n`"):
        descriptors.check_stream()


async def test_a_start_waits_for_the_starts_under_way_and_fails_without_room() -> None:
    descriptors = Descriptors()
    order: list[str] = []

    async def second() -> None:
        async with descriptors.for_start():
            order.append("second")

    with room_for(12):
        async with descriptors.for_start():
            waiting = asyncio.create_task(second())
            await asyncio.sleep(0)
            order.append("first")
        await asyncio.wait_for(waiting, 5)
    with room_for(7), pytest.raises(OutOfDescriptors, match=r"left for pods: all \d+ of \d+ are"):
        await second()

    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("hard", "text"), [(1024, ""), (resource.RLIM_INFINITY, ""), (256, "allows 256 descriptors")]
)
def test_a_low_limit_is_named(monkeypatch: pytest.MonkeyPatch, hard: int, text: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (hard, hard))

    assert text in check_descriptor_limit()
    assert bool(check_descriptor_limit()) == bool(text)


def test_a_limit_below_an_idle_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 255))
    with pytest.raises(MusterError, match="at least 256 descriptors, and this shell allows 255"):
        check_descriptor_limit()
