"""The API server in memory, behind the Transport seam: for tests on virtual time.

It has what clients, informers and daemons depend on, and no more: lists in pages, watches by label,
creation, replacement, merge patches, deletion with UIDs, garbage collection by owner, bookmarks and
compaction. It can be slow, late, cut off, or fail. It knows objects by their path and nothing about
kinds: what must hold for a real server is tested on one (`LocalServer`, `ControlPlane`).

Two other clusters in memory differ in kind. The scheduler's `FakeCluster` gives changes to its
state without a client or an informer. That of the verbs answers a blocking client with objects as
a golden test gives them, and only notes what is written.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kubekit.client.error_response import error_from_response, request_target
from kubekit.client.request import Request, Response
from kubekit.objects.kinds import PODS, Kind
from kubekit.objects.selectors import parse_fields, parse_labels
from kubekit.request_errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from kubekit.client.streams.websocket import WebSocket

Raw = dict[str, Any]
POD = "/api/v1/namespaces/ns/pods"
"""The path of the pods of the namespace `ns`."""


class ApiInMemory:
    """`fail` is the share of responses that are 500; `late` delays events, `slow` responses."""

    def __init__(
        self, *, fail: float = 0.0, late: float = 0.0, slow: float = 0.003, seed: int = 1
    ) -> None:
        self.fail, self.late, self.slow = fail, late, slow
        self.dice = random.Random(seed)
        self.version = 100
        self.floor = 0
        """Watches from an older version are too old."""
        self.uids = 0
        self.objects: dict[str, Raw] = {}
        self.history: list[tuple[float, int, str, str, Raw, Raw]] = []
        """Time of its watch event, version, type, path, the object after and before."""
        self.created: list[str] = []
        self.requests: list[Request] = []
        """Every request except watches."""
        self.owned: dict[str, set[str]] = {}
        self.answers: deque[Response | Exception | Callable[[Request], None]] = deque()
        """Responses or errors for the next requests. After a function, the objects answer."""
        self.reachable = True
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
        self._cut = 0

    # What tests do to it

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
            obj = {**obj, "metadata": {**meta, **obj["metadata"]}}
        self._write(kind, path, obj)
        return self.objects[path]

    def add(self, *objects: Raw, kind: Kind[Any] = PODS) -> None:
        """Create or replace objects of a kind."""
        for obj in objects:
            meta = obj["metadata"]
            self.put(kind.path(meta.get("namespace", ""), meta["name"]), obj)

    def patch(self, path: str, change: Raw) -> Raw:
        return self.put(path, merged(self.objects[path], change))

    def remove(self, path: str) -> None:
        """Delete an object at once, and all objects that it owns."""
        removed = self.objects[path]
        self._write("DELETED", path, removed)
        for other in sorted(self.owned.pop(removed["metadata"]["uid"], ())):
            if other in self.objects:
                self.remove(other)

    def bookmark(self) -> None:
        self._write("BOOKMARK", "", {"kind": "Pod", "metadata": {}, "spec": {"containers": None}})

    def compact(self) -> None:
        self.floor = self.version

    def cut(self) -> None:
        """Break every open stream."""
        self._cut += 1
        self._wake()

    # The transport

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        slow = self.dice.uniform(0.0, self.slow) if self.slow else 0
        await asyncio.sleep(slow)  # pace: a slow server
        fails = self.dice.random() < self.fail
        if fails and self.dice.random() < 0.5:
            return status_response(500, "InternalError")
        answer = self._refusal(request) or self._answer(request)
        return status_response(500, "InternalError") if fails else answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        refusal = self._refusal(request)
        if refusal is not None:
            raise error_from_response(refusal, request)
        yield self._events(request, int(dict(request.query)["resourceVersion"]))

    def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that the objects do not answer."""
        if not self.reachable:
            raise Unreachable("cannot reach the server in memory")
        answer = self.answers.popleft() if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Response):
            return answer
        if answer is not None:
            answer(request)
        if any(f"/{name}" in request.path for name in self.missing):
            message = "the server could not find the requested resource"
            return status_response(404, "NotFound", message)
        if any(_matches(forbidden, request) for forbidden in self.forbidden):
            return status_response(403, "Forbidden", _denial(request))
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
                return self._list(request)
            case "POST":
                return self._create(f"{path}/{body['metadata']['name']}", body)
            case _ if path not in self.objects:
                return status_response(404, "NotFound", f"{path} not found")
            case "PUT":
                return self._replace(path, body)
            case "PATCH":
                return self._patched(path, body, request.path.endswith("/status"))
            case "DELETE":
                wanted, meta = body.get("preconditions") or {}, self.objects[path]["metadata"]
                if any(meta[field] != value for field, value in wanted.items()):
                    return status_response(409, "Conflict")
                self.remove(path)
                return _ok({})
            case _:
                return status_response(405, "MethodNotAllowed")

    def _list(self, request: Request) -> Response:
        query = dict(request.query)
        labels = parse_labels(query.get("labelSelector", ""))
        fields = parse_fields(query.get("fieldSelector", ""))
        items = [
            obj
            for path, obj in sorted(self.objects.items())
            if _inside(path, request.path)
            and labels.matches(_labels(obj))
            and fields.matches(partial(_field, obj))
        ]
        start = int(query.get("continue", "0"))
        end = start + int(query.get("limit", len(items) or 1))
        metadata = {"resourceVersion": str(self.version)}
        if end < len(items):
            metadata["continue"] = str(end)
        return _ok({"metadata": metadata, "items": items[start:end]})

    def _create(self, path: str, body: Raw) -> Response:
        name = path.rpartition("/")[2]
        if path.split("/")[-2] in self.refused:
            return status_response(403, "Forbidden")
        if path.split("/")[-2] in self.invalid or ("/pods/" in path and name in self.wrong):
            return status_response(422, "Invalid")
        if path in self.objects:
            return status_response(409, "AlreadyExists")
        if "/events/" not in path:
            self.created.append(path)
        if "/pods/" in path:
            body = {**body, "status": {"phase": "Pending"}}
        return _ok(self.put(path, body))

    def _replace(self, path: str, body: Raw) -> Response:
        held = self.objects[path]["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion") != held:
            return status_response(409, "Conflict", "the object has been modified")
        return _ok(self.put(path, body))

    def _patched(self, path: str, body: Raw, status: bool) -> Response:
        held = self.objects[path]
        wanted = (body.get("metadata") or {}).get("uid")
        if wanted and wanted != held["metadata"]["uid"]:
            return status_response(409, "Conflict")
        change = {"status": body.get("status")} if status else body
        return _ok(self.patch(path, change))

    async def _events(self, request: Request, since: int) -> AsyncIterator[bytes]:
        if since < self.floor:
            gone = json.loads(status_response(410, "Expired", "too old resource version").body)
            yield json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n"
            return
        loop = asyncio.get_running_loop()
        labels = parse_labels(dict(request.query).get("labelSelector", ""))
        position, cut = 0, self._cut
        while True:
            changed = self._changed
            fresh, position = self.history[position:], len(self.history)
            for due, version, change, path, obj, old in fresh:
                before, after = labels.matches(_labels(old)), labels.matches(_labels(obj))
                kind = _event_type(change, before, after)
                if version <= since or not _inside(path, request.path) or not kind:
                    continue
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())  # pace: a late watch
                since = version
                yield json.dumps({"type": kind, "object": obj}).encode() + b"\n"
            if position == len(self.history) and self._cut == cut:
                await changed.wait()
            if self._cut != cut:
                raise Unreachable("the stream was cut")

    def _write(self, kind: str, path: str, obj: Raw) -> None:
        self.version += 1
        for row in obj["metadata"].get("ownerReferences") or ():
            self.owned.setdefault(row["uid"], set()).add(path)
        obj = merged(obj, {"metadata": {"resourceVersion": str(self.version)}})
        old = self.objects.get(path) or {"metadata": {}}
        if kind == "DELETED":
            self.objects.pop(path, None)
        elif path:
            self.objects[path] = obj
        late = self.dice.uniform(0, self.late)
        due = asyncio.get_running_loop().time() + late if late else 0.0
        self.history.append((due, self.version, kind, path, obj, old))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def status_response(code: int, reason: str = "", message: str = "", **headers: str) -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}
    return Response(code, headers, json.dumps(body).encode())


