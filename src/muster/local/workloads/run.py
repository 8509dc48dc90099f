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
from muster.control.manager import Manager
from muster.control.queue import WorkQueue
from muster.control.tell import Teller
from muster.local.workloads.authority import Authority
from muster.local.workloads.batch.jobs import Jobs
from muster.local.workloads.expect import Expectations
from muster.local.workloads.garbage import Garbage
from muster.local.workloads.hands import Hands
from muster.local.workloads.namespaces import Namespaces
from muster.local.workloads.nodes.evictions import Evictions
from muster.local.workloads.nodes.heartbeats import GRACE, Heartbeats
from muster.local.workloads.nodes.lost import QUARANTINE, Lost
from muster.local.workloads.rollout.deployments import Deployments
from muster.local.workloads.rollout.sets import ReplicaSets
from muster.local.workloads.services import MOMENT, Services
from muster.local.workloads.shapes import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS
from muster.local.workloads.watched import Watched, on_owned, suitors

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.api.kinds import Kind
    from muster.api.meta import HasMetadata, ObjectMeta
    from muster.kube.client import Client
    from muster.kube.store import Change

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


class Workloads:
    """Everything that the controllers share."""

    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self.client = client
        self.clock = clock
        self.watched = Watched(client)
        self.teller = Teller(client, clock)
        self.manager = Manager("workloads")

    def hands(self, kind: Kind[Any], component: str) -> Hands:
        expect = Expectations(asyncio.get_running_loop().time)
        return Hands(self.client, kind, component, expect, self.teller, self.clock)

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
        jobs = Jobs(hands, watched)
        watched.jobs.subscribe(by_key(queue, hands.expect))
        watched.pods.subscribe(on_owned("Job", hands.expect, jobs.suitors, queue.add))
        self.manager.loop(queue, jobs, workers=_WORKERS)

    def services(self) -> None:
        """Services -> the addresses behind them."""
        queue: WorkQueue[Key] = WorkQueue("services")
        services = Services(self.client, self.watched)
        services.connect(lambda key: queue.add_after(key, MOMENT))
        self.manager.informer(services.endpoints)
        self.manager.informer(services.slices)
        self.manager.loop(queue, services)

    def nodes(self, settings: Settings) -> None:
        """Nodes that fall silent or go, and their pods."""
        watched, manager = self.watched, self.manager
        silence: WorkQueue[Key] = WorkQueue("nodes")
        heartbeats = Heartbeats(self.client, watched, self.clock, settings.grace)
        heartbeats.connect(silence.add)
        manager.informer(heartbeats.leases)
        manager.loop(silence, heartbeats)

        notices: WorkQueue[Key] = WorkQueue("evictions")
        evictions = Evictions(self.hands(PODS, "taint-eviction-controller"), watched)
        evictions.connect(notices.add)
        manager.loop(notices, evictions, workers=_WORKERS)

        missing: WorkQueue[Key] = WorkQueue("lost")
        lost = Lost(self.client, watched, self.clock, settings.quarantine)
        lost.connect(missing.add)
        manager.loop(missing, lost)

    def authority(self, certificate: str) -> None:
        """The API server's certificate authority, in every namespace."""
        queue: WorkQueue[Key] = WorkQueue("authority")
        authority = Authority(self.client, self.watched, certificate)
        authority.connect(queue.add)
        self.manager.informer(authority.maps)
        self.manager.loop(queue, authority)

    def collection(self) -> None:
        """What belongs to nobody any more, and what is in namespaces that are going."""
        garbage = Garbage(self.client)
        self.manager.also("garbage", garbage.run)
        spaces = self.watched.namespaces
        queue: WorkQueue[Key] = WorkQueue("namespaces")
        namespaces = Namespaces(self.client, spaces, garbage.inventory, self.clock)

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
    workloads = Workloads(client, settings.clock)
    workloads.deployments()
    workloads.jobs()
    workloads.services()
    workloads.collection()
    workloads.nodes(settings)
    if settings.authority:
        workloads.authority(settings.authority)
    for informer in workloads.watched.informers():
        workloads.manager.informer(informer)
    workloads.manager.also("events", workloads.teller.run)
    return workloads.manager


async def run(client: Client, settings: Settings | None = None) -> None:
    """Run until cancelled."""
    await build(client, settings or Settings()).run()
