"""Names of pods and services in `/etc/hosts`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.api.core import Service
from muster.api.meta import Key
from muster.local.node.network import hosts_file
from muster.local.node.network.hosts_file import HostsFiles
from muster.local.node.pod import HostAlias, Pod
from tests.local.node.pod_builders import pod


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
    table = hosts_file.hosts_entries([pod("a")], [], address, last)

    own = names(hosts_file.render_hosts_file("default", table))
    other = names(hosts_file.render_hosts_file("elsewhere", table))

    for name in ("a", "a.default", "a.default.svc", "a.default.svc.cluster.local"):
        assert own[name] == ["10.1.0.2"]
    assert "a" not in other
    assert other["a.default.svc"] == ["10.1.0.2"]


def test_a_service_resolves_to_the_addresses_of_its_pods() -> None:
    pods = [pod("a", meta={"labels": {"job": "x"}}), pod("b", meta={"labels": {"job": "x"}})]

    table = hosts_file.hosts_entries(
        pods, [service("svc", job="x"), service("none", job="y")], address, last
    )

    found = names(hosts_file.render_hosts_file("default", table))
    assert found["svc.default.svc.cluster.local"] == ["10.1.0.2", "10.1.0.3"]
    assert "none" not in found


def test_a_service_resolves_to_the_last_address_while_its_pod_is_replaced() -> None:
    table = hosts_file.hosts_entries([], [service("gone", job="x")], address, last)

    assert names(hosts_file.render_hosts_file("default", table))["gone"] == ["10.1.0.9"]


def test_finished_pods_have_no_name() -> None:
    done = pod("a", status={"phase": "Succeeded"})

    assert hosts_file.hosts_entries([done], [], address, last) == []


def test_hostname_and_subdomain_make_a_name_too() -> None:
    table = hosts_file.hosts_entries([pod("a", hostname="w-0", subdomain="job")], [], address, last)

    assert names(hosts_file.render_hosts_file("default", table))["w-0.job.default.svc"] == [
        "10.1.0.2"
    ]


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
    text = hosts_file.render_hosts_file("default", [], own=hosts_file.own_entry(one, "10.1.0.2"))

    assert text.splitlines()[2:] == ([line] if line else [])


def test_the_pods_own_aliases_and_the_api_are_named() -> None:
    found = names(
        hosts_file.render_hosts_file("ns", [], [HostAlias("1.2.3.4", ("x", "y"))], "10.1.0.1")
    )

    assert found["x"] == found["y"] == ["1.2.3.4"]
    assert found["kubernetes.default.svc"] == ["10.1.0.1"]


def test_the_file_is_rewritten_in_place(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    hosts_file.write_in_place(file, "long long text\n")
    inode = file.stat().st_ino

    hosts_file.write_in_place(file, "short\n")

    assert file.read_text() == "short\n"
    assert file.stat().st_ino == inode


class Listed:
    """An informer's face: what it holds, and nothing that changes."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def all(self) -> tuple[Any, ...]:
        return self.objects

    def subscribe(self, listener: Callable[[Any], None]) -> None:
        self.listener = listener

    async def synced(self) -> None:
        return


class Addresses:
    """The part of a runtime that knows where pods are."""

    host_address = "10.0.0.1"

    def address(self, _: object) -> str:
        return "10.0.0.2"

    def last_address(self, _: object) -> str:
        return ""


@pytest.mark.looptime
async def test_a_pod_that_vanishes_while_files_are_written_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [pod(name) for name in ("a", "b")]
    names = HostsFiles(Addresses(), Listed(*pods), Listed(), tmp_path)  # type: ignore[arg-type]
    files = [tmp_path / p.metadata.uid / "hosts" for p in pods]
    for file in files:
        file.parent.mkdir(parents=True)
        file.touch()
    write = names.write

    def write_after_the_first_is_gone(one: Any) -> None:
        if one is pods[0]:
            files[0].unlink()
            files[0].parent.rmdir()
        write(one)

    monkeypatch.setattr(names, "write", write_after_the_first_is_gone)
    names._changed.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await names.run()

    assert not files[0].exists()
    assert "10.0.0.2" in files[1].read_text()
