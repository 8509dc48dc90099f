"""Certificates, authorities, tokens and kubeconfigs that are renewed while a client runs."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kubekit.client.auth import kube_config, reloading
from kubekit.client.auth.endpoint import Endpoint, in_cluster
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.client import Client
from kubekit.client.request import Request
from kubekit.client.streams.exec_session import V5
from kubekit.objects.kinds import CONFIG_MAPS
from kubekit.objects.meta import Key
from kubekit.request_errors import Unauthorized, Unreachable, UntrustedCertificate
from tests.builders import config_map
from tests.controlplane.certificates import Authority, Pair
from tests.kubekit.client.networks.intermediaries import Gateway
from tests.kubekit.client.transport.test_http_transport import peer, server_tls, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

GET = Request("GET", "/version")
X = Key("ns", "x")


def kubeconfig(folder: Path, url: str, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig of one cluster, written in one step as `kubectl config` does."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "config"
    (folder / "config.new").write_text(json.dumps(document))
    (folder / "config.new").rename(path)
    return path


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the files before every request."""
    monkeypatch.setattr(reloading, "REREAD_SECONDS", 0.0)


@asynccontextmanager
async def both_clients(endpoint: Endpoint) -> AsyncIterator[Callable[[], Any]]:
    """A function that sends a GET with each of two long-lived clients, over new connections."""
    async with Client.connect(endpoint) as client:
        with BlockingClient(endpoint) as blocking:

            async def send() -> list[bytes]:
                blocking.close()
                await client.close()
                first = await client.send(GET)
                second = await asyncio.to_thread(blocking.send, GET)
                return [first.body, second.body]

            yield send


@pytest.mark.parametrize("inline", [False, True], ids=["file", "inline"])
async def test_the_authority_of_the_server_is_replaced(
    gateway: Gateway, authority: Authority, tmp_path: Path, inline: bool
) -> None:
    def write(current: Authority) -> Path:
        (tmp_path / "ca.pem").write_bytes(current.certificate)
        data = base64.b64encode(current.certificate).decode()
        cluster = {"certificate-authority-data" if inline else "certificate-authority": (
            data if inline else "ca.pem"
        )}  # fmt: skip
        return kubeconfig(tmp_path, gateway.url, {"token": "t"}, **cluster)

    successor = Authority("gateway-ca-of-next-year")
    async with both_clients(kube_config.load(write(authority))) as send:
        await send()
        gateway.show_certificate_of(successor)
        with pytest.raises(UntrustedCertificate):
            await send()
        write(successor)
        assert all(b"gitVersion" in body for body in await send())
        gateway.show_certificate_of(authority)
        with pytest.raises(UntrustedCertificate, match="is not trusted"):
            await send()
        write(authority)
        assert all(b"gitVersion" in body for body in await send())


async def test_a_pod_follows_its_service_account(
    gateway: Gateway, authority: Authority, tmp_path: Path
) -> None:
    """The kubelet renews both files behind a symbolic link, in one step."""

    def mount(generation: str, token: str, current: Authority) -> None:
        folder = tmp_path / generation
        folder.mkdir()
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_bytes(current.certificate)
        (tmp_path / "new").symlink_to(folder)
        (tmp_path / "new").rename(tmp_path / "..data")

    environ = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(gateway.port),
    }
    mount("1", "first", authority)
    for name in ("token", "ca.crt"):
        (tmp_path / name).symlink_to(tmp_path / "..data" / name)
    endpoint = in_cluster(environ, tmp_path)
    assert endpoint is not None
    gateway.accepts = "first"
    successor = Authority("cluster-ca-of-next-year")
    async with both_clients(endpoint) as send:
        await send()
        gateway.accepts = "second"
        gateway.show_certificate_of(successor)
        with pytest.raises(UntrustedCertificate):
            await send()
        mount("2", "second", successor)
        assert all(b"gitVersion" in body for body in await send())


