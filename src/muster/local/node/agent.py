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

from muster.api.kinds import CONFIG_MAPS, SECRETS, Partial
from muster.api.meta import Key
from muster.control.manager import Manager
from muster.control.queue import WorkQueue
from muster.kube.informer import Informer
from muster.local.node import interpreter, volumes
from muster.local.node.accounts import Api, Tokens
from muster.local.node.backend import Backend
from muster.local.node.checks import Checks
from muster.local.node.crew import Crew
from muster.local.node.events import Recorder
from muster.local.node.fresh import Freshness, Objects
from muster.local.node.gpus import Devices
from muster.local.node.loop import Parts, PodLoop
from muster.local.node.names import Names
from muster.local.node.nodes import Heart
from muster.local.node.prober import Prober
from muster.local.node.runtime import choosing, memory
from muster.local.node.runtime.namespaces import Namespaces
from muster.local.node.runtime.network import Network
from muster.local.node.runtime.plain import HostNetwork, Plain
from muster.local.node.runtime.records import Records
from muster.local.node.runtime.rootfs import Rules
from muster.local.node.runtime.rootless import RootlessNetwork
from muster.local.node.services import SERVICES_TO_SERVE, NodePorts
from muster.local.node.sizes import Sizes
from muster.local.node.sources import Sources
from muster.local.node.spec import PODS_TO_RUN
from muster.local.node.standalone import kernel
from muster.local.node.starting import Starter, Supplies
from muster.local.node.stopping import Stopper

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from muster.kube.client import Client
    from muster.kube.store import Change
    from muster.local.node.machine import NodeSpec
    from muster.local.node.spec import Pod

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

    def __init__(self, settings: Settings, choice: choosing.Choice | None = None) -> None:
        self._settings = settings
        self._interpreter = interpreter.find(settings.python)
        self.choice = choice or choosing.choose(settings.runtime)
        self.groups = memory.find(settings.home)
        self.network: Network | HostNetwork
        self.runtime: Namespaces | Plain
        if self.choice.kind == "plain":
            self.network, self.runtime = HostNetwork(), Plain(settings.home, self.groups)
        else:
            network = Network if self.choice.kind == "root" else RootlessNetwork
            self.network = network(settings.home)
            images = settings.images or settings.home / "images"
            self.runtime = Namespaces(
                settings.home, self.network, self._rules(), images, self.groups
            )
        self.backend = Backend(self.runtime)

    @classmethod
    def of_last(cls, settings: Settings) -> Agent | None:
        """For what a killed daemon left on this machine, however that ran pods; None if nothing."""
        last = choosing.kept(settings.home)
        return None if last is None else cls(settings, last)

    def _rules(self) -> Rules:
        return Rules(
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
        choosing.keep(self._settings.home, self.choice)
        records = Records(self._settings.home / "pods")
        found = [records.read(uid) for uid in records.uids()]
        self.network.open({record.address for record in found if record.open and record.address})

    def api(self, port: int, ca: bytes) -> Api:
        """What pods are told about the API server that listens on this port."""
        return Api(self.gateway, port, ca)

    async def run(self, client: Client, api: Api) -> None:
        """Serve the nodes until cancelled; pods go on running."""
        await self.manager(client, api).run()

    def manager(self, client: Client, api: Api) -> Manager:
        """Everything that runs, as one manager."""
        settings, manager = self._settings, Manager("node")
        clock = settings.clock
        pods = manager.informer(Informer(client, PODS_TO_RUN))
        services = manager.informer(Informer(client, SERVICES_TO_SERVE))
        objects = Objects(
            manager.informer(Informer(client, CONFIG_MAPS.read_as(Partial))),
            manager.informer(Informer(client, SECRETS.read_as(Partial))),
        )
        recorder = Recorder(client, clock)
        names = Names(self.runtime, pods, services, settings.home / "pods")
        checks, watching, stopping = Checks(self.runtime), Crew(), Crew()
        prober = Prober(checks, recorder, clock, watching)
        supplies = Supplies(
            self.runtime,
            names,
            Sources(client, settings.nodes, self.gateway, api.ca.decode()),
            volumes.Store(settings.home),
            Freshness(objects),
            Tokens(client, settings.home / "pods", clock),
            Devices(settings.home / "pods", self.runtime, {n.name: n.gpus for n in settings.nodes}),
            recorder,
            self._base_env(),
            api,
        )
        stopper = Stopper(self.runtime, checks, recorder, stopping)
        parts = Parts(
            client, self.runtime, pods, Starter(supplies), prober, stopper, recorder, clock
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
        manager.also("runtime", lambda: self.runtime.run(process_changed))
        manager.also("heart", Heart(client, settings.nodes, self.gateway, clock).run)
        manager.also("names", names.run)
        manager.also("node ports", NodePorts(self.runtime, pods, services).run)
        sizes = Sizes(client, pods, settings.home / "pods", recorder, clock)
        manager.also("sizes", sizes.run)
        manager.also("events", recorder.run)
        manager.also("probes", watching.run)
        manager.also("hooks", stopping.run)
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
        choosing.forget(self._settings.home)

    async def _end(self, uid: str) -> None:
        record = self.runtime.read(uid)
        if record.open:
            for container in record.alive:
                await self.runtime.stop(uid, container, _PATIENCE)
            await self.runtime.shims_ended(uid, _PATIENCE + 1.0)
        await self.runtime.close(uid)
        if record.open and record.alive:
            self.runtime.records.write_stopped(uid)
