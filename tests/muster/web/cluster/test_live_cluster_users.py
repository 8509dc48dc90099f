"""Live clusters: one per user, dropped when nobody looks; errors in the words of the API."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.request_errors import TooManyRequests, Unauthorized, Unreachable
from muster.web.access.request_facts import Identity
from muster.web.cluster import live_cluster
from muster.web.cluster.live_cluster import LiveCluster, LiveClusters
from muster.web.cluster.watched_objects import NODES
from tests.waiting import eventually

MANY = 40
"""More than the default threads of any event loop."""
NOWHERE = Endpoint("https://127.0.0.1:1")


def user(key: str, owner: str = "") -> Identity:
    return Identity(key, NOWHERE, secret="", csrf="", owner=owner)


async def test_each_user_has_a_cluster_and_keeps_it() -> None:
    clusters = LiveClusters()
    with clusters.use(user("a")) as one, clusters.use(user("b")) as other:
        assert one is not other
    with clusters.use(user("a")) as again:
        assert again is one
    await clusters.close()


async def test_an_idle_cluster_is_dropped_but_not_one_in_use() -> None:
    clusters = LiveClusters(idle_seconds=0.0)
    dropped = live_cluster._DROPPED._value.get()
    with clusters.use(user("a")) as used:
        with clusters.use(user("a")) as same:
            assert same is used
        with clusters.use(user("a")) as same:
            assert same is used

    await eventually(lambda: live_cluster._DROPPED._value.get() == dropped + 1)
    with clusters.use(user("a")) as fresh:
        assert fresh is not used
    await clusters.close()


async def test_a_request_that_outlives_the_sign_out_of_its_user_starts_no_watch() -> None:
    clusters = LiveClusters()
    with clusters.use(user("a")) as ended:
        clusters.end("a")
        clusters.end("a")  # nobody of this name: nothing to end
        await asyncio.sleep(0)

        with pytest.raises(Unauthorized):
            await ended.informer(NODES)
        assert ended._tasks == []
    with clusters.use(user("a")) as fresh:
        assert fresh is not ended
    await clusters.close()


async def test_too_many_users_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_cluster, "MAX_CLUSTERS", 1)
    clusters = LiveClusters()
    with clusters.use(user("a")), pytest.raises(TooManyRequests), clusters.use(user("b")):
        pass
    await clusters.close()


async def test_one_user_with_many_tokens_leaves_room_for_others() -> None:
    clusters = LiveClusters()
    keys = [f"token-{number}" for number in range(live_cluster.MAX_OF_ONE_USER)]
    with ExitStack() as stack:
        used = [stack.enter_context(clusters.use(user(key, "ann"))) for key in keys]
        with (
            pytest.raises(TooManyRequests, match="8 tokens"),
            clusters.use(user("x", "ann")),
        ):
            pass
        with (
            clusters.use(user("b", "bob")),
            clusters.use(user(keys[0], "ann")) as same,
        ):
            assert same is used[0]

    with clusters.use(user("x", "ann")):  # instead of one that is not in use
        own = [entry for entry in clusters._entries.values() if entry.owner == "ann"]
        assert len(own) == live_cluster.MAX_OF_ONE_USER
    await clusters.close()


async def test_a_cluster_that_does_not_answer_is_an_error_at_once() -> None:
    clusters = LiveClusters()
    with clusters.use(user("")) as cluster:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
            await cluster.informer(NODES)
        assert "127.0.0.1:1" in cluster.problem
    await clusters.close()


async def test_calls_that_wait_leave_the_threads_of_the_event_loop_to_others() -> None:
    """The API server of the same process needs such a thread to answer the call."""
    clusters, answered = LiveClusters(), threading.Event()
    with clusters.use(user("")) as cluster:
        calls = [asyncio.create_task(cluster.call(lambda _: answered.wait())) for _ in range(MANY)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(30):
                await asyncio.to_thread(answered.set)
        finally:
            answered.set()
        assert all(await asyncio.gather(*calls))
    await clusters.close()


async def test_only_the_first_login_of_a_user_fetches_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[LiveCluster] = []

    async def start(cluster: LiveCluster) -> None:
        started.append(cluster)

    monkeypatch.setattr(LiveCluster, "start", start)
    clusters = LiveClusters()
    for _ in range(3):
        clusters.start(user("a"))
        await eventually(lambda: started)
    clusters.start(user("b"))
    await eventually(lambda: len(started) > 1)
    await clusters.close()

    assert len(started) == 2
