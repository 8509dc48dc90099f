"""Whether a container is started, ready, or must be killed: its postStart hook and its probes.

`with_health` returns a pod's record with every attempt's `health` filled in, and keeps one task per
running container that has a hook or probes. A change of health wakes the pod loop. As in
Kubernetes: the hook runs first, then the startup probe alone until it passes, then readiness and
liveness probes in parallel. When a hook, startup or liveness probe has failed, the container is
stopped, and its restart policy decides whether it starts again.

A handler is a program in the container, a request, or a connection. A container that does not run,
fails or answers too late is a result, not an exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kubekit import errors
from kubekit.objects.core import port_number
from kubekit.serving.acceptor import is_lack
from kubekit.telemetry import unexpected_errors
from localkube.node.runtime.pod_records import Attempt, AttemptKey, Health, PodRecord, State
from localkube.node.standalone import shim_socket

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import datetime

    from localkube.node.pod import Container, Handler, HttpGet, Pod, Port, Probe
    from localkube.node.pod_events import PodEvents
    from localkube.node.runtime.container_runtime import Runtime

    Work = Callable[[], Coroutine[Any, Any, None]]

_SHORTEST_PERIOD = 0.02
"""Seconds. The API allows no less than a second; a probe without a pause would stall the node."""
_MAX_OUTPUT = 10 * 1024
"""Bytes of a program's output that are kept, as in the kubelet."""
_MAX_LINE = 8 * 1024
_RETRY = 1.0
"""Seconds until a handler is tried again for which there was no descriptor."""


@dataclass
class Prober:
    handlers: HandlerRunner
    events: PodEvents
    clock: Callable[[], datetime]
    tasks: ContainerTasks
    changed: Callable[[str], None] = lambda uid: None
    _health: dict[AttemptKey, Health] = field(default_factory=dict)

    def with_health(self, pod: Pod, record: PodRecord) -> PodRecord:
        """The record with the health of every running container."""
        containers = {c.name: c for c in pod.all_containers}
        updated = dict(record.containers)
        running: set[AttemptKey] = set()
        for name, attempts in record.containers.items():
            container, last = containers.get(name), attempts[-1]
            if container is None or not last.alive or not has_hook_or_probes(container):
                continue
            key = AttemptKey(pod.metadata.uid, name, last.number)
            if last.state is State.RUNNING and not pod.terminating:
                running.add(key)
                self._begin(key, pod, container, last)
            # The probes of a pod that is being deleted have ended: its last status counts.
            health = self._health.get(key) or first_health(pod, container, last.number)
            updated[name] = (*attempts[:-1], replace(last, health=health))
        self._end(pod.metadata.uid, running)
        return replace(record, containers=updated)

    def forget(self, uid: str) -> None:
        self._end(uid, set())

    def _begin(self, key: AttemptKey, pod: Pod, container: Container, attempt: Attempt) -> None:
        if key not in self._health:  # one task per attempt, even after it has ended
            self._health[key] = first_health(pod, container, attempt.number)
            self.tasks.start(key, lambda: self._watch(key, pod, container, attempt))

    def _end(self, uid: str, running: set[AttemptKey]) -> None:
        for key in self.tasks.attempts(uid):
            if key not in running:
                self.tasks.stop(key)
                self._health.pop(key, None)

    async def _watch(
        self, key: AttemptKey, pod: Pod, container: Container, attempt: Attempt
    ) -> None:
        begun = attempt.started_at or self.clock()
        if not self._health[key].started:
            if not await self._hook(key, pod, container):
                return
            if container.startup_probe is not None:
                await self._probe(key, pod, container, "Startup", begun)
            if self._health[key].failed:
                return
            # Started, but not ready before the first success of a readiness probe.
            self._set(key, Health(started=True, ready=False))
        if container.readiness_probe is None:
            self._set(key, Health(started=True, ready=True))
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(self._probe(key, pod, container, "Readiness", begun))
            if container.liveness_probe is not None:
                group.create_task(self._probe(key, pod, container, "Liveness", begun))

    async def _hook(self, key: AttemptKey, pod: Pod, container: Container) -> bool:
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return True
        result = await self.handlers.run(key.uid, container, hook, None)
        if not result.ok:
            message = f"PostStartHook failed: {result.output}"
            self.events.record(pod, "FailedPostStartHook", message, warning=True, once=str(key))
            self._set(key, Health(False, False, failed=f"{container.name} failed its start hook"))
        return result.ok

    async def _probe(
        self, key: AttemptKey, pod: Pod, container: Container, kind: str, begun: datetime
    ) -> None:
        """Probe until the startup probe passes, the container fails, or it is cancelled."""
        probe = getattr(container, f"{kind.lower()}_probe")
        # Before its first result a liveness probe counts as passed, a startup probe does not.
        passing = self._health[key].ready if kind == "Readiness" else kind == "Liveness"
        streak = ProbeStreak(passing)
        # The delay counts from the container's start, even after a restart of the daemon.
        waited = (self.clock() - begun).total_seconds()
        await asyncio.sleep(max(0.0, probe.initial_delay_seconds - waited))
        while True:
            result = await self.handlers.run(key.uid, container, probe, probe.timeout_seconds)
            if not result.ok:
                message = f"{kind} probe failed: {result.output}"
                self.events.record(pod, "Unhealthy", message, warning=True, once=str(key))
            streak = streak.after(probe, ok=result.ok)
            if self._apply(key, container, kind, streak, probe):
                return
            await asyncio.sleep(max(_SHORTEST_PERIOD, probe.period_seconds))

    def _apply(
        self, key: AttemptKey, container: Container, kind: str, streak: ProbeStreak, probe: Probe
    ) -> bool:
        """Update the health after a probe; returns whether this probe is done."""
        before = self._health[key]
        if kind == "Readiness":
            self._set(key, replace(before, ready=streak.passing))
            return False
        if kind == "Startup" and streak.passing:
            return True
        # A startup probe does not pass at first: it has failed only at its threshold.
        if streak.passing or streak.failures < probe.failure_threshold:
            return False
        failed = f"{container.name} failed {kind.lower()} probe"
        grace = probe.termination_grace_period_seconds
        self._set(key, replace(before, ready=False, failed=failed, grace=grace))
        return True

    def _set(self, key: AttemptKey, health: Health) -> None:
        if self._health.get(key) != health:
            self._health[key] = health
            self.changed(key.uid)


