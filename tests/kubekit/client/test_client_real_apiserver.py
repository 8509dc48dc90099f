"""The clients against a real kube-apiserver."""

from __future__ import annotations

import json
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from kubekit.client import request
from kubekit.client.auth import kube_config
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.client import Client
from kubekit.client.decoding import decode_object
from kubekit.client.request import PatchType
from kubekit.objects.kinds import CONFIG_MAPS, LEASES, NODES, PODS, Kind
from kubekit.objects.meta import Key
from kubekit.request_errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unauthorized,
    UntrustedCertificate,
)
from tests.builders import config_map
from tests.controlplane.certificates import Authority
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.process_flags import kubeconfig
from tests.kubekit.builders import pod
from tests.waiting import in_parallel

if TYPE_CHECKING:
    from pathlib import Path


T = TypeVar("T")
pytestmark = [pytest.mark.kube, pytest.mark.slow]


async def apply(
    client: Client,
    kind: Kind[T],
    body: dict[str, Any],
    *,
    owner: str,
    force: bool = False,
    subresource: str = "",
) -> T:
    """Server-side apply."""
    call = request.apply(kind, body, owner=owner, force=force, subresource=subresource)
    return decode_object(kind, (await client.send(call)).body)


async def test_paged_lists_and_watches_agree(client: Client, fresh_namespace: str) -> None:
    await in_parallel(
        client.create(CONFIG_MAPS, config_map(f"m{i}", fresh_namespace, n="0")) for i in range(50)
    )
    paged = await client.list(CONFIG_MAPS, fresh_namespace, page=7)
    whole = await client.list(CONFIG_MAPS, fresh_namespace, page=0)
    assert len(paged.items) == 50
    assert paged.items == whole.items
    state = {item.metadata.name: item for item in paged.items}
    for i in range(20):
        await client.patch(CONFIG_MAPS, Key(fresh_namespace, f"m{i}"), {"data": {"n": "1"}})
    for i in range(15, 25):
        await client.delete(CONFIG_MAPS, Key(fresh_namespace, f"m{i}"))
    await client.create(CONFIG_MAPS, config_map("last", fresh_namespace))
    stream = client.watch(CONFIG_MAPS, fresh_namespace, since=paged.resource_version)
    async with aclosing(stream) as events:
        async for event in events:
            if event.type == "DELETED":
                del state[event.object.metadata.name]
            else:
                state[event.object.metadata.name] = event.object
            if event.object.metadata.name == "last":
                break
    now = await client.list(CONFIG_MAPS, fresh_namespace, page=11)
    assert state == {item.metadata.name: item for item in now.items}


async def test_selectors_narrow_lists_and_watches(client: Client, fresh_namespace: str) -> None:
    await client.create(PODS, pod("red", fresh_namespace, colour="red"))
    await client.create(PODS, pod("blue", fresh_namespace, colour="blue"))
    by_label = await client.list(PODS, fresh_namespace, labels="colour in (red, green)")
    by_field = await client.list(PODS, fresh_namespace, fields="metadata.name=blue")
    assert [p.metadata.name for p in by_label.items] == ["red"]
    assert [p.metadata.name for p in by_field.items] == ["blue"]


async def test_a_bind_sets_the_node_and_the_annotation(
    control_plane: ControlPlane, client: Client, fresh_namespace: str
) -> None:
    control_plane.add_node("bind-target")
    try:
        created = await client.create(PODS, pod("x", fresh_namespace))
        with pytest.raises(Conflict):
            await client.bind(created.metadata.key, uid="another", node="bind-target")
        await client.bind(
            created.metadata.key,
            uid=created.metadata.uid,
            node="bind-target",
            annotations={"muster.dev/plan": "p/1"},
        )
        bound = await client.get(PODS, created.metadata.key)
        assert bound.spec.node_name == "bind-target"
        assert bound.metadata.annotations == {"muster.dev/plan": "p/1"}
    finally:
        await client.delete(NODES, Key("", "bind-target"))


async def test_every_way_to_change_an_object(client: Client, fresh_namespace: str) -> None:
    key = Key(fresh_namespace, "m")
    raw: Kind[dict[str, Any]] = CONFIG_MAPS.read_as(dict)
    created = await client.create(raw, config_map("m", fresh_namespace, a="1"))
    merged = await client.patch(CONFIG_MAPS, key, {"data": {"b": "2", "a": None}})
    assert merged.data == {"b": "2"}
    steps = [{"op": "add", "path": "/data/c", "value": "3"}]
    assert (await client.patch(CONFIG_MAPS, key, steps, patch_type=PatchType.JSON)).data == {
        "b": "2",
        "c": "3",
    }
    strategic = await client.patch(
        CONFIG_MAPS, key, {"data": {"$patch": "replace", "d": "4"}}, patch_type=PatchType.STRATEGIC
    )
    assert strategic.data == {"d": "4"}
    with pytest.raises(Conflict):
        await client.replace(raw, created)  # its version is an old one
    current = await client.get(raw, key)
    current["data"] = {"e": "5"}
    assert (await client.replace(raw, current))["data"] == {"e": "5"}
    with pytest.raises(AlreadyExists):
        await client.create(raw, config_map("m", fresh_namespace))


