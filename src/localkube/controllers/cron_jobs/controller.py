"""The controller of CronJobs: reads a cron job and its jobs, decides, writes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from kubekit.errors import AlreadyExists, MusterError, NotFound
from kubekit.objects.events import EventText
from localkube.controllers.cron_jobs import decide as decisions
from localkube.controllers.informers import OWNER
from localkube.controllers.workloads import JOBS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from kubekit.objects.meta import Key
    from localkube.controllers.informers import SharedInformers
    from localkube.controllers.pod_control import PodControl
    from localkube.controllers.workloads import CronJob, Job


@dataclass(frozen=True)
class CronJobController:
    pod_control: PodControl
    informers: SharedInformers

    def connect(self, wake: Callable[[Key], None]) -> None:
        informers = self.informers
        self.pod_control.connect(informers.cron_jobs, informers.jobs, lambda job: (), wake)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        cron_job = self.informers.cron_jobs.get(key)
        if cron_job is None:
            return None
        meta = cron_job.metadata
        pending = self.pod_control.expectations.pending(meta.uid)
        if pending is not None:
            return RequeueAfter(pending)
        jobs = self.informers.jobs.by(OWNER, meta.uid)
        plan = decisions.decide(cron_job, jobs, self.pod_control.clock())
        for event in plan.events:
            self.pod_control.record(meta, event)
        await self._delete(cron_job, plan.delete)
        status = plan.status
        if plan.create is not None:
            job = await self._create(cron_job, plan.create)
            if job is not None:
                status = decisions.with_new_job(status, job, plan.create)
        await self.pod_control.write_status(meta, cron_job.status, status)
        return None if plan.again is None else RequeueAfter(plan.again)

    async def _create(self, cron_job: CronJob, due: datetime) -> Job | None:
        """The job for this time; None if somebody else has made one of its name."""
        control, meta = self.pod_control, cron_job.metadata
        body = decisions.new_job(cron_job, due)
        name = body["metadata"]["name"]
        try:
            with control.expectations.creation(meta.uid, name):
                job = await control.client.create(JOBS, body)
        except AlreadyExists:
            job = await control.client.get(JOBS, meta.key._replace(name=name))
            owner = job.metadata.controller
            return job if owner is not None and owner.uid == meta.uid else None
        except MusterError as error:
            text = f"Error creating job: {error}"
            control.record(meta, EventText("FailedCreate", text, "Warning"))
            raise
        control.record(meta, EventText("SuccessfulCreate", f"Created job {name}"))
        return job

    async def _delete(self, cron_job: CronJob, jobs: Iterable[Job]) -> None:
        control = self.pod_control
        for job in jobs:
            meta = job.metadata
            with contextlib.suppress(NotFound):
                await control.client.delete(JOBS, meta.key, uid=meta.uid, propagation="Background")
                text = EventText("SuccessfulDelete", f"Deleted job {meta.name}")
                control.record(cron_job.metadata, text)
