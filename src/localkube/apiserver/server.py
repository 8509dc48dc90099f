"""ApiServer: listens, authenticates and authorizes requests, dispatches them, streams watches.

    server = ApiServer(data_dir, backend=node_agent)
    await server.start(port=6443)             # then server.url, server.token, server.ca
    server.credentials.write_kubeconfig(path, server.url)
    ... group.create_task(server.run())       # housekeeping
    await server.stop()

Every failure of a request is answered with a Status and never stops the server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError

from kubekit.request_errors import ApiError, StatusError
from kubekit.serving.acceptor import is_lack
from kubekit.serving.http_connection import check_room, while_connected
from kubekit.serving.listener import Listeners
from kubekit.telemetry.metrics import counter, gauge, histogram
from kubekit.telemetry.unexpected_errors import RepeatedLine, survived
from localkube.apiserver import api_errors, bootstrap, codec, non_resource_paths, subresources
from localkube.apiserver.access import reviews
from localkube.apiserver.access.authentication import Authenticator
from localkube.apiserver.access.authorization import Authorizer
from localkube.apiserver.access.credentials import ServerCredentials, load_or_create
from localkube.apiserver.access.service_account_tokens import Tokens
from localkube.apiserver.follow_up_writes import FollowUpWrites
from localkube.apiserver.housekeeping import Housekeeping
from localkube.apiserver.http import bodies, query_options, requests
from localkube.apiserver.http.requests import JSON, YAML, Answer, Call, media_of, negotiate
from localkube.apiserver.kinds.custom_resources import KnownKinds
from localkube.apiserver.kinds.namespaces_nodes_events import NAMESPACES
from localkube.apiserver.kinds.service_addresses import DEFAULT_RANGE
from localkube.apiserver.kinds.services import SERVICES
from localkube.apiserver.resource_registry import Registry, builtin
from localkube.apiserver.store.store import Store
from localkube.apiserver.streams.pod_streams import STREAMED, PodStreams
from localkube.apiserver.verbs import Verbs
from localkube.apiserver.views import pod_logs, resource_metrics, tables
from localkube.apiserver.views.watch_events import watch_events
from localkube.data_directory import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from ipaddress import IPv4Network
    from pathlib import Path

    from localkube.apiserver.http.requests import Route
    from localkube.apiserver.resource import Resource
    from localkube.node_interface import NodeBackend

log = logging.getLogger(__name__)

_no_descriptors = RepeatedLine(log, logging.ERROR)
_CALL = web.RequestKey("call", Call)
"""Where a request keeps its Call, whose warnings are sent even with an error."""
_NO_PAGE = partial(web.HTTPNotFound, text="404 page not found\n")
_IN_ONE_NAMESPACE = ("create", "deletecollection")
_PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version"})

_REQUESTS = counter("apiserver_requests_total", "Requests answered.", "verb", "resource", "code")
_SECONDS = histogram(
    "apiserver_request_seconds", "How long requests took, without watches.", "verb", "resource"
)
_WATCHES = gauge("apiserver_watches", "Watches that are open.", "resource")

_Headers = list[tuple[str, str]]


class ApiServer:
    """A Kubernetes API on one data folder."""

    def __init__(
        self,
        data_dir: Path,
        *,
        backend: NodeBackend | None = None,
        service_range: IPv4Network = DEFAULT_RANGE,
        known: KnownKinds | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.streams = PodStreams(backend)
        self._known = known or KnownKinds()
        self.registry = Registry(builtin(service_range, self._known), self._known)
        self._service_range = service_range
        self.component_problems: Callable[[], Mapping[str, str]] = dict
        """What is wrong with each component that runs beside this server; "" if it runs."""

    credentials: ServerCredentials
    store: Store
    verbs: Verbs
    tokens: Tokens
    authenticator: Authenticator
    authorizer: Authorizer
    follow_up_writes: FollowUpWrites
    listeners: Listeners
    url: str
    port: int
    _housekeeping: Housekeeping
    _runner: web.AppRunner

    @property
    def token(self) -> str:
        """The admin's token."""
        return self.credentials.token

    @property
    def ca(self) -> bytes:
        """The certificate that clients verify the server with."""
        return self.credentials.ca

    async def start(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        extra_addresses: Sequence[str] = (),
        pod_address: str = "",
    ) -> None:
        """Open the store and listen on all addresses; ready when this returns.

        Port 0 takes a free one, the same on every address. The certificate is valid for all of
        them, for `pod_address`, at which pods reach the server, and for the service `kubernetes`.
        """
        service_address = str(self._service_range[1])
        names = (host, *extra_addresses, *filter(None, [pod_address]), service_address)
        self.credentials = await asyncio.to_thread(load_or_create, self.data_dir / "access", names)
        self.store = await Store.open(self.data_dir / DATABASE)
        self.registry.follow(self.store)
        self.verbs = Verbs(self.store)
        self._housekeeping = Housekeeping(self.verbs)
        await self._set_up_access()
        app = web.Application(client_max_size=bodies.LIMIT)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # For requests in flight; watches were ended before.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        assert self._runner.server is not None  # it is set up
        self.listeners = Listeners(self._runner.server, self.credentials.context())
        self.port = port
        for address in dict.fromkeys((host, *extra_addresses)):
            self.port = self.listeners.listen(address, self.port)
        self.url = f"https://{host}:{self.port}"
        services = self.registry.find("", "v1", SERVICES.plural) or SERVICES
        await bootstrap.renumber_services(self.store, services, self._service_range)
        await bootstrap.publish(self.verbs, services, service_address, pod_address, self.port)
        await self.follow_up_writes.run_pending()

    async def run(self) -> None:
        """Housekeeping, until cancelled; may be called again after a failure."""
        await self._housekeeping.run()

    async def stop(self) -> None:
        """End all streams, close the sockets, then the store."""
        self.store.end_watches()
        server = self._runner.server
        connections = server.connections if server else []
        transports = [c.transport for c in connections if c.transport]
        await self.listeners.close()
        await self._runner.cleanup()
        for transport in transports:
            # Over TLS, asyncio waits for the client to close; a loop that ends first leaks it.
            with suppress(AttributeError):  # Python 3.11.2, if it was closed already
                transport.abort()
        await self.store.close()

    async def _set_up_access(self) -> None:
        """Load roles and tokens, and create the objects that every cluster starts with."""
        self.authorizer = Authorizer(self.store)
        key = await asyncio.to_thread(self.credentials.signing_key)
        self.tokens = Tokens(key, self.store, self.verbs.clock, self._token_refused)
        self.authenticator = Authenticator(self.credentials.token, self.tokens, self.authorizer)
        self.verbs.admission.authorizer = self.authorizer
        self.follow_up_writes = FollowUpWrites(self.verbs)
        await bootstrap.create_missing(self.verbs, self._known.roles)
        await self.follow_up_writes.run_pending()

    def _token_refused(self, uid: str) -> None:
        # A pod cannot renew its own token, and the clock may have been set.
        if self.streams.backend is not None:
            self.streams.backend.token_refused(uid)

    # -- one request -----------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request and count it."""
        started = time.monotonic()
        route = requests.parse_route(request.method, request.rel_url.raw_path, request.query)
        resource = route and self.registry.find(route.group, route.version, route.plural)
        response = await self._respond_or_fail(request, route, resource)
        if route and resource:
            _observe(route, resource, response.status, time.monotonic() - started)
        return response

    async def _respond_or_fail(
        self, request: web.Request, route: Route | None, resource: Resource | None
    ) -> web.StreamResponse:
        """Answer a request; every failure becomes a Status here."""
        try:
            return await self._respond(request, route, resource)
        except StatusError as error:
            call = request.get(_CALL)
            return _failure(error, call and _warnings(call), request.headers.get("Accept", ""))
        except ApiError as error:
            return _failure(StatusError(str(error), status=error.status, reason=error.reason))
        except web.HTTPRequestEntityTooLarge:
            return _failure(api_errors.too_large(f"limit is {bodies.LIMIT}"))
        except (web.HTTPException, ConnectionError):
            raise  # aiohttp answers the first and drops the second
        except Exception as error:  # noqa: BLE001 - other requests go on
            if isinstance(error, OSError) and is_lack(error):
                _no_descriptors.log("%s %s failed: %s", request.method, request.rel_url, error)
                why = f"the daemon of the local cluster has no descriptors left: {error.strerror}"
                advice = "raise `ulimit -n`, or delete pods"
                return _failure(api_errors.error("ServiceUnavailable", f"{why}; {advice}"))
            survived("API request", f"{request.method} {request.path}", error)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return _failure(api_errors.error("InternalError", message))

    async def _respond(
        self, request: web.Request, route: Route | None, resource: Resource | None
    ) -> web.StreamResponse:
        path = request.path
        # Probes have no token.
        if path in _PUBLIC or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return self._non_resource(request)
        user = self.authenticator.user(request.headers)
        check_room(request)
        if route is None:
            self.authorizer.check_path(user, request.method, path)
            return self._non_resource(request)
        self.authorizer.check(user, route, request.query)
        form = negotiate(request.headers.get("Accept", ""), route.verb)
        if form.shape == "Table":
            query_options.check_table(request.query)
        call = Call(
            route=route,
            resource=self._checked(route, resource),
            query=request.query,
            body=await _body(request),
            content_type=request.headers.get("Content-Type", ""),
            form=form,
            user=user,
            user_agent=request.headers.get("User-Agent", ""),
        )
        # From here on, an error is sent with the warnings of the call, unless the subresource does
        # not exist.
        if not route.subresource or route.subresource in call.resource.subresources:
            request[_CALL] = call
        if route.subresource in STREAMED:
            return await self.streams.serve(request, call, self.store)
        if route.verb == "watch":
            return await self._watch(request, call)
        answer = await self._answer(call)
        # Before the answer, so that the client can rely on the consequences of its write.
        if self.follow_up_writes.pending or self.verbs.quotas.stale:
            await self.follow_up_writes.run_pending()
        body = tables.render(answer, call, self.verbs.clock()) if form.shape else answer.body
        return _response(body, answer.code, form.media, _warnings(call))

    def _non_resource(self, request: web.Request) -> web.StreamResponse:
        problems = self.component_problems()
        return non_resource_paths.answer(request, self.registry, self.store, problems)

    def _checked(self, route: Route, resource: Resource | None) -> Resource:
        """The resource of a path, which names a namespace only if its objects have one."""
        if resource is None:
            if any(r.group == route.group and not r.custom for r in self.registry.all()):
                raise api_errors.path_not_found()
            if (route.group, route.verb) == ("autoscaling", "create"):
                # A Status: kubectl ignores the warnings of any other 404.
                status = codec.dump(api_errors.body(api_errors.path_not_found()))
                headers = _warning_headers([api_errors.NO_AUTOSCALER])
                raise web.HTTPNotFound(body=status, content_type=JSON, headers=headers)
            raise _NO_PAGE()
        if resource.namespaced and route.name and not route.namespace:
            raise api_errors.path_not_found()
        if resource.namespaced and not route.namespace and route.verb in _IN_ONE_NAMESPACE:
            raise _NO_PAGE() if resource.custom else api_errors.method_not_allowed()
        # Clients normalise paths, so such an object could never be read or deleted.
        if route.name in (".", "..") or "%" in route.name:
            raise api_errors.bad_request(
                f"invalid name {route.name!r}: it cannot be part of a path"
            )
        if route.namespace and not resource.namespaced and resource is not NAMESPACES:
            raise _NO_PAGE() if resource.custom else api_errors.path_not_found()
        return resource

    async def _answer(self, call: Call) -> Answer:
        route = call.route
        query_options.check_write(route.verb, call.query, apply="apply" in call.content_type)
        if route.subresource == "token" and "token" in call.resource.subresources:
            return await self.tokens.request(call)
        if route.subresource:
            return await subresources.serve(self.verbs, call)
        if (route.verb == "create" and route.name) or route.verb not in call.resource.verbs:
            raise api_errors.method_not_allowed()
        if call.resource.group == resource_metrics.GROUP:
            return await resource_metrics.answer(
                call, self.store, self.registry, self.streams.backend
            )
        if call.resource.group == pod_logs.GROUP:
            return await pod_logs.answer(call, self.streams.backend)
        if call.resource.group in reviews.GROUPS:
            return reviews.answer(call, self.authorizer, self.tokens, self.verbs.clock())
        return await self.verbs.by_name[route.verb](call)

    async def _watch(self, request: web.Request, call: Call) -> web.StreamResponse:
        show = tables.event_renderer(call, self.verbs.clock) if call.form.shape else None
        events = watch_events(self.store, call, show)
        # An invalid request fails here, while the answer can still be a 400.
        first = await anext(events)
        response = web.StreamResponse(headers=_warnings(call))
        response.content_type = JSON
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            with _WATCHES.labels(call.resource.collection).track_inprogress():
                async with while_connected(request):
                    if first:
                        await response.write(first)
                    async for lines in events:
                        await response.write(lines)
            await response.write_eof()
        except ConnectionError:
            log.debug("a watcher of %s disconnected", call.resource.collection)
        finally:
            await events.aclose()
        return response


