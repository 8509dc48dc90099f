"""`muster explain` and `muster scheduler` as people run them, on a real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.objects.kinds import LEASES, NAMESPACES, PODS
from kubekit.objects.meta import Key, Raw
from muster.contract.job_explanation import explain_job
from muster.contract.job_kinds import JOB_KIND_BY_NAME, JOB_KINDS
from muster.contract.scheduler_rights import name_lease
from muster.jobs import names
from muster.scheduler import name_leases
from muster.scheduler.daemon import Options
from tests.controlplane.control_plane import ControlPlane
from tests.muster.scheduler.real_server import real_cluster
from tests.muster.words import short, tells

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kube, pytest.mark.slow]
SPACE = "verbs"
TFJOBS = next(kind for kind in JOB_KINDS if kind.kind == "TFJob")


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    with ControlPlane(control_plane_binaries) as cluster:
        yield cluster


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.connect(load(plane.kubeconfig)) as mine:
        yield mine


async def muster(plane: ControlPlane, *words: str) -> tuple[int | None, str, str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster", *words, "--kubeconfig", str(plane.kubeconfig),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await child.communicate()
    return child.returncode, out.decode(), err.decode()


async def submit_job(client: Client, name: str, workers: int, gpus: int) -> None:
    """A TFJob and what its operator would make of it."""
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "none"}]}}
    body: Raw = {
        "apiVersion": TFJOBS.api_version,
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": workers, "template": template}}},
    }
    job = await client.create(TFJOBS, body)
    await real_cluster.declare(client, "volcano", SPACE, name, workers)
    owner = {
        "apiVersion": TFJOBS.api_version,
        "kind": "TFJob",
        "name": name,
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    for i in range(workers):
        pod = real_cluster.member("volcano", SPACE, name, f"{name}-worker-{i}", workers, gpus)
        pod["metadata"]["labels"] |= names.selector(JOB_KIND_BY_NAME["TFJob"].operator, name)
        pod["metadata"]["annotations"]["volcano.sh/task-spec"] = "worker"
        pod["metadata"]["ownerReferences"] = [owner]
        await client.create(PODS, pod)


async def test_explain_shows_why_a_job_waits_its_place_in_line_and_when_it_runs(
    plane: ControlPlane, client: Client
) -> None:
    facts = ("3 of 5 workers", short(4), "10 nvidia.com/gpu", "8", "2nd in line")
    await real_cluster.install_crds(client)
    await client.create(NAMESPACES, {"metadata": {"name": SPACE}})
    await real_cluster.add_nodes(client, "n1", "n2", gpus=4)
    async with real_cluster.scheduling(plane):
        await submit_job(client, "small", 2, 1)
        await real_cluster.all_bound(client, SPACE, "small", 2)
        await submit_job(client, "huge", 9, 4)
        await real_cluster.all_have_reason(client, SPACE, "huge")
        await submit_job(client, "big", 5, 2)
        await real_cluster.all_have_reason(client, SPACE, "big")

        async def told() -> Raw:
            code, out, err = await muster(plane, "explain", "big", "-n", SPACE, "-o", "json")
            assert code == 0, err
            account: Raw = json.loads(out)
            return account if tells(account["text"], *facts) else {}

        async def placed() -> tuple[int, int] | None:
            """The place that a user sees who may read nothing but this namespace."""
            pods = [await client.get(PODS, Key(SPACE, f"big-worker-{i}")) for i in range(5)]
            explanation = explain_job("big", pods, None)
            place = (explanation.place, explanation.in_line)
            return place if place == (2, 2) else None

        account = await real_cluster.eventually_true(told, what="the line published", timeout=60)
        await real_cluster.eventually_true(placed, what="the place on a pod", timeout=60)
        _, text, _ = await muster(plane, "explain", "big-worker-3", "-n", SPACE)
        _, runs, _ = await muster(plane, "explain", "small", "-n", SPACE)
        code, _, trouble = await muster(plane, "explain", "nobody", "-n", SPACE)

    assert (account["state"], account["place"]) == ("waiting", 2)
    assert len(account["members"]) == 5
    assert account["text"] in text
    assert "2nd of 2 in line" in text
    assert "2 of 2 pods have a node, on 1 node" in runs
    assert code == 3
    assert "Not found training job nobody in namespace verbs" in trouble


async def test_a_second_scheduler_of_a_live_name_does_not_start_unless_forced(
    plane: ControlPlane, client: Client
) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "volcano-0", "leaseDurationSeconds": 600, "renewTime": now}
    metadata = {"name": "volcano", "namespace": "default"}
    await client.create(LEASES, {"metadata": metadata, "spec": spec})

    code, _, stderr = await muster(plane, "scheduler", "--scheduler-name", "volcano")

    assert code == 2
    assert "volcano-0 renewed the lease default/volcano" in stderr
    assert "--force" in stderr

    lone = real_cluster.member("", "default", "lone", "lone-0", 1, 0)
    lone["spec"]["schedulerName"] = "volcano"
    await real_cluster.add_nodes(client, "n9", gpus=1)
    await client.create(PODS, lone)
    forced = asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster", "scheduler", "--kubeconfig", str(plane.kubeconfig),
        "--scheduler-name", "volcano", "--force",
    )  # fmt: skip
    child = await forced
    try:
        await real_cluster.all_bound(client, "default", "lone", 1)
    finally:
        child.terminate()
        await child.wait()


async def test_a_second_scheduler_without_an_election_does_not_start(
    plane: ControlPlane, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_leases, "RENEW_EVERY", 600.0)  # the mark stays as the test writes it
    monkeypatch.setattr(name_leases, "GIVE_UP_WITHIN", 60.0)
    async with real_cluster.scheduling(plane, Options(names=("twin",))):

        async def marked() -> bool:
            leases = (await client.list(LEASES, "kube-system")).items
            return any(lease.metadata.name == name_lease("twin") for lease in leases)

        await real_cluster.eventually_true(marked, what="the scheduler's mark")
        mark = Key("kube-system", name_lease("twin"))
        another = {"holderIdentity": "another-host/1", "leaseDurationSeconds": 600}
        await client.patch(LEASES, mark, {"spec": another})
        code, _, stderr = await muster(plane, "scheduler", "--scheduler-name", "twin")
        assert code == 2
        assert "another-host/1 renewed the lease kube-system/muster-scheduler.twin" in stderr

    lease = await client.get(LEASES, mark)
    assert not lease.spec.holder_identity
