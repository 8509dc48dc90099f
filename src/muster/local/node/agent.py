"""The node agent: one process part that serves all declared nodes of this machine.

`local/up.py` makes it, opens it (the pods' network and gateway exist from then on), hands its
`backend` to the API server, and runs it with a client. Leaving `run` leaves the pods running, so a
daemon can be replaced under them; `teardown` ends them and removes every trace outside the home.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from muster.api.kinds import CONFIG_MAPS, SECRETS, PartialObjectMetadata
from muster.api.meta import Key
from muster.control.manager import Manager
from muster.control.work_queue import WorkQueue
from muster.kube.watch.informer import Informer
from muster.local.node.backend import Backend
from muster.local.node.container_start import ContainerStarter, ContainerStarterParts
from muster.local.node.container_stop import ContainerStopper
from muster.local.node.events import EventRecorder
from muster.local.node.machine import interpreter
from muster.local.node.machine.gpus import GpuAllocator
from muster.local.node.machine.node_heartbeat import NodeHeartbeat
from muster.local.node.network.bridge import BridgeNetwork
from muster.local.node.network.hosts_file import HostsFiles
from muster.local.node.network.node_ports import SERVICES_TO_SERVE, NodePorts
from muster.local.node.network.rootless import RootlessNetwork
from muster.local.node.pod import PODS_TO_RUN
from muster.local.node.pod_loop import PodLoop, PodLoopParts
from muster.local.node.probes.handlers import HandlerRunner
from muster.local.node.probes.prober import Prober
from muster.local.node.probes.tasks import ContainerTasks
from muster.local.node.references import ReferenceInformers, ReferenceReader, VolumeFreshness
from muster.local.node.runtime import cgroups, runtime_choice
from muster.local.node.runtime.namespace_runtime import NamespaceRuntime
from muster.local.node.runtime.plain_runtime import HostNetwork, PlainRuntime
from muster.local.node.runtime.pod_records import PodRecords
from muster.local.node.runtime.rootfs import RootfsRules
from muster.local.node.service_account import ApiAddress, ServiceAccountTokens
from muster.local.node.standalone.linux import kernel
from muster.local.node.volumes import directories
from muster.local.node.volumes.size_limits import SizeLimits

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change
    from muster.local.node.machine.capacity import NodeSpec
    from muster.local.node.pod import Pod

_WORKERS = 16
_PRIVATE = (".kube", ".muster")
_PATIENCE = 5.0
"""Seconds that programs have to end when the cluster is stopped."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Settings:
    """What `arena up` says about the node."""

    home: Path
    """Where the cluster's state is; hidden from pods."""
    nodes: list[NodeSpec]
    python: str | None = None
    """The interpreter that `python` is in pods."""
    images: Path | None = None
    """Where folders named like images are; by default `images` in the home."""
    user_home: str = field(default_factory=lambda: os.path.expanduser("~"))
    visible: tuple[str, ...] = ()
    """Directories that pods see even where the host's files are hidden."""
    runtime: str = "auto"
    """`auto`, `namespaces` or `plain`."""
    clock: Callable[[], datetime] = _now


def _hidden(settings: Settings) -> tuple[str, ...]:
    """The cluster's state and kubeconfigs, wherever they are said to be."""
    places = [str(settings.home), *(os.path.join(settings.user_home, d) for d in _PRIVATE)]
    return tuple(dict.fromkeys([*places, os.environ.get("MUSTER_HOME", places[0])]))