async def _body(request: web.Request) -> bytes:
    if not request.can_read_body:
        return b""
    try:
        return await request.read()
    except (web.RequestPayloadError, ContentEncodingError) as error:
        raise api_errors.bad_request(f"the body of the request cannot be read: {error}") from error


def _observe(route: Route, resource: Resource, code: int, seconds: float) -> None:
    """Count a request and its duration; a stream has none, because it lasts as the client likes."""
    # An unknown subresource is not a label: clients could create any number of them.
    name = resource.collection
    if route.subresource in resource.subresources:
        name += f"/{route.subresource}"
    _REQUESTS.labels(route.verb, name, str(code)).inc()
    if route.verb != "watch" and route.subresource not in STREAMED:
        _SECONDS.labels(route.verb, name).observe(seconds)


# -- answers ---------------------------------------------------------------------------------------


def _warnings(call: Call) -> _Headers:
    """The headers of the warnings of a call, and of a deprecated version."""
    return _warning_headers([*filter(None, [call.resource.deprecation]), *call.warnings])


def _warning_headers(warnings: list[str]) -> _Headers:
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings)
    return [("Warning", f'299 - "{text}"') for text in quoted]


def _failure(
    error: StatusError, warnings: _Headers | None = None, accept: str = ""
) -> web.Response:
    """An error as a Status."""
    headers = list(warnings or ())
    if retry_after := (error.details or {}).get("retryAfterSeconds"):
        headers.append(("Retry-After", str(retry_after)))
    body = codec.dump(api_errors.body(error))
    return _response(body, error.status, media_of(accept), headers)


def _response(body: bytes, status: int, media: str, headers: _Headers) -> web.Response:
    """A body that is sent at once, in the form that the client accepts."""
    body = bodies.as_yaml(body) if media == YAML else body
    return web.Response(body=body, status=status, content_type=media, headers=headers)
