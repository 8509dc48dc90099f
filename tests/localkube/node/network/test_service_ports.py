"""Which endpoints are behind a port of a service."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubekit.objects.core import Service
from localkube.node.network import service_addresses
from localkube.node.network.service_addresses import (
    Endpoint,
    EndpointSlice,
    ServicePort,
    service_ports,
)
from tests.unexpected_errors import counted


def service(name: str = "web", address: str = "10.2.0.5", **spec: Any) -> Service:
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": address, "ports": [{"name": "http", "port": 80}], **spec},
    }
    return msgspec.convert(body, Service)


def endpoint_slice(*addresses: str, service_name: str = "web", **fields: Any) -> EndpointSlice:
    body = {
        "metadata": {
            "name": "s",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": service_name},
        },
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": True}} for address in addresses
        ],
        **fields,
    }
    return msgspec.convert(body, EndpointSlice)


def test_a_port_has_the_endpoints_of_all_slices_with_their_own_numbers() -> None:
    other = endpoint_slice("10.1.0.4", ports=[{"name": "http", "port": 9090}])

    found = service_ports([service()], [endpoint_slice("10.1.0.3", "10.1.0.2"), other])

    endpoints = (
        Endpoint("10.1.0.2", 8080),
        Endpoint("10.1.0.3", 8080),
        Endpoint("10.1.0.4", 9090),
    )
    assert found == [ServicePort("10.2.0.5", 80, "TCP", endpoints)]


def test_endpoints_that_are_not_ready_or_of_another_port_are_left_out() -> None:
    slices = [
        endpoint_slice(
            endpoints=[
                {"addresses": ["10.1.0.2"], "conditions": {"ready": False}},
                {"addresses": ["10.1.0.3"]},
            ]
        ),
        endpoint_slice("10.1.0.4", ports=[{"name": "metrics", "port": 1}]),
        endpoint_slice("10.1.0.5", ports=[{"name": "http", "port": 1, "protocol": "UDP"}]),
        endpoint_slice("10.1.0.6", service_name="other"),
        endpoint_slice("fd00::1", addressType="IPv6"),
    ]

    assert service_ports([service()], slices)[0].endpoints == (Endpoint("10.1.0.3", 8080),)


def test_headless_and_external_services_have_no_ports() -> None:
    services = [
        service(address="None"),
        service(address="", type="ExternalName"),
        service(address="10.2.0.6", sessionAffinity="ClientIP"),
    ]

    assert service_ports(services, []) == [ServicePort("10.2.0.6", 80, "TCP", (), by_client=True)]


def test_a_service_that_brings_out_a_bug_leaves_the_others_their_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, original = counted().get("services", 0), service_addresses.has_address

    def has_address(one: Service) -> bool:
        if one.metadata.name == "bad":
            raise ZeroDivisionError("a bug")
        return original(one)

    monkeypatch.setattr(service_addresses, "has_address", has_address)
    found = service_ports([service("bad"), service("good", "10.2.0.6")], [])

    assert [port.address for port in found] == ["10.2.0.6"]
    assert counted()["services"] == before + 1
