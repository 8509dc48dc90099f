"""log, exec, attach, port-forward of pods, and proxy: requests are checked here.

The node agent does the work.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from aiohttp import web

from kubekit.objects.annotation_values import read_time
from kubekit.serving.http_connection import while_connected
from localkube.apiserver import api_errors, causes, codec
from localkube.apiserver.http.requests import query_bool
from localkube.apiserver.kinds.field_rules import NOT_NEGATIVE
from localkube.apiserver.kinds.services import ENDPOINTS
from localkube.apiserver.streams import exec_websocket, http_proxy, port_forward
from localkube.apiserver.views import pod_logs
from localkube.node_interface import ExecOptions, LogOptions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kubekit.objects.meta import Raw
    from localkube.apiserver.causes import Causes
    from localkube.apiserver.http.requests import Call
    from localkube.apiserver.store.store import Store
    from localkube.node_interface import NodeBackend

_LONG_AGO = 10**9  # seconds; more could be a time before the year 1
STREAMED = frozenset({"log", "exec", "attach", "portforward", "proxy"})


class PodStreams:
    """The streaming subresources of pods."""

    def __init__(self, backend: NodeBackend | None) -> None:
        self.backend = backend

    async def serve(self, request: web.Request, call: Call, store: Store) -> web.StreamResponse:
        """Answer a call for one of `STREAMED`."""
        if call.route.subresource not in call.resource.subresources:
            raise api_errors.path_not_found()
        if call.resource.group == pod_logs.GROUP:
            return await self._archived_log(request, call)
        if call.route.subresource == "proxy":
            return await self._proxy(request, call, store)
        pod = _named(call, store, call.route.name)
        match call.route.subresource, call.route.verb:
            case "log", "get":
                return await self._log(request, call, pod)
            case "exec" | "attach", "get" | "create":
                return await self._exec(request, call, pod)
            case "portforward", "get" | "create":
                return await self._port_forward(request, call, pod)
            case _:
                raise api_errors.method_not_allowed()

    async def _proxy(self, request: web.Request, call: Call, store: Store) -> web.StreamResponse:
        """Forward a request to a pod, to an endpoint of a service, or to a node."""
        resource = call.resource
        wanted = http_proxy.requested(call.route.name, resource.kind.lower())
        obj = _named(call, store, wanted.name)
        if resource.plural == "nodes":
            host = http_proxy.address_of(obj)
            if not wanted.port:
                if call.route.rest == "healthz":
                    return web.Response(text="ok")
                return web.Response(status=404, text="404 page not found\n")
            port = http_proxy.port_number(wanted.port) or 80
        elif resource.plural == "services":
            name = http_proxy.port_name(obj, wanted.port)
            entry = store.get(codec.key(ENDPOINTS, call.route.namespace, wanted.name))
            if entry is None:
                raise api_errors.not_found("", resource.plural, wanted.name)
            host, port = http_proxy.endpoint(codec.decode(entry.value), name, call.route.name)
        elif not obj["spec"].get("nodeName"):
            raise api_errors.bad_request("address not allowed")  # as a real server words it
        else:
            container_port = http_proxy.pod_port(obj, wanted.port)
            host, port = await self._backend(obj).address(obj, container_port)
        server = f"{wanted.scheme}://{host}:{port}"
        return await http_proxy.forward(request, self._backend(obj), call, server)

    async def _exec(self, request: web.Request, call: Call, pod: Raw) -> web.StreamResponse:
        command = tuple(request.query.getall("command", []))
        if call.route.subresource == "exec" and not command:
            raise api_errors.bad_request("you must specify at least one command for the container")
        container = container_of(pod, call.query.get("container", ""))
        name = pod["metadata"]["name"]
        if not pod["spec"].get("nodeName"):
            raise api_errors.bad_request(f"pod {name} does not have a host assigned")
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            raise api_errors.bad_request(
                f"cannot exec into a container in a completed pod; current phase is"
                f" {pod['status']['phase']}"
            )
        flags = {
            flag: query_bool(call.query.get(flag)) for flag in ("stdin", "stdout", "stderr", "tty")
        }
        options = ExecOptions(container, command, **flags)
        return await exec_websocket.run(request, self._backend(pod), pod, options)

    async def _port_forward(self, request: web.Request, call: Call, pod: Raw) -> web.StreamResponse:
        if not pod["spec"].get("nodeName"):
            name = pod["metadata"]["name"]
            raise api_errors.bad_request(f"pod {name} does not have a host assigned")
        ports = port_forward.requested_ports(request.query.getall("ports", []))
        return await port_forward.run(request, self._backend(pod), pod, ports)

    def _backend(self, obj: Raw) -> NodeBackend:
        if self.backend is None:
            message = f"no node agent reaches {obj['metadata']['name']}"
            raise api_errors.error("ServiceUnavailable", message)
        return self.backend

    async def _log(self, request: web.Request, call: Call, pod: Raw) -> web.StreamResponse:
        container = container_of(pod, call.query.get("container", ""))
        options = log_options(call, container, datetime.now(UTC))
        if not pod["spec"].get("nodeName"):  # no container has run yet: the log is empty
            return web.Response(status=204)
        return await _stream(request, self._backend(pod).logs(pod, options))

    async def _archived_log(self, request: web.Request, call: Call) -> web.StreamResponse:
        pod_log = await pod_logs.named(call, self.backend)
        assert self.backend is not None
        options = log_options(call, pod_log.container, datetime.now(UTC))
        options = replace(options, follow=False, previous=False)
        return await _stream(request, self.backend.read_pod_log(pod_log, options))


def _named(call: Call, store: Store, name: str) -> Raw:
    entry = store.get(codec.key(call.resource, call.route.namespace, name))
    if entry is None:
        raise api_errors.not_found(call.resource.group, call.resource.plural, name)
    return codec.decode(entry.value)


async def _stream(request: web.Request, pieces: AsyncGenerator[bytes, None]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    async with while_connected(request), aclosing(pieces):
        # The backend raises with the first piece, while the answer can still be a Status.
        first = await anext(pieces, b"")
        await response.prepare(request)
        with suppress(ConnectionResetError):  # the reader has disconnected
            if first:
                await response.write(first)
            async for piece in pieces:
                await response.write(piece)
                # Nothing else waits here: not the log, if its program writes faster than we read,
                # and not the connection, if its reader keeps up or has left in this moment.
                await asyncio.sleep(0)
            await response.write_eof()
    return response


def log_options(call: Call, container: str, now: datetime) -> LogOptions:
    """The query of a log request, checked."""
    query = call.query
    name = call.route.name
    api_errors.raise_if_invalid("", "PodLogOptions", name, _log_causes(call))
    seconds = call.number("sinceSeconds")
    since = now - timedelta(seconds=min(seconds, _LONG_AGO)) if seconds is not None else None
    if text := query.get("sinceTime"):
        since = read_time(text)
        if since is None:
            raise api_errors.bad_request(f"sinceTime: {text[:40]!r} is not a time as in RFC 3339")
    return LogOptions(
        container=container,
        follow=query_bool(query.get("follow")),
        previous=query_bool(query.get("previous")),
        timestamps=query_bool(query.get("timestamps")),
        tail=call.number("tailLines"),
        since=since,
        limit_bytes=call.number("limitBytes"),
    )


def _log_causes(call: Call) -> Causes:
    for option, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        number = call.number(option)
        if number is not None and number < least:
            detail = "must be greater than 0" if least else NOT_NEGATIVE
            yield causes.invalid(option, number, detail)


def container_of(pod: Raw, requested: str) -> str:
    """The requested container; a pod with several containers needs a name."""
    name = pod["metadata"]["name"]
    names, inits, ephemeral = (
        [c["name"] for c in pod["spec"].get(field) or ()]
        for field in ("containers", "initContainers", "ephemeralContainers")
    )
    if not requested:
        if len(names) == 1:
            return str(names[0])
        listed = f"choose one of: [{' '.join(names)}]"
        if inits:
            listed += f" or one of the init containers: [{' '.join(inits)}]"
        raise api_errors.bad_request(f"a container name must be specified for pod {name}, {listed}")
    if requested not in (*names, *inits, *ephemeral):
        raise api_errors.bad_request(f"container {requested} is not valid for pod {name}")
    return requested
