"""The operator as a daemon: informers, one queue of jobs, one reconcile loop.

With `lead`, only the leader acts; the other replicas keep their informers up to date.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.control.event_recorder import EventRecorder
from kubekit.control.manager import Manager
from kubekit.control.work_queue import WorkQueue
from muster.operator.act.executor import Executor
from muster.operator.observe.informers import Informers, JobRef
from muster.operator.observe.own_writes import OwnWrites
from muster.operator.observe.ports_in_use import PortsInUse
from muster.operator.reconcile import Reconciler
from muster.operator.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.control.manager import Lead
    from kubekit.telemetry.health import Health


@dataclass(frozen=True)
class Options:
    """Options of the daemon; decisions depend on `settings` alone."""

    namespace: str = ""
    """Watch only this namespace; empty: all."""
    settings: Settings = field(default_factory=Settings)
    workers: int = 16
    lead: Lead | None = None
    health: Health | None = None


def build(
    client: Client, options: Options, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Manager:
    """The daemon, ready to run."""
    manager = Manager("operator", health=options.health, lead=options.lead)
    queue: WorkQueue[JobRef] = WorkQueue("operator")
    own_writes = OwnWrites(asyncio.get_running_loop().time)
    informers = Informers(client, options.namespace)
    informers.connect(own_writes, queue.add)
    if options.health is not None:
        options.health.note("rights", informers.missing_rights)
    # While jobs are queued, events wait: pods come first.
    recorder = EventRecorder(client, clock, busy=lambda: len(queue) > 0)
    executor = Executor(client, informers, own_writes, recorder)
    ports_in_use = PortsInUse(client)
    reconciler = Reconciler(informers, own_writes, executor, ports_in_use, options.settings, clock)
    for informer in informers.informers():
        manager.informer(informer)
    manager.background("priorities", informers.priorities.run)
    manager.background("events", recorder.run)
    manager.loop(queue, reconciler, workers=options.workers)
    return manager


async def run(client: Client, options: Options, stop: asyncio.Event) -> None:
    """Run until `stop` is set."""
    await build(client, options).run(stop)
