"""The number of requests per job, and their order."""

from __future__ import annotations

from collections import Counter

import pytest

from kubekit.control.loop import ATTEMPTS
from kubekit.objects.meta import Raw, timestamp
from muster.operator.daemon import Options
from tests.api_in_memory import ApiInMemory
from tests.muster.operator.builders import manifest
from tests.muster.operator.simulation import (
    NS,
    POD,
    START,
    operating,
    passes,
    phase,
    submit,
    writes,
)

pytestmark = pytest.mark.looptime


async def test_a_job_costs_one_request_per_object_a_status_two_events_and_two_reconciles() -> None:
    server = ApiInMemory()
    before = reconciles()
    async with operating(server):
        submit(server)
        await passes(30)

    order = writes(server)
    # Events about services and about pods are written in between, whenever there is time.
    assert order.count("POST events") == 2
    creations = ["POST services"] * 3 + ["POST podgroups"] + ["POST pods"] * 3
    assert [w for w in order if w != "POST events"] == [*creations, "PATCH tfjobs"]
    assert not [ask for ask in server.requests if ask.method == "GET" and "/tfjobs/j" in ask.path]
    assert reconciles() - before == 2


def reconciles() -> float:
    """The number of reconciles of all jobs."""
    rows = [row for family in ATTEMPTS.collect() for row in family.samples]
    return sum(float(row.value) for row in rows if row.name.endswith("_total"))


async def test_with_many_jobs_all_pods_come_before_status_and_events() -> None:
    server = ApiInMemory()
    names = [f"job{number}" for number in range(100)]
    for name in names:
        submit(server, name)
    async with operating(server):
        await passes(30)

    order = writes(server)
    first = min(order.index("PATCH tfjobs"), order.index("POST events"))
    under_way = 3 * Options().workers
    assert order[:first].count("POST pods") >= 300 - under_way
    assert (order.count("PATCH tfjobs"), order.count("POST events")) == (100, 200)


def finished(name: str) -> Raw:
    raw = manifest(name=name)
    row = {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded"}
    raw["status"] = {"conditions": [row], "completionTime": timestamp(START)}
    del raw["metadata"]["uid"]
    return raw


@pytest.mark.slow
async def test_finished_jobs_are_never_written_to() -> None:
    server = ApiInMemory()
    for number in range(2000):
        name = f"job{number}"
        server.put(f"/apis/kubeflow.org/v1/{NS}/tfjobs/{name}", finished(name))
    version = server.version
    async with operating(server):
        await passes(60)

    assert server.version == version, "a finished job was written to"


def tally(server: ApiInMemory) -> dict[str, int]:
    """The number of requests of each sort: `POST pods`, `PATCH tfjobs status`, `GET pods one`."""
    count: Counter[str] = Counter()
    for method, path, *_ in server.requests:
        resource, *rest = path.partition(f"{NS}/")[2].split("/")
        suffix = "one" if method == "GET" and rest else "".join(rest[1:])
        count[f"{method} {resource or path} {suffix}".rstrip()] += 1
    return dict(sorted(count.items()))


@pytest.mark.long
async def test_two_thousand_jobs_create_each_pod_once_and_leave_nothing_behind() -> None:
    server = ApiInMemory(fail=0.01, slow=0)
    names = [f"job{number}" for number in range(2000)]
    async with operating(server):
        for name in names:
            submit(server, name, runPolicy={"cleanPodPolicy": "All"})
        await passes(600)
        assert len(server.named("pods")) == 3 * len(names)
        print("until all pods are there:", tally(server))
        for name in names:
            phase(server, f"{name}-worker-0", "Succeeded")
        await passes(600)

    print("until the end:", tally(server))
    assert server.named("pods") == server.named("services") == server.named("podgroups") == []
    created = [path for path in server.created if path.startswith(POD)]
    assert len(created) == len(set(created)) == 3 * len(names)
