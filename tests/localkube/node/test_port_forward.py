"""Port-forward to real pods."""

from __future__ import annotations

import pytest

from kubekit.objects.meta import Key
from kubekit.request_errors import Unreachable
from tests.localkube.node.local_node import LocalNode, needs_namespaces
from tests.localkube.node.pod_builders import python
from tests.localkube.port_forward_client import forward_port

pytestmark = [pytest.mark.slow, needs_namespaces]

ECHO = """
import socket
server = socket.create_server((ADDRESS, 8080))
print("listens", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(connection.recv(100).upper())
    connection.close()
"""


@pytest.mark.parametrize("address", ["", "127.0.0.1"], ids=["all addresses", "loopback"])
@pytest.mark.parametrize("host_network", [False, True])
async def test_a_program_is_reached_wherever_it_listens(
    local: LocalNode, address: str, host_network: bool
) -> None:
    port = 8080 if not host_network else 28080 + len(address)
    script = ECHO.replace("ADDRESS", repr(address)).replace("8080", str(port))
    await local.run(python("echo", script, hostNetwork=host_network))
    await local.says("echo", "listens")

    async with forward_port(local.client, Key("default", "echo"), port) as forward:
        connection = await forward.connect()
        await connection.write(b"hello")
        assert await connection.read() == b"HELLO"
        assert await connection.read() == b""


async def test_a_port_on_which_nothing_listens_is_refused(local: LocalNode) -> None:
    await local.run(python("quiet", "import signal; print('up', flush=True); signal.pause()"))
    await local.says("quiet", "up")

    async with forward_port(local.client, Key("default", "quiet"), 9) as forward:
        with pytest.raises(Unreachable, match=r"forwarding port 9 to pod quiet.*refused"):
            await (await forward.connect()).read()
