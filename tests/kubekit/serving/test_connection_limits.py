"""Which connections are let in, kept and closed: a flood closes only connections of its own."""

from __future__ import annotations

from kubekit.serving.connection_limits import (
    HEADER_BYTES,
    WAITING_HEADER_BYTES,
    Connections,
    Limits,
)
from kubekit.serving.peer import Peer

OWNER, FLOOD, POD = Peer("user 0", owner=True), Peer("user 65534"), Peer("10.1.2.3")


class Connection:
    def __init__(self, connections: Connections, peer: Peer) -> None:
        self.peer, self.header_bytes, self.open = peer, 0, True
        connections.enter(self)

    def drop(self) -> None:
        self.open = False


def test_a_flood_closes_its_own_oldest_connection_and_no_other() -> None:
    connections = Connections(Limits(waiting=10))
    owner, pod = Connection(connections, OWNER), Connection(connections, POD)
    flood = [Connection(connections, FLOOD) for _ in range(100)]

    assert owner.open
    assert pod.open
    assert [each.open for each in flood] == [False] * 92 + [True] * 8


def test_authenticated_connections_are_never_closed_for_new_ones() -> None:
    connections = Connections(Limits(waiting=2, authenticated=100))
    kept = [Connection(connections, FLOOD) for _ in range(2)]
    assert all(connections.authenticate(each) for each in kept)
    for _ in range(10):
        Connection(connections, FLOOD)

    assert all(each.open for each in kept)


def test_the_daemons_own_user_has_room_when_others_have_none() -> None:
    connections = Connections(Limits(waiting=200, authenticated=100))
    one_pod = [connections.authenticate(Connection(connections, POD)) for _ in range(30)]
    many_pods = [
        connections.authenticate(Connection(connections, Peer(f"10.0.0.{number}")))
        for number in range(60)
    ]
    owner = [connections.authenticate(Connection(connections, OWNER)) for _ in range(30)]

    assert one_pod == [True] * 25 + [False] * 5, "a quarter for one peer"
    assert many_pods == [True] * 50 + [False] * 10, "three quarters for all but the owner"
    assert owner == [True] * 25 + [False] * 5


def test_a_closed_connection_leaves_its_room() -> None:
    connections = Connections(Limits(waiting=10, authenticated=4))
    first = Connection(connections, POD)
    assert connections.authenticate(first)
    second = Connection(connections, POD)
    assert not connections.authenticate(second)
    connections.leave(first)
    connections.leave(first)

    assert connections.authenticate(second)


def test_headers_of_waiting_connections_are_bounded_in_all() -> None:
    connections = Connections()
    small = Connection(connections, FLOOD)
    connections.add_header_bytes(small, 1000)
    large = [Connection(connections, FLOOD) for _ in range(20)]
    for each in large:
        connections.add_header_bytes(each, HEADER_BYTES)

    assert small.open, "the largest is closed, not the newest or the oldest"
    held = sum(each.header_bytes for each in (small, *large) if each.open)
    assert WAITING_HEADER_BYTES - HEADER_BYTES < held <= WAITING_HEADER_BYTES


def test_the_limits_follow_the_descriptors_of_the_process() -> None:
    assert Limits.for_descriptors(256) == Limits(32, 64)
    assert Limits.for_descriptors(1024) == Limits(128, 256)
    assert Limits.for_descriptors(1 << 20) == Limits(256, 4096)


def test_bytes_that_arrive_after_a_connection_was_closed_do_not_count() -> None:
    connections = Connections(Limits(waiting=1))
    closed = Connection(connections, FLOOD)
    owner = Connection(connections, OWNER)
    connections.add_header_bytes(closed, WAITING_HEADER_BYTES)
    connections.add_header_bytes(owner, HEADER_BYTES)
    connections.leave(closed)

    assert not closed.open
    assert owner.open
