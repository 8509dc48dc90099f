"""`/` and `/line` on a local API server, with nodes and a line that the test writes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kubekit.objects.kinds import CONFIG_MAPS, NODES, PODS
from kubekit.objects.meta import Key, Raw
from kubekit.request_errors import NotFound
from muster.contract import waiting_line_format
from muster.contract.waiting_line_format import HeldRoom, WaitingGang
from muster.web import render
from muster.web.access.gate import Policy
from tests.muster.web.objects import HOSTILE
from tests.muster.web.site import Site

LINE = Key(waiting_line_format.NAMESPACE, waiting_line_format.CONFIG_MAP)


def add_node(site: Site, gpus: int) -> str:
    """A node with a name of its own, which reports."""
    name = f"{site.namespace}-node"
    metadata = {"name": name, "labels": {"topology.kubernetes.io/zone": site.namespace}}
    site.api.create(NODES.read_as(dict), {"metadata": metadata})
    status = {
        "allocatable": {"cpu": "4", "nvidia.com/gpu": str(gpus)},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    site.api.patch(NODES.read_as(dict), Key("", name), {"status": status}, subresource="status")
    return name


def add_pod(site: Site, name: str, job: Raw, node: str = "", gpus: int = 1) -> None:
    metadata = job["metadata"]
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    limits = {"nvidia.com/gpu": gpus, "cpu": "500m"}
    container = {"name": "c", "image": "python:3.12", "resources": {"limits": limits}}
    body: Raw = {
        "metadata": {"name": name, "namespace": site.namespace, "ownerReferences": [owner]},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
    }
    site.api.create(PODS.read_as(dict), body)


def write_line(site: Site, gangs: list[WaitingGang], holds: list[HeldRoom]) -> None:
    data = {
        waiting_line_format.DATA_KEY: msgspec.json.encode(gangs).decode(),
        waiting_line_format.HOLDS_KEY: msgspec.json.encode(holds).decode(),
    }
    kind = CONFIG_MAPS.read_as(dict)
    try:
        site.api.patch(kind, LINE, {"data": data})
    except NotFound:
        metadata = {"name": LINE.name, "namespace": LINE.namespace}
        site.api.create(kind, {"metadata": metadata, "data": data})


async def test_both_pages_follow_nodes_pods_and_the_line(site: Site) -> None:
    node = add_node(site, gpus=4)
    add_pod(site, "resnet-0", site.add_job("resnet"), node, gpus=2)
    add_pod(site, "llama-0", site.add_job("llama"), gpus=4)
    gang = f"{site.namespace}/llama-0"
    until = "2026-01-02T00:05:00Z"
    row = WaitingGang(gang, 1, "NotEnoughRoom", HOSTILE, until, "pod", short={"cpu": "1"})
    hold = HeldRoom(f"{site.namespace}/resnet", node, until, "pdb", 1, {"nvidia.com/gpu": "1"})
    write_line(site, [row], [hold])

    job = f"/jobs/{site.namespace}/TFJob"
    text = await site.page_with(f"/?text={node}", "window.hacked", f"{job}/resnet", "1 GPU held")
    assert "2 of 4, 1 held" in text
    assert 'aria-label="Map of the cluster"' in text
    line = await site.get("/line")
    assert f'href="{job}/llama"' in line
    assert "room on nodes" in line
    assert "1 pod: 1 nvidia.com/gpu" in line
    for page in (text, line):
        assert "<script>window" not in page
        assert "<img" not in page
    write_line(site, [], [])
    await site.page_with("/line", "No room is held.")


async def test_a_part_comes_alone(site: Site) -> None:
    for path, part in (("/", "cluster"), ("/line", "line")):
        text = await site.part(path, part)
        assert text.lstrip().startswith(f'<section id="{part}"')
        assert "<html" not in text


async def test_fifty_readers_get_one_text(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.get("/")
    made: list[str] = []
    original = render.text

    def text(template: str, **variables: Any) -> str:
        made.append(template)
        return original(template, **variables)

    monkeypatch.setattr(render, "text", text)
    texts = await asyncio.gather(*(site.part("/?text=fifty", "cluster") for _ in range(50)))

    assert len(set(texts)) == len(made) == 1


@pytest.mark.parametrize("policy", [Policy(proxy_hosts=("127.0.0.1",))])
async def test_a_user_who_may_only_list_pods_sees_pods(site: Site) -> None:
    headers = {"Authorization": site.service_account("viewer", "pods")}

    for path in ("/", "/line"):
        page = await site.get(path, headers=headers)
        assert "Not shown, because you may not list them: configmaps" in page
    nobody = {"Authorization": site.service_account("nobody")}
    assert "pods" in await site.get("/", headers=nobody, status=403)
