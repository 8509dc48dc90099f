"""The Kubernetes API as typed calls.

    async with Client.connect(endpoint) as client:
        pod = await client.get(PODS, Key("default", "x"))

The first argument of each call is a `Kind`, which fixes the type of the result. At most
`max_in_flight` requests are sent at once (streams not counted). A server that asks for a pause gets
it. A POST or PATCH that may have been carried out is never sent twice.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.client import decoding, request, watch_stream
from kubekit.client.error_response import error_from_response
from kubekit.client.request import PatchType
from kubekit.client.retry import Throttle, pause_before_retry
from kubekit.request_errors import Gone

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from typing import Self, Unpack

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.decoding import ObjectList
    from kubekit.client.request import Request, Response
    from kubekit.client.streams.exec_session import ExecSession
    from kubekit.client.transport.connection_pool import Connector
    from kubekit.client.transport.http_transport import Transport
    from kubekit.client.watch_stream import WatchEvent
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Key, ObjectMeta, Raw

T = TypeVar("T")

MAX_IN_FLIGHT = 96
_NO_ANNOTATIONS: Mapping[str, str] = {}


class Client:
    """Typed calls over a transport. Closing it closes the transport."""

    def __init__(
        self,
        transport: Transport,
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        watch_seconds: tuple[int, int] = watch_stream.WATCH_SECONDS,
    ) -> None:
        self.transport = transport
        self._watch_seconds = watch_seconds
        self._slots = asyncio.Semaphore(max_in_flight)
        self._throttle = Throttle()

    @classmethod
    def connect(
        cls,
        endpoint: Endpoint,
        *,
        user_agent: str = "muster",
        connector: Connector | None = None,
    ) -> Client:
        """A client over HTTP. It connects with the first call, by `connector` if the server is
        part of this process."""
        from kubekit.client.transport.http_transport import HttpTransport

        http = HttpTransport(endpoint, user_agent=user_agent, connector=connector)
        through_proxy = watch_stream.WATCH_SECONDS_THROUGH_PROXY
        seconds = through_proxy if http.proxy else watch_stream.WATCH_SECONDS
        return cls(http, watch_seconds=seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.transport.close()

    # Reading

    async def get(self, kind: Kind[T], key: Key) -> T:
        return await self._object(kind, request.get(kind, key))

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        page: int = 500,
        **selectors: Unpack[request.Selectors],
    ) -> ObjectList[T]:
        """All objects, in pages of one resource version; `page` of 0 requests all at once."""
        pages = decoding.ListPages(kind, namespace, page, selectors)
        while call := pages.next_request():
            try:
                pages.add_page((await self.send(call)).body)
            except Gone as gone:
                pages.expired(gone)
        return pages.result()

    async def watch(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        since: str,
        **selectors: Unpack[request.Selectors],
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes after version `since`, until the server ends the watch; `Gone` if too old."""
        seconds = random.randint(*self._watch_seconds)
        call = request.watch(kind, namespace, since=since, seconds=seconds, **selectors)
        read, lines = watch_stream.event_reader(kind, call), watch_stream.LineSplitter()
        async with self.transport.stream(call) as chunks:
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    yield read(line)

    async def logs(
        self, pod: Key, **options: Unpack[request.LogOptions]
    ) -> AsyncGenerator[bytes, None]:
        """A container's log in chunks, as they arrive."""
        async with self.transport.stream(request.logs(pod, options)) as chunks:
            async for chunk in chunks:
                yield chunk

    # Writing

    async def create(
        self,
        kind: Kind[T],
        body: Raw,
        *,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
    ) -> T:
        """Create an object; its namespace is `namespace`, else the one in its metadata."""
        call = request.create(kind, body, namespace=namespace, subresource=subresource, name=name)
        return await self._object(kind, call._replace(query=request.NO_FIELD_VALIDATION))

    async def replace(self, kind: Kind[T], body: Raw, *, subresource: str = "") -> T:
        """Write a whole object. Never pass an object that was read as a struct: it lost fields."""
        return await self._object(kind, request.replace(kind, body, subresource=subresource))

    async def patch(
        self, kind: Kind[T], key: Key, body: object, **options: Unpack[request.PatchOptions]
    ) -> T:
        return await self._object(kind, request.patch(kind, key, body, **options))

    async def patch_status(self, kind: Kind[T], meta: ObjectMeta, status: Raw) -> T:
        """Merge into the status by Kubernetes' list keys, so conditions of others stay.

        Raises `Conflict` if the name now belongs to another object.
        """
        body = {"metadata": {"uid": meta.uid}, "status": status}
        return await self.patch(
            kind, meta.key, body, patch_type=PatchType.STRATEGIC, subresource="status"
        )

    async def delete(
        self, kind: Kind[Any], key: Key, **options: Unpack[request.DeleteOptions]
    ) -> None:
        """Delete an object; with `uid`, `Conflict` if the name now belongs to another object."""
        await self.send(request.delete(kind, key, **options))

    async def delete_collection(
        self, kind: Kind[Any], namespace: str, **selectors: Unpack[request.Selectors]
    ) -> None:
        await self.send(request.delete_collection(kind, namespace, **selectors))

    async def bind(
        self, pod: Key, *, uid: str, node: str, annotations: Mapping[str, str] = _NO_ANNOTATIONS
    ) -> None:
        """Bind a pod to a node; the annotations are merged into the pod in the same write."""
        await self.send(request.bind(pod, uid=uid, node=node, annotations=annotations))

    @asynccontextmanager
    async def exec(
        self,
        pod: Key,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> AsyncGenerator[ExecSession, None]:
        """Run a command in a container: `async for channel, data in session`.

        Without a command, attach to the process of the container.
        """
        # Imported here because daemons do not need it.
        from kubekit.client.streams.exec_session import PROTOCOLS, ExecSession, exec_query

        query = exec_query(command, container=container, stdin=stdin, tty=tty)
        call = request.websocket_upgrade(pod, "exec" if command else "attach", query)
        async with self.transport.websocket(call, PROTOCOLS) as socket:
            yield ExecSession(socket)

    # Sending

    async def send(self, call: Request) -> Response:
        """Send any request under the same limits; an error response is raised."""
        attempt, clock = 1, asyncio.get_running_loop().time
        while True:
            if wait := self._throttle.wait(clock()):
                await asyncio.sleep(wait)
            async with self._slots:
                response = await self.transport.send(call)
            if response.status < 300:
                return response
            pause = pause_before_retry(call, response, attempt)
            if pause is None:
                raise error_from_response(response, call)
            # For every request of this client: they all go to the same overloaded server.
            self._throttle.pause(clock(), pause)
            attempt += 1

    async def _object(self, kind: Kind[T], call: Request) -> T:
        return decoding.decode_object(kind, (await self.send(call)).body)