class ProbeStreak(NamedTuple):
    """Whether a probe counts as passing, and its successes or failures in a row."""

    passing: bool
    successes: int = 0
    failures: int = 0

    def after(self, probe: Probe, *, ok: bool) -> ProbeStreak:
        successes, failures = (self.successes + 1, 0) if ok else (0, self.failures + 1)
        passing = self.passing
        if successes >= probe.success_threshold:
            passing = True
        elif failures >= probe.failure_threshold:
            passing = False
        return ProbeStreak(passing, successes, failures)


def has_hook_or_probes(container: Container) -> bool:
    """Whether the container has a postStart hook or probes: running alone is not ready."""
    hook = container.lifecycle is not None and container.lifecycle.post_start is not None
    probes = (container.startup_probe, container.readiness_probe, container.liveness_probe)
    return hook or any(probe is not None for probe in probes)


def first_health(pod: Pod, container: Container, number: int) -> Health:
    """The health before the first probe: from the pod's status, if that is of this attempt.

    So a restarted daemon neither makes a ready pod unready nor runs its postStart hook again.
    """
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        same_attempt = status.name == container.name and status.restart_count == number
        if same_attempt and status.state.running:
            return Health(bool(status.started), status.ready)
    return Health(started=False, ready=False)


class HandlerResult(NamedTuple):
    ok: bool
    output: str = ""


