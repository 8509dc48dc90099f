"""Claims and volumes on a real control plane: what kube-scheduler does, we do.

Every story is told twice at once, to pods of ours and to pods of kube-scheduler, with objects of
their own; Kubernetes' own controller binds volumes to claims.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kubekit.client.client import Client
from kubekit.objects.core import Pod
from kubekit.objects.kinds import NAMESPACES, NODES, PODS
from kubekit.objects.meta import Key, Raw, find_condition
from kubekit.objects.storage import (
    NO_PROVISIONER,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    VolumeClaim,
)
from tests.controlplane.control_plane import ControlPlane
from tests.muster.scheduler.real_server import real_cluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kube, pytest.mark.slow]
ZONE = "topology.kubernetes.io/zone"


@dataclass
class Side:
    """One scheduler's half of a story: a namespace, and classes of storage of its own."""

    client: Client
    scheduler: str
    name: str

    async def storage(self, provisioner: str) -> None:
        body = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await self.client.create(STORAGE_CLASSES, {"metadata": {"name": self.name}, **body})

    async def claim(self, name: str, **spec: object) -> None:
        asked: Raw = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.name,
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        }
        metadata = {"name": name, "namespace": self.name}
        await self.client.create(VOLUME_CLAIMS, {"metadata": metadata, "spec": asked})

    async def volume(self, name: str, host: str, size: str = "1Gi", **more: object) -> None:
        row = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
        terms = [{"matchExpressions": [row]}]
        spec: Raw = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.name,
            "local": {"path": "/none"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            **more,
        }
        await self.client.create(
            VOLUMES, {"metadata": {"name": f"{name}-{self.name}"}, "spec": spec}
        )

    async def pod(self, name: str, *claims: str, host: str = "") -> None:
        volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
        spec: Raw = {
            "schedulerName": self.scheduler,
            "containers": [{"name": "main", "image": "none"}],
            "volumes": volumes,
            **({"nodeSelector": {"kubernetes.io/hostname": host}} if host else {}),
        }
        metadata = {"name": name, "namespace": self.name}
        await self.client.create(PODS, {"metadata": metadata, "spec": spec})

    async def pod_named(self, name: str) -> Pod:
        return await self.client.get(PODS, Key(self.name, name))

    async def claimed(self, name: str) -> VolumeClaim:
        return await self.client.get(VOLUME_CLAIMS, Key(self.name, name))

    async def goes_to(self, name: str) -> str:
        async def check() -> str:
            return (await self.pod_named(name)).spec.node_name

        return await real_cluster.eventually_true(check, what=f"{self.scheduler}: {name} bound")

    async def waits(self, name: str) -> None:
        """Until the pod has been looked at and told that it cannot be placed."""

        async def check() -> bool:
            pod = await self.pod_named(name)
            assert not pod.spec.node_name
            condition = find_condition(pod.status.conditions, "PodScheduled")
            return condition is not None and condition.status == "False"

        await real_cluster.eventually_true(
            check, what=f"{self.scheduler}: {name} told that it waits"
        )


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    with ControlPlane(control_plane_binaries) as cluster:
        cluster.start_controller_manager(
            "--controllers=persistentvolume-binder-controller",
            "--pvclaimbinder-sync-period=1s",  # it repeats what met a conflict only then
        )
        cluster.start_scheduler()
        yield cluster


@pytest.fixture
async def sides(plane: ControlPlane) -> AsyncIterator[list[Side]]:
    """Both schedulers run; nodes n1 and n2 are in zones a and b."""
    async with real_cluster.scheduling(plane) as client:
        await real_cluster.add_nodes(client, "n1", "n2", gpus=4)
        for name, zone in (("n1", "a"), ("n2", "b")):
            await client.patch(NODES, Key("", name), {"metadata": {"labels": {ZONE: zone}}})
        sides = []
        for scheduler in ("muster", "default-scheduler"):
            side = Side(client, scheduler, f"{scheduler}-{secrets.token_hex(3)}")
            await client.create(NAMESPACES, {"metadata": {"name": side.name}})
            sides.append(side)
        yield sides
        for side in sides:
            for pod in (await client.list(PODS, side.name)).items:
                await client.delete(PODS, pod.metadata.key, grace=0)
        await real_cluster.remove_nodes(client)


