"""The operator end to end, with the same tests on a real kube-apiserver and on the local one."""

from __future__ import annotations

import asyncio
import random
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from kubekit.objects.kinds import (
    EVENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICES,
    Kind,
)
from kubekit.objects.meta import Key, Raw
from muster.contract.job_kinds import MPIJOBS, TFJOBS
from muster.contract.pod_groups import VOLCANO_POD_GROUPS
from muster.jobs import names
from muster.jobs.job_status import QUOTA_EXCEEDED
from muster.operator.daemon import Options, run
from muster.operator.decide import owned_objects
from muster.operator.observe import own_writes
from tests.muster.operator.builders import replica
from tests.muster.operator.driver import condition, move, nothing, operating, pods, tfjob
from tests.waiting import eventually

if TYPE_CHECKING:
    from kubekit.client.client import Client
    from tests.muster.operator.clusters import RunningCluster

pytestmark = pytest.mark.slow


async def test_a_job_runs_from_creation_to_success_and_is_collected(
    client: Client, ns: str
) -> None:
    async with operating(client):
        await client.create(TFJOBS, tfjob(ns))
        assert await pods(client, ns, 3) == ["j-ps-0", "j-worker-0", "j-worker-1"]
        services = (await client.list(SERVICES, ns)).items
        assert sorted(s.metadata.name for s in services) == ["j-ps-0", "j-worker-0", "j-worker-1"]
        group = await client.get(VOLCANO_POD_GROUPS, Key(ns, "j"))
        assert group.spec.min_member == 3
        pod = await client.get(PODS, Key(ns, "j-worker-0"))
        assert pod.spec.scheduler_name == "muster"
        assert pod.metadata.annotations["scheduling.k8s.io/group-name"] == "j"

        for name in ("j-ps-0", "j-worker-0", "j-worker-1"):
            await move(client, ns, name, "Running")
        await condition(client, TFJOBS, Key(ns, "j"), "Running")

        await move(client, ns, "j-worker-0", "Succeeded", 0)
        job = await condition(client, TFJOBS, Key(ns, "j"), "Succeeded")
        assert [row["type"] for row in job["status"]["conditions"]] == [
            "Created",
            "Running",
            "Succeeded",
        ]
        await nothing(client, VOLCANO_POD_GROUPS, ns)

        async def emitted() -> bool:
            reasons = {event.reason for event in (await client.list(EVENTS, ns)).items}
            return {"SuccessfulCreatePod", "TFJobSucceeded"} <= reasons

        await eventually(emitted, what="the events")

        await client.delete(TFJOBS, Key(ns, "j"), propagation="Background")
        await nothing(client, PODS, ns)
        await nothing(client, SERVICES, ns)


def seed_manifests() -> list[tuple[str, str]]:
    """The manifests of the guides that users follow, verbatim."""
    folder = Path(__file__).parent / "guides"
    return [(path.stem, path.read_text()) for path in sorted(folder.glob("*.yaml"))]


@pytest.mark.parametrize(("title", "text"), seed_manifests(), ids=lambda value: str(value)[:20])
async def test_a_manifest_of_the_guides_applies_verbatim(
    running_cluster: RunningCluster, client: Client, ns: str, title: str, text: str
) -> None:
    await asyncio.to_thread(running_cluster.apply, ns, text)
    wanted = yaml.safe_load(text)
    name = wanted["metadata"]["name"]
    async with operating(client):
        count = sum(body.get("replicas", 1) for body in wanted["spec"]["tfReplicaSpecs"].values())
        pod_names = await pods(client, ns, count)
        assert all(pod.startswith(f"{name}-") for pod in pod_names)
        named = {
            body["template"]["spec"].get("schedulerName")
            for body in wanted["spec"]["tfReplicaSpecs"].values()
        }
        if named == {"kube-batchd"}:
            budget = await client.get(POD_DISRUPTION_BUDGETS, Key(ns, name))
            assert budget.spec.min_available == count
        else:
            group = await client.get(VOLCANO_POD_GROUPS, Key(ns, name))
            assert group.spec.min_member == count


