"""The node agent: serves all declared nodes of this machine.

`open` brings up the pods' network, so the API server can listen at its gateway; `run` serves the
nodes with a client. Leaving `run` leaves the pods running, so the daemon can be replaced under
them; `teardown` stops the pods and removes everything outside the data directory.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.control.manager import Manager
from kubekit.control.work_queue import WorkQueue
from kubekit.objects.kinds import CONFIG_MAPS, SECRETS, SERVICES, PartialObjectMetadata
from kubekit.objects.meta import Key
from kubekit.private_files import home_of_account
from kubekit.watch.informer import Informer
from localkube.node.config_maps_and_secrets import ReferenceReader, VolumeFreshness
from localkube.node.container_lifecycle import ContainerStarter, ContainerStopper
from localkube.node.eviction import Evictor
from localkube.node.log_archive import LogOwners
from localkube.node.log_archive_cleaner import ArchiveCleaner
from localkube.node.machine import python_interpreter
from localkube.node.machine.capacity import NodeSpec, declare_nodes
from localkube.node.machine.gpus import GpuAllocator
from localkube.node.machine.node_registration import NodeHeartbeat
from localkube.node.machine.python_interpreter import PodPrograms
from localkube.node.machine.teardown import Teardown, make_hidden_directories
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.hosts_file import HostsFiles
from localkube.node.network.loopback_ports import LoopbackPorts
from localkube.node.network.rootless_network import RootlessNetwork
from localkube.node.network.service_addresses import NOT_HEADLESS, SLICES
from localkube.node.network.service_router import ServiceRouter
from localkube.node.node_api import Backend
from localkube.node.pod import PODS_TO_RUN, Pod
from localkube.node.pod_events import PodEvents
from localkube.node.pod_loop import PodLoop
from localkube.node.probes import ContainerTasks, HandlerRunner, Prober
from localkube.node.runtime import cgroup_search, runtime_choice
from localkube.node.runtime.namespace_runtime import NamespaceRuntime
from localkube.node.runtime.plain_runtime import PROGRAMS_FOLDER, PlainRuntime
from localkube.node.runtime.rootfs import RootfsRules
from localkube.node.service_account import ApiAddress, ServiceAccountTokens
from localkube.node.standalone.linux import kernel
from localkube.node.volumes import CLAIMS_FOLDER, PodFolders, VolumeDirectories

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from kubekit.client.client import Client
    from kubekit.objects.core import Service
    from kubekit.watch.informer_cache import Change
    from localkube.node.runtime.container_runtime import Runtime

    Watcher = Callable[[Client, PodFolders], Callable[[], Awaitable[None]]]
    """Makes a task that looks at the files of pods."""

_WORKERS = 16
"""Pods that the pod loop works on at the same time."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Options:
    """How large a cluster is, where it lives, and what its pods see."""

    data: Path
    """The data directory; hidden from pods."""
    nodes: int = 1
    gpus_per_node: int | None = None
    cpus_per_node: int | None = None
    memory_per_node: str | None = None
    port: int | None = None
    """Of the API; None takes the last one, else a free one."""
    python: str | None = None
    """The interpreter that pods run as `python`."""
    runtime: str = "auto"
    """`auto`, `namespaces` or `plain`."""
    images: Path | None = None
    """Contains one directory per image; by default `images` in the data directory."""
    user_home: str = field(default_factory=lambda: os.path.expanduser("~"))
    visible: tuple[str, ...] = ()
    """Directories that pods see even inside hidden ones."""
    hidden: tuple[str, ...] = ()
    """Directories that pods must not see, besides the data directory and kubeconfigs."""
    shared: tuple[str, ...] = ()
    """Directories in hidden ones whose subdirectories may be volumes, besides those of claims."""
    clock: Callable[[], datetime] = _now

    def node_specs(self) -> list[NodeSpec]:
        each = (self.cpus_per_node, self.memory_per_node, self.gpus_per_node)
        return declare_nodes(self.nodes, *each)

    @property
    def all_hidden(self) -> tuple[str, ...]:
        """The directories that pods must not see: the cluster's state and kubeconfigs."""
        # $HOME may name another directory than the account, which pods see too.
        homes = dict.fromkeys([self.user_home, home_of_account()])
        configs = (os.path.join(home, ".kube") for home in homes)
        return tuple(dict.fromkeys([str(self.data), *configs, *self.hidden]))

    @property
    def hidden_for_good(self) -> tuple[str, ...]:
        """The hidden directories that stay hidden if they are made while pods run."""
        other = home_of_account() if home_of_account() != self.user_home else ""
        return tuple(path for path in self.all_hidden if os.path.dirname(path) != other)

    @property
    def volume_places(self) -> tuple[str, ...]:
        """Directories in hidden ones whose subdirectories may be volumes."""
        return (str(self.data / CLAIMS_FOLDER), *self.shared)


