"""Responses that an intermediary compresses, and lists that are asked for compressed."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, strategies as st

from kubekit.client import watch_stream
from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.client import Client
from kubekit.client.request import Request
from kubekit.client.transport import content_encoding
from kubekit.client.transport.content_encoding import (
    PIECE,
    GzipDecoder,
    UndecodableBody,
    decode_body,
)
from kubekit.objects.kinds import CONFIG_MAPS, PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import NotFound, Unreachable
from kubekit.watch.informer import Informer
from tests.builders import config_map
from tests.kubekit.builders import pod
from tests.kubekit.client.networks.intermediaries import Gateway, Relay
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubekit.objects.core import Pod

ZEROS = 50_000_000


def bomb() -> web.Response:
    return web.Response(body=gzip.compress(bytes(ZEROS), 9), headers={"Content-Encoding": "gzip"})


@contextmanager
def distant(gateway: Gateway, endpoint: Endpoint) -> Iterator[Endpoint]:
    """The same server under a name that is not loopback's, which only a proxy knows."""
    with Relay() as proxy:
        proxy.names["cluster.example:443"] = f"127.0.0.1:{gateway.port}"
        yield msgspec.structs.replace(
            endpoint, url="https://cluster.example", proxy=proxy.url, server_name="localhost"
        )


@given(st.binary(max_size=5000), st.lists(st.integers(1, 200)), st.integers(0, 9))
def test_gzip_is_decoded_however_it_was_cut(data: bytes, cuts: list[int], level: int) -> None:
    packed, decoder, pieces = gzip.compress(data, level), GzipDecoder(), list[bytes]()
    for cut in [*cuts, len(packed)]:
        chunk, packed = packed[:cut], packed[cut:]
        pieces += decoder.feed(chunk)
    decoder.finish()
    assert b"".join(pieces) == data


def test_a_flushed_piece_is_decoded_before_the_next_arrives() -> None:
    packer, decoder = zlib.compressobj(1, zlib.DEFLATED, 31), GzipDecoder()
    for line in (b'{"type":"ADDED"}\n', b"x" * PIECE * 3, b"\n"):
        packed = packer.compress(line) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(decoder.feed(packed)) == line
    with pytest.raises(UndecodableBody, match="cut short"):
        decoder.finish()


def test_several_members_are_one_body_and_an_empty_body_stays_empty() -> None:
    assert decode_body("GZIP", gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    assert decode_body("gzip", b"") == b""
    assert decode_body(" identity ", b"as it is") == b"as it is"


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [
        ("br", b"x", "encoded as 'br', which was not asked for"),
        ("gzip, gzip", b"x", "encoded as 'gzip, gzip'"),
        ("gzip", b"plain text", "not valid gzip"),
        ("gzip", gzip.compress(b"x" * 99, mtime=0)[:-4], "cut short"),
        ("gzip", gzip.compress(b"x" * 99, mtime=0)[:-8] + b"\0" * 8, "not valid gzip"),
    ],
)
def test_a_body_that_cannot_be_decoded_says_why(encoding: str, body: bytes, message: str) -> None:
    with pytest.raises(UndecodableBody, match=message):
        decode_body(encoding, body)


def test_a_bomb_is_refused_before_it_takes_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_encoding, "MAX_BYTES", 1_000_000)
    packed = gzip.compress(bytes(ZEROS), 9)
    assert len(packed) < ZEROS / 900
    tracemalloc.start()
    with pytest.raises(UndecodableBody, match="expands from"):
        decode_body("gzip", packed)
    _, peak = tracemalloc.get_traced_memory()
    decoder = GzipDecoder()
    tracemalloc.reset_peak()
    assert sum(map(len, decoder.feed(packed))) == ZEROS, "a stream, which nobody collects"
    _, streamed = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000 + 8 * PIECE
    assert streamed < 8 * PIECE


async def test_a_list_that_expands_too_far_is_read_without_compression(
    gateway: Gateway, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_encoding, "MAX_BYTES", 1_000_000)
    with distant(gateway, endpoint) as server:
        async with Client.connect(server) as client:
            gateway.answers = [bomb()]
            await client.list(PODS)
        with BlockingClient(server) as blocking:
            gateway.answers = [bomb()]
            await asyncio.to_thread(blocking.list, PODS)
    assert [encoding for _, encoding in gateway.asked] == ["gzip", "identity"] * 2
    gateway.answers = [bomb()]
    async with Client.connect(endpoint) as client:
        with pytest.raises(Unreachable, match="expands from"):
            await client.list(PODS)


