"""Deadlines and TTLs end jobs although no object changes."""

from __future__ import annotations

import pytest

from tests.api_in_memory import ApiInMemory
from tests.muster.operator.simulation import conditions, operating, passes, phase, submit

pytestmark = pytest.mark.looptime


async def test_a_deadline_ends_a_job_although_nothing_else_happens() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server, runPolicy={"activeDeadlineSeconds": 3600})
        await passes()
        for pod in server.named("pods"):
            phase(server, pod, "Running")
        await passes(3590)
        assert conditions(server) == ["Created", "Running"]

        await passes(12)
        assert conditions(server) == ["Created", "Failed"]
        assert server.named("pods") == []


async def test_a_finished_job_is_deleted_when_its_ttl_is_over() -> None:
    server = ApiInMemory()
    async with operating(server):
        submit(server, runPolicy={"ttlSecondsAfterFinished": 600})
        await passes()
        phase(server, "j-worker-0", "Succeeded")
        await passes(590)
        assert conditions(server) == ["Created", "Succeeded"]

        await passes(20)
        assert server.named("tfjobs") == []
        assert server.named("pods") == []
