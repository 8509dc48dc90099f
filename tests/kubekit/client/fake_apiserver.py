"""An API server in memory behind the Transport seam: versions, watches, compaction, failures.

It knows collections by their path and nothing about kinds, which is all that the client, the
informer and the election need. The tests named `*_real_apiserver.py` use a real server.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kubekit.client.error_response import error_from_response
from kubekit.client.request import Request, Response
from kubekit.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from kubekit.client.transport.http_transport import WebSocket

Raw = dict[str, Any]


def pod(name: str, *, uid: str = "", namespace: str = "ns", **labels: str) -> Raw:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "labels": labels,
        },
        "spec": {"containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": "Pending"},
    }


def status_response(code: int, reason: str = "", message: str = "", **headers: str) -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return Response(code, headers, json.dumps(body).encode())


class FakeApiServer:
    """A transport that is the server."""

    def __init__(self) -> None:
        self.version = 100
        self.floor = 0
        self.installed = True
        self.objects: dict[str, Raw] = {}
        self.history: list[tuple[int, str, str, Raw]] = []
        self.requests: list[Request] = []
        self.answers: deque[Response | Exception | Callable[[Request], None]] = deque()
        """Responses or errors for the next requests. After a function, the objects answer."""
        self.reachable = True
        self._changed = asyncio.Condition()
        self._cut = 0

    # What tests do to it

    async def put(self, obj: Raw, *, resource: str = "pods") -> Raw:
        meta = obj["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/{resource}/{meta['name']}"
        kind = "MODIFIED" if path in self.objects else "ADDED"
        return await self._write(path, kind, obj)

    async def remove(self, name: str, *, namespace: str = "ns", resource: str = "pods") -> None:
        path = f"/api/v1/namespaces/{namespace}/{resource}/{name}"
        await self._write(path, "DELETED", self.objects[path])

    async def bookmark(self) -> None:
        self.version += 1
        await self._emit(
            "BOOKMARK", "", {"kind": "Pod", "metadata": {}, "spec": {"containers": None}}
        )

    def compact(self) -> None:
        self.floor = self.version

    async def cut(self) -> None:
        """Break every open stream."""
        async with self._changed:
            self._cut += 1
            self._changed.notify_all()

    # The transport

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(0)
        early = self._early(request)
        if early is not None:
            return early
        if not self.installed:
            return status_response(
                404, "NotFound", "the server could not find the requested resource"
            )
        handler = {"GET": self._get, "POST": self._post, "PUT": self._put}[request.method]
        return await handler(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(request)
        early = self._early(request)
        if early is not None:
            raise error_from_response(early, request)
        if not self.installed:
            raise error_from_response(
                status_response(404, "NotFound", "404 page not found"), request
            )
        yield self._events(int(dict(request.query)["resourceVersion"]), request.path)

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def _early(self, request: Request) -> Response | None:
        if not self.reachable:
            raise Unreachable("cannot reach the fake")
        if not self.answers:
            return None
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Response):
            return answer
        answer(request)
        return None

    async def _get(self, request: Request) -> Response:
        if request.path in self.objects:
            return self._ok(self.objects[request.path])
        if request.path.rpartition("/")[2] in ("pods", "leases"):
            return self._list(request)
        return status_response(404, "NotFound", f"{request.path} not found")

    def _list(self, request: Request) -> Response:
        query = dict(request.query)
        objects = [obj for path, obj in sorted(self.objects.items()) if _within(path, request.path)]
        start = int(query.get("continue", "0"))
        end = start + int(query.get("limit", len(objects) or 1))
        metadata = {"resourceVersion": str(self.version)}
        if end < len(objects):
            metadata["continue"] = str(end)
        return self._ok({"metadata": metadata, "items": objects[start:end]})

    async def _post(self, request: Request) -> Response:
        obj = json.loads(request.body or b"")
        path = f"{request.path}/{obj['metadata']['name']}"
        if path in self.objects:
            return status_response(409, "AlreadyExists", "already exists")
        return self._ok(await self._write(path, "ADDED", obj))

    async def _put(self, request: Request) -> Response:
        obj = json.loads(request.body or b"")
        held = self.objects.get(request.path)
        if held is None:
            return status_response(404, "NotFound", "not found")
        if obj["metadata"].get("resourceVersion") != held["metadata"]["resourceVersion"]:
            return status_response(409, "Conflict", "the object has been modified")
        return self._ok(await self._write(request.path, "MODIFIED", obj))

    async def _write(self, path: str, kind: str, obj: Raw) -> Raw:
        self.version += 1
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            del self.objects[path]
        else:
            self.objects[path] = obj
        await self._emit(kind, path, obj)
        return obj

    async def _emit(self, kind: str, path: str, obj: Raw) -> None:
        obj["metadata"]["resourceVersion"] = str(self.version)
        async with self._changed:
            self.history.append((self.version, kind, path, obj))
            self._changed.notify_all()

    async def _events(self, since: int, collection: str) -> AsyncIterator[bytes]:
        if since < self.floor:
            gone = json.loads(status_response(410, "Expired", "too old resource version").body)
            yield json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n"
            return
        cut = self._cut
        while True:
            fresh = [entry for entry in self.history if entry[0] > since]
            for version, kind, path, obj in fresh:
                since = version
                if kind == "BOOKMARK" or _within(path, collection):
                    yield json.dumps({"type": kind, "object": obj}).encode() + b"\n"
            async with self._changed:
                while self._cut == cut and not (self.history and self.history[-1][0] > since):
                    await self._changed.wait()
            if self._cut != cut:
                raise Unreachable("the stream was cut")

    @staticmethod
    def _ok(obj: Raw) -> Response:
        return Response(200, {}, json.dumps(obj).encode())


def _within(path: str, collection: str) -> bool:
    plural = collection.rpartition("/")[2]
    if "/namespaces/" in collection:
        return path.startswith(f"{collection}/")
    return f"/{plural}/" in path
