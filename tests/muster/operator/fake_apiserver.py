"""An API server in memory behind the Transport seam, for the operator on virtual time.

It has creation, merge patches, deletion with UIDs, watches by label, garbage collection by owner,
late watch events and failing responses: the features that the operator depends on, and no more. The
tests in `end_to_end/` run on real servers.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kubekit.client.error_response import request_target
from kubekit.client.request import Request, Response
from kubekit.objects.selectors import parse_fields
from tests.muster.operator.builders import merged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from kubekit.client.transport.http_transport import WebSocket

Raw = dict[str, Any]


class Server:
    """`fail` is the share of responses that are 500; `late` delays events, `slow` responses."""

    def __init__(
        self, *, fail: float = 0.0, late: float = 0.0, slow: float = 0.003, seed: int = 1
    ) -> None:
        self.fail, self.late, self.slow = fail, late, slow
        self.dice = random.Random(seed)
        self.version = 0
        self.uids = 0
        self.objects: dict[str, Raw] = {}
        self.history: list[tuple[float, int, str, str, Raw, Raw]] = []
        """Time of its watch event, version, type, path, the object after and before."""
        self.created: list[str] = []
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request except watches."""
        self.owned: dict[str, set[str]] = {}
        self.missing: set[str] = set()
        """Resources that this server does not serve."""
        self.refused: set[str] = set()
        """Resources that the client may not create."""
        self.invalid: set[str] = set()
        """Resources whose creations are rejected as invalid."""
        self.wrong: set[str] = set()
        """Names of pods that are rejected as invalid."""
        self.forbidden: set[str] = set()
        """Requests (`DELETE pods`) that are forbidden."""
        self.before: dict[str, Callable[[], object]] = {}
        """Functions called once, just before such a request (`PATCH tfjobs`) is carried out."""
        self._changed = asyncio.Event()

    # For tests

    def get(self, path: str) -> Raw | None:
        return self.objects.get(path)

    def named(self, resource: str) -> list[str]:
        """The names of all objects of a resource."""
        return sorted(p.rpartition("/")[2] for p in self.objects if f"/{resource}/" in p)

    def put(self, path: str, obj: Raw) -> Raw:
        """Create or replace an object, as another client."""
        kind = "MODIFIED" if path in self.objects else "ADDED"
        if kind == "ADDED":
            self.uids += 1
            meta = {"uid": f"uid-{self.uids}", "generation": 1, "namespace": "ns"}
            obj = merged(obj, {"metadata": meta})
        self._write(kind, path, obj)
        return self.objects[path]

    def patch(self, path: str, change: Raw) -> Raw:
        return self.put(path, merged(self.objects[path], change))

    def remove(self, path: str) -> None:
        """Delete an object at once, and all objects that it owns."""
        removed = self.objects[path]
        self._write("DELETED", path, removed)
        for other in sorted(self.owned.pop(removed["metadata"]["uid"], ())):
            if other in self.objects:
                self.remove(other)

    # The transport

    async def send(self, request: Request) -> Response:
        self.requests.append((request.method, request.path))
        slow = self.dice.uniform(0.0, self.slow) if self.slow else 0
        await asyncio.sleep(slow)  # pace: a slow server
        fails = self.dice.random() < self.fail
        if fails and self.dice.random() < 0.5:
            return _status(500, "InternalError")
        answer = self._refusal(request) or self._answer(request)
        return _status(500, "InternalError") if fails else answer

    def _refusal(self, request: Request) -> Response | None:
        if any(f"/{name}" in request.path for name in self.missing):
            return _status(404, "NotFound")
        if any(_matches(forbidden, request) for forbidden in self.forbidden):
            return _status(403, "Forbidden", _denial(request))
        return None

    def _answer(self, request: Request) -> Response:
        path = request.path.removesuffix("/status")
        for happens in [w for w in self.before if _matches(w, request)]:
            self.before.pop(happens)()
        body = json.loads(request.body) if request.body else {}
        match request.method:
            case "GET" if path in self.objects:
                return _ok(self.objects[path])
            case "GET" if _is_collection(path):
                items = [obj for _, obj in self._within(request)]
                return _ok({"metadata": {"resourceVersion": str(self.version)}, "items": items})
            case "POST":
                return self._create(f"{path}/{body['metadata']['name']}", body)
            case _ if path not in self.objects:
                return _status(404, "NotFound")
            case "PATCH":
                return self._patched(path, body, request.path.endswith("/status"))
            case "DELETE":
                wanted, meta = body.get("preconditions") or {}, self.objects[path]["metadata"]
                if any(meta[field] != value for field, value in wanted.items()):
                    return _status(409, "Conflict")
                self.remove(path)
                return _ok({})
            case _:
                return _status(405, "MethodNotAllowed")

    def _create(self, path: str, body: Raw) -> Response:
        name = path.rpartition("/")[2]
        if path.split("/")[-2] in self.refused:
            return _status(403, "Forbidden")
        if path.split("/")[-2] in self.invalid or ("/pods/" in path and name in self.wrong):
            return _status(422, "Invalid")
        if path in self.objects:
            return _status(409, "AlreadyExists")
        if "/events/" not in path:
            self.created.append(path)
        if "/pods/" in path:
            body = {**body, "status": {"phase": "Pending"}}
        return _ok(self.put(path, body))

    def _patched(self, path: str, body: Raw, status: bool) -> Response:
        held = self.objects[path]
        wanted = (body.get("metadata") or {}).get("uid")
        if wanted and wanted != held["metadata"]["uid"]:
            return _status(409, "Conflict")
        change = {"status": body.get("status")} if status else body
        return _ok(self.patch(path, change))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._events(request, int(dict(request.query)["resourceVersion"]))

    async def _events(self, request: Request, since: int) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        selector = dict(request.query).get("labelSelector", "")
        position = 0
        while True:
            changed = self._changed
            fresh, position = self.history[position:], len(self.history)
            for due, version, change, path, obj, old in fresh:
                kind = _event_type(change, _has(old, selector), _has(obj, selector))
                if version <= since or not _inside(path, request.path) or not kind:
                    continue
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())  # pace: a late watch
                since = version
                yield json.dumps({"type": kind, "object": obj}).encode() + b"\n"
            if position == len(self.history):
                await changed.wait()

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def _within(self, request: Request) -> list[tuple[str, Raw]]:
        selector = dict(request.query).get("labelSelector", "")
        fields = parse_fields(dict(request.query).get("fieldSelector", ""))
        return [
            (path, obj)
            for path, obj in self.objects.items()
            if _inside(path, request.path)
            and _has(obj, selector)
            and fields.matches(partial(_field, obj))
        ]

    def _write(self, kind: str, path: str, obj: Raw) -> None:
        self.version += 1
        for row in obj["metadata"].get("ownerReferences") or ():
            self.owned.setdefault(row["uid"], set()).add(path)
        obj = merged(obj, {"metadata": {"resourceVersion": str(self.version)}})
        old = self.objects.get(path) or {"metadata": {}}
        if kind == "DELETED":
            self.objects.pop(path, None)
        else:
            self.objects[path] = obj
        due = asyncio.get_running_loop().time() + self.dice.uniform(0, self.late)
        self.history.append((due, self.version, kind, path, obj, old))
        self._changed.set()
        self._changed = asyncio.Event()


