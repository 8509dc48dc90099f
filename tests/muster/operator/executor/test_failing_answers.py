"""An API server that fails, refuses or rejects writes: the status says so, and the job recovers."""

from __future__ import annotations

import asyncio

import pytest

from kubekit.client.client import Client
from muster.operator.daemon import Options, build
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.simulation import (
    JOB,
    NS,
    POD,
    clock,
    conditions,
    operating,
    passes,
    phase,
    submit,
)

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("seed", range(5))
async def test_jobs_succeed_despite_failing_responses_late_watches_and_kills(seed: int) -> None:
    server = ApiInMemory(fail=0.05, late=1.0, seed=seed)
    names = [f"job{number}" for number in range(8)]
    for name in names:
        submit(server, name)
    for _ in range(5):
        async with asyncio.TaskGroup() as group:
            killed = group.create_task(build(Client(server), Options(), clock).run())
            await asyncio.sleep(server.dice.uniform(0.0, 0.8))
            killed.cancel()
    async with operating(server):
        await passes(120)
        assert len(server.named("pods")) == 24
        for name in names:
            phase(server, f"{name}-worker-0", "Succeeded")
        await passes(120)

    for name in names:
        path = f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}"
        assert conditions(server, path) == ["Created", "Succeeded"]
    created = [path for path in server.created if path.startswith(POD)]
    assert len(created) == len(set(created)) == 24
    assert server.named("podgroups") == []


async def test_a_job_whose_objects_are_refused_still_gets_a_status() -> None:
    server = ApiInMemory()
    server.refused = {"services"}
    async with operating(server):
        submit(server)
        await passes(30)
        assert conditions(server) == ["Created"]
        assert server.named("pods") == []

        server.refused = set()
        await passes(120)
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]


@pytest.mark.parametrize("resource", ["jaxjobs", "secrets", "roles", "podgroups"])
async def test_a_missing_right_that_no_job_needs_stops_no_job(resource: str) -> None:
    server = ApiInMemory()
    server.forbidden = {f"GET {resource}"}
    async with operating(server):
        submit(server)
        await passes()
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]


@pytest.mark.parametrize("resource", ["services", "podgroups"])
async def test_the_status_names_an_object_that_cannot_be_created_until_it_can(
    resource: str,
) -> None:
    server = ApiInMemory()
    server.invalid = {resource}
    async with operating(server):
        submit(server)
        await passes()
        job = server.get(JOB)
        assert job is not None
        waits = job["status"]["waiting"]
        assert waits["reason"] == "FailedCreate"
        assert "cannot be created: " in waits["message"]
        assert server.named("pods") == []

        server.invalid = set()
        await passes(600)
        assert len(server.named("pods")) == 3
        job = server.get(JOB)
        assert job is not None
        assert "waiting" not in job["status"]


async def test_a_job_with_a_rejected_role_fails_and_its_objects_are_deleted() -> None:
    server = ApiInMemory()
    server.wrong = {"j-ps-0"}
    async with operating(server):
        submit(server, runPolicy={"ttlSecondsAfterFinished": 600})
        await passes()
        assert conditions(server) == ["Created", "Failed"]
        assert server.named("pods") == []
        assert server.named("services") == []
        assert server.named("podgroups") == []

        await passes(620)
        assert server.get(JOB) is None


async def test_a_cluster_without_group_crds_still_runs_gangs() -> None:
    server = ApiInMemory()
    server.missing = {"podgroups"}
    async with operating(server):
        submit(server)
        await passes(10)

    pod = server.get(f"{POD}/j-worker-0")
    assert pod is not None
    assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/name"] == "j"