def merged(before: Raw, change: Raw) -> Raw:
    """The object after a merge patch."""
    result = dict(before)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            inner = result.get(name)
            result[name] = merged(inner if isinstance(inner, dict) else {}, value)
        else:
            result[name] = value
    return result


def _matches(description: str, request: Request) -> bool:
    method, _, resource = description.partition(" ")
    return request.method == method and f"/{resource}" in request.path


def _event_type(change: str, before: bool, after: bool) -> str:
    """The type of the event that a watch by label gets for a change; empty for no event."""
    if change == "BOOKMARK":
        return change
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
    """Whether the object is in the collection, of one namespace or of all; a bookmark is in all."""
    prefix, _, plural = collection.rpartition("/")
    return not path or (path.startswith(f"{prefix}/") and path.split("/")[-2] == plural)


def _field(obj: Raw, path: str) -> str:
    value: Any = obj
    for step in path.split("."):
        value = (value or {}).get(step)
    return str(value or "")


def _labels(obj: Raw) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _ok(obj: Raw) -> Response:
    return Response(200, {}, json.dumps(obj).encode())


def _denial(request: Request) -> str:
    """The words of a real server about a right that the operator lacks."""
    about = request_target(request)
    resource, _, group = about.resource.partition(".")
    account = "system:serviceaccount:muster:muster-operator"
    denied = f'User "{account}" cannot {about.verb} resource "{resource}" in API group "{group}"'
    return f'{denied} in the namespace "{about.namespace}"'
