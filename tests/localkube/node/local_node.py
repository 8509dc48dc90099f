"""A local API server and a node agent in this process, for tests of real pods.

Also a program, `python -m tests.localkube.node.local_node HOME`: the same as a daemon that
tests can kill. It prints one line of JSON when it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.client import Client
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import BadRequest, NotFound
from localkube.apiserver.server import ApiServer
from localkube.node.agent import Agent, Options
from localkube.node.runtime.runtime_choice import choose_runtime
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from localkube.node.node_api import Backend


def may_make_namespaces() -> bool:
    """Whether this machine lets us run pods in namespaces."""
    return choose_runtime("auto").kind != "plain"


needs_namespaces = pytest.mark.usefixtures("namespaces")
ROOTLESS = os.geteuid() != 0

Raw = dict[str, Any]
T = TypeVar("T")
RAW_PODS = PODS.read_as(dict)


async def wait_for(check: Callable[[], Awaitable[T]], what: str = "") -> T:
    """`eventually`, for coroutine functions."""
    return await eventually(check, what=what)


@dataclass
class LocalNode:
    """The client of a running cluster, with requests that tests often need."""

    client: Client
    home: Path
    port: int = 0
    agent: Agent | None = None

    @property
    def backend(self) -> Backend:
        assert self.agent is not None, "the agent runs in another process"
        return self.agent.backend

    async def run(self, *manifests: Raw) -> None:
        for manifest in manifests:
            await self.client.create(PODS, manifest)

    async def pod(self, name: str) -> Raw:
        return await self.client.get(RAW_PODS, Key("default", name))

    async def until(self, name: str, check: Callable[[Raw], Any], what: str = "") -> Raw:
        """The pod as soon as the check holds."""
        last: Raw = {}

        async def look() -> bool:
            nonlocal last
            last = await self.pod(name)
            return bool(check(last))

        try:
            await wait_for(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{json.dumps(last.get('status'), indent=1)}") from None
        return last

    async def phase(self, name: str, *phases: str) -> Raw:
        return await self.until(
            name, lambda p: p.get("status", {}).get("phase") in phases, f"{name} in {phases}"
        )

    async def address(self, name: str) -> str:
        """The pod's address, once its status has one: its log may be there before."""
        pod = await self.until(
            name, lambda p: p.get("status", {}).get("podIP"), f"{name}'s address"
        )
        address: str = pod["status"]["podIP"]
        return address

    async def ended(self, name: str) -> Raw:
        """The terminated state of the pod's first container, once the pod has ended."""
        pod = await self.phase(name, "Succeeded", "Failed")
        state: Raw = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        return state

    async def gone(self, name: str) -> None:
        async def look() -> bool:
            try:
                await self.pod(name)
            except NotFound:
                return True
            return False

        await wait_for(look, f"{name} gone")

    async def log(self, name: str, **options: Any) -> str:
        chunks = [c async for c in self.client.logs(Key("default", name), **options)]
        return b"".join(chunks).decode()

    async def says(self, name: str, words: str) -> str:
        """The pod's log as soon as it has these words."""
        return await wait_for(lambda: self._log_with(name, words), f"{name}: {words}")

    async def _log_with(self, name: str, words: str) -> str:
        try:
            text = await self.log(name)
        except BadRequest:  # not started yet
            return ""
        return text if words in text else ""

    def pid(self, pod: Raw, container: str = "main", number: int = 0) -> int:
        """The PID, seen from outside, of a container's process."""
        folder = self.home / "pods" / pod["metadata"]["uid"] / "containers" / container
        return int(json.loads((folder / str(number) / "started").read_text())["pid"])


@contextlib.asynccontextmanager
async def local_node(home: Path, **options: Any) -> AsyncIterator[LocalNode]:
    """A cluster that is torn down at the end."""
    agent = Agent(Options(home, nodes=2, gpus_per_node=1, **options))
    agent.open()
    agent.claim_cgroups()
    try:
        server = ApiServer(
            home / "data", backend=agent.backend, service_range=agent.network.service_range
        )
        await server.start(
            extra_addresses=agent.network.server_addresses, pod_address=agent.gateway
        )
        try:
            await server.store.take_reserve()  # as the server's housekeeping does at the start
            endpoint = _served(server, agent)
            async with Client.connect(endpoint) as client, asyncio.TaskGroup() as group:
                manager = agent.manager(client, agent.api(server.port, server.ca))
                serving = group.create_task(manager.run())
                yield LocalNode(client, home, server.port, agent)
                manager.stop()
                await serving
        finally:
            await server.stop()
    finally:
        await agent.teardown()


def _served(server: ApiServer, agent: Agent) -> Endpoint:
    """The server's endpoint, once the server listens for pods too."""
    pod_socket = agent.network.listen(server.port)
    if pod_socket is not None:
        server.listeners.accept_from(pod_socket)
    return Endpoint.with_token(server.url, server.token, ca=server.ca)


async def serve(home: Path, runtime: str) -> None:
    """Run until killed; pods are left as they are."""
    agent = Agent(Options(home, runtime=runtime))
    agent.open()
    agent.claim_cgroups()
    server = ApiServer(
        home / "data", backend=agent.backend, service_range=agent.network.service_range
    )
    await server.start(extra_addresses=agent.network.server_addresses, pod_address=agent.gateway)
    endpoint = _served(server, agent)
    print(json.dumps({"url": server.url, "token": server.token, "ca": server.ca.decode()}))
    sys.stdout.flush()
    async with Client.connect(endpoint) as client:
        await agent.run(client, agent.api(server.port, server.ca))


@contextlib.asynccontextmanager
async def daemon(
    home: Path, runtime: str = "namespaces"
) -> AsyncIterator[tuple[asyncio.subprocess.Process, LocalNode]]:
    """The same in a process of its own, killed at the end."""
    command = [sys.executable, "-m", "tests.localkube.node.local_node", str(home), runtime]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        access = json.loads(await process.stdout.readline())
        endpoint = Endpoint.with_token(access["url"], access["token"], ca=access["ca"].encode())
        async with Client.connect(endpoint) as client:
            yield process, LocalNode(client, home)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
