"""The client without asyncio, against sockets that follow a script."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kubekit.client.auth.endpoint import Endpoint
from kubekit.client.blocking_client import BlockingClient
from kubekit.objects.kinds import PODS
from kubekit.objects.meta import Key
from kubekit.request_errors import (
    Aborted,
    Forbidden,
    TooManyRequests,
    Unreachable,
    UntrustedCertificate,
)
from tests.kubekit.builders import pod

if TYPE_CHECKING:
    from collections.abc import Iterator

X = Key("ns", "x")


def answer(body: object, status: str = "200 OK", *headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


class Script:
    """Connections, each with its responses before it is closed, and the requests they got."""

    def __init__(self, *connections: list[bytes]) -> None:
        self.asked: list[str] = []
        self._connections = connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def run(self) -> None:
        for answers in self._connections:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as reader:
                for each in answers:
                    self.asked.append(_read(reader))
                    connection.sendall(each)

    def close(self) -> None:
        self._listener.close()


def _read(reader: object) -> str:
    first = reader.readline().decode().strip()  # type: ignore[attr-defined]
    length = 0
    while (line := reader.readline().strip()) != b"":  # type: ignore[attr-defined]
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    reader.read(length)  # type: ignore[attr-defined]
    return str(first.rpartition(" ")[0])


@contextmanager
def scripted(*connections: list[bytes]) -> Iterator[tuple[Script, BlockingClient]]:
    script = Script(*connections)
    thread = threading.Thread(target=script.run)
    thread.start()
    try:
        with BlockingClient(Endpoint(script.url), sleep=lambda _: None) as client:
            yield script, client
        thread.join(5)
        assert not thread.is_alive(), "the script was not played to its end"
    finally:
        script.close()


def test_calls_share_one_connection() -> None:
    page = {"metadata": {"resourceVersion": "1", "continue": "t"}, "items": [pod("a")]}
    last = {"metadata": {"resourceVersion": "1"}, "items": [pod("b")]}
    with scripted([answer(pod("x")), answer(page), answer(last), answer({})]) as (script, client):
        assert client.get(PODS, X).metadata.name == "x"
        listed = client.list(PODS, "ns", page=1)
        assert [p.metadata.name for p in listed.items] == ["a", "b"]
        client.delete(PODS, X)
    assert script.asked == [
        "GET /api/v1/namespaces/ns/pods/x",
        "GET /api/v1/namespaces/ns/pods?limit=1",
        "GET /api/v1/namespaces/ns/pods?limit=1&continue=t",
        "DELETE /api/v1/namespaces/ns/pods/x",
    ]


def test_a_read_over_a_stale_connection_is_sent_again() -> None:
    with scripted([answer(pod("x"))], [answer(pod("x"))]) as (script, client):
        client.get(PODS, X)
        client.get(PODS, X)
    assert len(script.asked) == 2


def test_a_write_over_a_stale_connection_is_not_sent_again() -> None:
    with scripted([answer(pod("x"))]) as (script, client):
        client.get(PODS, X)
        with pytest.raises(Unreachable):
            client.patch(PODS, X, {})
    assert len(script.asked) == 1


def test_a_read_is_retried_a_limited_number_of_times() -> None:
    with scripted([b"" for _ in range(1)]) as (script, client), pytest.raises(Unreachable):
        client.get(PODS, X)
    assert len(script.asked) == 1


def test_error_responses_raise_the_same_errors() -> None:
    refusal = answer({"message": "no", "code": 403}, "403 Forbidden")
    with (
        scripted([refusal]) as (_, client),
        pytest.raises(Forbidden, match="not allowed to get pods x in namespace ns: no"),
    ):
        client.get(PODS, X)


def test_a_busy_server_is_retried_a_few_times() -> None:
    busy = answer({"code": 429}, "429 Too Many Requests", "Retry-After: 1")
    with scripted([busy, answer(pod("x"))]) as (_, client):
        assert client.create(PODS, pod("x")).metadata.name == "x"
    with scripted([busy] * 6) as (_, client), pytest.raises(TooManyRequests):
        client.get(PODS, X)


def test_a_watch_is_a_plain_iterator() -> None:
    events = [
        {"type": "ADDED", "object": pod("a")},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
        {"type": "DELETED", "object": pod("a")},
    ]
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    with scripted([answer(lines)]) as (_, client):
        seen = [(e.type, e.object.metadata.name) for e in client.watch(PODS, since="1")]
    assert seen == [("ADDED", "a"), ("BOOKMARK", ""), ("DELETED", "a")]


def test_logs_arrive_unchanged() -> None:
    with scripted([answer(b"one\ntwo\n")]) as (script, client):
        assert b"".join(client.logs(X, tail=2)) == b"one\ntwo\n"
    assert script.asked == ["GET /api/v1/namespaces/ns/pods/x/log?tailLines=2"]


def test_a_truncated_stream_raises_unreachable() -> None:
    half = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
    with scripted([half]) as (script, client):
        pieces = client.logs(X, follow=True)
        assert next(pieces) == b"one\n"
        with pytest.raises(Unreachable, match=f"cannot reach {script.url}: the response was cut"):
            next(pieces)


def test_a_silent_stream_is_ended_by_another_thread() -> None:
    half = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
    silence = b""  # after a second request, which never comes
    with scripted([half, silence]) as (_, client):
        pieces = client.logs(X, follow=True)
        assert next(pieces) == b"one\n"
        threading.Timer(0.05, client.abort).start()
        with pytest.raises(Unreachable):
            next(pieces)
        with pytest.raises(Aborted):
            client.get(PODS, X)


def test_a_rejecting_proxy_is_named() -> None:
    script = Script([answer(b"", "407 Proxy Authentication Required")])
    thread = threading.Thread(target=script.run)
    thread.start()
    endpoint = Endpoint("https://cluster.example:6443", proxy=script.url)
    with (
        BlockingClient(endpoint) as client,
        pytest.raises(Unreachable, match=r"the proxy http://127\.0\.0\.1:.* \(407\)"),
    ):
        client.get(PODS, X)
    thread.join(5)
    script.close()
    assert script.asked == ["CONNECT cluster.example:6443"]


def test_a_missing_server_is_reported_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with BlockingClient(Endpoint(url)) as client:
        with pytest.raises(Unreachable, match=f"cannot reach {url}: Connection refused"):
            client.get(PODS, X)
        with pytest.raises(Unreachable, match="Connection refused"):
            list(client.logs(X))


def test_a_server_without_tls_is_not_trusted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"

        def answer_in_plain_text() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer_in_plain_text)
        thread.start()
        with BlockingClient(Endpoint(url)) as client, pytest.raises(UntrustedCertificate):
            client.get(PODS, X)
        thread.join(5)


HEAVY = {
    "aiohttp", "asyncio", "cryptography", "email", "http", "httptools", "jinja2", "numpy", "yaml",
}  # fmt: skip


@pytest.mark.parametrize("received", [0, 1], ids=["closed at once", "closed in the handshake"])
def test_a_server_that_closes_during_the_handshake_is_busy_not_untrusted(received: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            connection.recv(4096 * received)
            connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with (
            BlockingClient(Endpoint(url)) as client,
            pytest.raises(Unreachable, match="closed the connection") as raised,
        ):
            client.get(PODS, X)
        thread.join()

    assert not isinstance(raised.value, UntrustedCertificate)
    assert "It may have too many connections" in raised.value.hint


def test_quick_verbs_import_nothing_heavy() -> None:
    code = (
        "import sys, kubekit.client.blocking_client, kubekit.client.auth.kube_config;"
        "import kubekit.objects.kinds;"
        f"print(sorted({HEAVY} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
