"""Which pods become endpoints of a service."""

from __future__ import annotations

import msgspec
import pytest

from kubekit.objects.core import Service
from localkube.controllers import endpoint_slices
from localkube.controllers.workloads import Pod


@pytest.mark.parametrize(("address", "endpoint"), [("10.0.0.7", True), ("127.0.0.1", False)])
def test_a_pod_with_the_loopback_address_is_not_an_endpoint(address: str, endpoint: bool) -> None:
    """The API server would reject the object, and the controller would try for ever."""
    service = msgspec.convert(
        {"metadata": {"name": "s"}, "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}},
        Service,
    )
    pod = msgspec.convert(
        {
            "metadata": {"name": "p", "labels": {"app": "x"}},
            "spec": {"containers": []},
            "status": {"podIP": address},
        },
        Pod,
    )

    assert bool(endpoint_slices.pods_by_ports(service, [pod])) is endpoint
