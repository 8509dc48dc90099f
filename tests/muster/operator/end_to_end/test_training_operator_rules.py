"""Rules of training-operator on which users and Kueue rely, on a real kube-apiserver and ours."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.objects.conditions import disruption_condition, preemption_message
from kubekit.objects.kinds import EVENTS, PODS, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import Invalid
from muster.contract.job_kinds import MPIJOBS, TFJOBS
from tests.muster.operator.builders import replica
from tests.muster.operator.driver import condition, move, operating, pods, tfjob
from tests.waiting import eventually

if TYPE_CHECKING:
    from kubekit.client.client import Client

pytestmark = pytest.mark.slow


async def test_a_job_created_suspended_has_no_start_time_until_it_is_started(
    client: Client, ns: str
) -> None:
    async with operating(client):
        await client.create(TFJOBS, tfjob(ns, runPolicy={"suspend": True}))
        job = await condition(client, TFJOBS, Key(ns, "j"), "Suspended")
        assert "startTime" not in job["status"]

        await client.patch(TFJOBS, Key(ns, "j"), {"spec": {"runPolicy": {"suspend": False}}})
        await pods(client, ns, 3)

        async def started() -> bool:
            job = await client.get(TFJOBS, Key(ns, "j"))
            return "startTime" in job["status"]

        await eventually(started, what="the start time")


@pytest.mark.parametrize("kind", [TFJOBS, MPIJOBS], ids=lambda kind: kind.kind)
async def test_the_controller_of_a_job_is_chosen_when_it_is_created(
    client: Client, ns: str, kind: Kind[Raw]
) -> None:
    for number, policy in enumerate(({}, {"managedBy": "kueue.x-k8s.io/multikueue"})):
        name = f"j{number}"
        body = {"metadata": {"name": name, "namespace": ns}, "spec": {"runPolicy": policy}}
        await client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **body})
        other = {"managedBy": "kubeflow.org/training-operator"}
        with pytest.raises(Invalid, match=r"spec.runPolicy.managedBy: .*field is immutable"):
            await client.patch(kind, Key(ns, name), {"spec": {"runPolicy": other}})
        change = {"spec": {"runPolicy": {"suspend": True}}}
        changed = await client.patch(kind, Key(ns, name), change)
        assert changed["spec"]["runPolicy"] == {**policy, "suspend": True}


async def events(client: Client, ns: str) -> dict[str, list[tuple[str, str]]]:
    """Type and message of the events on the job, by reason."""
    listing = await client.list(EVENTS.read_as(dict), ns)
    rows: dict[str, list[tuple[str, str]]] = {}
    for raw in listing.items:
        if raw["involvedObject"]["name"] == "j":
            rows.setdefault(raw["reason"], []).append((raw["type"], raw["message"]))
    return rows


async def test_events_have_the_reasons_types_and_words_of_training_operator(
    client: Client, ns: str
) -> None:
    async with operating(client):
        roles = {"Worker": replica(1)}
        spec = {"tfReplicaSpecs": roles, "runPolicy": {"cleanPodPolicy": "All"}}
        await client.create(TFJOBS, tfjob(ns) | {"spec": spec})
        await pods(client, ns, 1)
        await move(client, ns, "j-worker-0", "Running")
        await condition(client, TFJOBS, Key(ns, "j"), "Running")
        await move(client, ns, "j-worker-0", "Succeeded", 0)
        await condition(client, TFJOBS, Key(ns, "j"), "Succeeded")

        async def complete() -> bool:
            return "SuccessfulDeleteService" in await events(client, ns)

        await eventually(complete, what="the last event")

    assert await events(client, ns) == {
        "SuccessfulCreateService": [("Normal", "Created service: j-worker-0")],
        "SuccessfulCreatePod": [("Normal", "Created pod: j-worker-0")],
        "ExitedWithCode": [("Normal", f"Pod: {ns}.j-worker-0 exited with code 0")],
        "TFJobSucceeded": [("Normal", f"TFJob {ns}/j successfully completed.")],
        "JobTerminated": [("Normal", "Job has been terminated. Deleting PodGroup")],
        "SuccessfulDeletePodGroup": [("Normal", "Deleted PodGroup: j")],
        "SuccessfulDeletePod": [("Normal", "Deleted pod: j-worker-0")],
        "SuccessfulDeleteService": [("Normal", "Deleted service: j-worker-0")],
    }


async def test_the_outcome_and_the_counts_appear_in_the_same_write(client: Client, ns: str) -> None:
    roles = {"Chief": replica(1), "Worker": replica(3), "PS": replica(2)}
    states: list[Raw] = []
    async with operating(client):
        policy = {"cleanPodPolicy": "All"}
        await client.create(TFJOBS, tfjob(ns, tfReplicaSpecs=roles, runPolicy=policy))
        names = await pods(client, ns, 6)
        for name in names:
            await move(client, ns, name, "Running")
        job = await condition(client, TFJOBS, Key(ns, "j"), "Running")
        # The pods that decide end last: by then, all others have ended.
        workers = [name for name in names if "worker" in name]
        await asyncio.gather(*(move(client, ns, name, "Succeeded", 0) for name in workers))

        async def counted() -> bool:
            states.append(await client.get(TFJOBS, Key(ns, "j")))
            return bool(states[-1]["status"]["replicaStatuses"]["Worker"].get("succeeded") == 3)

        await eventually(counted, what="the workers are counted")
        version = job["metadata"]["resourceVersion"]
        watching = asyncio.create_task(versions(client, ns, version, states))
        await move(client, ns, "j-chief-0", "Succeeded", 0)
        await asyncio.wait_for(watching, 30)

    first = next(s for s in states if succeeded(s))
    assert first["status"]["replicaStatuses"] == {
        "Chief": {"succeeded": 1},
        "Worker": {"succeeded": 3},
        "PS": {"succeeded": 2},
    }


def succeeded(job: Raw) -> bool:
    rows = job.get("status", {}).get("conditions", [])
    return any(row["type"] == "Succeeded" and row["status"] == "True" for row in rows)


async def versions(client: Client, ns: str, version: str, states: list[Raw]) -> None:
    """Watch the job, and keep every state, until it has succeeded."""
    async for event in client.watch(TFJOBS, ns, since=version):
        states.append(event.object)
        if succeeded(event.object):
            return


def mpi_job(ns: str, version: str) -> Raw:
    roles = {"Launcher": replica(1, name="mpi"), "Worker": replica(1, name="mpi")}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "j", "namespace": ns},
        "spec": {"mpiReplicaSpecs": roles, "runPolicy": {"cleanPodPolicy": "All"}},
    }


@pytest.mark.parametrize(("version", "left"), [("v1", 0), ("v1alpha2", 1), ("v2beta1", 1)])
async def test_the_policy_all_deletes_the_launcher_of_v1_only(
    client: Client, ns: str, version: str, left: int
) -> None:
    kind = Kind("kubeflow.org", version, "mpijobs", "MPIJob", MPIJOBS.model)
    async with operating(client):
        await client.create(kind, mpi_job(ns, version))
        if version != "v2beta1":
            await pods(client, ns, 1)
            await move(client, ns, "j-worker-0", "Running")
        launcher = next(name for name in await pods(client, ns, 2) if "launcher" in name)
        status: dict[str, Any] = {"phase": "Succeeded"}
        await client.patch(PODS, Key(ns, launcher), {"status": status}, subresource="status")
        await condition(client, MPIJOBS, Key(ns, "j"), "Succeeded")
        await pods_left(client, ns, [launcher][:left])


async def pods_left(client: Client, ns: str, names: list[str]) -> None:
    async def check() -> bool:
        listing = await client.list(PODS, ns)
        living = [p for p in listing.items if p.metadata.deletion_timestamp is None]
        return [pod.metadata.name for pod in living] == names

    await eventually(check, what=f"only {names} left")


async def test_a_preempted_job_names_the_gang_for_which_its_pods_were_deleted(
    client: Client, ns: str
) -> None:
    async with operating(client):
        await client.create(TFJOBS, tfjob(ns))
        names = await pods(client, ns, 3)
        for name in names:
            await move(client, ns, name, "Running")
        await condition(client, TFJOBS, Key(ns, "j"), "Running")
        words = preemption_message("other/big")
        mark = disruption_condition("PreemptionByScheduler", words, datetime.now(UTC))
        for name in names:
            change = {"status": {"conditions": [mark]}}
            await client.patch(PODS, Key(ns, name), change, subresource="status")
            await client.delete(PODS, Key(ns, name), grace=0)
        job = await condition(client, TFJOBS, Key(ns, "j"), "Restarting")

    assert job["status"]["restart"]["preempted"] == words
    assert words in job["status"]["conditions"][-1]["message"]
    assert job["status"]["preempted"] == words
