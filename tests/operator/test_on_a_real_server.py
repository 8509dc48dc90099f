"""The operator against a real kube-apiserver, whose own controllers collect what jobs leave."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import yaml

from muster.api.crds import load_all
from muster.api.kinds import (
    BUDGETS,
    CRDS,
    EVENTS,
    MPIJOBS,
    NAMESPACES,
    PODS,
    SERVICES,
    TFJOBS,
    VOLCANO_GROUPS,
    Kind,
)
from muster.api.meta import Key, Raw
from muster.errors import NotFound, ServerError
from muster.jobs import names
from muster.kube import config
from muster.kube.client import Client
from muster.kube.transport import HttpTransport
from muster.operator.kinds.mpi import ACCOUNTS
from muster.operator.run import Options, run
from muster.operator.watched import raw
from tests.controlplane.cluster import ControlPlane
from tests.operator.builders import replica
from tests.waiting import eventually, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from muster.kube.request import Request, Response

T = TypeVar("T")
pytestmark = [pytest.mark.kube, pytest.mark.slow]


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane with our CRDs, and with the controllers that collect garbage."""
    with ControlPlane(control_plane_binaries) as started:
        for crd in load_all():
            status, answer = started.request("POST", CRDS.path(), crd)
            assert status == 201, answer
        until(lambda: _served(started), what="every CRD being served")
        # After the CRDs: the garbage collector looks for new kinds only twice a minute.
        started.start_controller_manager()
        yield started


def _served(plane: ControlPlane) -> bool:
    _, listing = plane.request("GET", CRDS.path())
    return all(_established(crd) for crd in listing["items"])


def _established(crd: Raw) -> bool:
    rows = crd.get("status", {}).get("conditions", [])
    return any(row["type"] == "Established" and row["status"] == "True" for row in rows)


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.connect(config.load(plane.kubeconfig)) as connected:
        yield connected


@pytest.fixture
async def ns(client: Client) -> str:
    name = f"ns-{random.randrange(10**9)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    await becomes(lambda: _found(client, ACCOUNTS, Key(name, "default")), what="its account")
    return name


async def becomes(check: Callable[[], Awaitable[T]], what: str, timeout: float = 20) -> T:
    """The first truthy answer of a coroutine."""
    ask: Callable[[], T | Awaitable[T]] = check
    return await eventually(ask, what=what, timeout=timeout)


async def _found(client: Client, kind: Kind[Any], key: Key) -> Any:
    try:
        return await client.get(kind, key)
    except NotFound:
        return None


@asynccontextmanager
async def operating(client: Client, **options: Any) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(client, Options(**options), stop))
        try:
            yield
        finally:
            stop.set()


def tfjob(ns: str, name: str = "j", **spec: Any) -> Raw:
    roles = {"Worker": replica(2), "PS": replica(1)}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": ns},
        "spec": {"tfReplicaSpecs": roles, **spec},
    }


async def pods(client: Client, ns: str, count: int) -> list[str]:
    """The names of the pods, once there are so many."""

    async def check() -> list[str]:
        listing = await client.list(PODS, ns)
        found = sorted(pod.metadata.name for pod in listing.items)
        return found if len(found) == count else []

    return await becomes(check, what=f"{count} pods", timeout=60)


