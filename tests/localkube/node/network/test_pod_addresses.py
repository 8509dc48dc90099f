"""Addresses of pods: outside of the machine's routes, one per pod name."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given, strategies as st

from kubekit.errors import UsageError
from localkube.node.network.pod_addresses import Addresses, free_subnet

SUBNET = IPv4Network("10.7.0.0/28")


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


def names(*numbers: int) -> list[str]:
    return [f"ns/{number}" for number in numbers]


ALL = names(*range(13))


def test_a_name_keeps_its_address_and_no_two_names_share_one() -> None:
    addresses = Addresses(SUBNET)
    addresses.assign(ALL)
    first = addresses.table()

    addresses.assign(ALL[3::-1])
    addresses.assign(ALL)

    assert len(set(first.values())) == addresses.size == 13
    assert str(addresses.gateway) not in first.values()
    assert addresses.table() == first


def test_the_name_whose_pod_is_gone_longest_loses_its_address_when_the_subnet_is_full() -> None:
    addresses = Addresses(SUBNET)
    addresses.assign(ALL)
    first = addresses.table()
    addresses.assign(ALL[:5] + ALL[6:])  # 5 is gone
    addresses.assign(ALL[:4] + ALL[6:])  # and then 4

    new = addresses.hold("ns/new")

    assert str(new) == first["ns/5"]
    assert addresses.find("ns/5") is None
    assert (addresses.held("ns/4"), str(addresses.find("ns/4"))) == (None, first["ns/4"])


def test_a_replacement_is_served_before_a_new_name_takes_its_address() -> None:
    addresses = Addresses(SUBNET)
    addresses.assign(ALL)
    first = addresses.table()
    addresses.assign(ALL[:12])

    addresses.assign(["ns/new", *ALL])

    assert addresses.table() == first
    assert addresses.held("ns/new") is None


def test_names_in_use_never_lose_their_addresses() -> None:
    addresses = Addresses(SUBNET)
    addresses.assign(ALL)
    first = addresses.table()

    assert addresses.hold("ns/new") is None
    addresses.assign([*names(*range(20, 40)), *ALL])
    assert addresses.table() == first

    addresses.assign(["ns/new", *ALL[1:]])
    assert str(addresses.held("ns/new")) == first["ns/0"]


@given(st.lists(st.sets(st.integers(0, 30)), max_size=8))
def test_names_hold_addresses_of_their_own_as_far_as_there_are_enough(
    passes: list[set[int]],
) -> None:
    addresses = Addresses(SUBNET)

    for numbers in passes:
        addresses.assign(names(*numbers))
        held = [addresses.held(name) for name in names(*numbers)]
        given = [address for address in held if address is not None]
        assert len(given) == len(set(given)) == min(len(numbers), addresses.size)
        assert len(addresses.table()) <= addresses.size


def test_saved_addresses_are_restored() -> None:
    before = Addresses(SUBNET)
    address = before.hold("ns/a")

    after = Addresses(SUBNET, before.table())

    assert after.find("ns/a") == address
    assert after.hold("ns/b") != address
    assert after.hold("ns/a") == address
