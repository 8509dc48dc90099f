"""The descriptors that pods may use, and the limit that `up` needs."""

from __future__ import annotations

import asyncio
import os
import resource

import pytest

from kubekit.errors import MusterError
from kubekit.serving.connection_limits import Limits
from localkube.node.descriptors import Descriptors, OutOfDescriptors
from muster.local_daemon import check_descriptor_limit
from tests.no_descriptors import room_for


def test_the_node_leaves_room_for_all_connections_that_the_api_may_have() -> None:
    descriptors = Descriptors()
    with room_for(5) as limit:
        limits = Limits.for_descriptors(limit)
        free = limit - len(os.listdir("/proc/self/fd")) + 1 - 5

        assert descriptors.has_room(5)
        assert not descriptors.has_room(6)
        assert not descriptors.has_room_to_watch(), "room is kept to start containers"
        assert free >= limits.waiting + limits.authenticated


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
    with room_for(7), pytest.raises(OutOfDescriptors, match=r"left for pods: .* raise `ulimit -n`"):
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
