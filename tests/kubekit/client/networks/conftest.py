"""The local API server of Muster behind a gateway, and endpoints that lead there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kubekit.client.auth import kube_config
from kubekit.client.auth.credentials import Credential, StaticCredential
from kubekit.client.auth.endpoint import Endpoint
from tests.controlplane.certificates import Authority
from tests.kubekit.client.networks.intermediaries import Gateway
from tests.local_server import LocalServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("gateway-ca")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The local API server, directly."""
    with LocalServer(tmp_path_factory.mktemp("apiserver")) as server:
        yield kube_config.load(server.kubeconfig)


@pytest.fixture
def gateway(api: Endpoint, authority: Authority) -> Iterator[Gateway]:
    token = api.credentials.get().authorization.removeprefix("Bearer ")
    with Gateway(api.url, authority, token=token, ca=api.ca or b"") as running:
        yield running


@pytest.fixture
def endpoint(gateway: Gateway, authority: Authority) -> Endpoint:
    """The API server, through the gateway."""
    return Endpoint(
        gateway.url,
        authority.certificate,
        credentials=StaticCredential(Credential("Bearer of the user")),
    )
