"""Gangs that need one rack or HyperNode, on a real kube-apiserver, in both dialects."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kubekit.client.auth.kube_config import load
from kubekit.client.client import Client
from kubekit.client.request import PatchType
from kubekit.objects.kinds import NAMESPACES, NODES, PODS, Kind
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import Invalid
from muster.contract.gang import HyperNodeTiers, Topology
from muster.contract.pod_groups import HYPER_NODES, NATIVE_POD_GROUPS, VOLCANO_POD_GROUPS
from muster.scheduler.decisions import reasons
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import GATES
from tests.muster.scheduler.real_server import real_cluster
from tests.muster.words import no_domain, short, tells

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kube, pytest.mark.slow]
RACK = "example.com/rack"
RACKS = {"a1": "ra", "a2": "ra", "b1": "rb", "b2": "rb", "c1": ""}
"""Nodes of 2 GPUs each, and their racks; c1 is in none."""


@pytest.fixture(scope="module")
def plane(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    gates = f"{GATES},TopologyAwareWorkloadScheduling=true"
    with ControlPlane(control_plane_binaries, apiserver_args=(gates,)) as cluster:
        yield cluster


@pytest.fixture
async def namespace(plane: ControlPlane) -> AsyncIterator[str]:
    """A namespace and the nodes; afterwards no pod, node or HyperNode is left."""
    name = f"topology-{secrets.token_hex(4)}"
    async with Client.connect(load(plane.kubeconfig)) as client:
        await real_cluster.install_crds(client)
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        await real_cluster.add_nodes(client, *RACKS, gpus=2)
        for node, rack in RACKS.items():
            labels = {"labels": {RACK: rack} if rack else {}}
            await client.patch(
                NODES, Key("", node), {"metadata": labels}, patch_type=PatchType.MERGE
            )
        yield name
        for pod in (await client.list(PODS, name)).items:
            await client.delete(PODS, pod.metadata.key, grace=0)
        for hyper_node in (await client.list(HYPER_NODES)).items:
            await client.delete(HYPER_NODES, hyper_node.metadata.key)
        await real_cluster.remove_nodes(client)


async def submit(
    client: Client, kind: Kind[Any], namespace: str, gang: str, spec: Raw, size: int
) -> None:
    metadata = {"name": gang, "namespace": namespace}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    await client.create(kind, body)
    await add_members(client, kind, namespace, gang, range(size))


async def add_members(
    client: Client, kind: Kind[Any], namespace: str, gang: str, numbers: range
) -> None:
    dialect = "native" if kind is NATIVE_POD_GROUPS else "volcano"
    for i in numbers:
        pod = real_cluster.member(dialect, namespace, gang, f"{gang}-{i}", 1, 1)
        await client.create(PODS, pod)


async def put_hyper_node(client: Client, name: str, tier: int, *selectors: Raw) -> None:
    kind = "HyperNode" if name == "top" else "Node"
    members = [{"type": kind, "selector": selector} for selector in selectors]
    spec = {"tier": tier, "tierName": f"tier-{tier}", "members": members}
    body = {"apiVersion": HYPER_NODES.api_version, "kind": "HyperNode"}
    await client.create(HYPER_NODES, body | {"metadata": {"name": name}, "spec": spec})


def native(minimum: int) -> Raw:
    return {
        "schedulingPolicy": {"gang": {"minCount": minimum}},
        "schedulingConstraints": {"topology": [{"key": RACK}]},
    }


async def test_kubernetes_own_pod_group_stays_in_one_rack(
    plane: ControlPlane, namespace: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        await submit(client, NATIVE_POD_GROUPS, namespace, "wide", native(5), 5)
        facts = ("rack", "ra", "4 of 5 pods", short(1))
        await real_cluster.all_have_reason(client, namespace, "wide", *facts)
        await submit(client, NATIVE_POD_GROUPS, namespace, "fits", native(3), 3)
        await real_cluster.all_bound(client, namespace, "fits", 3)

        nodes = set((await real_cluster.bound(client, namespace, "fits")).values())
        assert {RACKS[node] for node in nodes} == {"ra"}
        assert await real_cluster.bound(client, namespace, "wide") == {}

        # One more fits in its rack; the next waits although other racks are empty.
        await add_members(client, NATIVE_POD_GROUPS, namespace, "fits", range(3, 5))
        await real_cluster.all_bound(client, namespace, "fits", 4)

        async def one_waits() -> bool:
            pods = await real_cluster.pods_of(client, namespace, "fits")
            waiting = [pod for pod in pods if not pod.spec.node_name]
            facts = ("rack", "ra", "0 of 1 pod")
            return any(tells(c.message, *facts) for pod in waiting for c in pod.status.conditions)

        await real_cluster.eventually_true(one_waits, what="the fifth member waits for its rack")
    async with real_cluster.scheduling(plane) as client:  # a new scheduler knows the rack too
        lost = next(iter(await real_cluster.bound(client, namespace, "fits")))
        await client.delete(PODS, Key(namespace, lost), grace=0)
        await real_cluster.all_bound(client, namespace, "fits", 4)
        nodes = set((await real_cluster.bound(client, namespace, "fits")).values())
        assert {RACKS[node] for node in nodes} == {"ra"}


async def test_volcanos_pod_group_stays_in_one_hyper_node(
    plane: ControlPlane, namespace: str
) -> None:
    def volcano(minimum: int, **topology: Any) -> Raw:
        return {"minMember": minimum, "networkTopology": topology}

    async with real_cluster.scheduling(plane) as client:
        group = VOLCANO_POD_GROUPS
        await submit(client, group, namespace, "low", volcano(3, highestTierAllowed=1), 3)
        await submit(client, group, namespace, "high", volcano(5, highestTierName="tier-2"), 5)
        words = no_domain(Topology(tiers=HyperNodeTiers(True, 1)))
        await real_cluster.all_have_reason(client, namespace, "low", words)

        await put_hyper_node(client, "sa", 1, {"regexMatch": {"pattern": "^a[0-9]$"}})
        await real_cluster.all_bound(client, namespace, "low", 3)
        assert set((await real_cluster.bound(client, namespace, "low")).values()) == {"a1", "a2"}
        tiers = Topology(tiers=HyperNodeTiers(True, highest_name="tier-2"))
        words = no_domain(tiers, missing_tier=("tier-2", "tier-1"))
        await real_cluster.all_have_reason(client, namespace, "high", words)

        await put_hyper_node(client, "sb", 1, {"labelMatch": {"matchLabels": {RACK: "rb"}}})
        inner = [{"exactMatch": {"name": name}} for name in ("sa", "sb")]
        await put_hyper_node(client, "top", 2, *inner)
        await real_cluster.all_bound(client, namespace, "high", 5)
        nodes = set((await real_cluster.bound(client, namespace, "high")).values())
        assert "c1" not in nodes  # it is in no HyperNode

        # A soft topology, and a HyperNode that goes, move and stop nobody.
        await client.delete(HYPER_NODES, Key("", "sa"))
        await submit(client, group, namespace, "soft", volcano(2, mode="soft"), 2)
        await real_cluster.all_bound(client, namespace, "soft", 2)
        assert set((await real_cluster.bound(client, namespace, "soft")).values()) == {"c1"}
        assert len(await real_cluster.bound(client, namespace, "low")) == 3


async def test_a_field_that_is_not_served_makes_the_gang_wait(
    plane: ControlPlane, namespace: str
) -> None:
    async with real_cluster.scheduling(plane) as client:
        spec = {"minMember": 2, "subGroupPolicy": [{"name": "s", "subGroupSize": 2}]}
        await submit(client, VOLCANO_POD_GROUPS, namespace, "sub", spec, 2)

        words = reasons.unserved("the group sets subGroupPolicy").text
        await real_cluster.all_have_reason(client, namespace, "sub", words)
        assert await real_cluster.bound(client, namespace, "sub") == {}


async def test_the_server_rejects_topologies_with_wrong_values(
    plane: ControlPlane, namespace: str
) -> None:
    wrong: tuple[Any, ...] = ({"mode": "hrad"}, {"highestTierAllowed": "1"}, "hard")
    async with Client.connect(load(plane.kubeconfig)) as client:
        for topology in wrong:
            spec = {"minMember": 1, "networkTopology": topology}
            with pytest.raises(Invalid, match="networkTopology"):
                await submit(client, VOLCANO_POD_GROUPS, namespace, "wrong", spec, 0)
        with pytest.raises(Invalid, match="exactMatch"):
            await put_hyper_node(client, "wrong", 1, {"exactMatch": "a1"})
