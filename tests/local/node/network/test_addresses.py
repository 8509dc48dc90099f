"""Addresses of pods: outside of the machine's routes, one per pod name."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.meta import Key
from muster.errors import UsageError
from muster.local.node.network.addresses import Addresses, free_subnet

SUBNET = IPv4Network("10.7.0.0/28")


def key(name: object) -> Key:
    return Key("ns", str(name))


@given(st.integers(0, 2**32 - 1), st.sets(st.integers(0, 255), max_size=200))
def test_the_subnet_overlaps_no_route(seed: int, used: set[int]) -> None:
    routes = [IPv4Network(f"10.{number}.0.0/16") for number in used]

    subnet = free_subnet(routes, seed)

    assert not any(subnet.overlaps(route) for route in routes)


def test_routes_that_cover_all_subnets_are_an_error() -> None:
    with pytest.raises(UsageError, match="subnet"):
        free_subnet([IPv4Network("10.0.0.0/8")], 0)


def test_a_default_route_overlaps_no_subnet() -> None:
    assert free_subnet([IPv4Network("0.0.0.0/0")], 3) == free_subnet([], 3)


def test_a_name_keeps_its_address_and_no_two_names_share_one() -> None:
    addresses = Addresses(SUBNET)

    allocated = [addresses.allocate(key(i))[0] for i in range(13)]

    assert len(set(allocated)) == 13
    assert addresses.gateway not in allocated
    assert [addresses.allocate(key(i)) for i in range(13)] == [(a, False) for a in allocated]


def test_the_least_recently_used_name_loses_its_address_when_the_subnet_is_full() -> None:
    addresses = Addresses(SUBNET)
    first = [addresses.allocate(key(i))[0] for i in range(13)]
    addresses.allocate(key(0))

    used, new = addresses.allocate(key("new"), busy={"ns/1"})

    assert (used, new) == (first[2], True)
    assert addresses.find(key(2)) is None
    assert addresses.find(key(0)) == first[0]


def test_names_in_use_never_lose_their_addresses() -> None:
    addresses = Addresses(SUBNET)
    names = {str(key(i)) for i in range(13)}
    for i in range(13):
        addresses.allocate(key(i))

    with pytest.raises(UsageError, match="in use"):
        addresses.allocate(key("new"), busy=names)


def test_saved_addresses_are_restored() -> None:
    before = Addresses(SUBNET)
    address, _ = before.allocate(key("a"))

    after = Addresses(SUBNET, before.table())

    assert after.find(key("a")) == address
    assert after.allocate(key("b"))[0] != address
