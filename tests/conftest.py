"""Fixtures for the whole suite, and an environment that no developer's own settings leak into."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from muster.local.node.standalone.linux import kernel
from muster.local.node.standalone.linux.netlink import Netlink

pytest_plugins = ["tests.controlplane.fixture"]

# On Python 3.11, asking for the current loop makes one that nobody closes, unless a loop, or none,
# was set before; the plugins that run async tests ask. None is what there is.
asyncio.set_event_loop(None)

# A shell starts background jobs deaf to Ctrl-C, and so would be all programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def enter_own_network() -> None:
    """Put this process into a network namespace of its own, with loopback and a default route.

    Local clusters of parallel workers then share no links, addresses, firewall rules or forwarding
    switches, and each worker can compare the network before and after a cluster. Nothing answers
    behind the default route; it is there because a machine has one.
    """
    kernel.unshare(kernel.CLONE_NEWNET)
    with Netlink() as net:
        net.add_bridge("outside")
        links = {link.name: link.number for link in net.links()}
        net.set_up(links["lo"])
        net.add_address(links["outside"], ipaddress.IPv4Interface("198.51.100.2/24"))
        net.add_default_route(ipaddress.IPv4Address("198.51.100.1"))


if "PYTEST_XDIST_WORKER" in os.environ and os.geteuid() == 0:
    enter_own_network()

# Machines are noisy: how long an example takes says nothing here.
settings.register_profile("muster", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("muster")


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tests never see the user's cluster, and never write into the user's home."""
    for name in [name for name in os.environ if name.startswith(("KUBE", "ARENA", "MUSTER_HOME"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path_factory.mktemp("muster-home")))
