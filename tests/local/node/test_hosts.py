"""Names of pods and services."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.api.meta import Key
from muster.local.node import hosts
from muster.local.node.services import Service
from muster.local.node.spec import HostAlias, Pod
from tests.local.node.builders import pod


def service(name: str, **selector: str) -> Service:
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": selector},
    }
    return msgspec.convert(body, Service)


ADDRESSES = {"a": "10.1.0.2", "b": "10.1.0.3", "gone": "10.1.0.9"}


def address(one: Pod) -> str:
    return ADDRESSES[one.metadata.name]


def last(key: Key) -> str:
    return ADDRESSES.get(key.name, "")


def names(text: str) -> dict[str, list[str]]:
    """Name to addresses, as a resolver reads the file."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        where, *known = line.split()
        for name in known:
            found.setdefault(name, []).append(where)
    return found


def test_a_pod_has_four_names_in_its_own_namespace_and_three_from_another() -> None:
    table = hosts.entries([pod("a")], [], address, last)

    own = names(hosts.render("default", table))
    other = names(hosts.render("elsewhere", table))

    for name in ("a", "a.default", "a.default.svc", "a.default.svc.cluster.local"):
        assert own[name] == ["10.1.0.2"]
    assert "a" not in other
    assert other["a.default.svc"] == ["10.1.0.2"]


def test_a_service_gives_the_addresses_of_the_pods_it_selects() -> None:
    pods = [pod("a", meta={"labels": {"job": "x"}}), pod("b", meta={"labels": {"job": "x"}})]

    table = hosts.entries(pods, [service("svc", job="x"), service("none", job="y")], address, last)

    found = names(hosts.render("default", table))
    assert found["svc.default.svc.cluster.local"] == ["10.1.0.2", "10.1.0.3"]
    assert "none" not in found


def test_a_service_keeps_the_last_address_while_its_pod_is_replaced() -> None:
    table = hosts.entries([], [service("gone", job="x")], address, last)

    assert names(hosts.render("default", table))["gone"] == ["10.1.0.9"]


def test_finished_pods_have_no_name() -> None:
    done = pod("a", status={"phase": "Succeeded"})

    assert hosts.entries([done], [], address, last) == []


def test_hostname_and_subdomain_make_a_name_too() -> None:
    table = hosts.entries([pod("a", hostname="w-0", subdomain="job")], [], address, last)

    assert names(hosts.render("default", table))["w-0.job.default.svc"] == ["10.1.0.2"]


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (pod("a"), None),
        (pod("a", hostname="w-0"), "10.1.0.2\tw-0"),
        (pod("a", subdomain="job"), "10.1.0.2\ta.job.default.svc.cluster.local a"),
        (
            pod("a", hostname="w-0", subdomain="job"),
            "10.1.0.2\tw-0.job.default.svc.cluster.local w-0",
        ),
        (pod("a" * 70), f"10.1.0.2\t{'a' * 63}"),
    ],
)
def test_a_pod_knows_its_own_host_name(one: Pod, line: str | None) -> None:
    text = hosts.render("default", [], own=hosts.own(one, "10.1.0.2"))

    assert text.splitlines()[2:] == ([line] if line else [])


def test_the_pods_own_aliases_and_the_api_are_named() -> None:
    found = names(hosts.render("ns", [], [HostAlias("1.2.3.4", ("x", "y"))], "10.1.0.1"))

    assert found["x"] == found["y"] == ["1.2.3.4"]
    assert found["kubernetes.default.svc"] == ["10.1.0.1"]


def test_the_file_is_rewritten_in_place(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    hosts.keep(file, "long long text\n")
    inode = file.stat().st_ino

    hosts.keep(file, "short\n")

    assert file.read_text() == "short\n"
    assert file.stat().st_ino == inode
