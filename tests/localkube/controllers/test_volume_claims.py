"""Claims are bound to directories when the scheduler has chosen a node, not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubekit.client.client import Client
from kubekit.objects.kinds import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS as CLAIMS,
    PERSISTENT_VOLUMES as VOLUMES,
)
from kubekit.objects.meta import Key
from kubekit.objects.storage import SELECTED_NODE, PersistentVolume, VolumeClaim
from kubekit.request_errors import Conflict
from kubekit.watch.informer import Informer
from localkube.controllers import persistent_volume_controller
from localkube.controllers.controller_manager import ControllerManager
from localkube.controllers.persistent_volume_controller import (
    CLASS,
    PersistentVolumeController,
    needs_volume,
)
from tests.waiting import eventually

KEY = Key("default", "data")


def claim(**spec: Any) -> dict[str, Any]:
    default_spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "data", "namespace": "default"}, "spec": default_spec | spec}


@pytest.fixture
async def client(api_client: Client, tmp_path: Path) -> AsyncIterator[Client]:
    async with asyncio.TaskGroup() as group:
        controllers = ControllerManager(api_client, lambda: datetime.now(UTC))
        controllers.volumes(tmp_path / "volumes")
        controllers.manager.informer(controllers.informers.claims)
        manager = group.create_task(controllers.manager.run())
        yield api_client
        manager.cancel()


async def test_a_claim_is_bound_to_its_folder_when_a_node_is_chosen(
    client: Client, tmp_path: Path
) -> None:
    await client.create(CLAIMS, claim())

    async def classed() -> bool:
        return bool((await client.get(CLAIMS, KEY))["spec"].get("storageClassName") == CLASS)

    await eventually(classed, what="the default class")
    assert (await client.list(VOLUMES)).items == []

    await client.patch(CLAIMS, KEY, {"metadata": {"annotations": {SELECTED_NODE: "muster-0"}}})

    async def bound() -> bool:
        return bool((await client.get(CLAIMS, KEY)).get("status", {}).get("phase") == "Bound")

    await eventually(bound, what="bound")
    name = (await client.get(CLAIMS, KEY))["spec"]["volumeName"]
    disk = await client.get(VOLUMES, Key("", name))
    assert disk["spec"]["hostPath"]["path"] == str(tmp_path / "volumes" / "default" / "data")
    assert disk["status"]["phase"] == "Bound"


async def test_a_provisioned_volume_is_deleted_with_its_claim(client: Client) -> None:
    chosen = claim(storageClassName=CLASS)
    chosen["metadata"]["annotations"] = {SELECTED_NODE: "muster-0"}
    await client.create(CLAIMS, chosen)

    async def volumes(count: int) -> bool:
        return len((await client.list(VOLUMES)).items) == count

    await eventually(lambda: volumes(1), what="a volume")
    await client.delete(CLAIMS, KEY)
    await eventually(lambda: volumes(0), what="no volume")


@pytest.mark.parametrize("named", ["", CLASS])
async def test_an_existing_volume_is_bound_and_released_with_its_claim(
    client: Client, named: str
) -> None:
    await client.create(CLAIMS, claim(storageClassName=named))
    await client.create(VOLUMES, volume("disk", storageClassName=named))

    async def phases() -> tuple[str, str]:
        disk = await client.get(VOLUMES, Key("", "disk"))
        claims = (await client.list(CLAIMS, "default")).items
        claim_phase = claims[0].get("status", {}).get("phase", "") if claims else "gone"
        return disk.get("status", {}).get("phase", ""), claim_phase

    async def are(*wanted: str) -> bool:
        return await phases() == wanted

    await eventually(lambda: are("Bound", "Bound"), what="both bound")
    assert (await client.get(CLAIMS, KEY))["spec"]["volumeName"] == "disk"
    await client.delete(CLAIMS, KEY)
    await eventually(lambda: are("Released", "gone"), what="released")


async def test_a_volume_that_another_claim_got_meanwhile_stays_with_it(
    api_client: Client, tmp_path: Path
) -> None:
    """The controller's view is out of date: in it the volume is still free."""
    await api_client.create(VOLUMES, volume("disk", storageClassName=""))
    await api_client.create(CLAIMS, claim(storageClassName=""))
    controller = PersistentVolumeController(api_client, Informer(api_client, CLAIMS), tmp_path)
    async with asyncio.TaskGroup() as group:
        for informer in (controller.claims, controller.volumes):
            task = group.create_task(informer.run())
            await informer.synced()
            task.cancel()
    await api_client.patch(VOLUMES, Key("", "disk"), {"spec": held_by("other", "uid")})

    with pytest.raises(Conflict):
        await controller.reconcile(KEY)

    disk = await api_client.get(VOLUMES, Key("", "disk"))
    assert disk["spec"]["claimRef"]["name"] == "other"


