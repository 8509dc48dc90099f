"""An HTTPS server with webhooks for tests: the path says how a webhook answers.

A path is `/CALLER/BEHAVIOUR`, so that the reviews of two API servers can be told apart.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.controlplane.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFUSALS: dict[str, Any] = {
    "deny": None,
    "deny-message": {"message": "no such thing here", "code": 403, "reason": "Forbidden"},
    "deny-reason": {"reason": "NotAcceptable"},
    "deny-success": {"status": "Success", "code": 200, "message": "odd"},
    "deny-details": {
        "code": 422,
        "reason": "Invalid",
        "message": "wrong",
        "details": {"causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "a"}]},
    },
}
PATCHES: dict[str, Any] = {
    "label": [{"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}],
    "data": [{"op": "add", "path": "/data", "value": {"a": "hooked"}}],
    "unknown-field": [{"op": "add", "path": "/nonsense", "value": 1}],
    "wrong-type": [{"op": "add", "path": "/data", "value": 5}],
    "no-such-path": [{"op": "replace", "path": "/data/none/deep", "value": "x"}],
    "uid": [{"op": "add", "path": "/metadata/uid", "value": "mine"}],
    "container": [
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "b", "image": "b"}}
    ],
    "size": [{"op": "add", "path": "/spec/size", "value": 99}],
    "replicas": [{"op": "replace", "path": "/spec/replicas", "value": 7}],
}
BROKEN: dict[str, Callable[[dict[str, Any]], None]] = {
    "no-response": lambda answer: answer.pop("response"),
    "bad-uid": lambda answer: answer["response"].update(uid="other"),
    "bad-kind": lambda answer: answer.update(kind="Something"),
    "patch-without-type": lambda answer: answer["response"].update(patch=base64_json([{}])),
    "type-without-patch": lambda answer: answer["response"].update(patchType="JSONPatch"),
}


def base64_json(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


class WebhookServer:
    """The server, on an event loop of its own."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority("webhook-ca")
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._released = asyncio.Event()
        self.reviews: list[tuple[str, dict[str, Any]]] = []
        """Path and review of each call."""

    def start(self, *names: str) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(names), self._loop).result(20)

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self._authority.certificate).decode()

    async def _start(self, names: tuple[str, ...]) -> None:
        pair = self._authority.server(*names)
        file = self._folder / "webhook.pem"
        file.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        app = web.Application()
        app.router.add_post("/{caller}/{behaviour}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{self.port}"

    def release(self) -> None:
        """Let the webhook `never` answer."""
        self._loop.call_soon_threadsafe(self._released.set)

    def stop(self) -> None:
        async def stop() -> None:
            self._released.set()
            server = self._runner.server
            connections = server.connections if server else []
            transports = [c.transport for c in connections if c.transport]
            await self._runner.cleanup()
            for transport in transports:  # over TLS, asyncio waits for the client to close
                with suppress(AttributeError):  # Python 3.11.2, if it was closed already
                    transport.abort()

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    async def _answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        behaviour = request.match_info["behaviour"]
        self.reviews.append((request.path, review))
        if review["kind"] == "ConversionReview":
            return web.json_response(converted(review, behaviour))
        if behaviour == "never":
            await self._released.wait()
        if behaviour == "not-json":
            return web.Response(text="hello")
        if behaviour.startswith("code-"):
            return web.Response(status=int(behaviour[5:]), text="out of order")
        return web.json_response(admitted(review, behaviour))


def admitted(review: dict[str, Any], behaviour: str) -> dict[str, Any]:
    """The answer to an AdmissionReview."""
    response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
    answer = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
    if behaviour in REFUSALS:
        response |= {"allowed": False, "status": REFUSALS[behaviour]}
    elif behaviour in PATCHES:
        response |= {"patch": base64_json(PATCHES[behaviour]), "patchType": "JSONPatch"}
    elif behaviour in BROKEN:
        BROKEN[behaviour](answer)
    elif behaviour == "warn":
        response["warnings"] = ["careful", 'with "quotes"']
    return answer


def converted(review: dict[str, Any], behaviour: str) -> dict[str, Any]:
    """The answer to a ConversionReview: `spec.host` of v1beta1 is `spec.hostPort` of v1."""
    request = review["request"]
    result: dict[str, Any] = {"status": "Success"}
    objects = [_convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    if behaviour == "fail":
        result, objects = {"status": "Failed", "message": "cannot convert"}, []
    if behaviour == "rename":
        for obj in objects:
            obj["metadata"]["name"] = "other"
    if behaviour == "too-few":
        objects = objects[1:]
    response = {"uid": request["uid"], "result": result, "convertedObjects": objects}
    return {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}


def _convert(obj: dict[str, Any], version: str) -> dict[str, Any]:
    spec = obj.get("spec") or {}
    if version.endswith("/v1") and "host" in spec:
        spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port', '80')}"
    elif version.endswith("/v1beta1") and "hostPort" in spec:
        spec["host"], _, spec["port"] = spec.pop("hostPort").partition(":")
    labels = obj["metadata"].setdefault("labels", {})
    labels["converted-to"] = version.rpartition("/")[2]
    return {**obj, "apiVersion": version}
