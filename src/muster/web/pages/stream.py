"""Server-sent events: one stream per browser tells its tabs which topics changed.

    GET /stream               event `hello` {"id": …}, then events `changed` {"topics", "version"}
    POST /stream/ID/topics    {"TOPIC": "VERSION OF THE PAGE", …}: all that the tabs show now

Topics of the form `FEED:ARGUMENT`, with FEED in `FEEDS`, carry data instead: while a tab wants such
a topic, its feed runs, and each of its messages is sent as event `data` {"topic", "message"}.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from kubekit.errors import MusterError
from kubekit.request_errors import BadRequest, NotFound, TooManyRequests, Unauthorized
from muster.web.access.gate import GATE
from muster.web.access.request_facts import IDENTITY
from muster.web.context import cluster_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from muster.web.access.request_facts import Identity
    from muster.web.cluster.live_cluster import LiveCluster
    from muster.web.cluster.subscriptions import Subscription

    Feed = Callable[[LiveCluster, str], AsyncIterator[Any]]


FEEDS: dict[str, Feed] = {}
"""By the first word of their topics: functions of the cluster and the rest of the topic."""
INTERVAL = 0.5
"""Seconds between two events of a stream: many changes are one event."""
ALIVE_SECONDS = 15.0
MAX_STREAMS, MAX_STREAMS_OF_ONE_USER = 200, 20
MAX_TOPICS, MAX_FEEDS = 1000, 50


class Stream:
    """One open stream, its subscription and its feeds."""

    def __init__(
        self, identity: Identity, cluster: LiveCluster, subscription: Subscription
    ) -> None:
        self.identity, self._cluster, self._subscription = identity, cluster, subscription
        self._response = web.StreamResponse(headers={"Cache-Control": "no-store"})
        self._response.content_type = "text/event-stream"
        self._feeds: dict[str, asyncio.Task[None]] = {}
        self._group = asyncio.TaskGroup()

    async def run(self, request: web.Request, name: str) -> web.StreamResponse:
        """Serve the stream until the browser or the server ends it."""
        await self._response.prepare(request)
        with suppress(ConnectionResetError):
            async with self._group:
                await self._send("hello", {"id": name})
                alive = self._group.create_task(self._keep_alive(request))
                while changed := await self._subscription.take():
                    version = self._cluster.changes.version
                    await self._send("changed", {"topics": changed, "version": version})
                    await asyncio.sleep(INTERVAL)
                for task in (alive, *self._feeds.values()):
                    task.cancel()
        return self._response

    def show(self, topics: dict[str, str]) -> None:
        """Serve these topics from now on, and no others."""
        feeds = {topic for topic in topics if topic.partition(":")[0] in FEEDS}
        for topic in self._feeds.keys() - feeds:
            self._feeds.pop(topic).cancel()
        for topic in sorted(feeds - self._feeds.keys())[: MAX_FEEDS - len(self._feeds)]:
            self._feeds[topic] = self._group.create_task(self._feed(topic))
        self._cluster.changes.want(
            self._subscription, {t: v for t, v in topics.items() if t not in feeds}
        )

    async def _feed(self, topic: str) -> None:
        name, _, argument = topic.partition(":")
        try:
            async for message in FEEDS[name](self._cluster, argument):
                await self._send("data", {"topic": topic, "message": message})
        except MusterError as error:
            await self._send("data", {"topic": topic, "error": str(error)})

    async def _keep_alive(self, request: web.Request) -> None:
        """Show that the stream is alive, until its token or session is not."""
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            try:
                await request.app[GATE].verify(request)
            except Unauthorized:
                self._subscription.close()
                return
            except MusterError:
                pass  # the API server is away, not the user
            await self._response.write(b":\n\n")

    async def _send(self, event: str, data: object) -> None:
        # JSON has no line breaks, so hostile text cannot end the event.
        body = msgspec.json.encode(data)
        await self._response.write(b"event: %s\ndata: %s\n\n" % (event.encode(), body))


STREAMS: web.AppKey[dict[str, Stream]] = web.AppKey("streams", dict)


async def serve(request: web.Request) -> web.StreamResponse:
    """GET /stream."""
    streams, cluster, identity = request.app[STREAMS], cluster_of(request), request[IDENTITY]
    _check_room(streams.values(), identity.owner)
    name = secrets.token_hex(16)
    with cluster.changes.subscribed() as subscription:
        streams[name] = stream = Stream(identity, cluster, subscription)
        try:
            return await stream.run(request, name)
        finally:
            del streams[name]


def _check_room(streams: Iterable[Stream], owner: str) -> None:
    """TooManyRequests if there is no room for one more stream of this user, or of anybody."""
    owners = [stream.identity.owner for stream in streams]
    if owner and owners.count(owner) >= MAX_STREAMS_OF_ONE_USER:
        raise TooManyRequests(
            f"This dashboard updates at most {MAX_STREAMS_OF_ONE_USER} browsers of one user.",
            status=429,
            hint="Close it in one of them.",
        )
    if len(owners) >= MAX_STREAMS:
        raise TooManyRequests("Too many browsers look at this dashboard.", status=429)


async def set_topics(request: web.Request) -> web.Response:
    """POST /stream/ID/topics."""
    stream = request.app[STREAMS].get(request.match_info["id"])
    if stream is None or stream.identity.secret != request[IDENTITY].secret:
        raise NotFound("There is no such stream.")
    try:
        topics = msgspec.json.decode(await request.read(), type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise BadRequest(f"The topics are invalid: {error}", status=400) from None
    if len(topics) > MAX_TOPICS:
        raise BadRequest(f"A browser shows at most {MAX_TOPICS} topics.", status=400)
    stream.show(topics)
    return web.Response(status=204)
