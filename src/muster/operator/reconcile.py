"""One job: observe, decide, act.

Called by the control loop with a job's kind and key, whenever the job or anything of it changed and
when a timer is up. Reads everything anew each time; never looks at what kind of change it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from muster.control.loop import RequeueAfter
from muster.errors import InvalidJob, NotFound
from muster.jobs import parse
from muster.jobs.job import MANAGED_BY_MUSTER, MULTIKUEUE
from muster.jobs.unparsable import job_from_pods
from muster.operator.actions import Create
from muster.operator.build import host_ports
from muster.operator.decide import conditions
from muster.operator.decide.decide import decide, end, refuse
from muster.operator.decide.invalid_spec import describe, is_rejected, reject
from muster.operator.observe.informers import OWNER
from muster.operator.observe.ports_in_use import PortsInUse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from muster.api.meta import Raw
    from muster.jobs.job import Job
    from muster.kube.client import Client
    from muster.operator.act.executor import Executor
    from muster.operator.actions import Action
    from muster.operator.observe.informers import Informers, JobRef
    from muster.operator.observe.own_writes import OwnWrites
    from muster.operator.settings import Settings


class Reconciler:
    """Brings one job on, once per call."""

    def __init__(
        self,
        client: Client,
        watched: Informers,
        memory: OwnWrites,
        actor: Executor,
        settings: Settings,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._watched = watched
        self._memory = memory
        self._actor = actor
        self._settings = settings
        self._clock = clock
        self._occupied = PortsInUse(client)

    async def __call__(self, ref: JobRef) -> RequeueAfter | None:
        cached = self._watched.job(ref)
        if cached is None:
            return None  # Its objects go with it, by their owner.
        raw = self._newest(ref, cached)
        if self._rests(raw):
            return None
        try:
            job = self._read(raw)
        except InvalidJob as error:
            return await self._reject(raw, error)
        actions = await self._decide(job)
        if not actions or (self._replaces(job, actions) and not await self._still_there(job)):
            return None
        try:
            again = await self._actor.apply(job, actions)
        except InvalidJob as error:
            return await self._refuse(replace(job, status=self._newest(ref, raw)["status"]), error)
        return None if again is None else RequeueAfter(again)

    def _newest(self, ref: JobRef, cached: Raw) -> Raw:
        raw = self._memory.newest(cached)
        return {**raw, "kind": ref.kind, "status": conditions.readable(raw.get("status"))}

    def _read(self, raw: Raw) -> Job:
        """The job; a manifest made senseless while its pods run counts as it was before."""
        uid = raw["metadata"]["uid"]
        try:
            job = parse.parse_job(raw)
        except InvalidJob as error:
            if is_rejected(raw["status"]) or not self._watched.has_worked(uid):
                raise
            return replace(self._former(raw), invalid=describe(error))
        self._memory.record_valid_spec(uid, raw["spec"])
        return job

    def _former(self, raw: Raw) -> Job:
        """The job as it was before its manifest was made senseless."""
        uid = raw["metadata"]["uid"]
        before = self._memory.valid_spec(uid)
        if before is None:
            return job_from_pods(raw, self._watched.pods.by(OWNER, uid))
        return parse.parse_job({**raw, "spec": before})

    def _rests(self, raw: Raw) -> bool:
        """Whether a job has ended, has nothing left and stays: most are so, and cost nothing."""
        ended = raw["status"]
        if conditions.outcome(ended) is None or is_rejected(ended) or _expires(raw):
            return False
        return not self._watched.has_objects(raw["metadata"]["uid"])

    async def _decide(self, job: Job) -> list[Action]:
        now = self._clock()
        observed = self._watched.observe(job, self._memory, now)
        if _starts(job) and host_ports.lacks_ports(job, observed, self._settings):
            held = await self._occupied.held(job.uid)
            # Nothing is awaited from here on: what is chosen now is promised at once.
            held |= self._watched.ports(job) | self._occupied.reserved(job.uid)
            observed = replace(self._watched.observe(job, self._memory, now), ports=held)
            chosen = host_ports.host_ports_of(job, observed, self._settings)
            self._occupied.reserve(job.uid, chosen.values())
        return decide(job, observed, self._settings, now)

    async def _reject(self, raw: Raw, error: InvalidJob) -> RequeueAfter | None:
        """Say that it makes no sense; when that is said and it ended, clean up after it."""
        job, now = parse.job_from_metadata(raw), self._clock()
        if job.policy.managed_by == MULTIKUEUE:
            return None
        said = reject(raw, error, now, runs=self._watched.has_running_pod(job.uid))
        if said:
            await self._actor.apply(job, said)
            return RequeueAfter(0.0)
        if job.deleting or conditions.outcome(job.status) is None:
            return None
        left = end(job, job.status, self._watched.observe(job, self._memory, now), now)
        again = await self._actor.apply(job, left)
        return None if again is None else RequeueAfter(again)

    async def _refuse(self, job: Job, error: InvalidJob) -> RequeueAfter:
        """Some of its pods cannot be: say so, and look again at what is to become of the rest."""
        now = self._clock()
        observed = self._watched.observe(job, self._memory, now)
        await self._actor.apply(job, refuse(job, describe(error), observed, now))
        return RequeueAfter(0.0)

    def _replaces(self, job: Job, actions: Sequence[Action]) -> bool:
        """Whether something is created for a job that was looked at before."""
        begun = conditions.condition(job.status, "Created") or self._memory.has_started(job.uid)
        return bool(begun) and any(isinstance(action, Create) for action in actions)

    async def _still_there(self, job: Job) -> bool:
        """Whether the job itself, and not only our memory of it, is still there.

        A job's objects are collected with it. When we hear of that before we hear of the job's own
        end they look lost, and replacing them would make objects that belong to nobody.
        """
        try:
            live = await self._client.get(job.job_kind.resource, job.key)
        except NotFound:
            return False
        meta = live["metadata"]
        return meta["uid"] == job.uid and not meta.get("deletionTimestamp")


def _starts(job: Job) -> bool:
    """Whether the job may come to need pods."""
    stays = job.deleting or job.policy.suspend or job.policy.managed_by not in MANAGED_BY_MUSTER
    return not stays and conditions.outcome(job.status) is None


def _expires(raw: Raw) -> bool:
    """Whether a time may be set for it to go."""
    spec = raw.get("spec")
    inner = spec.get("runPolicy") if isinstance(spec, dict) else None
    policies = [policy for policy in (spec, inner) if isinstance(policy, dict)]
    return any(policy.get("ttlSecondsAfterFinished") is not None for policy in policies)