class Agent:
    """`choice` is how pods are run, if not as the settings say."""

    def __init__(
        self, settings: Settings, choice: runtime_choice.RuntimeChoice | None = None
    ) -> None:
        self._settings = settings
        self._interpreter = interpreter.find_interpreter(settings.python)
        self.choice = choice or runtime_choice.choose_runtime(settings.runtime)
        self.groups = cgroups.find_memory_cgroups(settings.home)
        self.network: BridgeNetwork | HostNetwork
        self.runtime: NamespaceRuntime | PlainRuntime
        if self.choice.kind == "plain":
            self.network, self.runtime = HostNetwork(), PlainRuntime(settings.home, self.groups)
        else:
            network = BridgeNetwork if self.choice.kind == "root" else RootlessNetwork
            self.network = network(settings.home)
            images = settings.images or settings.home / "images"
            self.runtime = NamespaceRuntime(
                settings.home, self.network, self._rules(), images, self.groups
            )
        self.backend = Backend(self.runtime)

    @classmethod
    def of_last(cls, settings: Settings) -> Agent | None:
        """For what a killed daemon left on this machine, however that ran pods; None if nothing."""
        last = runtime_choice.saved_choice(settings.home)
        return None if last is None else cls(settings, last)

    def _rules(self) -> RootfsRules:
        return RootfsRules(
            home=self._settings.user_home,
            hidden=_hidden(self._settings),
            visible=(*self._interpreter.directories, *self._settings.visible),
            fresh=() if os.access("/root", os.X_OK) else ("/root",),
            programs=self._interpreter.programs,
        )

    @property
    def gateway(self) -> str:
        """The address at which pods reach this machine."""
        return self.network.gateway

    @property
    def outside(self) -> str:
        """How pods reach the world outside, for people."""
        if self.network.way_out:
            return f"by {self.network.way_out}"
        return f"only pods on the host's network reach it: {self.network.no_way_out}"

    @property
    def memory_limits(self) -> str:
        """Whether they hold, for people."""
        return "enforced" if self.groups else "not enforced: no control group may be made here"

    @property
    def reachable(self) -> tuple[str, ...]:
        """Addresses at which a server of this process can listen for pods. Without root there is
        none: a socket must be asked for with `listen`."""
        return (self.gateway,) if self.choice.kind == "root" else ()

    def listen(self, port: int) -> socket.socket | None:
        """Without root: a listening socket at the gateway, for the server to accept from."""
        return self.network.listen(port) if isinstance(self.network, RootlessNetwork) else None

    def open(self) -> None:
        """Bring the network up, keeping what running pods use and sweeping the rest."""
        kernel.adopt_orphans()
        runtime_choice.save_choice(self._settings.home, self.choice)
        records = PodRecords(self._settings.home / "pods")
        found = [records.read(uid) for uid in records.uids()]
        self.network.open({record.address for record in found if record.open and record.address})

    def api(self, port: int, ca: bytes) -> ApiAddress:
        """What pods are told about the API server that listens on this port."""
        return ApiAddress(self.gateway, port, ca)

    async def run(self, client: Client, api: ApiAddress) -> None:
        """Serve the nodes until cancelled; pods go on running."""
        await self.manager(client, api).run()

    def manager(self, client: Client, api: ApiAddress) -> Manager:
        """Everything that runs, as one manager."""
        settings, manager = self._settings, Manager("node")
        clock = settings.clock
        pods = manager.informer(Informer(client, PODS_TO_RUN))
        services = manager.informer(Informer(client, SERVICES_TO_SERVE))
        objects = ReferenceInformers(
            manager.informer(Informer(client, CONFIG_MAPS.read_as(PartialObjectMetadata))),
            manager.informer(Informer(client, SECRETS.read_as(PartialObjectMetadata))),
        )
        recorder = EventRecorder(client, clock)
        names = HostsFiles(self.runtime, pods, services, settings.home / "pods")
        checks, watching, stopping = HandlerRunner(self.runtime), ContainerTasks(), ContainerTasks()
        prober = Prober(checks, recorder, clock, watching)
        supplies = ContainerStarterParts(
            self.runtime,
            names,
            ReferenceReader(client, settings.nodes, self.gateway, api.ca.decode()),
            directories.VolumeDirectories(settings.home),
            VolumeFreshness(objects),
            ServiceAccountTokens(client, settings.home / "pods", clock),
            GpuAllocator(
                settings.home / "pods", self.runtime, {n.name: n.gpus for n in settings.nodes}
            ),
            recorder,
            self._base_env(),
            api,
        )
        stopper = ContainerStopper(self.runtime, checks, recorder, stopping)
        parts = PodLoopParts(
            client, self.runtime, pods, ContainerStarter(supplies), prober, stopper, recorder, clock
        )
        loop = PodLoop(parts, {node.name for node in settings.nodes})
        queue: WorkQueue[Key] = WorkQueue("pods")
        self._adopt(loop, queue)

        def pod_changed(change: Change[Pod]) -> None:
            queue.add(change.current.metadata.key)

        def process_changed(uid: str) -> None:
            key = loop.key_of(uid)
            if key is not None:
                queue.add(key)

        objects.tell_users(pods, queue.add)
        prober.changed = process_changed
        pods.subscribe(pod_changed)
        manager.loop(queue, loop.reconcile, workers=_WORKERS)
        manager.background("runtime", lambda: self.runtime.run(process_changed))
        manager.background("heart", NodeHeartbeat(client, settings.nodes, self.gateway, clock).run)
        manager.background("names", names.run)
        manager.background("node ports", NodePorts(self.runtime, pods, services).run)
        sizes = SizeLimits(client, pods, settings.home / "pods", recorder, clock)
        manager.background("sizes", sizes.run)
        manager.background("events", recorder.run)
        manager.background("probes", watching.run)
        manager.background("hooks", stopping.run)
        return manager

    def _path(self) -> str:
        """PATH of pods. Without a root of their own, our programs are below the home."""
        if self.choice.kind != "plain":
            return self._interpreter.path
        return self._interpreter.lay_out(self._settings.home / "bin")

    def _base_env(self) -> dict[str, str]:
        return {
            "PATH": self._path(),
            "HOME": self._settings.user_home,
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }

    def _adopt(self, loop: PodLoop, queue: WorkQueue[Key]) -> None:
        """Pods of an earlier daemon: those still in the API go on, the others are removed."""
        for uid in self.runtime.uids():
            key = Key.parse(self.runtime.read(uid).key)
            loop.remember(key, uid)
            queue.add(key)

    async def teardown(self) -> None:
        """End every pod and remove the network: nothing is left but files in the home.

        Programs are asked to end, and have a little time to write a checkpoint.
        """
        async with asyncio.TaskGroup() as group:
            for uid in self.runtime.uids():
                group.create_task(self._end(uid))
        self.network.close()
        if self.groups is not None:
            self.groups.close()
        runtime_choice.forget_choice(self._settings.home)

    async def _end(self, uid: str) -> None:
        record = self.runtime.read(uid)
        if record.open:
            for container in record.alive:
                await self.runtime.stop(uid, container, _PATIENCE)
            await self.runtime.shims_ended(uid, _PATIENCE + 1.0)
        await self.runtime.close(uid)
        if record.open and record.alive:
            self.runtime.records.write_stopped(uid)
