"""External network access, tried in a small network made of namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localkube.node.network.nat import default_links
from localkube.node.runtime import runtime_choice
from localkube.node.runtime.processes import _SOURCE
from tests.localkube.node import leftovers
from tests.localkube.node.local_node import local_node, needs_namespaces
from tests.localkube.node.pod_builders import container, manifest
from tests.prerequisites import missing_prerequisite

# The process plays the machine. Its world is a child in another network namespace, with a route to
# the machine only; its pod is another child, with a route to the bridge only.
HELPERS = """
import ipaddress, json, os, signal, socket, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kubekit.objects.meta import Key
from localkube.node.network import nat
from localkube.node.network.bridge import BridgeNetwork
from localkube.node.standalone.linux import kernel, netfilter
from localkube.node.standalone.linux.netlink import Netlink
address = ipaddress.IPv4Interface
nat._STATE = Path(sys.argv[2])

def child(*steps):
    ready_read, ready = os.pipe()
    go, go_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        kernel.die_with_parent(signal.SIGKILL)
        kernel.unshare(kernel.CLONE_NEWNET)
        os.write(ready, b"x")
        os.read(go, 1)
        code = 1
        try:
            for step in steps:
                step()
            code = 0
        finally:
            os._exit(code)
    os.read(ready_read, 1)
    return pid, lambda: os.write(go_write, b"x")

def configure(own, gateway=None):
    with Netlink() as net:
        for name, number in net.links().items():
            net.set_up(number)
            if name == "eth0":
                net.add_address(number, address(own))
                if gateway:
                    net.add_default_route(ipaddress.IPv4Address(gateway))
"""

WORLD = """
def serve():
    server = socket.create_server(("203.0.113.2", 80))
    os.write(up, b"x")
    peer, where = server.accept()
    peer.sendall(where[0].encode())
    peer.close()

def call():
    try:
        answer = socket.create_connection(("203.0.113.2", 80), timeout=5).recv(99).decode()
    except OSError as error:
        answer = type(error).__name__
    os.write(answers, answer.encode() or b"nothing")

def switches():
    return {n: Path(f"/proc/sys/net/ipv4/conf/{n}/forwarding").read_text().strip()
            for n in os.listdir("/proc/sys/net/ipv4/conf") if n in ("outer", "all", "lo")}

up_read, up = os.pipe()
answers_read, answers = os.pipe()
world, go_world = child(lambda: configure("203.0.113.2/24"), serve)
with Netlink() as net:
    net.add_bridge("outer")
    outer = net.index("outer")
    net.add_veth("up0", outer, "eth0", world)
    net.add_address(outer, address("203.0.113.1/24"))
    net.add_default_route(ipaddress.IPv4Address("203.0.113.2"))
go_world()
os.read(up_read, 1)
before = switches()
network = BridgeNetwork(Path(sys.argv[2]))
network.open()
method = network.external.method if sys.argv[3] == "open" else network._nat.close() or ""
own = network.allocate(Key("ns", "p"))
plan = network.link(own)
pod, go_pod = child(lambda: configure(plan["address"], plan["gateway"]), call)
with Netlink() as net:
    net.add_veth(plan["link"], net.index(network.bridge), "eth0", pod)
go_pod()
os.waitpid(pod, 0)
client = os.read(answers_read, 99).decode()
second = BridgeNetwork(Path(sys.argv[2]) / "second")
second.open()
on = switches()["outer"]
network.close()
still_on = switches()["outer"]
second.close()
os.kill(world, signal.SIGKILL)
os.waitpid(world, 0)
restored = before == switches()
print(json.dumps({"method": method, "client": client, "restored": restored, "on": on + still_on}))
"""

# The other host has the machine as its gateway, so it has a route to the pods' subnet.
OTHER_HOST = """
up_read, up = os.pipe()
ask_read, ask = os.pipe()
answers_read, answers = os.pipe()

def answer_all(host):
    server = socket.create_server((host, 80))
    os.write(up, b"x")
    while True:
        server.accept()[0].sendall(b"hello")

def call(host, seconds=20):
    try:
        return socket.create_connection((host, 80), timeout=seconds).recv(9).decode()
    except OSError as error:
        return type(error).__name__

def visit():
    while word := os.read(ask_read, 1):
        patience = 0.5 if word == b"-" else 20  # `-`: no answer is expected
        heard = [call(own, patience), call(network.gateway, patience)]
        os.write(answers, json.dumps(heard).encode())

network = BridgeNetwork(Path(sys.argv[2]))
with Netlink() as net:
    net.set_up(net.index("lo"))
    net.add_bridge("outer")
    net.add_address(net.index("outer"), address("203.0.113.1/24"))
    if sys.argv[3] == "routed":
        net.add_default_route(ipaddress.IPv4Address("203.0.113.2"))
