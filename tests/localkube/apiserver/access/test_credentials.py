"""Certificates, tokens and the kubeconfig of a server."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import aiohttp
import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localkube.apiserver.running_server import ApiClient


async def test_the_certificate_is_valid_for_the_names_that_pods_use(api: ApiClient) -> None:
    trust = ssl.create_default_context(cadata=api.server.ca.decode())
    for name in ("localhost", "kubernetes.default.svc", "127.0.0.1"):
        async with api.session.get(
            api.server.url + "/api", ssl=trust, server_hostname=name
        ) as response:
            assert response.status == 200
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await api.session.get(api.server.url + "/api", ssl=trust, server_hostname="example.com")


async def test_only_the_owner_can_read_secrets_on_disk(api: ApiClient, tmp_path: Path) -> None:
    api.server.credentials.write_kubeconfig(tmp_path / "kubeconfig", api.server.url)
    folder = api.server.data_dir / "access"
    secrets = [folder / name for name in ("token", "ca.key", "server.key", "accounts.key")]

    assert folder.stat().st_mode & 0o777 == 0o700
    for path in (*secrets, tmp_path / "kubeconfig"):
        assert path.stat().st_mode & 0o777 == 0o600, path


async def test_the_kubeconfig_names_the_server_and_its_token(
    api: ApiClient, tmp_path: Path
) -> None:
    api.server.credentials.write_kubeconfig(tmp_path / "kubeconfig", api.server.url)
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())

    assert config["clusters"][0]["cluster"]["server"] == api.server.url
    assert config["users"][0]["user"]["token"] == api.server.token
