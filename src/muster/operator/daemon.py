"""The operator as a daemon: informers, one queue of jobs, and for each job observe, decide, act.

A reconcile reads all objects of the job again; it does not depend on which of them changed. So a
lost or repeated event does no harm. `_is_at_rest` and `_may_start` decide nothing: they only save
the work of deciding that there is nothing to do. With `lead`, only the leader acts; the other
replicas keep their informers up to date.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubekit.control.event_recorder import EventRecorder
from kubekit.control.loop import RequeueAfter
from kubekit.control.manager import Manager
from kubekit.control.work_queue import WorkQueue
from kubekit.errors import MusterError
from muster.contract.job_fields import InvalidJob
from muster.jobs import parse
from muster.jobs.invalid_job import job_from_metadata, job_from_pods
from muster.jobs.job import MANAGED_BY_MUSTER
from muster.jobs.job_status import decode_status
from muster.operator.build import host_ports
from muster.operator.decide.job_decision import decide
from muster.operator.decision_types import Settings
from muster.operator.executor import Executor
from muster.operator.observe.informers import OWNER, Informers, JobRef
from muster.operator.observe.own_writes import OwnWrites
from muster.operator.observe.ports_in_use import PortsInUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubekit.client.client import Client
    from kubekit.control.manager import Lead
    from kubekit.objects.meta import Raw
    from kubekit.telemetry.health import Health
    from muster.jobs.job import Job
    from muster.operator.decision_types import Action

EVENT_PATIENCE = 30.0
"""Seconds for which events wait while jobs are queued: pods come first."""


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
    recorder = EventRecorder(client, clock, lambda: len(queue) > 0, EVENT_PATIENCE)
    executor = Executor(client, informers, own_writes, recorder)
    ports_in_use = PortsInUse(client)
    reconciler = Reconciler(informers, own_writes, executor, ports_in_use, options.settings, clock)
    for informer in informers.informers():
        manager.informer(informer)
    manager.background("priorities", informers.priorities.run)
    manager.background("quotas", informers.quotas.run)
    manager.background("events", recorder.run)
    manager.loop(queue, reconciler, workers=options.workers)
    return manager


async def run(client: Client, options: Options, stop: asyncio.Event) -> None:
    """Run until `stop` is set."""
    await build(client, options).run(stop)


@dataclass(frozen=True)
class Reconciler:
    informers: Informers
    own_writes: OwnWrites
    executor: Executor
    ports_in_use: PortsInUse
    settings: Settings
    clock: Callable[[], datetime]

    async def __call__(self, ref: JobRef) -> RequeueAfter | None:
        cached = self.informers.job(ref)
        if cached is None:
            return None  # The job was deleted; the garbage collector deletes its objects.
        # Items of a list may lack their kind.
        raw = {**self.own_writes.newest(cached), "kind": ref.kind}
        try:
            return await self._reconcile(raw)
        except (MusterError, OSError, ExceptionGroup):
            raise
        except Exception as error:
            # The loop logs it and tries again; whoever looks at the job is told too.
            self.executor.report_bug(raw, ref.kind, error)
            raise

    async def _reconcile(self, raw: Raw) -> RequeueAfter | None:
        if self._is_at_rest(raw):
            return None
        job = self._read(raw)
        actions = await self._decide(job)
        if not actions:
            return None
        seconds = await self.executor.apply(job, actions)
        return None if seconds is None else RequeueAfter(seconds)

    def _is_at_rest(self, raw: Raw) -> bool:
        """Whether a job has ended, owns nothing and has no TTL: nothing is left to do.

        Most jobs of a cluster are finished ones, so this check comes before the manifest is parsed.
        """
        status = decode_status(raw.get("status"))
        if status.outcome is None or status.is_rejected or _may_expire(raw):
            return False
        return not self.informers.has_objects(raw["metadata"]["uid"])

    def _read(self, raw: Raw) -> Job:
        """The job; if its manifest became invalid while its pods run, the last valid one."""
        try:
            job = parse.parse_job(raw)
        except InvalidJob as error:
            return self._read_invalid(raw, error)
        self.own_writes.of(job.uid).valid_spec = raw["spec"]
        return job

    def _read_invalid(self, raw: Raw, error: InvalidJob) -> Job:
        uid = raw["metadata"]["uid"]
        is_rejected = decode_status(raw.get("status")).is_rejected
        if not is_rejected and self.informers.has_worked(uid):
            try:
                return replace(self._read_former(raw), invalid=error.with_hint)
            except InvalidJob as unreadable:
                error = unreadable
        return job_from_metadata(raw, rejected=error.with_hint)

    def _read_former(self, raw: Raw) -> Job:
        """The job of the last valid manifest, or of its pods if this operator never saw one."""
        uid = raw["metadata"]["uid"]
        spec = self.own_writes.read(uid).valid_spec
        if spec is None:
            return job_from_pods(raw, self.informers.pods.by(OWNER, uid))
        return parse.parse_job({**raw, "spec": spec})

    async def _decide(self, job: Job) -> list[Action]:
        now = self.clock()
        observed = self.informers.observe(job, self.own_writes, now)
        if not (_may_start(job) and host_ports.lacks_ports(job, observed, self.settings)):
            return decide(job, observed, self.settings, now)
        ports = await self.ports_in_use.of_other_jobs(job.uid)
        # No await until the ports are reserved: another job's reconcile would choose the same ones.
        # The job is observed again, because its services may have changed during the await above.
        ports |= self.informers.ports(job) | self.ports_in_use.reserved(job.uid)
        observed = replace(self.informers.observe(job, self.own_writes, now), ports=ports)
        actions = decide(job, observed, self.settings, now)
        self.ports_in_use.reserve(job.uid, host_ports.ports_in(actions))
        return actions


def _may_start(job: Job) -> bool:
    """Whether the job may still need pods."""
    if job.deleting or job.policy.suspend or job.policy.managed_by not in MANAGED_BY_MUSTER:
        return False
    return job.status.outcome is None


def _may_expire(raw: Raw) -> bool:
    """Whether the job may have a TTL, in either place where manifests of all versions have it."""
    spec = raw.get("spec")
    run_policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    policies = [policy for policy in (spec, run_policy) if isinstance(policy, dict)]
    return any(policy.get("ttlSecondsAfterFinished") is not None for policy in policies)
