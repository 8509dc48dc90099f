"""The local cluster in one process: API server, operator, scheduler, node agent, controllers and
the dashboard.

This is the only module besides the CLI that combines components; they communicate only through the
Kubernetes API, with one client. The API server also calls the node agent, as kube-apiserver calls
the kubelet: logs, exec, attach, proxy, usage. A graceful stop ends the pods and removes the
network; `kill -9` leaves the pods running, and the next start finds them again.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from muster.api import crds
from muster.api.events import EventSubject, EventText
from muster.api.kinds import CRDS, NODES
from muster.api.meta import Key
from muster.api.storage import CSI_NODES
from muster.control.event_recorder import EventRecorder
from muster.errors import MusterError, UsageError
from muster.kube.auth.endpoint import Endpoint
from muster.kube.client import Client
from muster.local.apiserver.server import ApiServer
from muster.local.apiserver.store.rows import damage_text
from muster.local.controllers import run as controllers
from muster.local.node import agent as node
from muster.local.node.machine import shutdown
from muster.local.node.machine.node_readiness import wait_for_nodes
from muster.local.node.runtime.processes import raise_descriptor_limit
from muster.local.settings import Settings
from muster.local.stopping import NOTICE_AFTER, STOP_NOW, read_ending, watch_stdin
from muster.local.supervisor import Supervisor
from muster.operator import run as operator
from muster.operator.settings import Settings as JobSettings
from muster.scheduler import run as scheduler
from muster.scheduler.settings import NAMES
from muster.web import run as dashboard
from muster.web.access.gate import Policy, own_users
from muster.web.access.keys import Keys

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from muster.api.meta import Raw
    from muster.local.home import Home
    from muster.local.supervisor import Component


log = logging.getLogger(__name__)

SCHEDULER_NAMES = (*NAMES, "volcano", "scheduler-plugins", "default-scheduler")
PORT_FILE, DASHBOARD_PORT_FILE = "port", "dashboard-port"


async def serve(
    settings: Settings,
    ready: Callable[[str], None],
    on_abandoned: Callable[[], None] | None = None,
) -> None:
    """Run the cluster until a signal, then stop its pods and leave nothing behind.

    SIGHUP stops it too: the terminal of a cluster in the foreground was closed. A second Ctrl-C
    and STOP_NOW do not wait for the pods' grace periods. With `on_abandoned`, the end of standard
    input stops it at once: the process at the other end, which needed the cluster, is gone.
    """
    raise_descriptor_limit()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def interrupted() -> None:
        (hurry if stop.is_set() else stop).set()

    def stop_now() -> None:
        stop.set()
        hurry.set()

    handlers = {signal.SIGINT: interrupted, STOP_NOW: stop_now}
    # Before the lock is held: a signal that ends this process while it holds the lock looks like a
    # crash to the next command.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, STOP_NOW):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup arena up &`
            asyncio.get_running_loop().add_signal_handler(number, handlers.get(number, stop.set))
    if on_abandoned is not None:
        watch_stdin(asyncio.get_running_loop(), on_abandoned, stop_now)
    with _full_disk_explained(settings.data), settings.held():
        # The agent waits for a process that tries namespaces: read the CRDs meanwhile.
        agent, definitions = await asyncio.gather(
            _opened(settings), asyncio.to_thread(crds.load_all)
        )
        server = ApiServer(
            settings.data, backend=agent.backend, service_range=agent.network.service_range
        )
        await _listen(settings, server, agent)
        try:
            (settings.data / PORT_FILE).write_text(str(server.port))
            with _dashboard_listener(settings) as listener:
                cluster = _Cluster(settings, server, agent, definitions, listener)
                await cluster.run(stop, hurry, ready)
        finally:
            await server.stop()


@contextmanager
def _dashboard_listener(settings: Settings) -> Iterator[socket.socket | None]:
    """The socket of the dashboard; None without one."""
    if not settings.dashboard:
        yield None
        return
    file = settings.data / DASHBOARD_PORT_FILE
    with dashboard.listen(settings.dashboard_port, _number_in(file)) as listener:
        file.write_text(str(listener.getsockname()[1]))
        yield listener


@contextmanager
def _full_disk_explained(data: Path) -> Iterator[None]:
    """Name the full disk, which otherwise is the error of whatever was written first."""
    try:
        yield
    except (OSError, BaseExceptionGroup) as error:
        if _is_of_full_disk(error):
            raise MusterError(
                f"the disk of {data} is full",
                hint="Free some space on it, then `arena up`; `arena delete` then removes jobs.",
            ) from error
        raise


def _is_of_full_disk(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_of_full_disk, error.exceptions))
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


async def _listen(settings: Settings, server: ApiServer, agent: node.Agent) -> None:
    """Start the server; if that fails, remove the network that was created for it."""
    port = _port(settings)
    try:
        await server.start(
            port=port,
            extra_addresses=agent.network.server_addresses,
            pod_address=agent.gateway,
        )
    except (MusterError, OSError) as error:
        if not agent.records.uids():
            await agent.teardown()
        if isinstance(error, MusterError) or _is_of_full_disk(error):
            raise
        raise UsageError(
            f"the API cannot listen on port {port}: {error.strerror}",
            hint="`arena up --port N` takes another one; 0 is any that is free.",
        ) from error
    agent.runtime.descriptors.connections = server.doors.connections
    pod_socket = agent.network.listen(server.port)
    if pod_socket is not None:
        server.doors.accept_from(pod_socket)


async def _opened(settings: Settings) -> node.Agent:
    """The opened agent. Pods of an earlier daemon continue, unless the runtime changed."""
    last = await asyncio.to_thread(node.Agent.of_last, settings.for_node())
    if last is not None and settings.runtime == "auto":
        agent = last
    else:
        agent = await asyncio.to_thread(node.Agent, settings.for_node())
        if last is not None and last.choice.kind != agent.choice.kind:
            log.info("ending the pods that still run with %s", last.choice.name)
            await _end(last)
    await asyncio.to_thread(agent.open)
    await asyncio.to_thread(agent.claim_cgroups)
    return agent


async def _end(agent: node.Agent, *, now: bool = False) -> None:
    """Stop the pods that a killed daemon left."""
    await asyncio.to_thread(agent.open)
    hurry = asyncio.Event()
    if now:
        hurry.set()
    await agent.teardown(hurry)


@dataclass(frozen=True)
class _Cluster:
    """All components, once the API server listens."""

    settings: Settings
    server: ApiServer
    agent: node.Agent
    definitions: list[Raw]
    dashboard: socket.socket | None

    async def run(
        self, stop: asyncio.Event, hurry: asyncio.Event, ready: Callable[[str], None]
    ) -> None:
        """Run until `stop` is set; then stop the pods and mark them as stopped by the machine."""
        server, settings = self.server, self.settings
        specs = {spec.name: spec.resources for spec in settings.node_specs()}
        endpoint = Endpoint.with_token(server.url, server.token, ca=server.ca)

        async def announce() -> None:
            await wait_for_nodes(client, specs, self.agent.groups.enforcement)
            settings.home.write_status(url=server.url, **self._status())
            ready(server.url)

        connected = Client.connect(
            endpoint, user_agent="muster-local", connector=server.doors.connect
        )
        async with connected as client:
            await _install_crds(client, self.definitions)
            server.credentials.write_kubeconfig(settings.home.kubeconfig, server.url, "local")
            recorder = EventRecorder(client, lambda: datetime.now(UTC))
            supervisor = Supervisor(partial(_record_failure, recorder, next(iter(specs))))
            server.component_problems = supervisor.problems
            components = {"events": recorder.run, **self._components(client, stop)}
            if (listener := self.dashboard) is not None:
                policy = Policy(
                    Keys.renew(settings.home.dashboard_keys),
                    directory=settings.job_directory(),
                    users=own_users(),
                )
                components["dashboard"] = lambda: dashboard.serve(
                    listener, endpoint, policy, server.doors.serve, server.doors.connect
                )
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(supervisor.keep_running(name, component))
                    for name, component in components.items()
                ]
                tasks.append(group.create_task(announce()))  # without it, the start has failed
                await stop.wait()
                log.info("stopping")
                settings.home.write_stopping()
                for task in tasks:
                    task.cancel()
            # The API server still runs, so the pods can be marked after they are stopped.
            notice = asyncio.get_running_loop().call_later(NOTICE_AFTER, self._log_ending)
            try:
                await self.agent.teardown(hurry)
            finally:
                notice.cancel()
                await shutdown.mark_stopped_pods(client, specs, datetime.now(UTC))

    def _log_ending(self) -> None:
        log.info("%s; Ctrl-C kills them now", read_ending(self.settings.data).text.rstrip(" …"))

    def _components(self, client: Client, stop: asyncio.Event) -> dict[str, Component]:
        server, agent = self.server, self.agent
        # Plain pods share the host's network, so replicas need ports at one common address.
        jobs = JobSettings(address=agent.gateway if agent.choice.kind == "plain" else "")
        local = controllers.Settings(server.ca.decode(), self.settings.data / "volumes")
        api = agent.api(server.port, server.ca)
        names = scheduler.Options(SCHEDULER_NAMES, unserved=(CSI_NODES,), one_user=True)
        return {
            "housekeeping": server.run,
            "controllers": lambda: controllers.run(client, local),
            "operator": lambda: operator.run(client, operator.Options(settings=jobs), stop),
            "scheduler": lambda: scheduler.run(client, names, stop),
            "node": lambda: agent.run(client, api),
        }

    def _status(self) -> Raw:
        """The fields that `arena status` shows."""
        note = self.agent.choice.note
        store = self.server.store
        damage = damage_text(store.odd_rows, record_lost=store.record_lost)
        return {
            "nodes": self.settings.nodes,
            "data": str(self.settings.data),
            "runtime": self.agent.choice.name,
            "externalNetwork": self.agent.external_network,
            **({"dashboard": dashboard.url_of(self.dashboard)} if self.dashboard else {}),
            **({"isolated": True} if self.settings.isolated else {}),
            **({"note": note} if note else {}),
            **({"objects": damage} if damage else {}),
        }


def _record_failure(recorder: EventRecorder, node: str, component: str, problem: str) -> None:
    """An event on the node: a component has no object of its own."""
    subject = EventSubject(NODES.api_version, NODES.kind, "", node, node, f"muster-{component}")
    message = f"{component} failed and is started again: {problem}"
    recorder.record(subject, EventText("ComponentFailed", message, "Warning"))


def _port(settings: Settings) -> int:
    """The port of the settings, else the last one, else any free port."""
    if settings.port is not None:
        return settings.port
    return _number_in(settings.data / PORT_FILE) or 0


def _number_in(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except FileNotFoundError:
        return None


async def _install_crds(client: Client, definitions: list[Raw]) -> None:
    """Create the missing definitions, and replace those of an earlier version of Muster."""
    stored = {crd["metadata"]["name"]: crd for crd in (await client.list(CRDS.read_as(dict))).items}
    for definition in definitions:
        name, spec = definition["metadata"]["name"], definition["spec"]
        if name not in stored:
            await client.create(CRDS, definition)
        elif any(stored[name]["spec"].get(field) != value for field, value in spec.items()):
            await client.patch(CRDS, Key("", name), {"spec": spec})


async def sweep(home: Home, data: Path, *, now: bool) -> None:
    """Stop the pods that a killed daemon left, without starting a cluster."""
    settings = Settings(home, data_dir=data)
    with _full_disk_explained(data), settings.held():
        agent = node.Agent.of_last(settings.for_node()) or node.Agent(settings.for_node())
        await _end(agent, now=now)
