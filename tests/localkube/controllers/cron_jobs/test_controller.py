"""Visits of the controller to a cron job, on a local API server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kubekit.control.loop import RequeueAfter
from kubekit.objects.meta import Key, Raw
from localkube.controllers.controller_manager import ControllerManager
from localkube.controllers.cron_job_controller import CronJobController
from localkube.controllers.workloads import CRON_JOBS, JOBS

if TYPE_CHECKING:
    from kubekit.client.client import Client

NOW = datetime(2040, 3, 4, 12, 0, 30, tzinfo=UTC)
MINUTE = int(NOW.timestamp()) // 60
SPEC: Raw = {
    "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}
    }
}
DAILY: Raw = {"schedule": "0 12 * * *", "jobTemplate": {"spec": SPEC}}


async def test_a_job_of_somebody_else_with_the_name_does_not_end_the_schedule(
    api_client: Client,
) -> None:
    meta = {"namespace": "default"}
    await api_client.create(JOBS, {"metadata": {**meta, "name": f"c-{MINUTE}"}, "spec": SPEC})
    await api_client.create(CRON_JOBS, {"metadata": {**meta, "name": "c"}, "spec": DAILY})
    controllers = ControllerManager(api_client, lambda: NOW)
    informers = controllers.informers
    visited = CronJobController(
        controllers.pod_control(CRON_JOBS, "cronjobs"),
        informers,
        informers.cron_jobs,
        informers.jobs,
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(i.run()) for i in (informers.cron_jobs, informers.jobs)]
        await asyncio.gather(informers.cron_jobs.synced(), informers.jobs.synced())

        again = await visited.reconcile(Key("default", "c"))

        for task in tasks:
            task.cancel()

    assert again == RequeueAfter(86_400 - 30 + 0.1)
