"""The Kubernetes API as typed calls over a plain socket, for commands that must start at once.

Requests, decoding, errors and watch events are those of `client.py`; only the transport differs.
The module imports neither asyncio nor aiohttp. The client keeps one connection open between calls.
It sends a GET once more if that connection was closed, and again after a 5xx with Retry-After. It
sends any request again after a 429, which means that the server did not act, and once more after a
401 if there are newer credentials. It sends nothing else twice.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.client import decoding, request
from kubekit.client.error_response import error_from_response
from kubekit.client.transport.blocking_transport import BlockingTransport
from kubekit.request_errors import Gone, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Self, Unpack

    from kubekit.client.auth.endpoint import Endpoint
    from kubekit.client.decoding import ObjectList
    from kubekit.client.request import Request, Response
    from kubekit.client.watch_stream import WatchEvent
    from kubekit.objects.kinds import Kind
    from kubekit.objects.meta import Key, Raw

T = TypeVar("T")


class BlockingClient:
    """One connection for calls, and one per open stream. Not thread-safe."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        user_agent: str = "muster",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = BlockingTransport(endpoint, user_agent)
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        """End the streams that another thread reads; its next request raises Aborted."""
        self._transport.abort()

    def get(self, kind: Kind[T], key: Key) -> T:
        return self._object(kind, request.get(kind, key))

    def find(self, kind: Kind[T], key: Key) -> T | None:
        """The object, or None if there is none of that name."""
        try:
            return self.get(kind, key)
        except NotFound:
            return None

    def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        page: int = 500,
        **selectors: Unpack[request.Selectors],
    ) -> ObjectList[T]:
        pages = decoding.ListPages(kind, namespace, page, selectors)
        while call := pages.next_request():
            try:
                pages.add_page(self.send(call).body)
            except Gone as gone:
                pages.expired(gone)
        return pages.result()

    def create(self, kind: Kind[T], body: Raw, *, namespace: str = "") -> T:
        return self._object(kind, request.create(kind, body, namespace=namespace))

    def patch(
        self, kind: Kind[T], key: Key, body: object, **options: Unpack[request.PatchOptions]
    ) -> T:
        return self._object(kind, request.patch(kind, key, body, **options))

    def delete(self, kind: Kind[Any], key: Key, **options: Unpack[request.DeleteOptions]) -> None:
        self.send(request.delete(kind, key, **options))

    def watch(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        since: str,
        seconds: int = 0,
        **selectors: Unpack[request.Selectors],
    ) -> Generator[WatchEvent[T], None, None]:
        """Changes after version `since`, until the server ends the watch after about `seconds`."""
        from kubekit.client.watch_stream import LineSplitter, event_reader

        call = request.watch(kind, namespace, since=since, seconds=seconds, **selectors)
        read, lines = event_reader(kind, call), LineSplitter()
        for chunk in self._transport.stream(call):
            for line in lines.feed(chunk):
                yield read(line)

    def logs(self, pod: Key, **options: Unpack[request.LogOptions]) -> Iterator[bytes]:
        """A container's log in chunks, as they arrive."""
        return self._transport.stream(request.logs(pod, options))

    def log_of(
        self, kind: Kind[Any], key: Key, **options: Unpack[request.LogOptions]
    ) -> Iterator[bytes]:
        """The log of an object that is not a pod, in chunks."""
        return self._transport.stream(request.logs(key, options, kind))

    def ready_checks(self) -> dict[str, str]:
        """The checks of `/readyz` by name, with the reason of each that fails, else ""."""
        call = request.Request("GET", "/readyz", (("verbose", "true"),), accept="*/*")
        # Sent once: an answer of 500 is the result, and names the checks.
        lines = self._transport.send(call).body.decode(errors="replace").splitlines()
        checks = (line[3:].partition(" ") for line in lines if line.startswith(("[+]", "[-]")))
        return {name: rest[8:] if rest.startswith("failed: ") else "" for name, _, rest in checks}

    def send(self, call: Request) -> Response:
        """Send any request; an error response is raised."""
        attempt = 1
        while True:
            response = self._transport.send(call)
            if response.status < 300:
                return response
            from kubekit.client.retry import pause_before_retry  # rarely needed

            pause = pause_before_retry(call, response, attempt)
            if pause is None:
                raise error_from_response(response, call)
            self._sleep(pause)
            attempt += 1

    def _object(self, kind: Kind[T], call: Request) -> T:
        return decoding.decode_object(kind, self.send(call).body)