async def test_apply_owns_fields_and_yields_only_by_force(
    client: Client, fresh_namespace: str
) -> None:
    await apply(client, CONFIG_MAPS, config_map("m", fresh_namespace, a="1"), owner="one")
    with pytest.raises(Conflict) as refused:
        await apply(client, CONFIG_MAPS, config_map("m", fresh_namespace, a="2"), owner="two")
    assert refused.value.causes
    forced = await apply(
        client, CONFIG_MAPS, config_map("m", fresh_namespace, a="2"), owner="two", force=True
    )
    assert forced.data == {"a": "2"}
    status = {
        "metadata": {"name": "p", "namespace": fresh_namespace},
        "status": {"message": "hello"},
    }
    await client.create(PODS, pod("p", fresh_namespace))
    applied = await apply(client, PODS, status, owner="one", subresource="status")
    assert applied.status.message == "hello"


async def test_a_delete_can_name_the_uid(client: Client, fresh_namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map("m", fresh_namespace))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, created.metadata.key, uid="another")
    await client.delete(CONFIG_MAPS, created.metadata.key, uid=created.metadata.uid)
    with pytest.raises(NotFound, match=r'configmaps "m" not found'):
        await client.get(CONFIG_MAPS, created.metadata.key)
    await in_parallel(client.create(PODS, pod(f"p{i}", fresh_namespace, x="y")) for i in range(3))
    await client.delete_collection(PODS, fresh_namespace, labels="x=y")
    assert (await client.list(PODS, fresh_namespace)).items == []


async def test_an_invalid_object_names_its_fields(client: Client, fresh_namespace: str) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(PODS, {"metadata": {"name": "p", "namespace": fresh_namespace}})
    assert "spec.containers" in {cause.field for cause in refused.value.causes}


async def test_a_forbidden_request_names_the_user_and_the_rule_to_add(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    stranger = kubeconfig(
        control_plane.url,
        control_plane.authority.certificate,
        client=control_plane.authority.client("stranger", "nobodies"),
    )
    async with Client.connect(_endpoint(stranger, tmp_path)) as client:
        with pytest.raises(Forbidden) as refused:
            await client.list(PODS, "default")
        sentence = "stranger may not list pods; "
        sentence += 'add the rule {apiGroups: [""], resources: [pods], verbs: [list]}'
        assert str(refused.value) == f"{sentence} in the namespace default"
        assert str(refused.value.missing_right) == sentence
        with pytest.raises(Forbidden, match=r"may not create leases\.coordination\.k8s\.io; add"):
            await client.create(LEASES, {"metadata": {"name": "x", "namespace": "default"}})
        with pytest.raises(Forbidden, match="stranger may not watch nodes; add"):
            async for _ in client.watch(NODES, since="1"):
                pass
        with pytest.raises(Forbidden, match=r"resources: \[pods/binding\]"):
            await client.bind(Key("default", "x"), uid="u", node="n")


async def test_a_wrong_token_is_unauthorized(control_plane: ControlPlane, tmp_path: Path) -> None:
    endpoint = _endpoint(
        kubeconfig(control_plane.url, control_plane.authority.certificate, token="wrong"), tmp_path
    )
    async with Client.connect(endpoint) as client:
        with pytest.raises(Unauthorized, match="refused to get nodes x"):
            await client.get(NODES, Key("", "x"))
    with (
        BlockingClient(endpoint) as blocking,
        pytest.raises(Unauthorized, match="refused to get nodes x"),
    ):
        blocking.get(NODES, Key("", "x"))


async def test_an_expired_client_certificate_is_named(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    old = control_plane.authority.client("old", lifetime=-timedelta(hours=1))
    endpoint = _endpoint(
        kubeconfig(control_plane.url, control_plane.authority.certificate, client=old), tmp_path
    )
    why = r"the client certificate of context \S+ expired on 20\d\d-"
    async with Client.connect(endpoint) as client:
        with pytest.raises(Unauthorized, match=why):
            await client.list(NODES)
        with pytest.raises(Unauthorized, match=why):
            async for _ in client.watch(NODES, since="1"):
                pass
    with BlockingClient(endpoint) as blocking, pytest.raises(Unauthorized, match=why):
        blocking.list(NODES)


async def test_a_server_of_another_authority_is_not_trusted(
    control_plane: ControlPlane,
) -> None:
    endpoint = Endpoint.with_token(
        control_plane.url, control_plane.token, ca=Authority().certificate
    )
    async with Client.connect(endpoint) as client:
        with pytest.raises(UntrustedCertificate, match=r"is not trusted: .*certificate"):
            await client.list(NODES)
    with (
        BlockingClient(endpoint) as blocking,
        pytest.raises(UntrustedCertificate, match=r"is not trusted: .*certificate"),
    ):
        blocking.list(NODES)


def test_the_blocking_client_reads_and_writes_too(
    control_plane: ControlPlane, fresh_namespace: str
) -> None:
    with BlockingClient(kube_config.load(control_plane.kubeconfig)) as client:
        created = client.create(CONFIG_MAPS, config_map("m", fresh_namespace, a="1"))
        assert client.get(CONFIG_MAPS, created.metadata.key) == created
        since = client.list(CONFIG_MAPS, fresh_namespace, page=1).resource_version
        assert client.patch(CONFIG_MAPS, created.metadata.key, {"data": {"a": "2"}}).data == {
            "a": "2"
        }
        client.delete(CONFIG_MAPS, created.metadata.key)
        seen = []
        for event in client.watch(CONFIG_MAPS, fresh_namespace, since=since):
            seen.append(event.type)
            if event.type == "DELETED":
                break
        assert seen == ["MODIFIED", "DELETED"]
        with pytest.raises(NotFound):
            client.get(CONFIG_MAPS, created.metadata.key)


def _endpoint(kubeconfig: dict[str, Any], folder: Path) -> Endpoint:
    file = folder / "kubeconfig"
    file.write_text(json.dumps(kubeconfig))
    return kube_config.load(file)