@dataclass(frozen=True)
class NodeExtensions:
    """What a caller adds to the node."""

    logs: LogOwners = field(default_factory=LogOwners)
    programs: PodPrograms = field(default_factory=PodPrograms)
    machine_image: str = ""
    """The image that stands for this machine's files: pods with it need no image."""
    watchers: Mapping[str, Watcher] = field(default_factory=dict)
    """Tasks that look at files of pods, by name."""


class Agent:
    """`choice` overrides the runtime that the options and the machine lead to."""

    def __init__(
        self,
        options: Options,
        extensions: NodeExtensions | None = None,
        choice: runtime_choice.RuntimeChoice | None = None,
    ) -> None:
        self._options, self._nodes = options, options.node_specs()
        self._extensions = extensions or NodeExtensions()
        self._pods_dir = options.data / "pods"
        programs = self._extensions.programs
        self._interpreter = python_interpreter.find_interpreter(options.python, programs)
        self.choice = choice or runtime_choice.choose_runtime(options.runtime)
        self.runtime = self._runtime()
        self.network = self.runtime.network
        self.records, self.groups = self.runtime.records, self.runtime.groups
        self.backend = Backend(self.runtime)

    def _runtime(self) -> Runtime:
        home = self._options.data
        if self.choice.kind == "plain":
            return PlainRuntime(home, self._extensions.programs.folder)
        network = BridgeNetwork(home) if self.choice.kind == "root" else RootlessNetwork(home)
        images = self._options.images or home / "images"
        return NamespaceRuntime(home, network, self._rules(), images)

    @classmethod
    def of_last(cls, options: Options, extensions: NodeExtensions) -> Agent | None:
        """An agent for the pods that a killed daemon left, with the runtime they were started with;
        None if there are none."""
        last = runtime_choice.saved_choice(options.data)
        return None if last is None else cls(options, extensions, last)

    def _rules(self) -> RootfsRules:
        options = self._options
        interpreter = self._interpreter.directories_beside(options.all_hidden)
        enterable = os.access("/root", os.X_OK)
        return RootfsRules(
            home=options.user_home,
            hidden=options.all_hidden,
            visible=(*interpreter, *options.visible),
            own=(*options.volume_places, *interpreter),
            # In a pod as in an image, `pip install` adds to the Python that programs run.
            changeable=tuple(filter(None, [self._interpreter.environment])),
            # Many images work in /root. A user who may not enter it gets an empty one.
            fresh=() if enterable else ("/root",),
            open=("/root",) if enterable else (),
            programs=self._interpreter.programs,
        )

    @property
    def gateway(self) -> str:
        """The address at which pods reach this machine."""
        return self.network.gateway

    @property
    def external_network(self) -> str:
        """How pods reach networks outside the machine, as `arena status` shows it."""
        external = self.network.external
        if external.method:
            return f"by {external.method}"
        return f"only pods on the host's network reach it: {external.unavailable_reason}"

    def open(self) -> None:
        """Bring the network up; keep the links of running pods and remove all others."""
        # Processes of pods whose parent exits become our children, so that we can reap them: a
        # pod's pid namespace exists until its last zombie is gone.
        kernel.adopt_orphans()
        # Saved before the first pod starts: only this runtime can stop the pods after a crash.
        runtime_choice.save_choice(self._options.data, self.choice)
        if self.choice.kind != "plain":
            make_hidden_directories(self._options.data, self._options.hidden_for_good)
        pods = [self.records.read(uid) for uid in self.records.uids()]
        self.network.open({record.address for record in pods if record.open and record.address})

    def claim_cgroups(self) -> None:
        """Find the place for the control groups of new containers; this process may move there."""
        self.groups.use(cgroup_search.find_place(self._options.data))

    def api(self, port: int, ca: bytes) -> ApiAddress:
        """Where pods find the API server that listens on this port."""
        return ApiAddress(self.gateway, port, ca)

    async def run(self, client: Client, api: ApiAddress) -> None:
        """Serve the nodes until cancelled; pods keep running."""
        await self.manager(client, api).run()

    def manager(self, client: Client, api: ApiAddress) -> Manager:
        """The pod loop and all background tasks of the node."""
        extensions, clock = self._extensions, self._options.clock
        manager = Manager("node", restarts=True)
        pods = manager.informer(Informer(client, PODS_TO_RUN))
        services = manager.informer(Informer(client, SERVICES))
        events = PodEvents(client, clock)
        nodes = {node.name for node in self._nodes}
        hosts_files = HostsFiles(self.runtime, nodes, pods, services, self._pods_dir)
        freshness = VolumeFreshness(
            manager.informer(Informer(client, CONFIG_MAPS.read_as(PartialObjectMetadata))),
            manager.informer(Informer(client, SECRETS.read_as(PartialObjectMetadata))),
        )
        starter = self._starter(client, api, hosts_files, freshness, events, services)
        handlers, probes, hooks = HandlerRunner(self.runtime), ContainerTasks(), ContainerTasks()
        prober = Prober(handlers, events, clock, probes)
        stopper = ContainerStopper(self.runtime, handlers, events, hooks)
        loop = PodLoop(
            nodes,
            client,
            self.runtime,
            pods,
            starter,
            prober,
            stopper,
            events,
            clock,
            extensions.logs,
        )
        queue: WorkQueue[Key] = WorkQueue("pods")
        process_changed = self._wire(loop, queue)
        manager.loop(queue, loop.reconcile, workers=_WORKERS)
        freshness.on_change(pods, queue.add)
        self._renew_tokens(manager, starter.tokens, process_changed)
        manager.background("runtime", lambda: self.runtime.run(process_changed))
        heartbeat = NodeHeartbeat(client, self._nodes, self.gateway, clock, self.groups.enforcement)
        manager.background("heartbeat", heartbeat.run)
        manager.background("hosts files", hosts_files.run)
        slices = manager.informer(Informer(client, SLICES, labels=NOT_HEADLESS))
        loopback_ports = LoopbackPorts(self.runtime, pods, services, slices, events.recorder)
        manager.background("loopback ports", loopback_ports.run)
        if self.network.has_services:
            router = ServiceRouter(self.runtime, services, slices)
            manager.background("services", router.run)
        evictor = Evictor(client, frozenset(nodes), pods, self._pods_dir, events)
        manager.background("eviction", evictor.run)
        folders = PodFolders(frozenset(nodes), pods, starter.references, starter.volumes, events)
        for name, watcher in extensions.watchers.items():
            manager.background(name, watcher(client, folders))
        ArchiveCleaner(self.records.archive, client, extensions.logs).register(manager)
        manager.background("events", events.run)
        manager.background("probes", probes.run)
        manager.background("hooks", hooks.run)
        return manager

    def _renew_tokens(
        self, manager: Manager, tokens: ServiceAccountTokens, wake: Callable[[str], None]
    ) -> None:
        """Renew tokens when the clock was set, and when the API server refuses one."""

        def refused(uid: str) -> None:
            if tokens.refused(uid):
                wake(uid)

        self.backend.token_refused = refused
        manager.background("clock", lambda: tokens.watch_clock(wake))

    def _starter(
        self,
        client: Client,
        api: ApiAddress,
        hosts_files: HostsFiles,
        freshness: VolumeFreshness,
        events: PodEvents,
        services: Informer[Service],
    ) -> ContainerStarter:
        options = self._options
        gpus = {node.name: node.gpus for node in self._nodes}
        return ContainerStarter(
            self.runtime,
            hosts_files,
            ReferenceReader(client, self._nodes, self.gateway, api.ca.decode()),
            VolumeDirectories(options.data, options.all_hidden, options.volume_places),
            freshness,
            ServiceAccountTokens(client, self._pods_dir, options.clock),
            GpuAllocator(self.records, gpus),
            events,
            self._base_env(),
            api,
            services,
            self._extensions.machine_image,
        )

    def _wire(self, loop: PodLoop, queue: WorkQueue[Key]) -> Callable[[str], None]:
        """Queue pods for the loop as they change; the result is called when their processes
        change."""
        for uid in self.records.uids():  # pods of an earlier daemon: continue or remove them
            key = Key.parse(self.records.read(uid).key)
            if not key.name and not self.records.supervised(uid):
                # A full disk kept its record from being written, so nothing runs in it. It must be
                # gone before the loop runs, which may open this pod anew.
                self.records.forget(uid)
                continue
            loop.remember(key, uid)
            queue.add(key)

        def pod_changed(change: Change[Pod]) -> None:
            queue.add(change.current.metadata.key)

        def process_changed(uid: str) -> None:
            key = loop.key_of(uid)
            if key is not None:
                queue.add(key)

        loop.prober.changed = process_changed
        loop.pods.subscribe(pod_changed)
        return process_changed

    def _base_env(self) -> dict[str, str]:
        if self.choice.kind == "plain":  # the pod sees this machine's files
            path = self._interpreter.install(self._options.data / PROGRAMS_FOLDER)
        else:
            path = self._interpreter.path
        return {
            "PATH": path,
            "HOME": self._options.user_home,
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }

    async def teardown(self, hurry: asyncio.Event | None = None) -> None:
        """Stop every pod and remove the network; only files in the home stay.

        Programs get SIGTERM and their pod's grace period, to write a checkpoint; `hurry` ends the
        grace period. A pod that cannot be stopped does not keep the others and the network.
        """
        await Teardown(self._options.data, self.runtime).run(hurry or asyncio.Event())
        runtime_choice.forget_choice(self._options.data)