network.open()
own = network.allocate(Key("ns", "p"))
plan = network.link(own)
host, go_host = child(lambda: configure("203.0.113.2/24", "203.0.113.1"), visit)
pod, go_pod = child(
    lambda: configure(plan["address"], plan["gateway"]),
    lambda: os.write(answers, call(network.gateway).encode()),
    lambda: answer_all("0.0.0.0"),
)
with Netlink() as net:
    net.add_veth("up0", net.index("outer"), "eth0", host)
    net.add_veth(plan["link"], net.index(network.bridge), "eth0", pod)
Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # as Docker does
server = os.fork()
if server == 0:
    kernel.die_with_parent(signal.SIGKILL)
    answer_all(network.gateway)
os.read(up_read, 1)
go_pod()
go_host()
of_pod = os.read(answers_read, 99).decode()
os.read(up_read, 1)
os.write(ask, b"-")
closed = json.loads(os.read(answers_read, 99))
of_machine = [call(own), call(network.gateway)]
netfilter.remove_table(network.bridge)
os.write(ask, b"+")
without = json.loads(os.read(answers_read, 99))
network.close()
print(json.dumps({"host": closed, "pod": of_pod, "machine": of_machine, "without": without}))
for pid in (server, pod, host):
    os.kill(pid, signal.SIGKILL)
"""


def run_world(tmp_path: Path, nat: str, world: str = WORLD) -> dict[str, Any]:
    """Run the script with NAT `open` or `closed`; returns its result."""
    inside = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
    script = f'mount -t sysfs sysfs /sys 2>/dev/null; exec {sys.executable} -c "$0" "$@"'
    result = subprocess.run(
        [*inside, "sh", "-c", script, HELPERS + world, _SOURCE, str(tmp_path), nat],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


@pytest.mark.slow
@needs_namespaces
def test_pods_reach_external_networks_with_the_machines_address(tmp_path: Path) -> None:
    result = run_world(tmp_path, "open")

    assert result["method"] == "NAT"
    assert result["client"] == "203.0.113.1"
    assert result["on"] == "11"
    assert result["restored"]
    assert list(tmp_path.glob("muster-forwarding-*")) == []


@pytest.mark.slow
@needs_namespaces
def test_without_nat_pods_do_not_reach_external_networks(tmp_path: Path) -> None:
    assert run_world(tmp_path, "closed")["client"] == "TimeoutError"


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize("machine", ["routed", "without a default route"])
def test_another_host_reaches_neither_pods_nor_the_api_on_the_bridge(
    tmp_path: Path, machine: str
) -> None:
    result = run_world(tmp_path, machine, OTHER_HOST)

    assert result["host"] == ["TimeoutError", "TimeoutError"]
    assert result["pod"] == "hello"
    assert result["machine"] == ["hello", "hello"]
    assert result["without"] == ["hello", "hello"], "the other host has no route to the subnet"


def test_the_links_of_default_routes_are_found() -> None:
    table = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
        "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    )

    assert default_links(table) == ["eth0", "wlan0"]
    assert default_links("Iface\n") == []


# pasta refuses to run as root.
PROGRAMS = ("slirp4netns", "pasta") if os.geteuid() else ("slirp4netns",)


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize("program", PROGRAMS)
async def test_without_root_pods_reach_external_networks_through_a_program(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.which(program)
    if path is None:
        missing_prerequisite(program, f"{program} is not installed")
    if program == "slirp4netns" and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        missing_prerequisite(
            program, "this user may not open /dev/net/tun, which slirp4netns needs"
        )
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / program).symlink_to(path)
    monkeypatch.setenv("PATH", f"{folder}:/bin")
    monkeypatch.setattr(runtime_choice, "_methods", lambda: [("rootless", "user")])
    host = own_address()
    call = f"import socket; print(socket.create_connection(('{host}', {{}}), 10).recv(9).decode())"
    with socket.create_server((host, 0)) as server:
        port = server.getsockname()[1]
        async with local_node(tmp_path / "home") as local:
            assert local.agent is not None
            assert local.agent.external_network == f"by {program}"
            await local.run(manifest("p", container("main", "python", "-c", call.format(port))))
            peer, _ = await asyncio.get_running_loop().run_in_executor(None, server.accept)
            with peer:
                peer.sendall(b"hello")
            assert (await local.ended("p"))["exitCode"] == 0, await local.log("p")
            assert await local.log("p") == "hello\n"
    assert not leftovers.of(tmp_path / "home")


def own_address() -> str:
    """An address of this machine that is not loopback: outside, as seen from the pods."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
