"""Variables with the services of a pod's namespace."""

from __future__ import annotations

from typing import Any

import msgspec

from kubekit.objects.core import Service
from localkube.node.network.service_addresses import service_links
from tests.localkube.node.pod_builders import make_pod


def service(name: str, address: str, *ports: dict[str, Any], namespace: str = "default") -> Service:
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": list(ports)},
    }
    return msgspec.convert(body, Service)


WEB = service("my-web", "10.2.0.5", {"name": "http", "port": 80}, {"name": "q", "port": 53})


def test_a_service_has_the_variables_that_the_kubelet_sets() -> None:
    variables = service_links(make_pod(), [WEB])

    assert variables["MY_WEB_SERVICE_HOST"] == variables["MY_WEB_PORT_53_TCP_ADDR"] == "10.2.0.5"
    assert variables["MY_WEB_SERVICE_PORT"] == variables["MY_WEB_SERVICE_PORT_HTTP"] == "80"
    assert variables["MY_WEB_SERVICE_PORT_Q"] == variables["MY_WEB_PORT_53_TCP_PORT"] == "53"
    assert variables["MY_WEB_PORT"] == variables["MY_WEB_PORT_80_TCP"] == "tcp://10.2.0.5:80"
    assert variables["MY_WEB_PORT_80_TCP_PROTO"] == "tcp"
    assert len(variables) == 13


def test_headless_services_and_those_of_other_namespaces_have_none() -> None:
    services = [
        service("headless", "None", {"port": 1}),
        service("other", "10.2.0.6", {"port": 1}, namespace="other"),
        service("kubernetes", "10.2.0.1", {"port": 443}),
    ]

    assert service_links(make_pod(), services) == {}


def test_a_pod_may_do_without() -> None:
    assert service_links(make_pod(enableServiceLinks=False), [WEB]) == {}