async def test_both_clients_read_what_a_gateway_compresses(
    gateway: Gateway, endpoint: Endpoint
) -> None:
    def commands() -> list[str]:
        with BlockingClient(endpoint) as client:
            client.create(PODS, pod("packed", "default"))
            listed = client.list(PODS, "default")
            for event in client.watch(PODS, "default", since="0"):
                assert event.object.metadata.name == "packed"
                break
            with pytest.raises(NotFound, match='"absent" not found'):
                client.get(PODS, Key("default", "absent"))
            return [item.metadata.name for item in listed.items]

    gateway.compress = True
    assert await asyncio.to_thread(commands) == ["packed"]
    async with Client.connect(endpoint) as client:
        assert (await client.get(PODS, Key("default", "packed"))).metadata.name == "packed"
        with pytest.raises(NotFound, match='"absent" not found'):
            await client.get(PODS, Key("default", "absent"))
        await client.delete(PODS, Key("default", "packed"))


async def test_an_informer_sees_pods_behind_a_gateway_that_compresses(
    gateway: Gateway, endpoint: Endpoint
) -> None:
    gateway.compress = True
    async with Client.connect(endpoint) as client, asyncio.TaskGroup() as group:
        informer: Informer[Pod] = Informer(client, PODS)
        running = group.create_task(informer.run())
        await informer.synced()
        for number in range(3):
            key = Key("default", f"seen-{number}")
            await client.create(PODS, pod(key.name, key.namespace))
            await eventually(partial(informer.get, key))
        assert gateway.lists - 3 == 1, "one list, and the rest from the watch"
        running.cancel()


async def test_an_encoding_nobody_asked_for_is_an_error_that_names_the_intermediary(
    gateway: Gateway, endpoint: Endpoint
) -> None:
    gateway.compress, gateway.encoding = True, "br"
    message = f"cannot read what {gateway.url} sent: .*'br'.*proxy or load balancer"
    async with Client.connect(endpoint) as client:
        with pytest.raises(Unreachable, match=message):
            await client.list(PODS)
        with pytest.raises(Unreachable, match=message):
            async for _ in client.watch(PODS, since="0"):
                pass
    with BlockingClient(endpoint) as blocking, pytest.raises(Unreachable, match=message):
        await asyncio.to_thread(blocking.list, PODS)


async def test_an_endless_line_of_a_compressed_watch_is_refused(
    gateway: Gateway, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_stream, "LONGEST_LINE", 1_000_000)
    gateway.answers = [bomb(), bomb()]

    def watch() -> None:
        with BlockingClient(endpoint) as blocking:
            list(blocking.watch(PODS, since="1"))

    async with Client.connect(endpoint) as client:
        with pytest.raises(Unreachable, match="a watch event has more than"):
            async for _ in client.watch(PODS, since="1"):
                pass
    with pytest.raises(Unreachable, match="a watch event has more than"):
        await asyncio.to_thread(watch)


async def test_a_page_of_a_gateway_is_not_a_missing_kind(
    gateway: Gateway, endpoint: Endpoint
) -> None:
    async with Client.connect(endpoint) as client, asyncio.TaskGroup() as group:
        await client.create(CONFIG_MAPS, config_map("stays", "default"))
        informer = Informer(client, CONFIG_MAPS)
        running = group.create_task(informer.run())
        await informer.synced()
        deletions: list[object] = []
        informer.subscribe(lambda change: deletions.append(change) if not change.new else None)
        page = web.Response(status=404, text="<html>no such site</html>")
        gateway.answers = [page]
        await client.transport.close()  # the watch breaks, and is answered with the page
        await eventually(lambda: not gateway.answers)
        await client.create(CONFIG_MAPS, config_map("later", "default"))
        await eventually(lambda: informer.get(Key("default", "later")))
        assert (informer.installed, deletions) == (True, [])
        running.cancel()


async def test_only_lists_from_a_distant_server_are_asked_for_compressed(
    gateway: Gateway, endpoint: Endpoint
) -> None:
    async def asks(where: Endpoint) -> list[str]:
        del gateway.asked[:]
        async with Client.connect(where) as client:
            await client.list(PODS)
            await client.send(Request("GET", "/version"))
        with BlockingClient(where) as blocking:
            await asyncio.to_thread(blocking.list, PODS)
        return [encoding for _, encoding in gateway.asked]

    assert await asks(endpoint) == ["identity"] * 3
    with distant(gateway, endpoint) as server:
        assert await asks(server) == ["gzip", "identity", "gzip"]
        assert await asks(msgspec.structs.replace(server, compression=False)) == ["identity"] * 3
