"""A job that runs in another cluster gets its status from there, even with an invalid manifest."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from muster.kube.client import Client
from muster.operator.run import Options, build
from tests.operator.builders import manifest, replica
from tests.operator.fake_apiserver import Server

JOB = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/j"


@pytest.mark.looptime
@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/multikueue", "kubeflow.org/training-operator"])
async def test_an_invalid_job_is_rejected_only_by_the_cluster_that_runs_it(manager: str) -> None:
    server = Server()
    raw = manifest(roles={"Worker": replica(-1)}, runPolicy={"managedBy": manager})
    del raw["metadata"]["uid"]
    daemon = build(Client(server), Options(), lambda: datetime(2026, 1, 2, tzinfo=UTC))
    async with asyncio.TaskGroup() as group:
        group.create_task(daemon.run())
        server.put(JOB, raw)
        await asyncio.sleep(5)
        daemon.stop()

    job = server.get(JOB)
    assert job is not None
    assert ("status" in job) == (manager == "kubeflow.org/training-operator")