async def move(client: Client, ns: str, name: str, phase: str, code: int | None = None) -> None:
    """What a node would write."""
    status: Raw = {"phase": phase}
    if code is not None:
        row = {"name": "tensorflow", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        status["containerStatuses"] = [{**row, "state": {"terminated": {"exitCode": code}}}]
    await client.patch(PODS, Key(ns, name), {"status": status}, subresource="status")


async def condition(client: Client, kind: Kind[Raw], key: Key, type_: str) -> Raw:
    """The job, once that condition is True."""

    async def check() -> Raw | None:
        job = await client.get(kind, key)
        rows = job.get("status", {}).get("conditions", [])
        return job if any(r["type"] == type_ and r["status"] == "True" for r in rows) else None

    found = await becomes(check, what=f"{key} {type_}")
    assert found is not None
    return found


async def nothing(client: Client, kind: Kind[Any], ns: str) -> None:
    async def check() -> bool:
        return not (await client.list(kind, ns)).items

    await becomes(check, timeout=60, what=f"no {kind.resource}")


async def test_a_job_runs_from_creation_to_success_and_is_collected(
    client: Client, ns: str
) -> None:
    async with operating(client):
        await client.create(TFJOBS, tfjob(ns))
        assert await pods(client, ns, 3) == ["j-ps-0", "j-worker-0", "j-worker-1"]
        services = (await client.list(SERVICES, ns)).items
        assert sorted(s.metadata.name for s in services) == ["j-ps-0", "j-worker-0", "j-worker-1"]
        group = await client.get(VOLCANO_GROUPS, Key(ns, "j"))
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
        await nothing(client, VOLCANO_GROUPS, ns)
        reasons = {event.reason for event in (await client.list(EVENTS, ns)).items}
        assert {"SuccessfulCreatePod", "TFJobSucceeded"} <= reasons

        await client.delete(TFJOBS, Key(ns, "j"), propagation="Background")
        await nothing(client, PODS, ns)
        await nothing(client, SERVICES, ns)


def seed_manifests() -> list[tuple[str, str]]:
    """The YAML of the guides that people follow, word for word."""
    folder = Path(__file__).parent / "guides"
    return [(path.stem, path.read_text()) for path in sorted(folder.glob("*.yaml"))]


@pytest.mark.parametrize(("title", "text"), seed_manifests(), ids=lambda value: str(value)[:20])
async def test_a_manifest_of_the_guides_applies_verbatim(
    plane: ControlPlane, client: Client, ns: str, title: str, text: str
) -> None:
    applied = await asyncio.to_thread(plane.kubectl, "apply", "-n", ns, "-f", "-", input=text)
    assert applied.returncode == 0, applied.stderr
    wanted = yaml.safe_load(text)
    name = wanted["metadata"]["name"]
    async with operating(client):
        count = sum(body.get("replicas", 1) for body in wanted["spec"]["tfReplicaSpecs"].values())
        found = await pods(client, ns, count)
        assert all(pod.startswith(f"{name}-") for pod in found)
        named = {
            body["template"]["spec"].get("schedulerName")
            for body in wanted["spec"]["tfReplicaSpecs"].values()
        }
        if named == {"kube-batchd"}:
            budget = await client.get(BUDGETS, Key(ns, name))
            assert budget.spec.min_available == count
        else:
            group = await client.get(VOLCANO_GROUPS, Key(ns, name))
            assert group.spec.min_member == count


VERSIONS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_job_of_any_version_runs_and_is_read_back_whole_through_every_other(
    client: Client, ns: str, version: str
) -> None:
    body = tfjob(ns)
    body["apiVersion"] = f"kubeflow.org/{version}"
    if version == "v1alpha1":
        rows = body["spec"].pop("tfReplicaSpecs")
        body["spec"]["replicaSpecs"] = [
            {"tfReplicaType": role.upper(), **rest} for role, rest in rows.items()
        ]
    body["spec"]["unheardOf"] = {"a": [1, {"b": None}]}
    written = Kind("kubeflow.org", version, "tfjobs", "TFJob", TFJOBS.model)
    await client.create(written, body)

    for other in VERSIONS:
        kind = Kind("kubeflow.org", other, "tfjobs", "TFJob", TFJOBS.model)
        found = await client.get(kind, Key(ns, "j"))
        assert _within(body["spec"], found["spec"]), other
    async with operating(client):
        await pods(client, ns, 3)
        await move(client, ns, "j-worker-0", "Running")
        job = await condition(client, TFJOBS, Key(ns, "j"), "Running")
        assert ("phase" in job["status"]) is (version == "v1alpha1")


def _within(wanted: Any, found: Any) -> bool:
    """Whether everything that was written is there; defaults may have come along."""
    if isinstance(wanted, dict):
        return all(_within(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(wanted) == len(found) and all(map(_within, wanted, found))
    return bool(wanted == found)


async def test_suspending_and_resuming(client: Client, ns: str) -> None:
    key = Key(ns, "j")
    async with operating(client):
        await client.create(TFJOBS, tfjob(ns))
        await pods(client, ns, 3)
        await client.patch(TFJOBS, key, {"spec": {"runPolicy": {"suspend": True}}})
        await condition(client, TFJOBS, key, "Suspended")
        await nothing(client, PODS, ns)
        await nothing(client, VOLCANO_GROUPS, ns)

        await client.patch(TFJOBS, key, {"spec": {"runPolicy": {"suspend": False}}})
        await pods(client, ns, 3)


async def test_a_job_that_makes_no_sense_says_so_until_it_is_mended(
    client: Client, ns: str
) -> None:
    key = Key(ns, "j")
    body = tfjob(ns)
    body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = -1
    async with operating(client):
        await client.create(TFJOBS, body)
        job = await condition(client, TFJOBS, key, "Failed")
        failed = job["status"]["conditions"][-1]
        assert failed["reason"] == "InvalidSpec"
        assert failed["message"].startswith("spec.tfReplicaSpecs.Worker.replicas: is -1")

        mended = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}}
        await client.patch(TFJOBS, key, mended)
        await pods(client, ns, 2)
        job = await client.get(TFJOBS, key)
        assert [row["type"] for row in job["status"]["conditions"]] == ["Created"]


async def test_a_template_that_the_server_refuses_fails_the_job_with_its_words(
    client: Client, ns: str
) -> None:
    body = tfjob(ns)
    container = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["imagePullPolicy"] = "Sometimes"
    async with operating(client):
        await client.create(TFJOBS, body)
        job = await condition(client, TFJOBS, Key(ns, "j"), "Failed")

    failed = job["status"]["conditions"][-1]
    assert failed["reason"] == "InvalidSpec"
    assert re.search(r"Worker\.template: .*imagePullPolicy", failed["message"])


async def test_a_gang_that_a_quota_refuses_is_taken_back_and_comes_whole_later(
    client: Client, ns: str
) -> None:
    quotas = Kind("", "v1", "resourcequotas", "ResourceQuota", TFJOBS.model)
    quota = {"metadata": {"name": "q", "namespace": ns}, "spec": {"hard": {"pods": "2"}}}
    await client.create(quotas, quota)

    async def counted() -> bool:
        return "used" in (await client.get(quotas, Key(ns, "q"))).get("status", {})

    await becomes(counted, what="the quota's count")
    async with operating(client):
        await client.create(TFJOBS, tfjob(ns))

        async def waiting() -> bool:
            status = (await client.get(TFJOBS, Key(ns, "j"))).get("status", {})
            return "exceeded quota" in status.get("waiting", {}).get("message", "")

        await becomes(waiting, what="the quota's words in the job's status")
        await nothing(client, PODS, ns)

        await client.patch(quotas, Key(ns, "q"), {"spec": {"hard": {"pods": "10"}}})
        await pods(client, ns, 3)


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
        made = await client.create(MPIJOBS, body)
        assert await pods(client, ns, 2) == ["m-worker-0", "m-worker-1"]
        for name in ("m-worker-0", "m-worker-1"):
            await move(client, ns, name, "Running")
        launcher = names.launcher("m", made["metadata"]["uid"], 0)
        assert launcher in await pods(client, ns, 3)

        await move(client, ns, launcher, "Succeeded")
        await condition(client, MPIJOBS, Key(ns, "m"), "Succeeded")


async def test_an_operator_that_is_killed_again_and_again_makes_no_pod_twice_and_no_orphan(
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


class Unreliable(HttpTransport):
    """One answer in twenty is 500, half of them after the deed was done."""

    dice = random.Random(3)

    async def send(self, request: Request) -> Response:
        fails = self.dice.random() < 0.05
        if fails and self.dice.random() < 0.5:
            raise ServerError("500 before", status=500)
        response = await super().send(request)
        if fails:
            raise ServerError("500 after", status=500)
        return response


async def test_with_one_answer_in_twenty_a_failure_everything_still_comes_right(
    plane: ControlPlane, client: Client, ns: str
) -> None:
    jobs = [f"j{number}" for number in range(10)]
    async with Client(Unreliable(config.load(plane.kubeconfig))) as shaky, operating(shaky):
        for name in jobs:
            await client.create(TFJOBS, tfjob(ns, name))
        await pods(client, ns, 30)
        for name in jobs:
            await move(client, ns, f"{name}-ps-0", "Failed", 1)
        for name in jobs:
            await condition(client, TFJOBS, Key(ns, name), "Failed")
        await nothing(client, raw(VOLCANO_GROUPS), ns)
