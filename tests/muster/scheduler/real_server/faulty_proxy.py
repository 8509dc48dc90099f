"""A proxy in front of a real API server that has bad days: what a network does to a scheduler.

While it is `bad`, binds are refused, lost, answered in vain or kept waiting, and watches are late
or broken off. It speaks plain HTTP on loopback and shows the server the token of its own.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import Counter
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    from tests.controlplane.control_plane import ControlPlane

STATUSES = {409: "Conflict", 404: "NotFound", 500: "", 503: "", 429: "TooManyRequests"}
FAULTS = ("lost", "unanswered", "late", *map(str, STATUSES))


class FaultyProxy:
    """Forwards everything; `faults` counts what it did, by name."""

    def __init__(self, plane: ControlPlane, *, bad: bool = True, pause: float = 0.0) -> None:
        self.bad, self.faults, self.pause = bad, Counter[str](), pause
        self.asked = asyncio.Event()
        """Set by every request; whoever waits for one clears it before."""
        self._plane = plane
        self._dice = random.Random(7)
        self.url = ""

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=str(self._plane.ca_file))
        headers = {"Authorization": f"Bearer {self._plane.token}"}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.set()
        if request.query.get("watch"):
            return await self._watch(request)
        if request.path.endswith("/binding"):
            await asyncio.sleep(self.pause)  # pace: a slow bind
            if self.bad and self._dice.random() < 0.8:
                return await self._fail(request)
        return await self._forward(request)

    async def _forward(self, request: web.Request) -> web.Response:
        async with self._ask(request, await request.read()) as answer:
            headers = {
                name: answer.headers[name] for name in ("Retry-After",) if name in answer.headers
            }
            body = await answer.read()
            return web.Response(
                status=answer.status, body=body, content_type=answer.content_type, headers=headers
            )

    def _ask(self, request: web.Request, body: bytes) -> aiohttp.client._RequestContextManager:
        forwarded = ("Content-Type", "Accept", "User-Agent")
        headers = {name: request.headers[name] for name in forwarded if name in request.headers}
        url = self._plane.url + request.path_qs
        return self._session.request(request.method, url, data=body or None, headers=headers)

    async def _fail(self, request: web.Request) -> web.StreamResponse:
        fault = self._dice.choice(FAULTS)
        self.faults[fault] += 1
        if fault.isdigit():
            status = int(fault)
            body = {"kind": "Status", "code": status, "reason": STATUSES[status]}
            wait = {"Retry-After": "1"} if status == 429 else {}
            return web.json_response(body, status=status, headers=wait)
        if fault == "late":
            await asyncio.sleep(0.5)  # pace: a late answer
        if fault != "lost":
            await self._forward(request)
        return self._hang_up(request)

    def _hang_up(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        """Forward a watch; on a bad day its events come late, or it breaks off half-way."""
        async with self._ask(request, b"") as answer:
            if answer.status != 200:
                return web.Response(status=answer.status, body=await answer.read())
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            async for chunk in answer.content.iter_any():
                if self.bad and self._dice.random() < 0.2:
                    self.faults["watch delayed"] += 1
                    await asyncio.sleep(self._dice.random())  # pace: a late watch
                if self.bad and self._dice.random() < 0.1:
                    self.faults["watch dropped"] += 1
                    await stream.write(chunk[: len(chunk) // 2])
                    self._hang_up(request)
                    return stream
                await stream.write(chunk)
            return stream
