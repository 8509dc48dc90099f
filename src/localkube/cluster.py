"""A Kubernetes on one machine, in one process: API server, controllers and node.

    with claimed(options.data, home):
        async with opened(options, extensions) as cluster:
            await cluster.run(components, stop, hurry, ready)

`extensions` teaches the cluster what it does not know itself: definitions of further kinds, whose
logs are kept, what pods find in their file system. `components` run beside the controllers and
talk to the API like any other client. The API server also calls the node agent, as kube-apiserver
calls the kubelet: logs, exec, attach, proxy, usage. A graceful stop ends the pods and removes the
network; `kill -9` leaves the pods running, and the next start finds them again.

`Supervisor` keeps the components running. A component is a coroutine function that builds all its
state anew, so starting it again is like a restart of its process on a real cluster. The pause
before a start doubles up to a minute, and is short again after the component has run for a while.
The other components go on. `/readyz` and `arena status` show `problems`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.client.retry import Backoff
from kubekit.control.event_recorder import EventRecorder
from kubekit.control.loop import is_cancelled
from kubekit.errors import Bug, MusterError, UsageError, describe, single_error
from kubekit.objects.events import EventSubject, EventText
from kubekit.objects.kinds import CRDS, NODES
from kubekit.objects.meta import Key, Raw
from localkube.apiserver.kinds.custom_resources import KnownKinds
from localkube.apiserver.server import ApiServer
from localkube.apiserver.store.damage import damage_text
from localkube.controllers import controller_manager as controllers
from localkube.node.agent import Agent, NodeExtensions, Options as Options
from localkube.node.machine import stopped_pods
from localkube.node.machine.node_registration import wait_for_nodes
from localkube.node.runtime.pod_records import NOTICE_AFTER, read_ending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    Component = Callable[[], Awaitable[None]]

log = logging.getLogger(__name__)

PORT_FILE = "port"
BACKOFF = Backoff(first=1.0, cap=60.0, jitter=0.2)
STEADY = 10.0
"""Seconds after which a component that was started again counts as running."""
_FORGIVEN = 300.0
"""Seconds after which the pause is short again."""


@dataclass(frozen=True)
class Extensions(NodeExtensions):
    """What a caller adds to the cluster."""

    definitions: Callable[[], list[Raw]] = list
    """Custom resource definitions that are always there; read in a thread."""
    kinds: KnownKinds = field(default_factory=KnownKinds)


@asynccontextmanager
async def opened(options: Options, extensions: Extensions | None = None) -> AsyncIterator[Cluster]:
    """The cluster with an API server that listens and a node that is not served yet.

    The caller holds the data directory (`localkube.data_directory.claimed`).
    """
    extensions = extensions or Extensions()
    # The agent waits for a process that tries namespaces: read the definitions while it does.
    agent, definitions = await asyncio.gather(
        _opened_agent(options, extensions),
        asyncio.to_thread(extensions.definitions),
    )
    server = ApiServer(
        options.data,
        backend=agent.backend,
        service_range=agent.network.service_range,
        known=extensions.kinds,
    )
    await _listen(options, server, agent)
    try:
        (options.data / PORT_FILE).write_text(str(server.port))
        yield Cluster(options, server, agent, definitions)
    finally:
        await server.stop()


async def sweep(options: Options, *, now: bool) -> None:
    """Stop the pods that a killed daemon left, without starting a cluster."""
    agent = Agent.of_last(options, NodeExtensions()) or Agent(options)
    await _end(agent, now=now)


async def _listen(options: Options, server: ApiServer, agent: Agent) -> None:
    """Start the server; if that fails, remove the network that was created for it."""
    port = options.port if options.port is not None else number_in(options.data / PORT_FILE) or 0
    try:
        await server.start(
            port=port,
            extra_addresses=agent.network.server_addresses,
            pod_address=agent.gateway,
        )
    except (MusterError, OSError) as error:
        if not agent.records.uids():
            await agent.teardown()
        if isinstance(error, MusterError) or is_of_full_disk(error):
            raise
        raise UsageError(
            f"the API cannot listen on port {port}: {error.strerror}",
            hint="`arena up --port N` takes another one; 0 is any that is free.",
        ) from error
    pod_socket = agent.network.listen(server.port)
    if pod_socket is not None:
        server.listeners.accept_from(pod_socket)


def is_of_full_disk(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_of_full_disk, error.exceptions))
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


async def _opened_agent(options: Options, extensions: Extensions) -> Agent:
    """The opened agent. Pods of an earlier daemon continue, unless the runtime changed."""
    last = await asyncio.to_thread(Agent.of_last, options, extensions)
    if last is not None and options.runtime == "auto":
        agent = last
    else:
        agent = await asyncio.to_thread(Agent, options, extensions)
        if last is not None and last.choice.kind != agent.choice.kind:
            log.info("ending the pods that still run with %s", last.choice.name)
            await _end(last)
    await asyncio.to_thread(agent.open)
    await asyncio.to_thread(agent.claim_cgroups)
    return agent


async def _end(agent: Agent, *, now: bool = False) -> None:
    """Stop the pods that a killed daemon left."""
    await asyncio.to_thread(agent.open)
    hurry = asyncio.Event()
    if now:
        hurry.set()
    await agent.teardown(hurry)


@dataclass(frozen=True)
class Cluster:
    """The API server listens; `run` serves the node and the controllers."""

    options: Options
    server: ApiServer
    agent: Agent
    definitions: list[Raw]

    @property
    def endpoint(self) -> Endpoint:
        """The API, as its administrator."""
        return Endpoint.with_token(self.server.url, self.server.token, ca=self.server.ca)

    async def run(
        self,
        components: Callable[[Client], Mapping[str, Component]],
        stop: asyncio.Event,
        hurry: asyncio.Event,
        *,
        prepared: Callable[[], None] = lambda: None,
        ready: Callable[[], None] = lambda: None,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """Run until `stop` is set; then stop the pods and mark them as stopped by the machine.

        `prepared` is called when the API is complete, `ready` when the nodes are too, and
        `stopping` when the pods begin to end.
        """
        specs = {spec.name: spec.resources for spec in self.options.node_specs()}

        async def announce() -> None:
            await wait_for_nodes(client, specs, self.agent.groups.enforcement)
            ready()

        connected = Client.connect(
            self.endpoint, user_agent="localkube", connector=self.server.listeners.connect
        )
        async with connected as client:
            await _install_definitions(client, self.definitions)
            prepared()
            recorder = EventRecorder(client, lambda: datetime.now(UTC))
            supervisor = Supervisor(partial(_record_failure, recorder, next(iter(specs))))
            self.server.component_problems = supervisor.problems
            every = {"events": recorder.run, **self._components(client), **components(client)}
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(supervisor.keep_running(name, component))
                    for name, component in every.items()
                ]
                tasks.append(group.create_task(announce()))  # without it, the start has failed
                await stop.wait()
                log.info("stopping")
                stopping()
                for task in tasks:
                    task.cancel()
            # The API server still runs, so the pods can be marked after they are stopped.
            notice = asyncio.get_running_loop().call_later(NOTICE_AFTER, self._log_ending)
            try:
                await self.agent.teardown(hurry)
            finally:
                notice.cancel()
                await stopped_pods.mark_stopped_pods(client, specs, datetime.now(UTC))

    def status(self) -> Raw:
        """What a person wants to know about the cluster."""
        note = self.agent.choice.note
        store = self.server.store
        damage = damage_text(store.odd_rows, record_lost=store.record_lost)
        network = self.agent.network.external.unavailable_reason
        without = f"pods reach no network outside this machine, unless they use its own: {network}"
        problems = list(filter(None, [note, network and without, damage]))
        return {
            "nodes": self.options.nodes,
            "data": str(self.options.data),
            "runtime": self.agent.choice.name,
            "externalNetwork": self.agent.external_network,
            **({"note": note} if note else {}),
            **({"objects": damage} if damage else {}),
            **({"problems": problems} if problems else {}),
        }

    def _log_ending(self) -> None:
        log.info("%s; Ctrl-C kills them now", read_ending(self.options.data).text.rstrip(" …"))

    def _components(self, client: Client) -> dict[str, Callable[[], Awaitable[None]]]:
        server, agent = self.server, self.agent
        local = controllers.Settings(server.ca.decode(), self.options.data / "volumes")
        api = agent.api(server.port, server.ca)
        return {
            "housekeeping": server.run,
            "controllers": lambda: controllers.run(client, local),
            "node": lambda: agent.run(client, api),
        }


def _record_failure(recorder: EventRecorder, node: str, component: str, problem: str) -> None:
    """An event on the node: a component has no object in the API."""
    subject = EventSubject(NODES.api_version, NODES.kind, "", node, node, f"muster-{component}")
    message = f"{component} failed and is started again: {problem}"
    recorder.record(subject, EventText("ComponentFailed", message, "Warning"))


def number_in(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except FileNotFoundError:
        return None


async def _install_definitions(client: Client, definitions: list[Raw]) -> None:
    """Create the missing definitions, and replace those of an earlier version."""
    stored = {crd["metadata"]["name"]: crd for crd in (await client.list(CRDS.read_as(dict))).items}
    for definition in definitions:
        name, spec = definition["metadata"]["name"], definition["spec"]
        if name not in stored:
            await client.create(CRDS, definition)
        elif any(stored[name]["spec"].get(field) != value for field, value in spec.items()):
            await client.patch(CRDS, Key("", name), {"spec": spec})


@dataclass
class Supervisor:
    report: Callable[[str, str], None]
    """Called with the name of a component and its failure; must not raise."""
    backoff: Backoff = BACKOFF
    _states: dict[str, _State] = field(default_factory=dict, init=False)

    def problems(self) -> dict[str, str]:
        """What is wrong with each component by name; "" if it runs."""
        now = asyncio.get_running_loop().time()
        return {name: _problem(state, now) for name, state in self._states.items()}

    async def keep_running(self, name: str, component: Component) -> None:
        """Run a component, again and again if it fails, until it returns or is cancelled."""
        clock = asyncio.get_running_loop().time
        state = self._states[name] = _State(starts_at=clock())
        while True:
            failure = await _failure_of(component)
            if failure is None:
                return
            # A task group that has an error raises it, even if it was cancelled in between: without
            # this, a component that fails at that moment is started again and never ends.
            if is_cancelled():
                raise asyncio.CancelledError from failure
            now = clock()
            state.failures = 1 if now - state.starts_at > _FORGIVEN else state.failures + 1
            state.problem = _text(failure)
            pause = self.backoff.delay(state.failures)
            state.starts_at = now + pause
            expected = isinstance(failure, OSError | MusterError) and not isinstance(failure, Bug)
            message = "%s failed and starts again in %.1f s: %s"
            cause = None if expected else failure
            log.error(message, name, pause, state.problem, exc_info=cause)
            self.report(name, state.problem)
            await asyncio.sleep(pause)


@dataclass
class _State:
    problem: str = ""
    """The last failure; empty if there was none."""
    failures: int = 0
    """In a row, each soon after the start."""
    starts_at: float = 0.0
    """When the component was started, or will be."""


async def _failure_of(component: Component) -> BaseException | None:
    """Run a component; the error that ended it, or None if it returned."""
    try:
        await component()
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return error  # something that it awaited was cancelled elsewhere
    except BaseExceptionGroup as group:
        cause = single_error(group)
        if not isinstance(cause, Exception):
            raise
        return cause
    except Exception as error:  # noqa: BLE001 - whatever it is, the other components go on
        return error
    return None


def _problem(state: _State, now: float) -> str:
    if not state.problem or now >= state.starts_at + STEADY:
        return ""
    if now < state.starts_at:
        return f"{state.problem}; starts again in {state.starts_at - now:.0f} s"
    return f"{state.problem}; was started again {now - state.starts_at:.0f} s ago"


def _text(failure: BaseException) -> str:
    text = describe(failure) if isinstance(failure, Exception) else type(failure).__name__
    return text.partition("\n")[0]