async def test_a_suspended_job_has_no_objects_and_a_resumed_job_gets_new_pods(
    client: Client, ns: str
) -> None:
    key = Key(ns, "j")
    async with operating(client):
        await client.create(TFJOBS, tfjob(ns))
        await pods(client, ns, 3)
        await client.patch(TFJOBS, key, {"spec": {"runPolicy": {"suspend": True}}})
        await condition(client, TFJOBS, key, "Suspended")
        await nothing(client, PODS, ns)
        await nothing(client, VOLCANO_POD_GROUPS, ns)

        await client.patch(TFJOBS, key, {"spec": {"runPolicy": {"suspend": False}}})
        await pods(client, ns, 3)


async def test_an_invalid_job_says_so_until_it_is_corrected(client: Client, ns: str) -> None:
    key = Key(ns, "j")
    body = tfjob(ns)
    body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = -1
    async with operating(client):
        await client.create(TFJOBS, body)
        job = await condition(client, TFJOBS, key, "Failed")
        failed = job["status"]["conditions"][-1]
        assert failed["reason"] == "InvalidSpec"
        assert failed["message"].startswith("spec.tfReplicaSpecs.Worker.replicas: is -1")

        corrected = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
        await client.patch(TFJOBS, key, corrected)
        await pods(client, ns, 2)

        async def forgiven() -> bool:
            rows = (await client.get(TFJOBS, key))["status"]["conditions"]
            return [row["type"] for row in rows] == ["Created"]

        await eventually(forgiven, what="a status without a complaint")


@pytest.mark.parametrize(
    ("template", "word"),
    [
        ({"containers": [{"name": n, "image": "i"} for n in ("tensorflow", "a", "a")]}, "name"),
        ({"terminationGracePeriodSeconds": "soon"}, "terminationGracePeriodSeconds"),
    ],
    ids=["invalid", "malformed"],
)
async def test_a_template_that_the_server_rejects_fails_the_job_with_its_message(
    client: Client, ns: str, template: Raw, word: str
) -> None:
    body = tfjob(ns)
    body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"] |= template
    async with operating(client):
        await client.create(TFJOBS, body)
        job = await condition(client, TFJOBS, Key(ns, "j"), "Failed")

    failed = job["status"]["conditions"][-1]
    assert failed["reason"] == "InvalidSpec"
    assert re.search(rf"Worker\.template: .*{word}", failed["message"])


async def test_a_gang_that_a_quota_refuses_is_deleted_and_created_whole_later(
    client: Client, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_writes, "QUOTA_PAUSE", 1.0)
    monkeypatch.setattr(owned_objects, "QUOTA_PAUSE", 1.0)
    quota = {"metadata": {"name": "q", "namespace": ns}, "spec": {"hard": {"pods": "2"}}}
    await client.create(RESOURCE_QUOTAS, quota)

    async def counted() -> bool:
        return bool((await client.get(RESOURCE_QUOTAS, Key(ns, "q"))).status.used)

    await eventually(counted, what="the quota's count")
    async with operating(client):
        await client.create(TFJOBS, tfjob(ns))

        async def waiting() -> bool:
            status = (await client.get(TFJOBS, Key(ns, "j"))).get("status", {})
            return bool(status.get("waiting", {}).get("reason") == QUOTA_EXCEEDED)

        await eventually(waiting, what="the quota in the job's status")
        await nothing(client, PODS, ns)

        await client.patch(RESOURCE_QUOTAS, Key(ns, "q"), {"spec": {"hard": {"pods": "10"}}})
        assert await pods(client, ns, 3) == ["j-ps-0", "j-worker-0", "j-worker-1"]


