"""A job that runs in another cluster gets its status from there, even with an invalid manifest."""

from __future__ import annotations

import pytest

from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import replica
from tests.muster.operator.simulation import operating, passes, submit


@pytest.mark.looptime
@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/multikueue", "kubeflow.org/training-operator"])
async def test_an_invalid_job_is_rejected_only_by_the_cluster_that_runs_it(manager: str) -> None:
    server = ApiInMemory()
    async with operating(server):
        path = submit(server, roles={"Worker": replica(-1)}, runPolicy={"managedBy": manager})
        await passes()

    job = server.get(path)
    assert job is not None
    assert ("status" in job) == (manager == "kubeflow.org/training-operator")
