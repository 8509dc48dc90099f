"""Services get free node ports, keep them, and release them with the type, as on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import NAMESPACES, SERVICES
from kubekit.objects.meta import Key
from kubekit.request_errors import Invalid
from tests.controlplane.control_plane import ControlPlane
from tests.local_server import LocalServer
from tests.waiting import until

KIND = SERVICES.read_as(dict)


@pytest.fixture(scope="module")
def local_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with LocalServer(tmp_path_factory.mktemp("server")) as server:
        yield server.kubeconfig


class Space:
    """A namespace of its own on some server."""

    def __init__(self, kubeconfig: Path) -> None:
        self.client = BlockingClient(kube_config.load(kubeconfig))
        created = self.client.create(
            NAMESPACES.read_as(dict), {"metadata": {"generateName": "np-"}}
        )
        self.name = created["metadata"]["name"]

    def create(self, name: str, *ports: Any, type_: str = "NodePort") -> list[int]:
        rows = [{"name": f"p{i}", "port": 80 + i, **port} for i, port in enumerate(ports)]
        body = {"metadata": {"name": name}, "spec": {"type": type_, "ports": rows}}
        return node_ports(self.client.create(KIND, body, namespace=self.name))

    def patch(self, name: str, spec: Any) -> list[int]:
        return node_ports(self.client.patch(KIND, Key(self.name, name), {"spec": spec}))


def node_ports(service: Any) -> list[int]:
    return [row.get("nodePort", 0) for row in service["spec"]["ports"]]


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.kube)])
def space(request: pytest.FixtureRequest) -> Iterator[Space]:
    if request.param == "local":
        space = Space(request.getfixturevalue("local_server"))
    else:
        plane: ControlPlane = request.getfixturevalue("control_plane")
        space = Space(plane.kubeconfig)
    with space.client:
        yield space
        space.client.delete(NAMESPACES, Key("", space.name))


def test_no_two_ports_are_the_same(space: Space) -> None:
    given = [port for name in "abcde" for port in space.create(name, {}, {})]

    assert len(set(given)) == 10
    assert all(30000 <= port <= 32767 for port in given)


def test_an_internal_service_gets_no_node_port(space: Space) -> None:
    assert space.create("a", {}, type_="ClusterIP") == [0]


def test_a_requested_port_is_allocated_once(space: Space) -> None:
    # What a random draw gave is free again once its service is gone, on a shared server too.
    port = space.create("a", {})[0]
    space.client.delete(KIND, Key(space.name, "a"))

    assert until(lambda: space.create("b", {"nodePort": port}) == [port], what="a free port")
    with pytest.raises(Invalid, match="provided port is already allocated"):
        space.create("c", {"nodePort": port})


def test_a_port_out_of_range_is_rejected(space: Space) -> None:
    with pytest.raises(Invalid, match="not in the valid range"):
        space.create("a", {"nodePort": 80})


def test_an_update_keeps_the_port_and_another_type_releases_it(space: Space) -> None:
    given = space.create("a", {})

    assert space.patch("a", {"ports": [{"name": "p0", "port": 80, "targetPort": 8080}]}) == given
    assert space.patch("a", {"type": "ClusterIP"}) == [0]


def test_a_service_that_becomes_external_gets_its_ports(space: Space) -> None:
    (taken,) = space.create("a", {})
    assert space.create("b", {}, {}, type_="ClusterIP") == [0, 0]

    given = space.patch("b", {"type": "NodePort"})

    assert all(given)
    assert len({taken, *given}) == 3
    assert space.patch("b", {"externalTrafficPolicy": "Local"}) == given


def test_a_changed_service_cannot_take_the_port_of_another(space: Space) -> None:
    (taken,) = space.create("a", {})
    space.create("b", {}, type_="ClusterIP")

    with pytest.raises(Invalid, match="already allocated"):
        space.patch("b", {"type": "NodePort", "ports": [{"port": 80, "nodePort": taken}]})