@pytest.mark.usefixtures("at_once")
async def test_a_client_certificate_is_renewed_file_by_file(tmp_path: Path) -> None:
    def write(name: str, content: bytes) -> None:
        (tmp_path / "new").write_bytes(content)
        (tmp_path / "new").rename(tmp_path / name)

    def renew(pair: Pair) -> None:
        write("client.crt", pair.certificate)
        write("client.key", pair.key)

    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    renew(authority.client("old"))
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    async with serving(peer, server_tls(authority, tmp_path, clients=True)) as url:
        config = kubeconfig(tmp_path, url, user, **{"certificate-authority": "ca.pem"})
        async with both_clients(kube_config.load(config)) as send:
            assert await send() == [b"old", b"old"]
            renewed = authority.client("new")
            write("client.crt", renewed.certificate)
            assert await send() == [b"old", b"old"], "the new key is not there yet"
            write("client.key", renewed.key)
            assert await send() == [b"new", b"new"]
            write("client.key", b"")
            assert await send() == [b"new", b"new"], "a file that is being written"
            renew(authority.client("late", lifetime=timedelta(days=-1)))
            with pytest.raises(Unreachable, match=r"client certificate of context x expired on"):
                await send()
            renew(authority.client("last"))
            assert await send() == [b"last", b"last"]


@pytest.mark.usefixtures("at_once")
async def test_a_kubeconfig_with_another_server_or_context_moves_nobody(
    gateway: Gateway, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = {"certificate-authority-data": base64.b64encode(authority.certificate).decode()}
    gateway.accepts = "mine"
    path = kubeconfig(tmp_path, gateway.url, {"token": "mine"}, **ca)
    async with both_clients(kube_config.load(path)) as send:
        await send()
        kubeconfig(tmp_path, "https://elsewhere.example", {"token": "secret of elsewhere"}, **ca)
        await send()
        assert "names another server now" in caplog.text
        path.write_text("{")
        await send()
        kubeconfig(tmp_path, gateway.url, {"token": "renewed"}, **ca)
        gateway.accepts = "renewed"
        await send()
        path.unlink()
        await send()


async def test_tokens_of_a_plugin_that_expire_are_renewed_for_every_kind_of_call(
    gateway: Gateway, authority: Authority, tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!/bin/sh\necho run >> {tmp_path}/runs\n"
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        f'"status":{{"token":"%d"}}}}\' $(wc -l < {tmp_path}/runs)\n'
    )
    plugin.chmod(0o700)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    ca = {"certificate-authority-data": base64.b64encode(authority.certificate).decode()}
    endpoint = kube_config.load(kubeconfig(tmp_path, gateway.url, user, **ca))
    gateway.accepts = "1"
    async with Client.connect(endpoint) as client:
        before = (await client.list(CONFIG_MAPS)).resource_version
        await client.create(CONFIG_MAPS, config_map("event", "default"))
        gateway.accepts = "2"
        watch = client.watch(CONFIG_MAPS, since=before)
        await anext(watch)
        await watch.aclose()
        gateway.accepts = "3"
        await client.send(GET)
    with BlockingClient(endpoint) as blocking:
        await asyncio.to_thread(blocking.send, GET)
        gateway.accepts = "4"
        events = blocking.watch(CONFIG_MAPS, since=before)
        await asyncio.to_thread(next, events)
        events.close()
    assert (tmp_path / "runs").read_text().split() == ["run"] * 4
    gateway.accepts = "never"
    with BlockingClient(endpoint) as blocking, pytest.raises(Unauthorized):
        await asyncio.to_thread(blocking.send, GET)
    assert (tmp_path / "runs").read_text().split() == ["run"] * 5, "once more, and no loop"


async def test_a_websocket_is_opened_again_with_the_renewed_token(
    authority: Authority, tmp_path: Path
) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer new":
            return web.Response(status=401)
        websocket = web.WebSocketResponse(protocols=(V5,))
        await websocket.prepare(request)
        await websocket.send_bytes(b'\x03{"status":"Success"}')
        await websocket.close()
        return websocket

    (tmp_path / "token").write_text("old")
    ca = {"certificate-authority-data": base64.b64encode(authority.certificate).decode()}
    async with serving(handler, server_tls(authority, tmp_path)) as url:
        path = kubeconfig(tmp_path, url, {"tokenFile": "token"}, **ca)
        async with Client.connect(kube_config.load(path)) as client:
            with pytest.raises(Unauthorized):
                async with client.exec(X, ["true"]):
                    pass
            (tmp_path / "token").write_text("new")
            async with client.exec(X, ["true"]) as session:
                assert [data async for _, data in session] == []
    assert session.exit_code == 0
