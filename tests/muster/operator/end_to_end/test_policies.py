"""Every policy of a job, end to end: all stories run at once under one operator.

They run with a good connection, with one that fails and is late, and with an operator that is
killed again and again, on a real kube-apiserver and on the local one.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import PODS, SERVICES, Kind
from kubekit.objects.meta import Key, Raw
from muster.contract.job_kinds import TFJOBS
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from muster.operator.daemon import Options, run
from tests.muster.operator.builders import replica
from tests.muster.operator.driver import Unreliable, get_or_none, move, operating, tfjob
from tests.muster.words import tells
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tests.muster.operator.clusters import RunningCluster

pytestmark = pytest.mark.slow
PATIENCE = 60.0


class Story:
    """One job of a test, with helpers to change and observe it."""

    def __init__(self, client: Client, ns: str, name: str) -> None:
        self.client, self.ns, self.name = client, ns, name
        self.key = Key(ns, name)

    async def submit(self, roles: Raw | None = None, annotations: Any = None, **spec: Any) -> None:
        body = await self.create(roles, annotations, **spec)
        wanted = sum(role["replicas"] for role in body["spec"]["tfReplicaSpecs"].values())
        await self.pods(wanted)

    async def create(self, roles: Raw | None = None, annotations: Any = None, **spec: Any) -> Raw:
        body = tfjob(self.ns, self.name, **spec)
        body["metadata"]["annotations"] = annotations or {}
        body["spec"]["tfReplicaSpecs"] = roles or body["spec"]["tfReplicaSpecs"]
        return await self.client.create(TFJOBS, body)

    async def uids(self) -> dict[str, str]:
        """The UIDs of the pods that are not being deleted."""
        listing = await self.client.list(PODS, self.ns)
        own = [p for p in listing.items if p.metadata.name.startswith(f"{self.name}-")]
        there = [pod for pod in own if pod.metadata.deletion_timestamp is None]
        return {pod.metadata.name.removeprefix(f"{self.name}-"): pod.metadata.uid for pod in there}

    async def pods(self, count: int) -> dict[str, str]:
        async def check() -> list[dict[str, str]]:
            there = await self.uids()
            return [there] if len(there) == count else []

        (there,) = await eventually(check, what=f"{self.name}: {count} pods", timeout=PATIENCE)
        return there

    async def exactly(self, *pods: str) -> None:
        async def check() -> bool:
            return set(await self.uids()) == set(pods)

        await eventually(check, what=f"{self.name}: pods {pods}", timeout=PATIENCE)

    async def renewed(self, before: dict[str, str], *pods: str) -> None:
        """Wait until these pods, and no others, have new UIDs."""

        async def check() -> bool:
            now = await self.uids()
            return len(now) == len(before) and {n for n in now if now[n] != before[n]} == set(pods)

        await eventually(check, what=f"{self.name}: {pods} anew", timeout=PATIENCE)

    async def move(self, pod: str, phase: str, code: int | None = None) -> None:
        await move(self.client, self.ns, f"{self.name}-{pod}", phase, code)

    async def update(self, pod: str, status: Raw) -> None:
        """Set the status of a pod, as its node would."""
        key = Key(self.ns, f"{self.name}-{pod}")
        await self.client.patch(PODS, key, {"status": status}, subresource="status")

    async def run_all(self) -> None:
        for pod in await self.uids():
            await self.move(pod, "Running")
        await self.condition("Running")

    async def condition(self, type_: str) -> Raw:
        async def check() -> Raw | None:
            job = await self.client.get(TFJOBS, self.key)
            rows = job.get("status", {}).get("conditions", [])
            return job if any(r["type"] == type_ and r["status"] == "True" for r in rows) else None

        job = await eventually(check, what=f"{self.name} {type_}", timeout=PATIENCE)
        assert job is not None
        true = {r["type"] for r in job["status"]["conditions"] if r["status"] == "True"}
        assert not {"Succeeded", "Failed"} <= true
        return job

    async def edit(self, **spec: Any) -> None:
        await self.client.patch(TFJOBS, self.key, {"spec": spec})


async def keeps_all(story: Story) -> None:
    await story.submit(runPolicy={"cleanPodPolicy": "None"})
    await story.run_all()
    await story.move("worker-0", "Succeeded", 0)
    await story.condition("Succeeded")
    await story.exactly("ps-0", "worker-0", "worker-1")


async def keeps_the_finished(story: Story) -> None:
    await story.submit(runPolicy={"cleanPodPolicy": "Running"})
    await story.run_all()
    await story.move("worker-0", "Succeeded", 0)
    await story.condition("Succeeded")
    await story.exactly("worker-0")


async def keeps_nothing(story: Story) -> None:
    await story.submit(runPolicy={"cleanPodPolicy": "All"})
    await story.move("worker-0", "Succeeded", 0)
    await story.condition("Succeeded")
    await story.exactly()


async def expires(story: Story) -> None:
    await story.submit(runPolicy={"ttlSecondsAfterFinished": 1})
    await story.move("worker-0", "Succeeded", 0)

    async def is_deleted() -> bool:
        return await get_or_none(story.client, TFJOBS, story.key) is None

    await eventually(is_deleted, what=f"{story.name} being gone", timeout=PATIENCE)
    await story.exactly()


async def misses_its_deadline(story: Story) -> None:
    # Its pods may have been created and deleted before the test looks.
    await story.create(runPolicy={"activeDeadlineSeconds": 4})
    job = await story.condition("Failed")
    assert job["status"]["failure"]["code"] == "DeadlineExceeded"
    await story.exactly()


async def restarts_too_often(story: Story) -> None:
    roles = {"Worker": replica(2, "OnFailure")}
    await story.submit(roles, runPolicy={"backoffLimit": 2})
    before = await story.uids()
    await story.move("worker-1", "Failed", 1)
    await story.renewed(before, "worker-1")
    await story.move("worker-1", "Failed", 1)
    job = await story.condition("Failed")
    assert job["status"]["failure"]["code"] == "BackoffLimitExceeded"
    assert job["status"]["restarts"] == 2


async def needs_all_workers(story: Story) -> None:
    await story.submit(successPolicy="AllWorkers")
    await story.run_all()
    await story.move("worker-0", "Succeeded", 0)
    await story.move("worker-1", "Succeeded", 0)
    await story.condition("Succeeded")


async def follows_its_chief(story: Story) -> None:
    await story.submit({"Chief": replica(1), "Worker": replica(2), "PS": replica(1)})
    await story.run_all()
    await story.move("worker-0", "Succeeded", 0)
    await story.move("chief-0", "Succeeded", 0)
    await story.condition("Succeeded")


async def retries_by_exit_code(story: Story) -> None:
    await story.submit({"Worker": replica(2, "ExitCode")})
    before = await story.uids()
    await story.move("worker-1", "Failed", 137)
    await story.renewed(before, "worker-1")
    await story.move("worker-1", "Failed", 1)
    job = await story.condition("Failed")
    first = job["status"]["failure"]["first"]
    assert (first["pod"], first["exitCode"]) == (f"{story.name}-worker-1", 1)


async def restarts_whole(story: Story) -> None:
    roles = {"Worker": replica(2, "OnFailure"), "PS": replica(1, "OnFailure")}
    await story.submit(roles, {"muster.dev/restart": "gang"})
    await story.run_all()
    before = await story.uids()
    await story.move("worker-1", "Failed", 1)
    await story.renewed(before, *before)
    await story.run_all()
    before = await story.uids()
    await story.client.delete(PODS, Key(story.ns, f"{story.name}-worker-0"))
    await story.renewed(before, *before)
    await story.run_all()
    job = await story.condition("Running")
    assert job["status"]["restarts"] == 1


async def crashes_in_place_as_one(story: Story) -> None:
    await story.submit({"Worker": replica(2, "OnFailure")}, {"muster.dev/restart": "gang"})
    await story.run_all()
    before = await story.uids()
    row = {"name": "tensorflow", "image": "i", "imageID": "", "ready": True, "restartCount": 1}
    await story.update("worker-1", {"phase": "Running", "containerStatuses": [row]})
    await story.renewed(before, *before)
    await story.run_all()
    job = await story.condition("Running")
    assert job["status"]["restarts"] == 1


async def is_drained(story: Story) -> None:
    chief = replica(1)
    chief["template"]["metadata"] = {"finalizers": ["muster.dev/test"]}
    await story.submit({"Chief": chief, "Worker": replica(1)})
    await story.run_all()
    before = await story.uids()
    pod = Key(story.ns, f"{story.name}-chief-0")
    await story.client.delete(PODS, pod)
    await story.move("chief-0", "Succeeded", 0)
    await story.client.patch(PODS, pod, {"metadata": {"finalizers": None}})
    await story.renewed(before, "chief-0")
    rows = (await story.client.get(TFJOBS, story.key))["status"]["conditions"]
    assert "Succeeded" not in [row["type"] for row in rows]


async def finds_its_name_taken(story: Story) -> None:
    foreign = Key(story.ns, f"{story.name}-worker-1")
    spec = {"containers": [{"name": "c", "image": "i"}]}
    body = {"metadata": {"name": foreign.name, "namespace": story.ns}, "spec": spec}
    await story.client.create(PODS, body)
    await story.create()

    async def waits() -> bool:
        job = await story.client.get(TFJOBS, story.key)
        waiting = job.get("status", {}).get("waiting", {})
        taken = waiting.get("reason") == "ErrResourceExists"
        return taken and tells(waiting["message"], "Pod", foreign.name)

    await eventually(waits, what=f"{story.name} saying so", timeout=PATIENCE)
    before = await story.uids()
    await story.client.delete(PODS, foreign)
    await story.renewed(before, "worker-1")
    await story.run_all()


async def is_suspended_and_resumed(story: Story) -> None:
    await story.submit()
    await story.run_all()
    await story.edit(runPolicy={"suspend": True})
    await story.condition("Suspended")
    await story.exactly()
    await story.edit(runPolicy={"suspend": False})
    await story.pods(3)
    await story.run_all()


async def is_scaled(story: Story) -> None:
    await story.submit()
    await story.edit(tfReplicaSpecs={"Worker": {"replicas": 4}})
    await story.exactly("ps-0", *(f"worker-{n}" for n in range(4)))
    await story.edit(tfReplicaSpecs={"Worker": {"replicas": 1}})
    await story.exactly("ps-0", "worker-0")


async def is_corrected(story: Story) -> None:
    await story.submit()
    await story.run_all()
    before = await story.uids()
    await story.edit(tfReplicaSpecs={"Worker": {"replicas": -1}})
    job = await story.condition("InvalidSpec")
    assert job["status"]["conditions"][-1]["type"] == "Running"
    await story.edit(tfReplicaSpecs={"Worker": {"replicas": 2}})

    async def corrected() -> bool:
        rows = (await story.client.get(TFJOBS, story.key))["status"]["conditions"]
        return [row["type"] for row in rows] == ["Created", "Running"]

    await eventually(corrected, what=f"{story.name} without a complaint", timeout=PATIENCE)
    assert await story.uids() == before


async def is_deleted_and_comes_back(story: Story) -> None:
    await story.submit()
    before = await story.uids()
    await story.client.delete(TFJOBS, story.key, propagation="Background")

    async def is_deleted() -> bool:
        return await get_or_none(story.client, TFJOBS, story.key) is None

    await eventually(is_deleted, what=f"{story.name} being gone", timeout=PATIENCE)
    await story.client.create(TFJOBS, tfjob(story.ns, story.name))
    await story.renewed(before, *before)


STORIES: list[Callable[[Story], Coroutine[Any, Any, None]]] = [
    keeps_all,
    keeps_the_finished,
    keeps_nothing,
    expires,
    misses_its_deadline,
    restarts_too_often,
    needs_all_workers,
    follows_its_chief,
    retries_by_exit_code,
    restarts_whole,
    crashes_in_place_as_one,
    is_drained,
    finds_its_name_taken,
    is_suspended_and_resumed,
    is_scaled,
    is_corrected,
    is_deleted_and_comes_back,
]


@asynccontextmanager
async def steady(running_cluster: RunningCluster) -> AsyncIterator[None]:
    async with Client.connect(running_cluster.endpoint) as client, operating(client):
        yield


@asynccontextmanager
async def unreliable(running_cluster: RunningCluster) -> AsyncIterator[None]:
    transport = Unreliable(running_cluster.endpoint)
    async with Client(transport) as client, operating(client):
        yield
    assert transport.failures


@asynccontextmanager
async def mortal(running_cluster: RunningCluster) -> AsyncIterator[None]:
    """Run one operator after another, each killed at a random moment."""
    dice = random.Random(5)

    async def lives(client: Client) -> None:
        while True:
            async with asyncio.TaskGroup() as group:
                operator = group.create_task(run(client, Options(), asyncio.Event()))
                await asyncio.sleep(dice.uniform(0.3, 1.5))  # pace: its lifetime
                operator.cancel()

    async with Client.connect(running_cluster.endpoint) as client, asyncio.TaskGroup() as group:
        living = group.create_task(lives(client))
        try:
            yield
        finally:
            living.cancel()


@pytest.mark.parametrize(
    "operators", [steady, unreliable, mortal], ids=lambda operators: operators.__name__
)
async def test_every_policy_is_honoured(
    running_cluster: RunningCluster,
    client: Client,
    ns: str,
    operators: Callable[[RunningCluster], Any],
) -> None:
    async with operators(running_cluster), asyncio.TaskGroup() as group:
        for tell in STORIES:
            name = tell.__name__.replace("_", "-")
            group.create_task(tell(Story(client, ns, name)))
    await nothing_is_left_over(client, ns)


async def nothing_is_left_over(client: Client, ns: str) -> None:
    """After garbage collection, every pod, service and group belongs to an existing job."""
    kinds: tuple[Kind[Any], ...] = (PODS, SERVICES, VOLCANO_POD_GROUPS)

    async def all_have_owners() -> bool:
        jobs = {job["metadata"]["uid"] for job in (await client.list(TFJOBS, ns)).items}
        there = [obj for kind in kinds for obj in (await client.list(kind, ns)).items]
        owners = [obj.metadata.controller for obj in there if not obj.metadata.deletion_timestamp]
        return all(owner is not None and owner.uid in jobs for owner in owners)

    await eventually(all_have_owners, what="nothing left over", timeout=PATIENCE)
