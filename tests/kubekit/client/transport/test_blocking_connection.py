"""The blocking connection, given the bytes of responses one by one."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kubekit.client.request import Response
from kubekit.client.transport.blocking_transport import (
    LONGEST_LINE,
    BlockingConnection,
    BrokenResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = b"GET / HTTP/1.1\r\n\r\n"


@contextmanager
def answered(*pieces: bytes, ended: bool = False) -> Iterator[BlockingConnection]:
    """A connection whose server has sent these bytes, and perhaps closed it."""
    ours, theirs = socket.socketpair()
    with theirs, BlockingConnection(ours) as connection:
        connection.set_timeout(5)
        for piece in pieces:
            theirs.sendall(piece)
        if ended:
            theirs.shutdown(socket.SHUT_WR)
        yield connection


def whole(connection: BlockingConnection) -> Response:
    connection.send(REQUEST)
    return connection.response()


def test_a_response_of_known_length_leaves_the_connection_open() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Word: a: b \r\n\r\nok"
    with answered(answer, answer) as connection:
        assert whole(connection) == Response(200, {"content-length": "2", "x-word": "a: b"}, b"ok")
        assert connection.reusable
        assert whole(connection).body == b"ok"


def test_chunks_are_joined_and_trailers_are_read() -> None:
    chunks = b"3;ext=1\r\none\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
    with answered(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", chunks, b"X"
    ) as connection:
        assert whole(connection).body == b"one0123456789"
        assert connection.reusable


def test_a_chunk_is_delivered_before_the_next_arrives() -> None:
    with answered(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nline\r\n"
    ) as connection:
        connection.send(REQUEST)
        assert next(iter(connection.body())) == b"line"
        assert not connection.reusable


def test_a_response_without_a_length_ends_with_its_connection() -> None:
    with answered(b"HTTP/1.1 200 OK\r\n\r\n", b"all of it", ended=True) as connection:
        assert whole(connection).body == b"all of it"
        assert not connection.reusable


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_some_responses_have_no_body(status: str) -> None:
    with answered(f"HTTP/1.1 {status}\r\n\r\n".encode()) as connection:
        assert whole(connection).body == b""
        assert connection.reusable


def test_an_informational_response_is_skipped() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    with answered(early, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as connection:
        assert whole(connection) == Response(200, {"content-length": "0"}, b"")


@pytest.mark.parametrize(
    ("head", "stays"),
    [
        ("HTTP/1.1 200 OK", True),
        ("HTTP/1.1 200 OK\r\nConnection: Close", False),
        ("HTTP/1.0 200 OK", False),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive", True),
        ("HTTP/1.1 200", True),
    ],
)
def test_the_server_decides_whether_the_connection_stays_open(head: str, stays: bool) -> None:
    with answered(f"{head}\r\nContent-Length: 2\r\n\r\nok".encode()) as connection:
        assert whole(connection).body == b"ok"
        assert connection.reusable == stays


@pytest.mark.parametrize(
    "cut",
    [
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
def test_a_truncated_response_is_an_error(cut: bytes) -> None:
    with answered(cut, ended=True) as connection:
        with pytest.raises(BrokenResponse, match="cut short"):
            whole(connection)
        assert not connection.reusable


@pytest.mark.parametrize(
    "noise",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\nfour",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * LONGEST_LINE,
    ],
)
def test_a_response_that_is_not_http_is_an_error(noise: bytes) -> None:
    with answered(noise) as connection, pytest.raises(BrokenResponse, match="not HTTP"):
        whole(connection)


def test_a_connection_closed_before_the_response_differs_from_a_broken_response() -> None:
    with answered(ended=True) as connection, pytest.raises(ConnectionResetError):
        whole(connection)


def test_a_silent_server_times_out() -> None:
    with answered() as connection:
        connection.set_timeout(0.01)
        with pytest.raises(TimeoutError):
            whole(connection)
