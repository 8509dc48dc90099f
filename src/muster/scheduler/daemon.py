"""The scheduler as a daemon: watch events into the state, actions to the effects, one task group.

`run` returns when `stop` is set, or raises the error that ended it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kubekit.control.manager import Manager
from kubekit.objects.kinds import (
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    Kind,
)
from kubekit.objects.meta import HasMetadata
from kubekit.objects.storage import CSI_NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from kubekit.telemetry.health import Health
from kubekit.watch.informer import AnyVersionInformer, Informer
from muster.contract import waiting_line_format
from muster.contract.gang_dialects import DIALECTS
from muster.contract.pod_groups import HYPER_NODES, NATIVE_POD_GROUPS
from muster.contract.scheduler_rights import NAMES
from muster.scheduler.decisions import gang_deletion
from muster.scheduler.effects.binder import Binder
from muster.scheduler.effects.deleter import Deleter
from muster.scheduler.effects.group_acceptor import GroupAcceptor
from muster.scheduler.effects.reporter import Reporter
from muster.scheduler.effects.volume_provisioner import Provisioner
from muster.scheduler.effects.waiting_line_publisher import LinePublisher
from muster.scheduler.isolated_errors import isolated
from muster.scheduler.loop import Loop
from muster.scheduler.name_leases import NameLeases
from muster.scheduler.settings import Settings, SettingsFile, load
from muster.scheduler.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kubekit.client.client import Client
    from kubekit.control.leader_election import LeaderElection
    from kubekit.objects.core import Pod
    from kubekit.objects.meta import Key
    from kubekit.watch.informer_cache import Change
    from muster.scheduler.decisions.decision import Bind, Delete, Provision, Report
    from muster.scheduler.effects.binder import BindResult

T = TypeVar("T", bound=HasMetadata)
log = logging.getLogger(__name__)

RELOAD_EVERY = 5.0
"""Seconds between two looks at the settings file."""


@dataclass(frozen=True)
class Options:
    """How to run the scheduler."""

    names: tuple[str, ...] = NAMES
    config: Path | None = None
    election: LeaderElection | None = None
    namespace: str = waiting_line_format.NAMESPACE
    """The namespace of the ConfigMap with the published line, and of the leases."""
    shadow: bool = False
    unserved: tuple[Kind[Any], ...] = ()
    """Kinds that the cluster is known not to serve."""
    one_user: bool = False
    """Whether all namespaces are those of one person: reasons then name gangs of others."""
    health: Health = field(default_factory=Health)


async def run(client: Client, options: Options, stop: asyncio.Event | None = None) -> None:
    """Schedule on the client's cluster until `stop` is set."""
    settings = load(options.config, options.names) if options.config else Settings(options.names)
    election = options.election
    manager = Manager(
        "scheduler", health=options.health, lead=election.run_as_leader if election else None
    )
    service = Service(client, settings, options, election)
    for informer in service.informers:
        manager.informer(informer)
    manager.background("scheduler", service.run, led=True)
    await manager.run(stop)