async def test_jobs_over_a_quota_stand_in_line_and_the_first_starts_as_soon_as_there_is_room(
    client: Client, ns: str
) -> None:
    high = f"{ns}-high"
    await client.create(PRIORITY_CLASSES, {"metadata": {"name": high}, "value": 1000})
    quota = {"metadata": {"name": "q", "namespace": ns}, "spec": {"hard": {"pods": "3"}}}
    await client.create(RESOURCE_QUOTAS, quota)

    async def counted() -> bool:
        return "pods" in (await client.get(RESOURCE_QUOTAS, Key(ns, "q"))).status.used

    async def needs(name: str) -> Raw:
        waiting = (await client.get(TFJOBS, Key(ns, name))).get("status", {}).get("waiting") or {}
        found: Raw = waiting.get("quota", {}).get("needs") or {}
        return found

    async def submit(name: str, priority: str = "") -> None:
        job = tfjob(ns, name)
        job["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": priority}}
        await client.create(TFJOBS, job)

    await eventually(counted, what="the quota's count")
    async with operating(client):
        await submit("a")
        await pods(client, ns, 3)
        for name, priority in (("old", ""), ("young", ""), ("urgent", high)):
            await submit(name, priority)
            await eventually(partial(needs, name), what=f"the place of {name} in line")
        assert await needs("urgent") == {"pods": "3"}

        for done, started in (("a", "urgent"), ("urgent", "old"), ("old", "young")):
            await client.delete(TFJOBS, Key(ns, done), propagation="Background")

            async def has_started(name: str = started) -> bool:
                names = [pod.metadata.name for pod in (await client.list(PODS, ns)).items]
                return sum(row.startswith(f"{name}-") for row in names) == 3

            # Sooner than by asking again and again: the quota says when it has room.
            await eventually(has_started, what=f"the pods of {started}")


async def test_a_class_that_a_quota_forbids_is_refused_with_the_quotas_words(
    client: Client, ns: str
) -> None:
    name = f"{ns}-high"
    await client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1000})
    quotas = Kind("", "v1", "resourcequotas", "ResourceQuota", TFJOBS.model)
    scope = {"operator": "In", "scopeName": "PriorityClass", "values": [name]}
    spec = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}}
    await client.create(quotas, {"metadata": {"name": "forbids", "namespace": ns}, "spec": spec})

    async def counted() -> bool:
        return "used" in (await client.get(quotas, Key(ns, "forbids"))).get("status", {})

    await eventually(counted, what="the quota's count")
    asks = tfjob(ns)
    asks["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": name}}
    async with operating(client):
        await client.create(TFJOBS, asks)

        async def refused() -> bool:
            waiting = (await client.get(TFJOBS, Key(ns, "j"))).get("status", {}).get("waiting", {})
            return waiting.get("reason") == "QuotaExceeded" and "forbids" in waiting["message"]

        await eventually(refused, what="the quota's words in the job's status")
        await nothing(client, PODS, ns)


async def test_an_mpi_job_gets_its_workers_then_its_launcher(client: Client, ns: str) -> None:
    body = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "m", "namespace": ns},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": replica(1, name="mpi"),
                "Worker": replica(2, name="mpi"),
            }
        },
    }
    async with operating(client):
        job = await client.create(MPIJOBS, body)
        assert await pods(client, ns, 2) == ["m-worker-0", "m-worker-1"]
        for name in ("m-worker-0", "m-worker-1"):
            await move(client, ns, name, "Running")
        launcher = names.launcher("m", job["metadata"]["uid"], 0)
        assert launcher in await pods(client, ns, 3)

        await move(client, ns, launcher, "Succeeded")
        await condition(client, MPIJOBS, Key(ns, "m"), "Succeeded")


async def test_an_operator_that_is_killed_repeatedly_creates_no_pod_twice_and_no_orphan(
    client: Client, ns: str
) -> None:
    dice = random.Random(7)
    jobs = [f"j{number}" for number in range(6)]
    for name in jobs:
        await client.create(TFJOBS, tfjob(ns, name))
    for _ in range(6):
        async with asyncio.TaskGroup() as group:
            killed = group.create_task(run(client, Options(), asyncio.Event()))
            await asyncio.sleep(dice.uniform(0.02, 0.4))  # pace: when it is killed
            killed.cancel()
    async with operating(client):
        await pods(client, ns, 18)
        for name in jobs:
            await move(client, ns, f"{name}-worker-0", "Succeeded", 0)
        for name in jobs:
            await condition(client, TFJOBS, Key(ns, name), "Succeeded")
    owners = {pod.metadata.controller for pod in (await client.list(PODS, ns)).items}
    assert {owner.name for owner in owners if owner} == set(jobs)
    created = [e for e in (await client.list(EVENTS, ns)).items if e.reason == "FailedCreatePod"]
    assert created == []
