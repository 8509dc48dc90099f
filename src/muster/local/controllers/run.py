"""The workload controllers as one daemon: shared informers, one queue and loop per kind.

Started by `local/up.py`; a real cluster has its own controller manager. Nothing here polls: an idle
cluster costs nothing but the watches.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from muster.api.meta import Key
from muster.control.event_recorder import EventRecorder
from muster.control.manager import Manager
from muster.control.work_queue import WorkQueue
from muster.local.controllers.batch.controller import JobController
from muster.local.controllers.deployments.controller import Deployments
from muster.local.controllers.deployments.replica_sets import ReplicaSets
from muster.local.controllers.endpoints_controller import BATCH_DELAY, EndpointsController
from muster.local.controllers.expectations import Expectations
from muster.local.controllers.garbage.collector import GarbageCollector
from muster.local.controllers.informers import SharedInformers, on_owned, suitors
from muster.local.controllers.kinds import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS
from muster.local.controllers.namespace_deletion import NamespaceDeletion
from muster.local.controllers.node_lifecycle.heartbeats import GRACE, NodeHeartbeats
from muster.local.controllers.node_lifecycle.pod_gc import QUARANTINE, PodGc
from muster.local.controllers.node_lifecycle.taint_eviction import TaintEviction
from muster.local.controllers.pod_control import PodControl
from muster.local.controllers.root_ca import RootCaPublisher

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.kinds import Kind
    from muster.api.meta import HasMetadata, ObjectMeta
    from muster.kube.client import Client
    from muster.kube.watch.informer_cache import Change

_WORKERS = 4


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Settings:
    """How to run them. `authority` is the certificate by which pods trust the API, in PEM."""

    authority: str = ""
    grace: float = GRACE
    quarantine: float = QUARANTINE
    clock: Callable[[], datetime] = _now


class ControllerManager:
    """Everything that the controllers share."""

    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self.client = client
        self.clock = clock
        self.watched = SharedInformers(client)
        self.teller = EventRecorder(client, clock)
        self.manager = Manager("workloads")

    def hands(self, kind: Kind[Any], component: str) -> PodControl:
        expect = Expectations(asyncio.get_running_loop().time)
        return PodControl(self.client, kind, component, expect, self.teller, self.clock)

    def deployments(self) -> None:
        """Deployments -> replica sets -> pods."""
        watched = self.watched
        sets: WorkQueue[Key] = WorkQueue("replicasets")
        hands = self.hands(REPLICA_SETS, "replicaset-controller")
        replica_sets = ReplicaSets(hands, watched)
        adopters = partial(suitors, watched.sets)
        watched.sets.subscribe(by_key(sets, hands.expect))
        watched.pods.subscribe(on_owned("ReplicaSet", hands.expect, adopters, sets.add))
        self.manager.loop(sets, replica_sets, workers=_WORKERS)

        queue: WorkQueue[Key] = WorkQueue("deployments")
        hands = self.hands(DEPLOYMENTS, "deployment-controller")
        deployments = Deployments(hands, watched)
        adopters = partial(suitors, watched.deployments)
        watched.deployments.subscribe(by_key(queue, hands.expect))
        watched.sets.subscribe(on_owned("Deployment", hands.expect, adopters, queue.add))
        self.manager.loop(queue, deployments, workers=_WORKERS)

    def jobs(self) -> None:
        """Jobs -> pods, until they are done."""
        watched = self.watched
        queue: WorkQueue[Key] = WorkQueue("jobs")
        hands = self.hands(JOBS, "job-controller")
        jobs = JobController(hands, watched)
        watched.jobs.subscribe(by_key(queue, hands.expect))
        watched.pods.subscribe(on_owned("Job", hands.expect, jobs.suitors, queue.add))
        self.manager.loop(queue, jobs, workers=_WORKERS)

    def services(self) -> None:
        """Services -> the addresses behind them."""
        queue: WorkQueue[Key] = WorkQueue("services")
        services = EndpointsController(self.client, self.watched)
        services.connect(lambda key: queue.add_after(key, BATCH_DELAY))
        self.manager.informer(services.endpoints)
        self.manager.informer(services.slices)
        self.manager.loop(queue, services)

    def nodes(self, settings: Settings) -> None:
        """Nodes that fall silent or go, and their pods."""
        watched, manager = self.watched, self.manager
        silence: WorkQueue[Key] = WorkQueue("nodes")
        heartbeats = NodeHeartbeats(self.client, watched, self.clock, settings.grace)
        heartbeats.connect(silence.add)
        manager.informer(heartbeats.leases)
        manager.loop(silence, heartbeats)

        notices: WorkQueue[Key] = WorkQueue("evictions")
        evictions = TaintEviction(self.hands(PODS, "taint-eviction-controller"), watched)
        evictions.connect(notices.add)
        manager.loop(notices, evictions, workers=_WORKERS)

        missing: WorkQueue[Key] = WorkQueue("lost")
        lost = PodGc(self.client, watched, self.clock, settings.quarantine)
        lost.connect(missing.add)
        manager.loop(missing, lost)

    def authority(self, certificate: str) -> None:
        """The API server's certificate authority, in every namespace."""
        queue: WorkQueue[Key] = WorkQueue("authority")
        authority = RootCaPublisher(self.client, self.watched, certificate)
        authority.connect(queue.add)
        self.manager.informer(authority.maps)
        self.manager.loop(queue, authority)

    def collection(self) -> None:
        """What belongs to nobody any more, and what is in namespaces that are going."""
        garbage = GarbageCollector(self.client)
        self.manager.background("garbage", garbage.run)
        spaces = self.watched.namespaces
        queue: WorkQueue[Key] = WorkQueue("namespaces")
        namespaces = NamespaceDeletion(self.client, spaces, garbage.inventory, self.clock)

        def left(meta: ObjectMeta, gone: bool) -> None:
            if meta.namespace and namespaces.going(meta.namespace):
                queue.add(Key("", meta.namespace))

        spaces.subscribe(lambda change: queue.add(change.current.metadata.key))
        garbage.inventory.subscribe(left)
        self.manager.loop(queue, namespaces)


def by_key(queue: WorkQueue[Key], expect: Expectations) -> Callable[[Change[Any]], None]:
    """A listener that has each changed object looked at."""

    def listen(change: Change[HasMetadata]) -> None:
        meta = change.current.metadata
        if change.new is None:
            expect.forget(meta.uid)
        queue.add(meta.key)

    return listen


def build(client: Client, settings: Settings) -> Manager:
    """The daemon, ready to run."""
    workloads = ControllerManager(client, settings.clock)
    workloads.deployments()
    workloads.jobs()
    workloads.services()
    workloads.collection()
    workloads.nodes(settings)
    if settings.authority:
        workloads.authority(settings.authority)
    for informer in workloads.watched.informers():
        workloads.manager.informer(informer)
    workloads.manager.background("events", workloads.teller.run)
    return workloads.manager


async def run(client: Client, settings: Settings | None = None) -> None:
    """Run until cancelled."""
    await build(client, settings or Settings()).run()