class Service:
    """The parts of one scheduler, joined: watch events to the state, actions to the client."""

    def __init__(
        self, client: Client, settings: Settings, options: Options, election: LeaderElection | None
    ) -> None:
        self._client, self._shadow = client, options.shadow
        self.state = State(settings, process_id=secrets.token_hex(4), one_user=options.one_user)
        self._acceptor = GroupAcceptor(client, settings.names)
        self.informers = list(self._informers(options.unserved))
        may_act = election.is_leader if election else lambda: True
        self._loop = Loop(self.state, self, clock=asyncio.get_running_loop().time)
        self._binder = Binder(
            client, self._settled, in_flight=settings.binds_in_flight, may_act=may_act
        )
        self._reporter = Reporter(
            client, self.state, lambda: self._binder.busy, served_kind=self._served_kind
        )
        self._name_leases = NameLeases(
            client, settings.names, options.namespace, elected=election is not None
        )
        self._line = LinePublisher(
            client,
            self.state,
            options.namespace,
            quiet=options.shadow,
            moved=self._reporter.line_moved,
        )
        self._config, self._names = options.config, options.names
        report_right = self._reporter.missing_right
        self._provisioner = Provisioner(
            client, self.state, self._loop.wake, may_act=may_act, report_right=report_right
        )
        self._deleter = Deleter(
            client, self._not_deleted, may_act=may_act, report_right=report_right
        )

    async def run(self) -> None:
        """Decide and act until cancelled; the informers have synced.

        A process that is elected again runs this again, with the binds and deletions that its last
        term left open.
        """
        self.state.begin_writing()
        self.state.wall_offset = time.time() - asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run())
            group.create_task(self._binder.run())
            group.create_task(self._deleter.run())
            group.create_task(self._provisioner.run())
            group.create_task(self._line.run())
            if self._config is not None:
                group.create_task(self._reload(SettingsFile(self._config, self._names)))
            if not self._shadow:
                group.create_task(self._reporter.run())
                group.create_task(self._name_leases.run())
                group.create_task(self._acceptor.run())

    # -- the loop's effects --------------------------------------------------------------------

    def bind(self, bind: Bind) -> None:
        if self._shadow:
            log.info("would bind %s: %s", bind.gang, {p.metadata.name: n for p, n in bind.pairs})
        else:
            self._binder.submit(bind)
            with isolated("report", bind.gang):
                self._reporter.not_served(bind.gang)
        self._line.changed()

    def _settled(self, result: BindResult) -> None:
        bind, pod, _ = result.binding
        with isolated("report", bind.gang):
            if result.missing_right:
                self._reporter.missing_right(bind.gang, (pod,), result.missing_right)
            self._reporter.settled(result)
        self._loop.settled(result)

    def delete(self, delete: Delete) -> None:
        why = delete.why if delete.preemptor is None else f"for {delete.preemptor}"
        log.warning("%s: pods are deleted: %s: %s", delete.gang, delete.reason, why)
        if self._shadow:
            log.info("would delete %s", [pod.metadata.name for pod in delete.pods])
        else:
            self._deleter.submit(delete)
            self._reporter.deleted(delete)

    def _not_deleted(self, delete: Delete, pod: Pod, why: str) -> None:
        """The server does not delete a pod, or (no `why`) at last did."""
        with isolated("deletion", delete.gang):
            gang_deletion.deletion_failed(self.state, pod, why)
        with isolated("report", delete.gang):
            if why:
                self._reporter.not_deleted(delete, pod, why)
        self._loop.wake()

    def report(self, report: Report) -> None:
        if self._shadow and report.reason is not None:
            log.info("would report %s: %s: %s", report.gang, report.reason.code, report.reason.text)
        elif not self._shadow:
            log.debug("%s: %s", report.gang, report.reason)
            self._reporter.report(report)
        self._line.changed()

    def provision(self, provision: Provision) -> None:
        if not self._shadow:
            self._provisioner.submit(provision)

    def line_changed(self) -> None:
        self._line.changed()

    async def _reload(self, file: SettingsFile) -> None:
        while True:
            await asyncio.sleep(RELOAD_EVERY)
            settings = file.reload(self.state.settings)
            if settings != self.state.settings:
                self.state.settings_changed(settings)
                self._loop.wake()

    # -- watch events --------------------------------------------------------------------------

    def _informers(self, unserved: Sequence[Kind[Any]]) -> list[Informer[Any]]:
        state = self.state
        by_key: dict[Kind[Any], Callable[..., None]] = {
            POD_DISRUPTION_BUDGETS: state.budget_changed,
            PRIORITY_CLASSES: state.priority_class_changed,
        }
        for kind in (kind for dialect in DIALECTS for kind in dialect.kinds):
            by_key[kind] = partial(self._group_changed, kind)
        for kind in (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES):
            by_key[kind] = partial(state.storage_changed, kind)
        return [
            self._watch(PODS, state.pod_changed),
            self._watch(NODES, state.node_changed),
            self._watch(NAMESPACES, lambda _, new: state.namespace_changed(new)),
            *(
                self._watch(kind, _by_key(change), any_version=kind is NATIVE_POD_GROUPS)
                for kind, change in by_key.items()
                if kind not in unserved
            ),
            # Roles of older releases lack the right to read HyperNodes: the start waits for none.
            self._watch(HYPER_NODES, _by_key(state.hyper_node_changed), optional=True),
        ]

    def _group_changed(self, kind: Kind[Any], key: Key, new: Any) -> None:
        self.state.group_changed(kind, key, new)
        self._acceptor.group_changed(kind, key, new)

    def _served_kind(self, kind: Kind[Any]) -> Kind[Any]:
        """The kind in the version that is watched."""
        watched = (informer.kind for informer in self.informers)
        return next((row for row in watched if row.resource == kind.resource), kind)

    def _watch(
        self,
        kind: Kind[T],
        update: Callable[[Any, Any], None],
        *,
        optional: bool = False,
        any_version: bool = False,
    ) -> Informer[T]:
        informer_class = AnyVersionInformer if any_version else Informer
        informer = informer_class(self._client, kind, optional=optional)

        def on_change(change: Change[T]) -> None:
            self._loop.wake()  # first: the informer goes on after an error
            self.state.now = asyncio.get_running_loop().time()
            update(change.old, change.new)

        informer.subscribe(on_change)
        return informer


def _by_key(change: Callable[..., None]) -> Callable[[Any, Any], None]:
    return lambda old, new: change((new or old).metadata.key, new)
