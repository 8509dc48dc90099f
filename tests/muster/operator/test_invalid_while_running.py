"""A job whose manifest becomes invalid while it runs: it runs on, and ends as its pods end."""

from __future__ import annotations

import pytest

from kubekit.objects.meta import Raw
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import replica
from tests.muster.operator.simulation import JOB, POD, conditions, operating, passes, phase, submit

pytestmark = pytest.mark.looptime

BAD = {"tfReplicaSpecs": {"Worker": {"replicas": -1}}}

CORRECTED = {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}


def edit(server: ApiInMemory, spec: Raw) -> None:
    generation = (server.get(JOB) or {})["metadata"]["generation"] + 1
    server.patch(JOB, {"metadata": {"generation": generation}, "spec": spec})


async def test_a_job_made_invalid_while_it_runs_continues_as_it_was() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server, roles={"Worker": replica(2, "OnFailure"), "PS": replica(1, "OnFailure")})
        await passes()
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes()
        edit(server, BAD)
        await passes()
        assert conditions(server) == ["InvalidSpec", "Created", "Running"]

        phase(server, "j-worker-1", "Failed", reason="Evicted")
        await passes(30)
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]
        assert conditions(server) == ["InvalidSpec", "Created", "Restarting"]

        edit(server, CORRECTED)
        await passes()
        assert conditions(server) == ["Created", "Restarting"]
        phase(server, "j-worker-1", "Running")
        await passes()
        phase(server, "j-worker-0", "Succeeded")
        await passes()
        assert conditions(server) == ["Created", "Succeeded"]
    events = [(server.get(p) or {})["reason"] for p in server.objects if "/events/" in p]
    assert events.count("InvalidSpec") == 1


async def test_an_operator_that_finds_an_invalid_job_running_leaves_it_alone() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server)
        await passes()
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes()
    edit(server, BAD)
    async with operating(server):
        await passes()
        assert conditions(server) == ["InvalidSpec", "Created", "Running"]
        phase(server, "j-worker-1", "Succeeded")
        await passes()
        assert server.named("pods") == ["j-ps-0", "j-worker-0", "j-worker-1"]

        edit(server, CORRECTED)
        phase(server, "j-worker-0", "Succeeded")
        await passes()
        assert conditions(server) == ["Created", "Succeeded"]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("end", "outcome"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
async def test_a_job_made_invalid_ends_as_its_pods_end(
    restarted: bool, end: str, outcome: str
) -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server, roles={"Worker": replica(1)}, runPolicy={"ttlSecondsAfterFinished": 600})
        await passes()
        phase(server, "j-worker-0", "Running")
        await passes()
        if not restarted:
            make_invalid(server)
            await passes()
            phase(server, "j-worker-0", end)
            await passes()
    if restarted:
        make_invalid(server)
        async with operating(server):
            await passes()
            phase(server, "j-worker-0", end)
            await passes()

    last = (server.get(JOB) or {})["status"]["conditions"][-1]
    assert (last["type"], last["reason"]) == (outcome, f"TFJob{outcome}")
    assert server.created.count(f"{POD}/j-worker-0") == 1


def make_invalid(server: ApiInMemory) -> None:
    roles = {"Worker": {**replica(1), "replicas": -1}}
    server.patch(JOB, {"spec": {"tfReplicaSpecs": roles}, "metadata": {"generation": 2}})
