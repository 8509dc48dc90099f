"""Other users of the machine reach neither pods nor services of root's cluster."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kubekit.objects.kinds import SERVICES
from localkube.node.network import bridge
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.network.service_addresses import SERVICE_NAME, SLICES
from localkube.node.standalone.linux import netfilter, netlink
from tests.localkube.node.local_node import ROOTLESS, LocalNode, local_node, needs_namespaces
from tests.localkube.node.pod_builders import python
from tests.ordinary_user import NOBODY, python_for_everyone
from tests.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    needs_namespaces,
    pytest.mark.skipif(ROOTLESS, reason="without root the pods' network is in a namespace"),
]

SUDO_USER = 12345
SERVE = """
import socket, threading
def udp():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("0.0.0.0", 8080))
    while True:
        _, peer = sock.recvfrom(99)
        sock.sendto(b"hello", peer)
threading.Thread(target=udp, daemon=True).start()
server = socket.create_server(("0.0.0.0", 8080))
print("up", flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(b"hello")
    peer.close()
"""
# With the standard library only: the user may not read ours.
CALL = """
import json, socket, sys
def call(kind, address, port):
    try:
        with socket.socket(socket.AF_INET, kind) as sock:
            sock.settimeout(5)
            sock.connect((address, int(port)))
            if kind == socket.SOCK_DGRAM:
                sock.send(b"x")
            return sock.recv(9).decode() or "connected"
    except OSError as error:
        return type(error).__name__
kinds = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
print(json.dumps([call(kinds[kind], *place.split(":"))
                  for kind, place in (word.split("/") for word in sys.argv[1:])]))
"""


@pytest.fixture
async def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalNode]:
    """A cluster that a user started with `sudo`."""
    monkeypatch.setenv("SUDO_UID", str(SUDO_USER))
    async with local_node(tmp_path / "home") as node:
        yield node


async def calls(user: int, *places: str) -> list[str]:
    """What a program of this user gets from each place."""
    command = [python_for_everyone(), "-c", CALL, *places]
    result = await asyncio.to_thread(
        subprocess.run,
        command,
        user=user,
        group=user,
        extra_groups=[],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers: list[str] = json.loads(result.stdout)
    return answers


async def serve(local: LocalNode) -> tuple[str, str]:
    """A pod that answers and its service; returns the addresses of both."""
    await local.run(python("p", SERVE))
    await local.says("p", "up")
    address = await local.address("p")
    meta = {"name": "web", "namespace": "default"}
    service = {"metadata": meta, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}}
    created = await local.client.create(SERVICES, service)
    endpoints = {
        "metadata": {**meta, "labels": {SERVICE_NAME: "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address]}],
    }
    await local.client.create(SLICES, endpoints)
    return address, created.spec.cluster_ip


async def test_only_root_and_who_ran_sudo_reach_pods_and_services(local: LocalNode) -> None:
    pod, service = await serve(local)
    assert local.agent is not None
    places = [f"tcp/{pod}:8080", f"udp/{pod}:8080", f"tcp/{service}:80"]

    async def rules_are_written() -> bool:
        return (await calls(0, places[2])) == ["hello"]

    await eventually(rules_are_written, what="the address of the service leads to the pod")

    assert await calls(0, *places) == ["hello"] * 3
    assert await calls(SUDO_USER, *places) == ["hello"] * 3
    gateway = f"tcp/{local.agent.gateway}:{local.port}"
    refused = {"ConnectionRefusedError", "PermissionError"}  # the latter for UDP
    assert set(await calls(NOBODY, *places, gateway)) <= refused
    # Not because of something else: without the table everything answers.
    netfilter.remove_table(f"{BridgeNetwork(local.home).bridge}-users")
    assert await calls(NOBODY, *places) == ["hello"] * 3


@pytest.fixture
def server_of_nobody() -> Iterator[int]:
    """The port of a server on this machine that belongs to another user."""
    script = """
import socket
server = socket.create_server(("0.0.0.0", 0))
print(server.getsockname()[1], flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(b"hello from the machine")
    peer.close()
"""
    process = subprocess.Popen(
        [python_for_everyone(), "-c", script],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_pods_reach_each_other_and_servers_of_any_user_of_the_machine(
    local: LocalNode, server_of_nobody: int
) -> None:
    address, _ = await serve(local)
    assert local.agent is not None
    call = "import socket; print(socket.create_connection(('{}', {}), 10).recv(99).decode())"

    await local.run(
        python("peer", call.format(address, 8080)),
        python("host", call.format(address, 8080), hostNetwork=True),
        python("out", call.format(local.agent.gateway, server_of_nobody)),
    )

    for name, answer in (("peer", "hello"), ("host", "hello"), ("out", "hello from the machine")):
        assert (await local.ended(name))["exitCode"] == 0, await local.log(name)
        assert await local.log(name) == f"{answer}\n"


async def test_nothing_of_it_is_left_after_the_cluster(tmp_path: Path) -> None:
    async with local_node(tmp_path / "home"):
        assert table_exists(tmp_path / "home")
    assert not table_exists(tmp_path / "home")


def table_exists(home: Path) -> bool:
    """Whether the kernel has the table."""
    name = f"{BridgeNetwork(home).bridge}-users"
    with netlink.connect(netfilter.PROTOCOL) as kernel:
        try:  # a chain can only be added to a table that exists
            netfilter.apply([netfilter.chain(name, "probe")], kernel)
        except FileNotFoundError:
            return False
    return True


@pytest.mark.parametrize(
    ("sudo", "users"), [("", {0}), ("1000", {0, 1000}), ("²", {0}), ("9" * 5000, {0}), ("-1", {0})]
)
def test_the_owners_are_root_and_who_ran_sudo(
    sudo: str, users: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", sudo)

    assert bridge.owners() == users


def test_a_kernel_that_cannot_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(2, os.strerror(2), "nftables")

    monkeypatch.setattr(netfilter, "write_users_table", refuse)
    network = BridgeNetwork(tmp_path)
    network.open()
    try:
        assert socket.if_nametoindex(network.bridge)
    finally:
        network.close()

    assert "other users of this machine reach pods and services" in caplog.text
