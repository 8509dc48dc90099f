"""Ports on the host's network, on a real kube-apiserver and on the local one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kubekit.objects.kinds import PODS, SERVICES
from kubekit.objects.meta import Key
from muster.contract.job_kinds import TFJOBS
from muster.operator.decision_types import Settings
from tests.muster.operator.builders import replica
from tests.muster.operator.driver import nothing, operating, pods, tfjob
from tests.waiting import eventually

if TYPE_CHECKING:
    from kubekit.client.client import Client

pytestmark = pytest.mark.slow
FOUR = Settings(host_ports=range(15000, 15004))


async def ports(client: Client, ns: str) -> dict[str, int]:
    """The host port of each pod of the job."""
    pods = (await client.list(PODS, ns, labels="training.kubeflow.org/job-name")).items
    return {pod.metadata.name: pod.spec.containers[0].ports[-1].host_port for pod in pods}


async def test_ports_that_other_pods_hold_are_skipped(client: Client, ns: str) -> None:
    rows = [{"containerPort": 80, "hostPort": 15001}, {"containerPort": 81, "hostPort": 15002}]
    body = {"containers": [{"name": "c", "image": "i", "ports": rows}]}
    meta = {"name": "foreign", "namespace": ns}
    foreign = Key(ns, "foreign")
    await client.create(PODS, {"metadata": meta, "spec": body})
    roles = {"Worker": replica(2, hostNetwork=True)}
    async with operating(client, settings=FOUR, namespace=ns):
        await client.create(TFJOBS, tfjob(ns, tfReplicaSpecs=roles))
        await pods(client, ns, 3)

        assert sorted((await ports(client, ns)).values()) == [15000, 15003]
    await client.delete(PODS, foreign, grace=0)


async def test_a_job_moved_to_the_hosts_network_gets_ports_of_its_own(
    client: Client, ns: str
) -> None:
    key = Key(ns, "j")
    suspended = {"spec": {"runPolicy": {"suspend": True}}}
    async with operating(client, settings=FOUR, namespace=ns):
        await client.create(TFJOBS, tfjob(ns, tfReplicaSpecs={"Worker": replica(2)}))
        before = set(await pods(client, ns, 2))
        change = {"Worker": {"template": {"spec": {"hostNetwork": True}}}}
        await client.patch(TFJOBS, key, {"spec": {"tfReplicaSpecs": change}})
        for name in before:
            await client.delete(PODS, Key(ns, name), grace=0)

        async def anew() -> bool:
            chosen = await ports(client, ns)
            return set(chosen) == before and len(set(chosen.values()) & set(FOUR.host_ports)) == 2

        await eventually(anew, what="pods with ports of their own")
        chosen = await ports(client, ns)
        for name, port in chosen.items():
            service = await client.get(SERVICES, Key(ns, name))
            assert [row.port for row in service.spec.ports] == [port]
        await client.patch(TFJOBS, key, suspended)
        await nothing(client, PODS, ns)