@dataclass(frozen=True)
class HandlerRunner:
    """Runs handlers in the containers of one runtime."""

    runtime: Runtime

    async def run(
        self, uid: str, container: Container, handler: Handler, limit: float | None
    ) -> HandlerResult:
        """Run a handler for at most `limit` seconds, as soon as there are descriptors for it."""
        while True:
            try:
                async with asyncio.timeout(limit):
                    return await self._run(uid, container, handler)
            except TimeoutError:
                return HandlerResult(False, f"no answer in {limit:g} s")
            except Exception as error:  # noqa: BLE001 - whatever the pod's fields lead to
                if not is_lack(error):  # which says nothing about the container
                    return HandlerResult(False, errors.describe(error))
            await asyncio.sleep(_RETRY)

    async def _run(self, uid: str, container: Container, handler: Handler) -> HandlerResult:
        if handler.exec is not None:
            return await self._exec(uid, container.name, handler.exec.command)
        if handler.http_get is not None:
            return await self._http_get(uid, container, handler.http_get)
        target = handler.tcp_socket or handler.grpc
        if target is not None:
            port = container_port(container, target.port)
            _, writer = await self._connect(uid, port, target.host)
            writer.close()
        if handler.sleep is not None:
            await asyncio.sleep(handler.sleep.seconds)
        return HandlerResult(True)

    async def _exec(self, uid: str, container: str, command: tuple[str, ...]) -> HandlerResult:
        output = b""
        connection = self.runtime.connect_shim(
            uid, container, op="exec", argv=list(command), tty=False, stdin=False
        )
        async with connection as shim:
            async for channel, data in shim.frames():
                if channel in (shim_socket.STDOUT, shim_socket.STDERR):
                    output = (output + data)[:_MAX_OUTPUT]
                elif channel == shim_socket.STATUS:
                    status = json.loads(data)
                    if "exitCode" in status:
                        text = output.decode(errors="replace") or status.get("message", "")
                        return HandlerResult(status["exitCode"] == 0, text)
        return HandlerResult(False, "the container exited")

    async def _http_get(self, uid: str, container: Container, get: HttpGet) -> HandlerResult:
        port = container_port(container, get.port)
        secure = get.scheme.upper() == "HTTPS"
        reader, writer = await self._connect(uid, port, get.host, secure=secure)
        try:
            host = get.host or self.runtime.records.read(uid).address
            writer.write(_request(get, f"{host}:{port}"))
            await writer.drain()
            line = await reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return HandlerResult(False, "the answer is not HTTP")
        finally:
            writer.close()
        words = line.split(b" ")
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1][:3].isdigit():
            return HandlerResult(False, "the answer is not HTTP")
        code = int(words[1][:3])  # redirects are a success, and are not followed
        if 200 <= code < 400:
            return HandlerResult(True)
        return HandlerResult(False, f"HTTP probe failed with statuscode: {code}")

    async def _connect(
        self, uid: str, port: int, host: str, *, secure: bool = False
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls: dict[str, Any] = {}
        if secure:  # like the kubelet, without checking the certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            tls = {"ssl": context, "server_hostname": ""}
        if host:
            return await asyncio.open_connection(host, port, limit=_MAX_LINE, **tls)
        sock = await self.runtime.reach(uid, port)
        try:
            return await asyncio.open_connection(sock=sock, limit=_MAX_LINE, **tls)
        except BaseException:  # also cancelled by the time limit
            with contextlib.suppress(OSError):
                sock.close()
            raise


def container_port(container: Container, port: Port) -> int:
    """The port's number; a name is looked up among the container's ports."""
    number = port_number(port, [container])
    if number is None:
        raise ValueError(f'the container has no port named "{port}"')
    return number


def _request(get: HttpGet, host: str) -> bytes:
    custom = {header.name.title(): header.value for header in get.http_headers}
    headers = {
        "Host": host,
        "User-Agent": "kube-probe/muster",
        "Accept": "*/*",
        "Connection": "close",
    }
    lines = [f"{name}: {value}" for name, value in (headers | custom).items()]
    path = get.path if get.path.startswith("/") else f"/{get.path}"
    return "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()


class ContainerTasks:
    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[AttemptKey, Work]] = asyncio.Queue()
        self._started: set[AttemptKey] = set()
        self._tasks: dict[AttemptKey, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run the tasks that `start` is given, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                attempt, work = await self._waiting.get()
                # It may have been stopped while it waited in the queue.
                if attempt in self._started and attempt not in self._tasks:
                    self._tasks[attempt] = group.create_task(_guarded(attempt, work))

    def start(self, attempt: AttemptKey, work: Work) -> None:
        if attempt not in self._started:
            self._started.add(attempt)
            self._waiting.put_nowait((attempt, work))

    def attempts(self, uid: str) -> list[AttemptKey]:
        """The attempts of a pod whose task was started and not stopped."""
        return [attempt for attempt in self._started if attempt.uid == uid]

    def stop(self, attempt: AttemptKey) -> None:
        self._started.discard(attempt)
        task = self._tasks.pop(attempt, None)
        if task is not None:
            task.cancel()


async def _guarded(attempt: AttemptKey, work: Work) -> None:
    """Do the work; an error in it concerns no other container."""
    with unexpected_errors.isolated("probes and hooks", attempt):
        await work()
