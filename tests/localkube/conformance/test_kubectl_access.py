"""The real kubectl on this server: permissions, tokens, usage."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from localkube.node_interface import Consumption
from tests.localkube.apiserver.running_server import running_server
from tests.localkube.apiserver.views.test_resource_metrics import MeteredNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient

pytestmark = pytest.mark.kube
YES, NO = "yes\n", "no\n"
ACCOUNT = "--as=system:serviceaccount:default:a"


class Kubectl(NamedTuple):
    program: Path
    api: ApiClient
    node: MeteredNode
    kubeconfig: Path

    async def __call__(self, *args: str) -> str:
        process = await asyncio.create_subprocess_exec(
            str(self.program), *args,
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent)},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
        return output.decode()


@asynccontextmanager
async def kubectl_on(folder: Path, binaries: Path) -> AsyncIterator[Kubectl]:
    node = MeteredNode()
    async with running_server(folder / "server", node) as api:
        config = folder / "kubeconfig"
        api.server.credentials.write_kubeconfig(config, api.server.url)
        yield Kubectl(binaries / "kubectl", api, node, config)


async def test_auth_can_i_tells_the_rights_of_a_user_and_of_a_token(
    tmp_path: Path, control_plane_binaries: Path
) -> None:
    async with kubectl_on(tmp_path, control_plane_binaries) as kubectl:
        assert await kubectl("auth", "can-i", "*", "*") == YES
        await kubectl("create", "serviceaccount", "a")
        assert await kubectl("auth", "can-i", "list", "pods", ACCOUNT) == NO
        await kubectl("create", "role", "r", "--verb=list,get", "--resource=pods,pods/log")
        await kubectl("create", "rolebinding", "b", "--role=r", "--serviceaccount=default:a")
        assert await kubectl("auth", "can-i", "list", "pods", ACCOUNT) == YES
        assert await kubectl("auth", "can-i", "get", "pods", "--subresource=log", ACCOUNT) == YES
        assert "pods/log" in await kubectl("auth", "can-i", "--list", ACCOUNT)

        token = (await kubectl("create", "token", "a", "--duration=20m")).strip()
        config = tmp_path / "holder"
        config.write_text(kubectl.kubeconfig.read_text().replace(kubectl.api.server.token, token))
        holder = kubectl._replace(kubeconfig=config)
        assert "system:serviceaccount:default:a" in await holder("auth", "whoami")
        assert await holder("get", "pods") == "No resources found in default namespace.\n"
        assert "cannot list resource" in await holder("get", "secrets")


async def test_top_shows_what_pods_and_nodes_use(
    tmp_path: Path, control_plane_binaries: Path
) -> None:
    async with kubectl_on(tmp_path, control_plane_binaries) as kubectl:
        room = {"cpu": "4", "memory": "1Gi"}
        node = {"metadata": {"name": "n"}, "status": {"capacity": room, "allocatable": room}}
        await kubectl.api.send("POST", "/api/v1/nodes", node)
        pod = await kubectl.api.create_pod("p", nodeName="n")
        kubectl.node.pods[pod["metadata"]["uid"]] = {"main": Consumption(0.5, 256 << 20)}

        pods = (await kubectl("top", "pods")).splitlines()
        nodes = (await kubectl("top", "nodes")).splitlines()

        assert pods[1].split() == ["p", "500m", "256Mi"]
        assert nodes[1].split() == ["n", "500m", "12%", "256Mi", "25%"]


async def test_a_quota_is_described_with_what_is_used(
    tmp_path: Path, control_plane_binaries: Path
) -> None:
    async with kubectl_on(tmp_path, control_plane_binaries) as kubectl:
        await kubectl("create", "quota", "q", "--hard=pods=1,services=2")
        await kubectl("run", "p", "--image=busybox:1")

        described = await kubectl("describe", "quota", "q")
        rejected = await kubectl("run", "q", "--image=busybox:1")

        assert ["pods", "1", "1"] in [line.split() for line in described.splitlines()]
        assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in rejected