def _matches(description: str, request: Request) -> bool:
    method, _, resource = description.partition(" ")
    return request.method == method and f"/{resource}" in request.path


def _event_type(change: str, before: bool, after: bool) -> str:
    """The type of the event that a watch by label gets for a change; empty for no event."""
    if change != "MODIFIED":
        return change if after else ""
    return {(True, True): change, (False, True): "ADDED", (True, False): "DELETED"}.get(
        (before, after), ""
    )


def _is_collection(path: str) -> bool:
    parts = path.strip("/").split("/")
    after = parts[2:] if parts[0] == "api" else parts[3:]
    return len(after) in (1, 3)


def _inside(path: str, collection: str) -> bool:
    """Whether the object is in the collection, of one namespace or of all."""
    prefix, _, plural = collection.rpartition("/")
    return path.startswith(prefix) and path.split("/")[-2] == plural


def _field(obj: Raw, path: str) -> str:
    value: Any = obj
    for step in path.split("."):
        value = (value or {}).get(step)
    return str(value or "")


def _has(obj: Raw, selector: str) -> bool:
    return not selector or selector in (obj["metadata"].get("labels") or {})


def _ok(obj: Raw) -> Response:
    return Response(200, {}, json.dumps(obj).encode())


def _denial(request: Request) -> str:
    """The words of a real server about a right that the operator lacks."""
    about = request_target(request)
    resource, _, group = about.resource.partition(".")
    account = "system:serviceaccount:muster:muster-operator"
    denied = f'User "{account}" cannot {about.verb} resource "{resource}" in API group "{group}"'
    return f'{denied} in the namespace "{about.namespace}"'


def _status(code: int, reason: str, message: str = "") -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}
    return Response(code, {}, json.dumps(body).encode())
