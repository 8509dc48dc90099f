"""Names of pods and services in `/etc/hosts`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubekit.objects.core import Service
from kubekit.objects.meta import Key
from localkube.node.network import hosts_file
from localkube.node.network.hosts_file import HostsFiles
from localkube.node.pod import HostAlias, Pod
from tests import unexpected_errors
from tests.localkube.node.pod_builders import make_pod


def service(name: str, **selector: str) -> Service:
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": selector},
    }
    return msgspec.convert(body, Service)


ADDRESSES = {"a": "10.1.0.2", "b": "10.1.0.3", "gone": "10.1.0.9"}


def address(pod: Pod) -> str:
    return ADDRESSES[pod.metadata.name]


def last(key: Key) -> str:
    return ADDRESSES.get(key.name, "")


def names(text: str) -> dict[str, list[str]]:
    """The addresses of each name, as a resolver reads the file."""
    addresses: dict[str, list[str]] = {}
    for line in text.splitlines():
        ip, *line_names = line.split()
        for name in line_names:
            addresses.setdefault(name, []).append(ip)
    return addresses


def test_a_pod_has_four_names_in_its_own_namespace_and_three_from_another() -> None:
    table = hosts_file.hosts_entries([make_pod("a")], [], address, last)

    own = names(hosts_file.render_hosts_file("default", table))
    other = names(hosts_file.render_hosts_file("elsewhere", table))

    for name in ("a", "a.default", "a.default.svc", "a.default.svc.cluster.local"):
        assert own[name] == ["10.1.0.2"]
    assert "a" not in other
    assert other["a.default.svc"] == ["10.1.0.2"]


def test_a_service_resolves_to_the_addresses_of_its_pods() -> None:
    pods = [make_pod(name, meta={"labels": {"job": "x"}}) for name in ("a", "b")]

    table = hosts_file.hosts_entries(
        pods, [service("svc", job="x"), service("none", job="y")], address, last
    )

    resolved = names(hosts_file.render_hosts_file("default", table))
    assert resolved["svc.default.svc.cluster.local"] == ["10.1.0.2", "10.1.0.3"]
    assert "none" not in resolved


def test_a_service_resolves_to_the_last_address_while_its_pod_is_replaced() -> None:
    table = hosts_file.hosts_entries([], [service("gone", job="x")], address, last)

    assert names(hosts_file.render_hosts_file("default", table))["gone"] == ["10.1.0.9"]


def test_a_pod_resolves_by_its_hostname_and_subdomain() -> None:
    table = hosts_file.hosts_entries(
        [make_pod("a", hostname="w-0", subdomain="job")], [], address, last
    )

    assert names(hosts_file.render_hosts_file("default", table))["w-0.job.default.svc"] == [
        "10.1.0.2"
    ]


@pytest.mark.parametrize(
    ("pod", "line"),
    [
        (make_pod("a"), None),
        (make_pod("a", hostname="w-0"), "10.1.0.2\tw-0"),
        (make_pod("a", subdomain="job"), "10.1.0.2\ta.job.default.svc.cluster.local a"),
        (
            make_pod("a", hostname="w-0", subdomain="job"),
            "10.1.0.2\tw-0.job.default.svc.cluster.local w-0",
        ),
        (make_pod("a" * 70), f"10.1.0.2\t{'a' * 63}"),
    ],
)
def test_the_hosts_file_has_the_pods_own_host_name(pod: Pod, line: str | None) -> None:
    text = hosts_file.render_hosts_file("default", [], own=hosts_file.own_entry(pod, "10.1.0.2"))

    assert text.splitlines()[2:] == ([line] if line else [])


def test_the_hosts_file_has_host_aliases() -> None:
    resolved = names(hosts_file.render_hosts_file("ns", [], [HostAlias("1.2.3.4", ("x", "y"))]))

    assert resolved["x"] == resolved["y"] == ["1.2.3.4"]


def test_a_service_with_a_virtual_address_resolves_to_it() -> None:
    pods = [make_pod("a", meta={"labels": {"job": "x"}})]
    body = {
        "metadata": {"name": "svc", "namespace": "default"},
        "spec": {"clusterIP": "10.2.0.5", "selector": {"job": "x"}, "ports": [{"port": 80}]},
    }

    table = hosts_file.hosts_entries(pods, [msgspec.convert(body, Service)], address, last)

    assert names(hosts_file.render_hosts_file("default", table))["svc"] == ["10.2.0.5"]


def test_the_file_is_rewritten_in_place(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    hosts_file.write_in_place(file, "long long text\n")
    inode = file.stat().st_ino

    hosts_file.write_in_place(file, "short\n")

    assert file.read_text() == "short\n"
    assert file.stat().st_ino == inode


NODES = {"muster-0"}


class Listed:
    """Stands in for an informer whose objects do not change."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    def all(self) -> tuple[Any, ...]:
        return self.objects

    def subscribe(self, listener: Callable[[Any], None]) -> None:
        self.listener = listener

    async def synced(self) -> None:
        return


class Addresses:
    """Stands in for a runtime and its network: the addresses of pods."""

    gateway = "10.0.0.1"

    @property
    def network(self) -> Addresses:
        return self

    def assign_addresses(self, keys: object) -> None:
        pass

    async def save_addresses(self) -> None:
        pass

    def address(self, _: object) -> str:
        return "10.0.0.2"

    def last_address(self, _: object) -> str:
        return ""


@pytest.mark.looptime
async def test_a_pod_that_is_removed_while_files_are_written_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [make_pod(name) for name in ("a", "b")]
    hosts_files = HostsFiles(Addresses(), NODES, Listed(*pods), Listed(), tmp_path)  # type: ignore[arg-type]
    files = [tmp_path / p.metadata.uid / "hosts" for p in pods]
    for file in files:
        file.parent.mkdir(parents=True)
        file.touch()
    write = hosts_files.write

    def write_after_the_first_is_removed(item: Any) -> None:
        if item is pods[0]:
            files[0].unlink()
            files[0].parent.rmdir()
        write(item)

    monkeypatch.setattr(hosts_files, "write", write_after_the_first_is_removed)
    hosts_files._changed.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await hosts_files.run()

    assert not files[0].exists()
    assert "10.0.0.2" in files[1].read_text()


class OnePodIsBad(Addresses):
    """Trips over one pod."""

    def address(self, key: Any) -> str:
        if key.name == "bad":
            raise ZeroDivisionError("a bug")
        return super().address(key)

    def last_address(self, key: Any) -> str:
        return self.address(key)


@pytest.mark.looptime
async def test_a_pod_or_service_that_brings_out_a_bug_leaves_the_files_of_others_alone(
    tmp_path: Path,
) -> None:
    before = unexpected_errors.counted().get("hosts files", 0)
    pods = [make_pod(name) for name in ("bad", "good")]
    services = Listed(service("bad", app="none"), service("group", app="good"))
    hosts_files = HostsFiles(OnePodIsBad(), NODES, Listed(*pods), services, tmp_path)  # type: ignore[arg-type]
    files = [tmp_path / p.metadata.uid / "hosts" for p in pods]
    for file in files:
        file.parent.mkdir(parents=True)
        file.touch()
    hosts_files._changed.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await hosts_files.run()

    table = names(files[1].read_text())
    assert table["good"] == table["group"] == ["10.0.0.2"]
    assert unexpected_errors.counted()["hosts files"] >= before + 2