async def test_a_pod_waits_for_a_volume_that_is_provisioned_slowly(sides: list[Side]) -> None:
    for side in sides:
        await side.storage("example.com/slow")
        await side.claim("data")
        await side.pod("p", "data", host="n2")

        async def told(side: Side = side) -> bool:
            return (await side.claimed("data")).selected == "n2"

        await real_cluster.eventually_true(told, what=f"{side.scheduler}: claim told its node")
    for side in sides:
        assert not (await side.pod_named("p")).spec.node_name
        claim = await side.claimed("data")
        ref = {"namespace": side.name, "name": "data", "uid": claim.metadata.uid}
        await side.volume("made", "n2", claimRef=ref)

        assert await side.goes_to("p") == "n2"
        assert (await side.claimed("data")).bound


async def test_a_pod_whose_volume_nothing_provisions_waits(sides: list[Side]) -> None:
    for side in sides:
        await side.storage(NO_PROVISIONER)
        await side.claim("data")
        await side.pod("p", "data")
    for side in sides:
        await side.waits("p")

        assert (await side.claimed("data")).selected == ""


async def test_a_pod_goes_to_the_node_of_the_smallest_suitable_volume(sides: list[Side]) -> None:
    for side in sides:
        await side.storage(NO_PROVISIONER)
        await side.volume("large", "n2", "9Gi")
        await side.volume("small", "n2", "2Gi")
        await side.volume("tiny", "n1", "1Mi")

        async def free(side: Side = side) -> bool:
            volumes = (await side.client.list(VOLUMES)).items
            mine = [v for v in volumes if v.metadata.name.endswith(side.name)]
            return [v.status.phase for v in mine] == ["Available"] * 3

        await real_cluster.eventually_true(free, what="volumes available")
        await side.claim("data")
        await side.pod("p", "data")
    for side in sides:
        assert await side.goes_to("p") == "n2"
        claim = await side.claimed("data")
        assert (claim.bound, claim.spec.volume_name) == (True, f"small-{side.name}")


async def test_one_volume_goes_to_one_of_two_pods(sides: list[Side]) -> None:
    for side in sides:
        await side.storage(NO_PROVISIONER)
        await side.volume("only", "n2")
        await side.claim("first")
        await side.claim("second")
        await side.pod("p", "first")

        assert await side.goes_to("p") == "n2"

        await side.pod("q", "second")
    for side in sides:
        await side.waits("q")


async def test_a_pod_goes_to_the_zone_its_volume_is_labelled_with(sides: list[Side]) -> None:
    for side in sides:
        await side.claim("data", storageClassName="")
        claim = await side.claimed("data")
        ref = {"namespace": side.name, "name": "data", "uid": claim.metadata.uid}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/none"},
            "claimRef": ref,
        }
        metadata = {"name": f"zoned-{side.name}", "labels": {ZONE: "b"}}
        await side.client.create(VOLUMES, {"metadata": metadata, "spec": spec})
        for i in range(3):
            await side.pod(f"p{i}", "data")
    for side in sides:
        assert [await side.goes_to(f"p{i}") for i in range(3)] == ["n2", "n2", "n2"]


async def test_a_pod_does_not_take_a_claim_that_is_being_deleted(sides: list[Side]) -> None:
    for side in sides:
        await side.storage(NO_PROVISIONER)
        await side.volume("pv", "n1")
        await side.claim("data")
        await side.pod("first", "data")
        assert await side.goes_to("first") == "n1"
        await side.client.delete(VOLUME_CLAIMS, Key(side.name, "data"))
        assert (await side.claimed("data")).metadata.deletion_timestamp is not None
        await side.volume("pv-2", "n1")
        await side.claim("later")
        await side.pod("probe", "later")
        assert await side.goes_to("probe") == "n1"  # whoever knows of this claim knows of that too

        await side.pod("second", "data")
    for side in sides:
        await side.waits("second")
