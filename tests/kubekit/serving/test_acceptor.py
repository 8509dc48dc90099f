"""Accepting connections goes on after a lack of descriptors."""

from __future__ import annotations

import socket

import uvloop

from kubekit.serving.acceptor import Acceptor
from tests.no_descriptors import no_descriptor_left
from tests.waiting import eventually


def test_accepting_goes_on_when_descriptors_are_free_again() -> None:
    """With uvloop, as in the daemon: its own server would stop to listen."""
    accepted, lacks = list[socket.socket](), list[OSError]()

    def make_room(error: OSError) -> bool:
        lacks.append(error)
        return True

    async def run() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        acceptor = Acceptor(listening, accepted.append, make_room)
        with socket.create_connection(listening.getsockname()):
            with no_descriptor_left():
                await eventually(lambda: len(lacks) >= 3)
                meanwhile = len(accepted)
            await eventually(lambda: accepted)
        acceptor.close()
        assert meanwhile == 0

    uvloop.run(run())
    for sock in accepted:
        sock.close()

    assert len(accepted) == 1
