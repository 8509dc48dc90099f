"""Pods reach one another, the API and the machine by names and addresses."""

from __future__ import annotations

import socket

import pytest

from kubekit.objects.kinds import PODS, SERVICES
from kubekit.objects.meta import Key
from tests.e2e.footprint import CLUSTERS
from tests.localkube.node.local_node import LocalNode, needs_namespaces
from tests.localkube.node.pod_builders import python, shell

LISTEN = "import socket; s = socket.create_server(('0.0.0.0', 2222)); print('up', flush=True); "

pytestmark = [pytest.mark.slow, needs_namespaces]


async def test_two_pods_listen_on_the_same_port_and_find_each_other_by_name(
    local: LocalNode,
) -> None:
    serve = LISTEN + "c, _ = s.accept(); c.sendall(b'hello from ' + socket.gethostname().encode())"
    await local.run(python("a", serve), python("b", serve))
    for name in ("a", "b"):
        await local.says(name, "up")

    call = "import socket; s = socket.create_connection(('{}', 2222)); print(s.recv(99).decode())"
    await local.run(
        python("call-a", call.format("a")), python("call-b", call.format("b.default.svc"))
    )

    assert await local.says("call-a", "hello from") == "hello from a\n"
    assert await local.says("call-b", "hello from") == "hello from b\n"
    assert (await local.ended("a"))["exitCode"] == 0


async def test_running_pods_see_later_names(local: LocalNode) -> None:
    watch = "until getent hosts late && getent hosts svc.default.svc; do sleep 0.02; done"
    await local.run(shell("early", watch), shell("ps", "sleep 1000"))
    service = {
        "metadata": {"name": "svc", "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": {"app": "ps"}},
    }
    await local.client.create(SERVICES, service)
    await local.phase("early", "Running")
    await local.run(shell("late", "sleep 1000"))

    assert (await local.ended("early"))["exitCode"] == 0
    ps = await local.phase("ps", "Running")
    assert ps["status"]["podIP"] in await local.log("early")


async def test_a_replacement_has_the_address_of_the_old_pod(local: LocalNode) -> None:
    await local.run(shell("p", "sleep 1000"))
    first = await local.phase("p", "Running")
    await local.client.delete(PODS, Key("default", "p"), grace=0)
    await local.gone("p")
    await local.run(shell("other", "sleep 1000"), shell("p", "sleep 1000"))
    second = await local.phase("p", "Running")

    assert first["status"]["podIP"] == second["status"]["podIP"]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_a_pod_can_reach_the_api_at_its_service_name(local: LocalNode) -> None:
    call = """
import ssl, time, urllib.request
tls = ssl.create_default_context(cafile="/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
version = "https://kubernetes.default.svc/version"
while True:
    try:
        with urllib.request.urlopen(version, context=tls) as answer:
            print(answer.status)
            break
    except OSError as error:
        assert "refused" in str(error), error  # the node may still be writing its rules
        time.sleep(0.02)  # pace: of the calls
"""
    await local.run(python("p", call))

    assert (await local.ended("p"))["exitCode"] == 0
    assert await local.log("p") == "200\n"


async def test_a_pod_on_the_hosts_network_has_the_hosts_links(local: LocalNode) -> None:
    links = 'python3 -c "import socket; print(*(name for _, name in socket.if_nameindex()))"'
    await local.run(shell("p", links, hostNetwork=True))

    assert (await local.ended("p"))["exitCode"] == 0
    # Other clusters' links come and go.
    host_links = {name for _, name in socket.if_nameindex() if not CLUSTERS.match(name)}
    assert host_links == {
        name for name in (await local.log("p")).split() if not CLUSTERS.match(name)
    }
