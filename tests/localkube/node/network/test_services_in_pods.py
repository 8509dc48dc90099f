"""Virtual addresses of services: from pods, from the host, by the kernel and by the proxy."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from kubekit.objects.kinds import SERVICES
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.service_addresses import SERVICE_NAME, SLICES
from localkube.node.standalone.linux import netfilter, netlink
from localkube.node_interface import CannotRun
from tests import own_network
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import (
    ROOTLESS,
    LocalNode,
    Raw,
    daemon,
    local_node,
    needs_namespaces,
)
from tests.localkube.node.pod_builders import python
from tests.waiting import until

pytestmark = [pytest.mark.slow, needs_namespaces]

SERVE = """
import socket
server = socket.create_server(("0.0.0.0", 8080))
print("up", flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(socket.gethostname().encode())
    peer.close()
"""
CALL = """
import socket, time
def call(name, port):
    try:
        with socket.create_connection((name, port), timeout=5) as s:
            return s.recv(99).decode()
    except OSError as error:
        return type(error).__name__
wanted, seen = {"a", "b"}, set()
while not wanted <= seen:  # until the rules are there and both endpoints were drawn
    seen.add(call("web", 80))
    time.sleep(0.01)  # pace: of the calls
print("both", flush=True)
print("other port", call("web", 81), flush=True)
print("empty", call("empty", 80), flush=True)
"""


def service(name: str) -> Raw:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80, "targetPort": 8080}]},
    }


def endpoints(name: str, *addresses: str) -> Raw:
    """What the controller would write for pods at these addresses."""
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {SERVICE_NAME: name}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address]} for address in addresses],
    }


async def serve_pods(local: LocalNode, *names: str) -> list[str]:
    await local.run(*(python(name, SERVE) for name in names))
    for name in names:
        await local.says(name, "up")
    return [await local.address(name) for name in names]


async def create_services(local: LocalNode, *addresses: str) -> str:
    """The services `web` and `empty`; returns the address of `web`."""
    created = await local.client.create(SERVICES, service("web"))
    await local.client.create(SERVICES, service("empty"))
    await local.client.create(SLICES.read_as(dict), endpoints("web", *addresses))
    return created.spec.cluster_ip


def no_rules(network: BridgeNetwork, ports: object) -> None:
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


@pytest.fixture(params=["kernel", "proxy"])
async def either(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LocalNode]:
    """A cluster, with and without a packet filter in the kernel."""
    if request.param == "proxy":
        monkeypatch.setattr(BridgeNetwork, "write_service_rules", no_rules)
    home = tmp_path / "cluster"
    async with local_node(home) as node:
        yield node
    assert not leftovers.of(home)


async def test_a_port_leads_to_another_port_of_every_endpoint(either: LocalNode) -> None:
    address = await create_services(either, *await serve_pods(either, "a", "b"))
    await either.run(python("client", CALL))

    assert (await either.ended("client"))["exitCode"] == 0
    assert await either.log("client") == (
        "both\nother port ConnectionRefusedError\nempty ConnectionRefusedError\n"
    )
    if not ROOTLESS:  # without root, the machine itself has no part in the pods' network
        assert await asyncio.to_thread(answer, address) in ("a", "b")


async def test_a_killed_daemon_leaves_the_addresses_working_and_the_next_one_follows_changes(
    tmp_path: Path,
) -> None:
    call = CALL[: CALL.index("wanted, seen")]
    call += "while True: print(call('web', 80), flush=True); time.sleep(0.05)"  # pace: of the calls
    home = tmp_path / "cluster"
    async with daemon(home) as (process, first):
        addresses = await serve_pods(first, "a", "b")
        await create_services(first, addresses[0])
        await first.run(python("client", call))
        await first.says("client", "a\n")
        pod = await first.pod("client")
        process.kill()
        await process.wait()
    log = home / "pods" / pod["metadata"]["uid"] / "containers" / "main" / "0" / "log"
    before = len(lines(log))
    until(lambda: len(lines(log)) > before + 5, what="calls without a daemon")
    assert set(lines(log)[before:]) == {"a"}

    async with local_node(home) as second:
        await second.client.replace(SLICES.read_as(dict), endpoints("web", addresses[1]))
        await second.says("client", "b\n")
    assert not leftovers.of(home)


def lines(log: Path) -> list[str]:
    return [line.rpartition(" ")[2] for line in log.read_text().splitlines()]


@pytest.mark.skipif(ROOTLESS, reason="nobody else has rules in the namespace of the bridge")
def test_a_firewall_that_drops_forwarded_packets_is_found(tmp_path: Path) -> None:
    """As Docker makes it: packets between pods through this machine would be lost."""
    with own_network.entered():
        network = BridgeNetwork(tmp_path)
        network.open()
        network.open_services()
        network.write_service_rules([])
        with netlink.connect(netfilter.PROTOCOL) as kernel:
            number, flags, body = netfilter.base_chain(
                "filter", "FORWARD", "filter", netfilter.FORWARD, netfilter.FILTER
            )
            policy = netfilter.number(5, netfilter.DROP)
            chain = (number, flags, body + policy)
            netfilter.apply([*netfilter.new_table("filter"), chain], kernel)

        with pytest.raises(CannotRun, match="table filter"):
            network.write_service_rules([])
        network.close_services()
        with pytest.raises(CannotRun, match="closed"):
            network.write_service_rules([])
        network.close()


def answer(address: str) -> str:
    with closing(socket.create_connection((address, 80), timeout=30)) as connection:
        return connection.recv(99).decode()