def volume(name: str, size: str = "1Gi", **more: Any) -> dict[str, Any]:
    """A volume that a user created."""
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}
    spec["hostPath"] = {"path": "/data"}
    return {"metadata": {"name": name, "labels": {"disk": name}}, "spec": spec | more}


def held_by(name: str, uid: str = "") -> dict[str, Any]:
    return {"claimRef": {"namespace": "default", "name": name} | ({"uid": uid} if uid else {})}


@pytest.mark.parametrize(
    ("claim_spec", "volumes", "gets"),
    [
        ({}, [volume("large", "3Gi"), volume("fits", "2Gi"), volume("small", "500Mi")], "fits"),
        ({}, [volume("other", storageClassName="fast")], None),
        ({"storageClassName": "fast"}, [volume("x"), volume("f", storageClassName="fast")], "f"),
        ({}, [volume("once", accessModes=["ReadWriteOnce"])], None),
        ({}, [volume("raw", volumeMode="Block")], None),
        ({"selector": {"matchLabels": {"disk": "b"}}}, [volume("a"), volume("b")], "b"),
        ({"volumeName": "b"}, [volume("a"), volume("b", "1Mi")], "b"),
        ({}, [volume("kept", **held_by("data", "u1"))], "kept"),
        ({}, [volume("kept", "9Gi", **held_by("data")), volume("free")], "kept"),
        ({}, [volume("left", **held_by("data", "u0"))], None),
        ({"volumeName": "taken"}, [volume("taken", **held_by("other", "u2"))], None),
    ],
)
def test_a_claim_gets_the_smallest_volume_that_suits_it(
    claim_spec: dict[str, Any], volumes: list[dict[str, Any]], gets: str | None
) -> None:
    body = claim(**({"storageClassName": ""} | claim_spec))
    body["metadata"]["uid"] = "u1"

    chosen = persistent_volume_controller.choose_volume(
        msgspec.convert(body, VolumeClaim), msgspec.convert(volumes, list[PersistentVolume])
    )

    assert (chosen and chosen.metadata.name) == gets


async def test_claims_a_b_c_of_two_namespaces_have_different_folders(client: Client) -> None:
    for space, name in (("a", "b-c"), ("a-b", "c")):
        await client.create(NAMESPACES, {"metadata": {"name": space}})
        one = claim(storageClassName=CLASS)
        meta = {"namespace": space, "name": name, "annotations": {SELECTED_NODE: "n"}}
        await client.create(CLAIMS, one | {"metadata": meta})

    async def folders() -> bool:
        volumes = (await client.list(VOLUMES)).items
        return len({volume["spec"]["hostPath"]["path"] for volume in volumes}) == 2

    await eventually(folders, what="two volumes")


@pytest.mark.parametrize(
    ("change", "ours"),
    [
        ({}, True),
        ({"spec": {"storageClassName": "nfs"}}, False),
        ({"metadata": {"name": "x", "annotations": {}}}, False),
        ({"status": {"phase": "Bound"}}, False),
    ],
)
def test_only_our_own_class_is_bound(change: dict[str, Any], ours: bool) -> None:
    given = {
        "metadata": {"name": "x", "annotations": {SELECTED_NODE: "n"}},
        "spec": {"storageClassName": CLASS},
    }

    assert needs_volume(msgspec.convert(given | change, VolumeClaim)) is ours
