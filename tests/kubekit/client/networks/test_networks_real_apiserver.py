"""A real kube-apiserver behind a proxy: compressed lists, cut watches, refusals."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest

from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.client import Client
from kubekit.objects.kinds import CONFIG_MAPS, PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound, Unreachable
from kubekit.watch.informer import Informer
from tests.builders import config_map
from tests.controlplane.control_plane import ControlPlane
from tests.kubekit.client.networks.intermediaries import Relay, host_and_port
from tests.waiting import eventually, in_parallel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.client.auth.endpoint import Endpoint

pytestmark = [pytest.mark.kube, pytest.mark.slow]
NAME = "cluster.example:6443"


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[Relay]:
    with Relay(login="me:p@ss") as running:
        running.names[NAME] = host_and_port(kube_config.load(control_plane.kubeconfig).url)
        yield running


@pytest.fixture
def distant(control_plane: ControlPlane, proxy: Relay, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """The API server under a name that only the proxy of the environment knows."""
    monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:p%40ss@"))
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,.svc")
    return msgspec.structs.replace(
        kube_config.load(control_plane.kubeconfig), url=f"https://{NAME}", server_name="localhost"
    )


async def test_a_large_list_arrives_compressed_and_a_watch_does_not_wait(
    distant: Endpoint, proxy: Relay, fresh_namespace: str
) -> None:
    text = " ".join(f"line {number} of a text that is like the others;" for number in range(500))
    async with Client.connect(distant) as client:
        await in_parallel(
            client.create(CONFIG_MAPS, config_map(f"c{number}", fresh_namespace, text=text))
            for number in range(20)
        )
        size = sum(len(msgspec.json.encode(config_map("c", "ns", text=text))) for _ in range(20))
        before = proxy.down_bytes
        listed = await client.list(CONFIG_MAPS, fresh_namespace)
        assert {len(item.data["text"]) for item in listed.items if "text" in item.data} == {
            len(text)
        }
        assert proxy.down_bytes - before < size / 4
        await client.create(CONFIG_MAPS, config_map("event", fresh_namespace))
        async for event in client.watch(
            CONFIG_MAPS, fresh_namespace, since=listed.resource_version
        ):
            assert event.object.metadata.name == "event"
            break
        before = proxy.down_bytes
    plain = msgspec.structs.replace(distant, compression=False)
    with BlockingClient(plain) as blocking:
        await asyncio.to_thread(blocking.list, CONFIG_MAPS, fresh_namespace)
        assert proxy.down_bytes - before > size
    with BlockingClient(distant) as blocking:
        before = proxy.down_bytes
        again = await asyncio.to_thread(blocking.list, CONFIG_MAPS, fresh_namespace)
        assert len(again.items) >= 21
        assert proxy.down_bytes - before < size / 4
    assert set(proxy.asked) == {NAME}


async def test_a_watch_that_the_proxy_cuts_goes_on(
    distant: Endpoint, proxy: Relay, control_plane: ControlPlane, fresh_namespace: str
) -> None:
    seen: list[str] = []
    async with (
        Client.connect(kube_config.load(control_plane.kubeconfig)) as direct,
        Client.connect(distant) as client,
        asyncio.TaskGroup() as group,
    ):
        informer = Informer(client, CONFIG_MAPS, fresh_namespace, fields="metadata.name!=x")
        informer.subscribe(lambda change: seen.append(change.current.metadata.name))
        running = group.create_task(informer.run())
        await informer.synced()
        for number in range(3):
            await direct.create(CONFIG_MAPS, config_map(f"a{number}", fresh_namespace))
            await asyncio.to_thread(proxy.cut)
            await direct.create(CONFIG_MAPS, config_map(f"b{number}", fresh_namespace))
            await eventually(partial(seen.count, f"b{number}"))
        running.cancel()
    ours = [name for name in seen if name != "kube-root-ca.crt"]
    assert ours == [f"{half}{number}" for number in range(3) for half in "ab"]


async def test_errors_of_the_server_and_of_the_proxy_are_told_apart(
    distant: Endpoint, monkeypatch: pytest.MonkeyPatch, fresh_namespace: str
) -> None:
    async with Client.connect(distant) as client:
        with pytest.raises(NotFound):
            await client.get(PODS, Key(fresh_namespace, "absent"))
        with pytest.raises(NotFound, match="cannot get pods/exec absent"):
            async with client.exec(Key(fresh_namespace, "absent"), ["true"]):
                pass
    with Relay(refuse=403) as other:
        monkeypatch.setenv("HTTPS_PROXY", other.url)
        async with Client.connect(distant) as client:
            with pytest.raises(Unreachable, match=r"refuses to connect to cluster\.example"):
                await client.list(PODS)
