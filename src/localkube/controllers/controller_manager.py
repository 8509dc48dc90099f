"""THE LOCAL CONTROLLER MANAGER: shared informers, one queue and one loop per controller.

A real cluster has kube-controller-manager instead. An idle cluster costs its watches and one check
of each node per grace period.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from kubekit.control.event_recorder import EventRecorder
from kubekit.control.manager import Manager
from kubekit.control.work_queue import WorkQueue
from kubekit.objects.meta import Key, ObjectMeta
from localkube.controllers.batch_job_controller import JobController
from localkube.controllers.cron_job_controller import CronJobController
from localkube.controllers.daemon_set_controller import DaemonSetController
from localkube.controllers.deployment_controller import DeploymentController
from localkube.controllers.disruption_budget_controller import DisruptionBudgetController
from localkube.controllers.endpoints_controller import (
    BATCH_DELAY,
    EndpointsController,
    MirroringController,
)
from localkube.controllers.garbage_collector import GarbageCollector
from localkube.controllers.namespace_controllers import NamespaceDeletion, RootCaPublisher
from localkube.controllers.node_lifecycle import (
    GRACE,
    MISSING_NODE_GRACE,
    NodeHeartbeats,
    PodGc,
    TaintEviction,
)
from localkube.controllers.persistent_volume_controller import PersistentVolumeController
from localkube.controllers.pod_control import Expectations, OwnerController, PodControl
from localkube.controllers.replica_set_controller import ReplicaSetController
from localkube.controllers.shared_informers import SharedInformers
from localkube.controllers.stateful_set_controller import StatefulSetController
from localkube.controllers.workloads import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kubekit.client.client import Client
    from kubekit.control.loop import RequeueAfter
    from kubekit.objects.kinds import Kind
    from kubekit.watch.informer import Informer

_WORKERS = 4
"""Keys that a loop works on at once; one visit awaits many requests."""


def _now() -> datetime:
    return datetime.now(UTC)


class Connectable(Protocol):
    """A controller that knows which changes concern it."""

    def connect(self, wake: Callable[[Key], None]) -> None: ...

    def reconcile(self, key: Key) -> Awaitable[RequeueAfter | None]: ...


@dataclass(frozen=True)
class Settings:
    root_ca: str = ""
    """The CA of the API server in PEM, published in every namespace; empty for none."""
    volumes: Path | None = None
    """Where to provision volumes; None for a cluster that has a provisioner."""
    grace: float = GRACE
    missing_node_grace: float = MISSING_NODE_GRACE
    clock: Callable[[], datetime] = _now


class ControllerManager:
    def __init__(self, client: Client, clock: Callable[[], datetime]) -> None:
        self.client = client
        self.clock = clock
        self.informers = SharedInformers(client)
        self.recorder = EventRecorder(client, clock)
        self.manager = Manager("controllers", restarts=True)

    def pod_control(self, kind: Kind[Any], component: str) -> PodControl:
        expectations = Expectations(asyncio.get_running_loop().time)
        return PodControl(self.client, kind, component, expectations, self.recorder, self.clock)

    def loop(
        self,
        name: str,
        controller: Connectable,
        *informers: Informer[Any],
        delay: float = 0.0,
        workers: int = 1,
    ) -> None:
        """Run a controller that subscribes to changes itself, with its own informers."""
        queue: WorkQueue[Key] = WorkQueue(name)
        controller.connect(lambda key: queue.add_after(key, delay) if delay else queue.add(key))
        for informer in informers:
            self.manager.informer(informer)
        self.manager.loop(queue, controller.reconcile, workers=workers)

    def workloads(self) -> None:
        """Deployments -> replica sets -> pods, cron jobs -> jobs -> pods, other sets -> pods."""
        informers = self.informers
        pods, sets, jobs = informers.pods, informers.sets, informers.jobs
        rows: tuple[tuple[str, Kind[Any], type[OwnerController[Any, Any]], Any, Any], ...] = (
            ("replicaset", REPLICA_SETS, ReplicaSetController, sets, pods),
            ("deployment", DEPLOYMENTS, DeploymentController, informers.deployments, sets),
            ("statefulset", STATEFUL_SETS, StatefulSetController, informers.stateful_sets, pods),
            ("daemonset", DAEMON_SETS, DaemonSetController, informers.daemon_sets, pods),
            ("job", JOBS, JobController, jobs, pods),
            ("cronjob", CRON_JOBS, CronJobController, informers.cron_jobs, jobs),
        )
        for name, kind, controller, owners, owned in rows:
            control = self.pod_control(kind, f"{name}-controller")
            self.loop(f"{name}s", controller(control, informers, owners, owned), workers=_WORKERS)

    def services(self) -> None:
        """Services -> Endpoints and EndpointSlices."""
        services = EndpointsController(self.client, self.informers)
        self.loop("services", services, services.endpoints, services.slices, delay=BATCH_DELAY)
        mirrors = MirroringController(self.client, self.informers, services.endpoints)
        self.loop("endpoint mirrors", mirrors, mirrors.slices, delay=BATCH_DELAY)

    def nodes(self, settings: Settings) -> None:
        """Nodes without heartbeats, deleted nodes, and their pods; the pods that may be evicted."""
        client, informers, clock = self.client, self.informers, self.clock
        heartbeats = NodeHeartbeats(client, informers, clock, settings.grace)
        self.loop("nodes", heartbeats, heartbeats.leases)
        control = self.pod_control(PODS, "taint-eviction-controller")
        self.loop("evictions", TaintEviction(control, informers), workers=_WORKERS)
        self.loop("pod gc", PodGc(client, informers, clock, settings.missing_node_grace))
        control = self.pod_control(DISRUPTION_BUDGETS, "controllermanager")
        self.loop("budgets", DisruptionBudgetController(control, informers))

    def volumes(self, folder: Path) -> None:
        claims = PersistentVolumeController(self.client, self.informers.claims, folder)
        self.manager.background("storage class", claims.create_class)
        self.loop("claims", claims, claims.volumes)

    def garbage(self) -> None:
        """Objects whose owners are gone, and namespaces that are being deleted."""
        garbage = GarbageCollector(self.client)
        self.manager.background("garbage", garbage.run)
        namespaces = self.informers.namespaces
        queue: WorkQueue[Key] = WorkQueue("namespaces")
        deletion = NamespaceDeletion(self.client, namespaces, garbage.inventory, self.clock)

        def object_changed(meta: ObjectMeta, gone: bool) -> None:
            if meta.namespace and deletion.is_terminating(meta.namespace):
                queue.add(Key("", meta.namespace))

        namespaces.subscribe(lambda change: queue.add(change.current.metadata.key))
        garbage.inventory.subscribe(object_changed)
        self.manager.loop(queue, deletion.reconcile)


def build(client: Client, settings: Settings) -> Manager:
    """All controllers, ready to run."""
    controllers = ControllerManager(client, settings.clock)
    controllers.workloads()
    controllers.services()
    controllers.garbage()
    controllers.nodes(settings)
    informers = controllers.informers
    if settings.root_ca:
        publisher = RootCaPublisher(client, informers, settings.root_ca)
        controllers.loop("root ca", publisher, publisher.maps)
    if settings.volumes is not None:
        controllers.volumes(settings.volumes)
    for informer in informers.all():
        controllers.manager.informer(informer)
    controllers.manager.background("events", controllers.recorder.run)
    return controllers.manager


async def run(client: Client, settings: Settings | None = None) -> None:
    """Run until cancelled."""
    await build(client, settings or Settings()).run()
